-- Heartbeats of worker processes. Times are of the database's clock, since the workers' clocks may differ.

-- name: beat
WITH forgotten AS (
    DELETE FROM worker_heartbeat WHERE worker <> :worker AND beat_at < now() - interval '1 hour'
)
INSERT INTO worker_heartbeat (worker, beat_at, failing) VALUES (:worker, now(), :failing)
ON CONFLICT (worker) DO UPDATE SET beat_at = EXCLUDED.beat_at, failing = EXCLUDED.failing;

-- name: leave
DELETE FROM worker_heartbeat WHERE worker = :worker;

-- name: heard
SELECT worker, extract(epoch FROM now() - beat_at)::float8 AS seconds_ago, failing FROM worker_heartbeat
WHERE beat_at > now() - interval '1 minute' ORDER BY worker;
