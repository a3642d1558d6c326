-- Re-sealing of sealed columns (commands/sealed.py).

-- name: otherwise
-- The values in these pages of a table that were sealed with a key other than the current one.
SELECT at, row_key, bytes AS sealed
FROM sealed_otherwise(:table, :column, :member, :bound::text[], :current::integer, :first::bigint, :pages::bigint);

-- name: put
SELECT reseal(:table, :column, :member, :places::text[], :before::bytea[], :after::bytea[]) AS rows;

-- name: pages
SELECT (pg_relation_size(:table::text::regclass) / current_setting('block_size')::bigint)::bigint AS pages;
