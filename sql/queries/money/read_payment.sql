-- Lists of payments by paid_at. Each statement walks one range of one index per page.

-- name: page
-- both ways
-- Index: read_payment's key, or that of the most selective filter: read_payment_charge, _reference, _anomaly, _method.
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
-- Sums over the range of the pages; each row costs one probe of payment's key.
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
-- Sums over all production payments of these methods. A payment is one ledger entry and its fee another, so the totals
-- come from span_entry and the journal rows not folded into it yet, as in read_ledger.sums. The filter by method leaves
-- out the fees of withdrawals, which have none.
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
