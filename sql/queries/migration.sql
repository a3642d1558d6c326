-- The migrations of this database (sql/migrate.py).

-- name: unfit
-- The migrations that make this database unfit for code with the files :names: a file of the code that was not applied,
-- or a contract of a later release that removed what code without the file it `needs` may use.
SELECT true AS missing FROM unnest(:names::text[]) AS g (name)
WHERE NOT EXISTS (SELECT FROM migration m WHERE m.name = g.name)
UNION ALL
SELECT false FROM migration WHERE name <> ALL (:names::text[]) AND needs IS NOT NULL AND needs <> ALL (:names::text[]);

-- name: read_only
-- Whether this server refuses writes: it was set read-only (managed services do so when the disk is nearly full), or it
-- is a standby behind a proxy.
SELECT current_setting('transaction_read_only')::boolean AS read_only;

-- name: index_valid
-- Whether an index is valid; no row if it does not exist. An index whose build was interrupted stays invalid: it slows
-- down every write and serves no query.
SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name::text);

-- name: building
-- The progress of a CREATE INDEX CONCURRENTLY of this connection, in blocks or tuples while it reads or writes, in
-- lockers while it waits for other transactions.
SELECT phase, greatest(blocks_total, tuples_total, lockers_total)::bigint AS total,
       CASE greatest(blocks_total, tuples_total, lockers_total)
           WHEN blocks_total THEN blocks_done WHEN tuples_total THEN tuples_done ELSE lockers_done END::bigint AS done
FROM pg_stat_progress_create_index WHERE pid = :pid;
