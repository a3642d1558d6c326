-- The months of the feed (migration 0004_feed).

-- name: make
-- Gives up after half a second of waiting for writers or readers.
SELECT feed_make_months(:first::date, :last::date, :moved_max::integer) AS months;

-- name: detach
-- Gives up after half a second when readers hold locks, so that nothing queues behind it; the caller tries again.
SELECT feed_detach_months(:ended_before::timestamptz) AS months
FROM (SELECT set_config('lock_timeout', '500ms', true)) AS bounded;
