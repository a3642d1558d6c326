-- The feed. Sequences are dense, so a page is one range of sequences; created_at never decreases along them, so a range
-- of instants is a range of sequences too. Bodies are looked up in the journal, for the rows of the page only.

-- name: bounds
-- The first sequence at or after each of the two instants; NULL where there is none yet.
SELECT (SELECT sequence FROM read_event WHERE account_id = :account_id AND test = :test AND created_at >= :created_from
        ORDER BY created_at, sequence LIMIT 1) AS first,
       (SELECT sequence FROM read_event WHERE account_id = :account_id AND test = :test AND created_at >= :created_to
        ORDER BY created_at, sequence LIMIT 1) AS beyond;

-- name: page
-- both ways
-- Index: read_event's key, or that of the most selective filter: read_event_charge, _reference.
SELECT e.sequence, e.type, e.created_at, (SELECT j.event_body FROM journal j WHERE j.journal_id = e.journal_id) AS body
FROM read_event e
WHERE account_id = :account_id AND test = :test
  AND charge_id = :charge_id -- when charge_id
  AND external_id = :external_id -- when external_id
  AND type = ANY(:types::text[]) -- when types
  AND sequence > :above AND sequence < :below
ORDER BY sequence {DESC}
LIMIT :limit;

-- name: by_type
-- both ways
-- Index read_event_type: one range for each requested kind; the first page of each is merged.
SELECT e.sequence, e.type, e.created_at, (SELECT j.event_body FROM journal j WHERE j.journal_id = e.journal_id) AS body
FROM unnest(:types::text[]) AS k (type)
CROSS JOIN LATERAL (
    SELECT sequence, type, created_at, journal_id FROM read_event
    WHERE account_id = :account_id AND test = :test AND type = k.type
      AND sequence > :above AND sequence < :below
    ORDER BY sequence {DESC}
    LIMIT :limit
) e
ORDER BY e.sequence {DESC}
LIMIT :limit;
