-- The chains of hashes over the journal and over the audit log (migration 0003_journal).

-- name: extend
-- Seals the next rows, up to a number below which no row can appear any more; returns how many. The first block begins
-- at the lowest bigint, so that a row inserted before the first one is detected too. One caller at a time: the caller
-- holds the lock on the position of the daily totals.
WITH head AS (
    SELECT last_id, digest FROM seal WHERE chain = :chain ORDER BY last_id DESC LIMIT 1
), block AS MATERIALIZED (
    SELECT id, digest FROM chain_rows(:chain, coalesce((SELECT last_id + 1 FROM head), -9223372036854775808), :up_to, :limit)
), sealed AS (
    INSERT INTO seal (chain, last_id, rows, digest)
    SELECT :chain, max(id), count(*),
           sha256(coalesce((SELECT digest FROM head), '') || string_agg(digest, ''::bytea ORDER BY id))
    FROM block HAVING count(*) > 0
    RETURNING rows
)
SELECT coalesce((SELECT rows FROM sealed), 0)::bigint AS rows;

-- name: head
SELECT last_id, rows, encode(digest, 'hex') AS digest, sealed_at FROM seal
WHERE chain = :chain ORDER BY last_id DESC LIMIT 1;

-- name: at
SELECT last_id, rows, encode(digest, 'hex') AS digest, sealed_at FROM seal WHERE chain = :chain AND last_id = :last_id;

-- name: look
-- The next blocks after :last_id, and whether the rows of each still have the sealed digest.
SELECT s.last_id, s.rows, f.rows = s.rows
       AND s.digest = sha256(coalesce(p.digest, '') || coalesce(f.digests, '')) AS holds
FROM (SELECT * FROM seal WHERE chain = :chain AND last_id > :last_id ORDER BY last_id LIMIT :limit) s
LEFT JOIN LATERAL (
    SELECT last_id, digest FROM seal WHERE chain = s.chain AND last_id < s.last_id ORDER BY last_id DESC LIMIT 1
) p ON true
CROSS JOIN LATERAL (
    SELECT count(*) AS rows, string_agg(digest, ''::bytea ORDER BY id) AS digests
    FROM chain_rows(s.chain, coalesce(p.last_id + 1, -9223372036854775808), s.last_id, NULL)
) f
ORDER BY s.last_id;
