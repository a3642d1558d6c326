-- Monthly partitions (migration 0014_months). Each statement gives up after waiting half a second for writers or
-- readers, so that nothing queues behind it; the caller tries again. The age of a month is measured by this server's
-- clock: a worker whose clock is ahead would ask for months that merchants may still read, and 0014_months would refuse
-- it at every round.

-- name: make
SELECT make_months(:parent, :first::date, :last::date, :moved_max::integer) AS months;

-- name: count_lacking
-- How many of these months have no partition, because too many of their rows are in the default partition.
SELECT count(*)::integer AS months
FROM generate_series(date_trunc('month', :first::date::timestamp), :last::date::timestamp, interval '1 month') AS month
WHERE coalesce(to_regclass(:parent::text || to_char(month, '_YYYY_MM')),
               to_regclass(:parent::text || to_char(month, '_"archive"_YYYY_MM'))) IS NULL;

-- name: detach
SELECT count(*)::integer AS months FROM detach_months(:parent, now() - :kept::interval);

-- name: drop
SELECT drop_months(:parent, now() - :kept::interval) AS months;

-- name: detach_feed
-- Stores the instant where the feed begins, together with detaching the months.
WITH gone AS MATERIALIZED (
    SELECT ended FROM unnest(ARRAY['read_event_production', 'read_event_sandbox']) AS part,
                      detach_months(part, now() - :kept::interval) AS ended
), begun AS (
    UPDATE feed_begin SET begins_at = greatest(begins_at, (SELECT max(ended) FROM gone)) WHERE EXISTS (SELECT FROM gone)
)
SELECT count(*)::integer AS months FROM gone;
