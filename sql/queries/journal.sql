-- What happened, append only.

-- name: append
-- RETURNING keeps the order of the arrays: journal ids along one charge grow with its version.
INSERT INTO journal (account_id, test, charge_id, version, kind, recorded_at, actor, request_id, payload,
                     event_id, event_sequence, event_body)
SELECT * FROM unnest(
    :account_ids::uuid[], :tests::boolean[], :charge_ids::uuid[], :versions::integer[], :kinds::text[],
    :recorded_ats::timestamptz[], :actors::text[], :request_ids::text[], :payloads::jsonb[],
    :event_ids::uuid[], :event_sequences::bigint[], :event_bodies::bytea[]
)
RETURNING journal_id;

-- name: page
-- The journal in the order it was written, for a rebuild of the read tables.
SELECT journal_id FROM journal WHERE journal_id > :after ORDER BY journal_id LIMIT :most;
