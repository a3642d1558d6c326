-- What is sealed, column by column (commands/sealed.py).

-- name: otherwise
-- In some pages of a table: what another key than the current one has sealed.
SELECT at, row_key, bytes AS sealed
FROM sealed_otherwise(:table, :column, :member, :bound::text[], :current::integer, :first::bigint, :pages::bigint);

-- name: put
SELECT reseal(:table, :column, :member, :places::text[], :before::bytea[], :after::bytea[]) AS rows;

-- name: pages
SELECT (pg_relation_size(:table::text::regclass) / current_setting('block_size')::bigint)::bigint AS pages;
