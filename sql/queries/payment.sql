-- Money received. A row is written in the transaction that credits it, once per source.

-- name: booked
-- Which of these receipts are on the books already; read after the charges are locked.
SELECT p.account_id, p.test, p.source
FROM unnest(:account_ids::uuid[], :tests::boolean[], :sources::text[]) AS g (account_id, test, source)
JOIN payment p USING (account_id, test, source);

-- name: insert
INSERT INTO payment (account_id, payment_id, test, charge_id, source, method, amount_cents, anomaly, settles, paid_at,
                     credited_at)
SELECT * FROM unnest(
    :account_ids::uuid[], :payment_ids::uuid[], :tests::boolean[], :charge_ids::uuid[], :sources::text[],
    :methods::text[], :amounts::bigint[], :anomalies::text[], :settles::boolean[], :paid_ats::timestamptz[],
    :credited_ats::timestamptz[]
);
