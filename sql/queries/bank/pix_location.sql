-- The pool of PIX locations, in blocks: one row holds as many as a process takes at once. Taking a block deletes its
-- row, so no two charges ever share a location.

-- name: take
-- Takes blocks of one bank for one process. SKIP LOCKED: processes skip each other's rows. `after` is the last block
-- the process took: the scan skips the deleted entries below it, which stay in the index as long as an older snapshot
-- exists. ARRAY() is evaluated once; with IN a plan may run the subquery again for each row and so empty the pool.
WITH taken AS (
    DELETE FROM pix_location
    WHERE test = :test AND bank = :bank AND block_id = ANY(ARRAY(
        SELECT block_id FROM pix_location WHERE test = :test AND bank = :bank AND block_id > :after
        ORDER BY block_id LIMIT :blocks FOR UPDATE SKIP LOCKED
    ))
    RETURNING block_id, bank, location_ids, locations
)
SELECT l.location_id, l.location, t.bank, t.block_id
FROM taken t CROSS JOIN LATERAL unnest(t.location_ids, t.locations) AS l (location_id, location)
ORDER BY t.block_id, l.location_id;

-- name: take_one
-- Takes one location for a transaction; the rest of its block goes back.
WITH taken AS (
    DELETE FROM pix_location
    WHERE test = :test AND bank = :bank AND block_id = (
        SELECT block_id FROM pix_location WHERE test = :test AND bank = :bank
        ORDER BY block_id LIMIT 1 FOR UPDATE SKIP LOCKED
    )
    RETURNING test, bank, location_ids, locations
), rest AS (
    INSERT INTO pix_location (test, bank, location_ids, locations)
    SELECT test, bank, location_ids[2:], locations[2:] FROM taken WHERE cardinality(location_ids) > 1
)
SELECT location_ids[1] AS location_id, locations[1] AS location, bank FROM taken;

-- name: add
-- Adds locations in blocks of `size`, and counts them: the number consumed is the number made less the number ready.
WITH given AS MATERIALIZED (
    SELECT array_agg(location_id ORDER BY n) AS location_ids, array_agg(location ORDER BY n) AS locations
    FROM unnest(:locations.location_id::bigint[], :locations.location::text[])
         WITH ORDINALITY AS g (location_id, location, n)
    GROUP BY (n - 1) / :size::integer
), added AS (
    INSERT INTO pix_location (test, bank, location_ids, locations)
    SELECT :test, :bank, location_ids, locations FROM given
    RETURNING count
)
INSERT INTO pix_pool AS p (test, bank, made, counted_at)
SELECT :test, :bank, coalesce(sum(count), 0)::bigint, clock_timestamp() FROM added
ON CONFLICT (test, bank) DO UPDATE SET made = p.made + EXCLUDED.made, silent_at = NULL;

-- name: note_silence
-- Notes that the bank refused to create locations, or did not answer within a call's timeout.
INSERT INTO pix_pool AS p (test, bank, made, counted_at, silent_at)
VALUES (:test, :bank, 0, clock_timestamp(), clock_timestamp())
ON CONFLICT (test, bank) DO UPDATE SET silent_at = EXCLUDED.silent_at;

-- name: made
-- How many locations were ever made: while this grows, the bank answers. `silent`: within :lately a worker's call
-- created none.
SELECT made, coalesce(silent_at > clock_timestamp() - :lately::interval, false) AS silent
FROM pix_pool WHERE test = :test AND bank = :bank;

-- name: level
-- How many locations are ready from block `since` on, and the first such block; how many were made, and the figures of
-- the last count of consumption. Only the process that fills the pool asks; `since` is the first block it saw, as all
-- before it are taken.
SELECT l.ready, l.first, p.made, p.taken, p.per_s,
       extract(epoch FROM clock_timestamp() - p.counted_at)::double precision AS counted_s_ago
FROM (
    SELECT coalesce(sum(count), 0)::bigint AS ready, coalesce(min(block_id), :since) AS first
    FROM pix_location WHERE test = :test AND bank = :bank AND block_id >= :since
) AS l
LEFT JOIN pix_pool p ON p.test = :test AND p.bank = :bank;

-- name: count_consumption
UPDATE pix_pool SET taken = :taken, per_s = :per_s, counted_at = clock_timestamp()
WHERE test = :test AND bank = :bank;
