-- What happened, append only.

-- name: post
-- One JSON object a row, in order; with its rows, their projections and, of events, the deliveries that are due. A volatile
-- function sees what its statement has written, and the aggregate waits until all of it is.
WITH journaled AS (
    INSERT INTO journal (account_id, test, charge_id, version, kind, recorded_at, actor, request_id, payload,
                         event_id, event_sequence, event_body)
    SELECT g.account_id, g.test, g.charge_id, g.version, g.kind, g.recorded_at, g.actor, g.request_id,
           i.item -> 'payload', g.event_id, g.event_sequence, decode(g.event_body, 'base64')
    FROM unnest(:items::jsonb[]) AS i (item)
    CROSS JOIN LATERAL jsonb_to_record(i.item) AS g (
        account_id uuid, test boolean, charge_id uuid, version integer, kind text, recorded_at timestamptz, actor text,
        request_id text, event_id uuid, event_sequence bigint, event_body text)
    RETURNING journal_id
), mailed AS (
    -- Their payers are mailed when there is something new: a key look-up for each charge, and seldom a row.
    UPDATE mail_request r SET due_at = :now::timestamptz
    FROM unnest(:mailed::uuid[]) AS g (charge_id)
    WHERE r.charge_id = g.charge_id
), posted AS MATERIALIZED (
    SELECT array_agg(journal_id) AS journal_ids FROM journaled
)
SELECT project(journal_ids, :which::text[]),
       CASE WHEN 'events' = ANY (:which::text[]) THEN enqueue_deliveries(journal_ids, :now::timestamptz) END
FROM posted;
