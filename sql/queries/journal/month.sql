-- The months of partitioned tables (migration 0014_months). All give up after half a second of waiting for writers or
-- readers, so that nothing queues behind them; the caller tries again. How old a month is goes by this server's clock: a
-- worker whose clock is ahead would be refused what merchants may still read (0014_months), at every round.

-- name: make
SELECT make_months(:parent, :first::date, :last::date, :moved_max::integer) AS months;

-- name: detach
SELECT count(*)::integer AS months FROM detach_months(:parent, now() - :kept::interval);

-- name: drop
SELECT drop_months(:parent, now() - :kept::interval) AS months;

-- name: detach_feed
-- With the months it is written down where the feed begins.
WITH gone AS MATERIALIZED (
    SELECT ended FROM unnest(ARRAY['read_event_production', 'read_event_sandbox']) AS part,
                      detach_months(part, now() - :kept::interval) AS ended
), begun AS (
    UPDATE feed_begin SET begins_at = greatest(begins_at, (SELECT max(ended) FROM gone)) WHERE EXISTS (SELECT FROM gone)
)
SELECT count(*)::integer AS months FROM gone;
