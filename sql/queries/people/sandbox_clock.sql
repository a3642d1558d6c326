-- By how much each account's sandbox clock is ahead of real time. An account that never advanced it has no row.

-- name: advance
-- Relative to the current position, so concurrent calls add up. No row: the clock would exceed :ahead_s_max.
INSERT INTO sandbox_clock AS k (account_id, ahead_s, moved_at) VALUES (:account_id, :by_s, :now)
ON CONFLICT (account_id) DO UPDATE SET ahead_s = k.ahead_s + excluded.ahead_s, moved_at = excluded.moved_at
WHERE k.ahead_s + excluded.ahead_s <= :ahead_s_max
RETURNING ahead_s;

-- name: reach
-- Moves the clock to :ahead_s; if it is there or further already, nothing changes. No row: the step would exceed
-- :step_s_max.
WITH current AS MATERIALIZED (
    SELECT coalesce((SELECT ahead_s FROM sandbox_clock WHERE account_id = :account_id), 0) AS ahead_s
)
INSERT INTO sandbox_clock AS k (account_id, ahead_s, moved_at)
SELECT :account_id, :ahead_s::bigint, :now FROM current
WHERE :ahead_s::bigint <= :step_s_max + current.ahead_s
ON CONFLICT (account_id) DO UPDATE SET ahead_s = greatest(k.ahead_s, excluded.ahead_s), moved_at = excluded.moved_at
RETURNING ahead_s;

-- name: find
SELECT ahead_s FROM sandbox_clock WHERE account_id = :account_id;

-- name: of_charge
-- By a txid, for callers that do not know the account. No row unless it is a test charge.
SELECT k.ahead_s FROM charge c JOIN sandbox_clock k ON k.account_id = c.account_id
WHERE c.charge_id = :charge_id AND c.test;

-- name: of_boleto
-- The same by a boleto's number.
SELECT k.ahead_s
FROM boleto s
JOIN charge c ON c.charge_id = s.charge_id AND c.account_id = s.account_id
JOIN sandbox_clock k ON k.account_id = c.account_id
WHERE s.number = :number AND c.test;
