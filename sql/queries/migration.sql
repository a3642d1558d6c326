-- What the database was brought to (sql/migrate.py).

-- name: unfit
-- What keeps code that has these files from this database: one of them that was not applied, or a contract of a later release
-- that took away what code without the file it `needs` may use.
SELECT name, true AS missing FROM unnest(:names::text[]) AS g (name)
WHERE NOT EXISTS (SELECT FROM migration m WHERE m.name = g.name)
UNION ALL
SELECT name, false FROM migration WHERE name <> ALL (:names::text[]) AND needs IS NOT NULL AND needs <> ALL (:names::text[]);

-- name: read_only
-- Whether this server takes no writes: somebody has said so (a service does when the disk is nearly full), or it is a standby
-- behind a proxy.
SELECT current_setting('transaction_read_only')::boolean AS read_only;

-- name: index_valid
-- Whether an index is complete; no row when it is not there. One whose building was cut off stays, costs every write, and
-- answers nothing.
SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name::text);

-- name: building
-- How far a CREATE INDEX CONCURRENTLY of this connection is; blocks when it reads or writes, lockers when it waits for others.
SELECT phase, greatest(blocks_total, tuples_total, lockers_total)::bigint AS total,
       CASE greatest(blocks_total, tuples_total, lockers_total)
           WHEN blocks_total THEN blocks_done WHEN tuples_total THEN tuples_done ELSE lockers_done END::bigint AS done
FROM pg_stat_progress_create_index WHERE pid = :pid;
