-- Locations kept ready. Taking one deletes its row, so that no two charges ever share one.

-- name: take
-- A block of one bank's for one process, and whether the pool runs low after it. Processes pass over each other's rows. The low
-- mark is counted no further than itself.
WITH taken AS (
    DELETE FROM pix_location
    WHERE test = :test AND bank = :bank AND location_id IN (
        SELECT location_id FROM pix_location WHERE test = :test AND bank = :bank
        ORDER BY location_id LIMIT :limit FOR UPDATE SKIP LOCKED
    )
    RETURNING location_id, location, bank
), mark AS (
    SELECT count(*) < :low::integer AS low
    FROM (SELECT FROM pix_location WHERE test = :test AND bank = :bank LIMIT :low::integer) AS first
)
SELECT t.location_id, t.location, t.bank, m.low FROM taken t CROSS JOIN mark m ORDER BY t.location_id;

-- name: add
INSERT INTO pix_location (test, bank, location_id, location)
SELECT :test, :bank, g.location_id, g.location FROM unnest(:locations.location_id::bigint[], :locations.location::text[])
     AS g (location_id, location)
ON CONFLICT DO NOTHING;

-- name: level
-- How full the pool is, counted no further than its high mark.
SELECT count(*) AS count FROM (SELECT FROM pix_location WHERE test = :test AND bank = :bank LIMIT :high::integer) AS first;
