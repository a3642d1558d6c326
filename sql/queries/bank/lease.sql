-- Leases of duties that one process of the installation does at a time. Time is the database's, at the moment of the
-- statement and not of its transaction.

-- name: take
-- Take or renew; no row while another holds it, and then nothing is written: all workers ask, one does the work. The
-- first look passes over the row lock and its WAL; the one under the conflict decides between two that see it ended.
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
