-- Leases for duties that one process of the installation runs at a time. Times are of the database's clock at the
-- statement, not at the start of the transaction.

-- name: take
-- Takes or renews a lease. No row while another holder has it, and then nothing is written: all workers ask, one gets
-- it. The first check avoids a row lock and its WAL; the check on conflict decides between two workers that both see
-- the lease ended.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), held AS MATERIALIZED (
    SELECT FROM lease, clock WHERE name = :name AND holder <> :holder AND until > now
)
INSERT INTO lease (name, holder, taken_at, until)
SELECT :name, :holder, now, now + make_interval(secs => :lease_s) FROM clock WHERE NOT EXISTS (SELECT FROM held)
ON CONFLICT (name) DO UPDATE SET holder = EXCLUDED.holder, taken_at = EXCLUDED.taken_at, until = EXCLUDED.until
WHERE lease.holder = EXCLUDED.holder OR lease.until <= EXCLUDED.taken_at
RETURNING name;

-- name: release
DELETE FROM lease WHERE name = :name AND holder = :holder;

-- name: release_all
-- Reads the whole table, a row per duty.
DELETE FROM lease WHERE holder = :holder;
