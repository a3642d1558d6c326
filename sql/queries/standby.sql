-- Whether a standby shows every acknowledged commit (runtime/servers/standby.py). Neither statement needs a special
-- right.

-- name: written
-- At the primary: the WAL position on disk, which covers all commits acknowledged before this statement, and the
-- timeline, which a promotion changes.
SELECT (lsn - '0/0')::bigint AS lsn, ('x' || left(pg_walfile_name(lsn), 8))::bit(32)::integer AS timeline
FROM pg_current_wal_flush_lsn() AS f (lsn);

-- name: shows
-- At a standby: whether it has replayed up to :lsn on the same timeline. A server left on the old timeline after a
-- promotion may have as much WAL with other contents.
SELECT pg_is_in_recovery() AND (pg_last_wal_replay_lsn() - '0/0')::bigint >= :lsn
       AND (SELECT timeline_id FROM pg_control_checkpoint()) = :timeline AS shows;
