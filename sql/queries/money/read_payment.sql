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
  AND paid_at {>=} :until
ORDER BY paid_at {DESC}, payment_id {DESC}
LIMIT :limit;

-- name: sum
-- Of the rows of the pages' range, one probe of payment's key for each.
SELECT count(*) AS count, coalesce(sum(p.amount_cents), 0)::bigint AS cents, coalesce(sum(p.fee_cents), 0)::bigint AS fee_cents
FROM read_payment r
LEFT JOIN LATERAL (
    SELECT amount_cents, fee_cents FROM payment WHERE payment_id = r.payment_id AND account_id = r.account_id LIMIT 1
) p ON true
WHERE r.account_id = :account_id AND r.test = :test
  AND r.charge_id = :charge_id -- when charge_id
  AND r.external_id = :external_id -- when external_id
  AND r.anomaly = :anomaly -- when anomaly
  AND r.method = :method -- when method
  AND r.paid_at >= :paid_from AND r.paid_at < :paid_to;

-- name: sum_of_all
-- All there are in production, by method: a payment is a line of the statement, and its fee another, so they are what is kept
-- of these (span_entry), and the rows of the journal that are not in it yet, as read_ledger.sums has them. A withdrawal's fee
-- has no method.
SELECT coalesce(sum(entries) FILTER (WHERE type = 'payment'), 0)::bigint AS count,
       coalesce(sum(cents) FILTER (WHERE type = 'payment'), 0)::bigint AS cents,
       coalesce(-sum(cents) FILTER (WHERE type = 'fee'), 0)::bigint AS fee_cents
FROM (
    SELECT type, method, entries, cents FROM span_entry
    WHERE account_id = :account_id AND span = 'decade' AND type IN ('payment', 'fee')
    UNION ALL
    SELECT j.payload #>> '{entry,type}', coalesce(j.payload #>> '{payment,method}', j.payload #>> '{fee,method}'), 1,
           (j.payload #>> '{entry,amount_cents}')::bigint
    FROM journal j
    WHERE j.journal_id > (SELECT journal_id FROM report_position) AND j.account_id = :account_id AND NOT j.test
      AND j.payload #>> '{entry,type}' IN ('payment', 'fee')
) AS part
WHERE method = ANY(:methods::text[]);
