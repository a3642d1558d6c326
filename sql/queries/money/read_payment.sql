-- Payments as they are seen, by the day the money was paid: each statement walks one range of one index per page.

-- name: page
-- both ways
-- read_payment's key, or the index of the most selective filter: read_payment_charge, _reference, _anomaly, _method.
SELECT paid_at AS at, payment_id AS id, doc FROM payment_view
WHERE account_id = :account_id AND test = :test
  AND charge_id = :charge_id -- when charge_id
  AND external_id = :external_id -- when external_id
  AND anomaly = :anomaly -- when anomaly
  AND method = :method -- when method
  AND (paid_at, payment_id) {<} (:at, :id)
  AND paid_at >= :paid_from AND paid_at < :paid_to
ORDER BY paid_at {DESC}, payment_id {DESC}
LIMIT :limit;

-- name: sum
-- Of the rows of the pages' range, one probe of payment's key for each.
SELECT count(*) AS count, coalesce(sum((
    SELECT p.amount_cents FROM payment p WHERE p.payment_id = r.payment_id AND p.account_id = r.account_id
)), 0)::bigint AS cents
FROM read_payment r
WHERE r.account_id = :account_id AND r.test = :test
  AND r.charge_id = :charge_id -- when charge_id
  AND r.external_id = :external_id -- when external_id
  AND r.anomaly = :anomaly -- when anomaly
  AND r.method = :method -- when method
  AND r.paid_at >= :paid_from AND r.paid_at < :paid_to;

-- name: sum_of_all
-- All there are in production, by method, whose totals are kept: the day that these have come to and what follows line by
-- line of the statement, as read_ledger.sums does.
WITH kept AS (
    SELECT ((as_of - interval '5 minutes') AT TIME ZONE 'America/Sao_Paulo')::date AS until FROM report_position
)
SELECT coalesce(sum(payments), 0)::bigint AS count, coalesce(sum(cents), 0)::bigint AS cents FROM (
    SELECT e.method, e.entries AS payments, e.cents FROM report_entry e
    WHERE e.account_id = :account_id AND e.type = 'payment' AND e.day < (SELECT until FROM kept)
    UNION ALL
    SELECT (SELECT p.method FROM payment p WHERE p.payment_id = l.payment_id AND p.account_id = l.account_id), 1, l.amount_cents
    FROM read_ledger l
    WHERE l.account_id = :account_id AND NOT l.test AND l.type = 'payment'
      AND l.created_at >= (SELECT until::timestamp AT TIME ZONE 'America/Sao_Paulo' FROM kept)
) AS part
WHERE method = ANY(:methods::text[]);
