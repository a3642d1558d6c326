-- What happened, append only.

-- name: append
-- One JSON object a row, in order.
INSERT INTO journal (account_id, test, charge_id, version, kind, recorded_at, actor, request_id, payload,
                     event_id, event_sequence, event_body)
SELECT g.account_id, g.test, g.charge_id, g.version, g.kind, g.recorded_at, g.actor, g.request_id, i.item -> 'payload',
       g.event_id, g.event_sequence, decode(g.event_body, 'base64')
FROM unnest(:items::jsonb[]) AS i (item)
CROSS JOIN LATERAL jsonb_to_record(i.item) AS g (
    account_id uuid, test boolean, charge_id uuid, version integer, kind text, recorded_at timestamptz, actor text,
    request_id text, event_id uuid, event_sequence bigint, event_body text)
RETURNING journal_id;
