-- The chain of hashes over the journal (migration 0003_journal).

-- name: extend
-- Seal the next rows, up to a number below which no row can appear any more; answers how many. One at a time: the caller
-- holds the position of the daily totals.
WITH head AS (
    SELECT last_id, digest FROM journal_seal ORDER BY last_id DESC LIMIT 1
), block AS MATERIALIZED (
    SELECT j.journal_id, journal_digest(j) AS digest FROM journal j
    WHERE j.journal_id > coalesce((SELECT last_id FROM head), 0) AND j.journal_id <= :up_to
    ORDER BY j.journal_id LIMIT :limit
), sealed AS (
    INSERT INTO journal_seal (last_id, rows, digest)
    SELECT max(journal_id), count(*),
           sha256(coalesce((SELECT digest FROM head), '') || string_agg(digest, ''::bytea ORDER BY journal_id))
    FROM block HAVING count(*) > 0
    RETURNING rows
)
SELECT coalesce((SELECT rows FROM sealed), 0)::bigint AS rows;

-- name: head
SELECT last_id, rows, encode(digest, 'hex') AS digest, sealed_at FROM journal_seal ORDER BY last_id DESC LIMIT 1;

-- name: at
SELECT last_id, rows, encode(digest, 'hex') AS digest, sealed_at FROM journal_seal WHERE last_id = :last_id;

-- name: look
-- Some blocks on from one: whether each is still what was sealed.
SELECT s.last_id, s.rows, f.rows = s.rows
       AND s.digest = sha256(coalesce(p.digest, '') || coalesce(f.digests, '')) AS holds
FROM (SELECT * FROM journal_seal WHERE last_id > :last_id ORDER BY last_id LIMIT :limit) s
LEFT JOIN LATERAL (
    SELECT last_id, digest FROM journal_seal WHERE last_id < s.last_id ORDER BY last_id DESC LIMIT 1
) p ON true
CROSS JOIN LATERAL (
    SELECT count(*) AS rows, string_agg(journal_digest(j), ''::bytea ORDER BY j.journal_id) AS digests FROM journal j
    WHERE j.journal_id > coalesce(p.last_id, 0) AND j.journal_id <= s.last_id
) f
ORDER BY s.last_id;
