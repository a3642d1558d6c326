-- Statements about cells that run as the owner of the tables: `quita cell add` and `quita cell move` (commands/cells).

-- name: lock
-- Allows one change of the directory at a time. Also shows whether two DSNs name one database: the second does not get
-- the lock.
SELECT pg_try_advisory_lock(7203415509) AS locked;

-- name: unlock
SELECT pg_advisory_unlock(7203415509) AS unlocked;

-- name: next_number
-- Numbers are never reused: the ids of a removed cell would then name another cell.
SELECT coalesce(max(number), 0) + 1 AS number FROM cell;

-- name: become
UPDATE this_cell SET number = :number;

-- name: add
INSERT INTO cell (number, name, addresses_sealed, added_at) VALUES (:number, :name, :addresses_sealed, :now);

-- name: add_block
INSERT INTO number_block (first, last, number) VALUES (:first, :last, :number) ON CONFLICT DO NOTHING;

-- name: moving
-- From now on each process prepares for the next address, and checks often whether requests must be held back.
UPDATE cell SET next_sealed = :next_sealed WHERE number = :number;

-- name: hold
UPDATE cell SET held_since = now() WHERE number = :number;

-- name: let_go
UPDATE cell SET next_sealed = NULL, held_since = NULL WHERE number = :number;

-- name: moved
UPDATE cell SET addresses_sealed = next_sealed, next_sealed = NULL, held_since = NULL, moved_at = :now WHERE number = :number;

-- name: set_addresses
UPDATE cell SET addresses_sealed = :addresses_sealed WHERE number = :number;

-- name: platform
-- The platform's settings for all accounts, copied to a new cell.
SELECT (SELECT pix_key FROM receiving_key) AS receiving_key, (SELECT set_at FROM receiving_key) AS set_at,
       (SELECT suspended_at FROM pix_suspension) AS suspended_at;

-- name: take_platform
WITH key AS (
    INSERT INTO receiving_key (pix_key, set_at)
    SELECT g.pix_key, g.set_at FROM (VALUES (:receiving_key::text, :set_at::timestamptz)) AS g (pix_key, set_at)
    WHERE g.pix_key IS NOT NULL
    ON CONFLICT (single) DO UPDATE SET pix_key = excluded.pix_key, set_at = excluded.set_at
)
INSERT INTO pix_suspension (suspended_at)
SELECT g.suspended_at FROM (VALUES (:suspended_at::timestamptz)) AS g (suspended_at) WHERE g.suspended_at IS NOT NULL
ON CONFLICT DO NOTHING;

-- name: has_citus
-- Whether the server distributes schemas over its nodes.
SELECT to_regprocedure('citus_schema_distribute(regnamespace)') IS NOT NULL AS there;

-- name: has_schema
SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = :schema) AS there;

-- name: numbers_taken
-- The last control number that may have been handed out.
SELECT CASE WHEN is_called THEN last_value + 49 ELSE last_value - 1 END AS last FROM boleto_control;

-- name: tables
-- The tables as logical replication needs them: whether partitioned (replicated as a whole), and whether there is a
-- primary key (else rows are identified by all columns).
SELECT c.relname::text AS name, c.relkind = 'p' AS partitioned, c.relispartition AS part,
       EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary) AS keyed,
       (SELECT n.nspname FROM pg_namespace n WHERE n.oid = c.relnamespace)::text AS schema
FROM pg_class c
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
ORDER BY c.relname;

-- name: sequences
SELECT s.sequencename::text AS name, s.start_value, s.min_value, s.max_value, s.last_value
FROM pg_sequences s WHERE s.schemaname = current_schema() ORDER BY s.sequencename;

-- name: position
-- The current WAL position, and the WAL level (logical decoding needs `logical`).
SELECT pg_current_wal_lsn()::text AS lsn, current_setting('wal_level') AS level;

-- name: copying
-- Tables of the subscription that are not copied yet.
SELECT count(*) FILTER (WHERE r.srsubstate <> 'r') AS waiting, count(*) AS tables
FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = r.srsubid
WHERE s.subname = :name AND s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database());

-- name: replayed
-- Whether the slot's reader has confirmed everything up to :lsn.
SELECT coalesce(confirmed_flush_lsn >= :lsn::text::pg_lsn, false) AS replayed FROM pg_replication_slots WHERE slot_name = :name;

-- name: end_reader
-- Ends the reader of a slot that is to be dropped: the subscription of an interrupted move still reads from it.
SELECT pg_terminate_backend(active_pid) AS ended FROM pg_replication_slots WHERE slot_name = :name AND active_pid IS NOT NULL;

-- name: make_slot
SELECT slot_name::text AS name FROM pg_create_logical_replication_slot(:name::text, 'pgoutput');

-- name: drop_slot
SELECT pg_drop_replication_slot(:name::text) IS NOT NULL AS dropped;

-- name: set_sequence
SELECT setval(:name::text::regclass, :last_value) AS last_value;

-- name: fenced
-- Tables that refuse writes because a move has fenced them.
SELECT c.relname::text AS name FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE t.tgname = 'moved_away' AND c.relnamespace = current_schema()::regnamespace ORDER BY c.relname;

-- name: has_slot
SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = :name) AS there;

-- name: journal_between
-- The last row of the journal in this range, and the number of its rows.
SELECT coalesce(max(journal_id), 0) AS last, count(*) AS rows FROM journal WHERE journal_id > :after AND journal_id <= :up_to;
