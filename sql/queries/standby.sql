-- Whether a standby shows all that was acknowledged (runtime/servers/standby.py). Neither statement needs a right of its own.

-- name: written
-- At the primary: how far its log is on disk, with all commits that were acknowledged before this statement; and the log's
-- timeline, which a promotion begins anew.
SELECT (lsn - '0/0')::bigint AS lsn, ('x' || left(pg_walfile_name(lsn), 8))::bit(32)::integer AS timeline
FROM pg_current_wal_flush_lsn() AS f (lsn);

-- name: shows
-- At a standby: whether it has replayed that far. One that went on by itself after a promotion, on the timeline before, may have as
-- much log with other contents.
SELECT pg_is_in_recovery() AND (pg_last_wal_replay_lsn() - '0/0')::bigint >= :lsn
       AND (SELECT timeline_id FROM pg_control_checkpoint()) = :timeline AS shows;
