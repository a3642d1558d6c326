-- The months of partitioned tables (migration 0014_months). All give up after half a second of waiting for writers or
-- readers, so that nothing queues behind them; the caller tries again.

-- name: make
SELECT make_months(:parent, :first::date, :last::date, :moved_max::integer) AS months;

-- name: detach
SELECT count(*)::integer AS months FROM detach_months(:parent, :ended_before::timestamptz);

-- name: drop
SELECT drop_months(:parent, :ended_before::timestamptz) AS months;

-- name: detach_feed
-- With the months it is written down where the feed begins.
WITH gone AS MATERIALIZED (
    SELECT ended FROM detach_months('read_event', :ended_before::timestamptz) AS ended
), begun AS (
    UPDATE feed_begin SET begins_at = greatest(begins_at, (SELECT max(ended) FROM gone)) WHERE EXISTS (SELECT FROM gone)
)
SELECT count(*)::integer AS months FROM gone;
