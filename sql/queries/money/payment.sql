-- Money received. A row is written in the transaction that credits it, once per source.

-- name: booked
-- Which of these receipts are on the books already; read after the charges are locked.
SELECT p.account_id, p.test, p.source
FROM unnest(:account_ids::uuid[], :tests::boolean[], :sources::text[]) AS g (account_id, test, source)
JOIN payment p USING (account_id, test, source);

-- name: insert
INSERT INTO payment (account_id, payment_id, test, charge_id, source, method, amount_cents, anomaly, settles, paid_at,
                     credited_at)
SELECT g.account_id, g.payment_id, g.test, g.charge_id, g.source, g.method, g.amount_cents, g.anomaly, g.settles,
       g.paid_at, g.credited_at
FROM unnest(:items::jsonb[]) AS i (item)
CROSS JOIN LATERAL jsonb_to_record(i.item) AS g (
    account_id uuid, payment_id uuid, test boolean, charge_id uuid, source text, method text, amount_cents bigint,
    anomaly text, settles boolean, paid_at timestamptz, credited_at timestamptz);
