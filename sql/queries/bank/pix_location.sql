-- Locations kept ready, in blocks: a row holds what a process takes at once. Taking a block deletes its row, so that no two
-- charges ever share a location.

-- name: take
-- Blocks of one bank's for one process. Processes pass over each other's rows. `after` is the last block the process took:
-- what was deleted below it, and stays in the index for as long as any snapshot is older, is not walked again. The blocks
-- are an array, which is made once: IN lets a plan look for :blocks more for each row, until the pool is empty.
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
-- For a transaction that needs one: the rest of its block goes back.
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
-- In blocks of `size`, and counted: what was made less what is ready was taken.
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
-- The bank refused to make any, or its answers did not come within the time that a call has.
INSERT INTO pix_pool AS p (test, bank, made, counted_at, silent_at)
VALUES (:test, :bank, 0, clock_timestamp(), clock_timestamp())
ON CONFLICT (test, bank) DO UPDATE SET silent_at = EXCLUDED.silent_at;

-- name: made
-- How many were ever made: while this grows, the bank answers. Silent: a worker had none of it :lately.
SELECT made, coalesce(silent_at > clock_timestamp() - :lately::interval, false) AS silent
FROM pix_pool WHERE test = :test AND bank = :bank;

-- name: level
-- How many are ready in the block `since` and those after it, and which is the first; how many were made, and what was
-- known when consumption was last counted. Only the process that fills the pool asks, from the first block it saw on: all
-- before it were taken.
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
