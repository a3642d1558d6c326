-- The feed. Its numbers are dense, so a page is one range of sequences; instants never run backwards along
-- them, so a range of instants is a range of sequences too.

-- name: bounds
-- The first sequence at or after each of the two instants; NULL where there is none yet.
SELECT (SELECT sequence FROM read_event WHERE account_id = :account_id AND test = :test AND created_at >= :created_from
        ORDER BY created_at, sequence LIMIT 1) AS first,
       (SELECT sequence FROM read_event WHERE account_id = :account_id AND test = :test AND created_at >= :created_to
        ORDER BY created_at, sequence LIMIT 1) AS beyond;

-- name: page_desc
-- read_event's key.
SELECT sequence, type, created_at, body FROM read_event
WHERE account_id = :account_id AND test = :test
  AND sequence > :above AND sequence < :below
ORDER BY sequence DESC
LIMIT :most;

-- name: page_asc
-- read_event's key.
SELECT sequence, type, created_at, body FROM read_event
WHERE account_id = :account_id AND test = :test
  AND sequence > :above AND sequence < :below
ORDER BY sequence ASC
LIMIT :most;

-- name: by_charge_desc
-- read_event_charge.
SELECT sequence, type, created_at, body FROM read_event
WHERE account_id = :account_id AND test = :test
  AND charge_id = :charge_id
  AND sequence > :above AND sequence < :below
  AND (:types::text[] IS NULL OR type = ANY(:types::text[]))
  AND (:external_id::text IS NULL OR external_id = :external_id)
ORDER BY sequence DESC
LIMIT :most;

-- name: by_charge_asc
-- read_event_charge.
SELECT sequence, type, created_at, body FROM read_event
WHERE account_id = :account_id AND test = :test
  AND charge_id = :charge_id
  AND sequence > :above AND sequence < :below
  AND (:types::text[] IS NULL OR type = ANY(:types::text[]))
  AND (:external_id::text IS NULL OR external_id = :external_id)
ORDER BY sequence ASC
LIMIT :most;

-- name: by_reference_desc
-- read_event_reference.
SELECT sequence, type, created_at, body FROM read_event
WHERE account_id = :account_id AND test = :test
  AND external_id = :external_id
  AND sequence > :above AND sequence < :below
  AND (:types::text[] IS NULL OR type = ANY(:types::text[]))
ORDER BY sequence DESC
LIMIT :most;

-- name: by_reference_asc
-- read_event_reference.
SELECT sequence, type, created_at, body FROM read_event
WHERE account_id = :account_id AND test = :test
  AND external_id = :external_id
  AND sequence > :above AND sequence < :below
  AND (:types::text[] IS NULL OR type = ANY(:types::text[]))
ORDER BY sequence ASC
LIMIT :most;

-- name: by_type_desc
-- read_event_type: one range for each kind asked for, the first page of each merged.
SELECT e.sequence, e.type, e.created_at, e.body
FROM unnest(:types::text[]) AS k (type)
CROSS JOIN LATERAL (
    SELECT sequence, type, created_at, body FROM read_event
    WHERE account_id = :account_id AND test = :test AND type = k.type
      AND sequence > :above AND sequence < :below
    ORDER BY sequence DESC
    LIMIT :most
) e
ORDER BY e.sequence DESC
LIMIT :most;

-- name: by_type_asc
-- read_event_type: one range for each kind asked for, the first page of each merged.
SELECT e.sequence, e.type, e.created_at, e.body
FROM unnest(:types::text[]) AS k (type)
CROSS JOIN LATERAL (
    SELECT sequence, type, created_at, body FROM read_event
    WHERE account_id = :account_id AND test = :test AND type = k.type
      AND sequence > :above AND sequence < :below
    ORDER BY sequence ASC
    LIMIT :most
) e
ORDER BY e.sequence ASC
LIMIT :most;
