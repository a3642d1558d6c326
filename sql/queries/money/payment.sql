-- Money received. A row is written in the transaction that credits it, once per source.

-- name: booked
-- Which of these receipts are booked already; read after the charges are locked.
SELECT p.account_id, p.test, p.source
FROM unnest(:account_ids::uuid[], :tests::boolean[], :sources::text[]) AS g (account_id, test, source)
JOIN payment p USING (account_id, test, source);
