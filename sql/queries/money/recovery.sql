-- Payouts held after a restore to an earlier instant (commands/money/recovery.py).

-- name: state
-- The recovery to go on with: if the server names its restore, none before that one is begun. Of the recoveries that are
-- not released, one that is not compared yet; else the latest begun. `open` has all that are not released. `orders`:
-- waiting withdrawals and refunds by transfer.
WITH named AS (
    SELECT nullif(current_setting('quita.restored_to', true), '') AS restored_to
), waiting AS MATERIALIZED (
    SELECT count(*) AS orders, coalesce(sum((request ->> 'amount_cents')::bigint), 0)::bigint AS cents FROM bank_order
    WHERE lane IN ('withdrawal', 'transfer') AND NOT test AND state = 'waiting'
)
SELECT payouts_held() AS held, coalesce(r.restored_to, n.restored_to) AS restored_to, r.began_at, r.began_by, r.boletos_from,
       r.boletos_to, r.compared_at, r.compared_by, r.compared_from, r.booked, r.differences, r.released_at, r.released_by,
       w.orders, w.cents,
       ARRAY(SELECT o.restored_to FROM recovery o WHERE o.released_at IS NULL ORDER BY o.began_at) AS open
FROM named n CROSS JOIN waiting w
LEFT JOIN LATERAL (
    SELECT * FROM recovery
    WHERE n.restored_to IS NULL OR EXISTS (SELECT FROM recovery b WHERE b.restored_to = n.restored_to)
    ORDER BY released_at IS NOT NULL, compared_at IS NOT NULL, began_at DESC LIMIT 1
) r ON true;

-- name: begin
-- No row: the recovery was begun before, and the boleto numbers were raised then.
WITH taken AS MATERIALIZED (
    SELECT last_value FROM boleto_control
)
INSERT INTO recovery (restored_to, began_at, began_by, boletos_from, boletos_to)
SELECT :restored_to::text, :now, :by, last_value, last_value + :numbers::bigint FROM taken
ON CONFLICT DO NOTHING
RETURNING boletos_to;

-- name: raise_numbers
SELECT setval('boleto_control', :to) AS number;

-- name: compared
-- One comparison is of all recoveries that are not released: it begins at the earliest of their instants.
UPDATE recovery SET compared_at = :now, compared_by = :by, compared_from = :since, booked = coalesce(booked, 0) + :booked,
    differences = :differences
WHERE released_at IS NULL
RETURNING restored_to;

-- name: release
-- Releases all recoveries, because payouts are held while one is not released; but only if each was compared and left
-- the number of differences that the operator confirmed.
UPDATE recovery SET released_at = :now, released_by = :by
WHERE released_at IS NULL
    AND NOT EXISTS (SELECT FROM recovery WHERE released_at IS NULL AND differences IS DISTINCT FROM :differences)
RETURNING restored_to;
