-- The journal of everything that happened; append only.

-- name: post
-- Locks each account clock (in key order; created at first use), advances it by the numbers that this transaction
-- needs, and inserts one journal row per JSON object, in order. Each row's numbers are counted back from the clock's
-- new position. The same statement projects the rows and enqueues the deliveries of events: a volatile function sees
-- the rows its statement wrote, and the aggregate waits until all are written. It is one statement so that a busy
-- account's clock is locked for one round trip and the commit only. Returns whether a debit was not covered; then the
-- caller must roll back.
WITH clock AS (
    INSERT INTO account_clock AS c (account_id, test, event_sequence, entry_sequence, balance_cents, latest_at)
    SELECT * FROM unnest(:owners.account_id::uuid[], :owners.test::boolean[], :counts.events::bigint[],
                         :counts.entries::bigint[], :counts.cents::bigint[], :counts.at::timestamptz[])
    ON CONFLICT (account_id, test) DO UPDATE
    SET event_sequence = c.event_sequence + excluded.event_sequence,
        entry_sequence = c.entry_sequence + excluded.entry_sequence,
        balance_cents  = c.balance_cents + excluded.balance_cents,
        latest_at      = greatest(c.latest_at, excluded.latest_at)
    RETURNING account_id, test, event_sequence, entry_sequence, balance_cents, latest_at
), numbered AS MATERIALIZED (
    -- A payment's credited_at is its ledger entry's instant, also when an earlier entry moved the clock past `at`.
    SELECT g.*, CASE WHEN k.latest_at > g.at
                     THEN jsonb_set(i.item -> 'payload', '{payment,credited_at}',
                                    to_jsonb(to_char(k.latest_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')), false)
                     ELSE i.item -> 'payload' END AS payload,
           i.place, k.balance_cents - coalesce(g.cents_back, 0) AS balance_after_cents,
           k.event_sequence - coalesce(g.events_back, 0) AS event_sequence,
           k.entry_sequence - coalesce(g.entries_back, 0) AS entry_sequence,
           coalesce(k.latest_at, g.at) AS recorded_at
    FROM unnest(:items::jsonb[]) WITH ORDINALITY AS i (item, place)
    CROSS JOIN LATERAL jsonb_to_record(i.item) AS g (
        account_id uuid, test boolean, charge_id uuid, version integer, kind text, at timestamptz, actor text,
        request_id text, entry jsonb, covered boolean, event_id uuid, event_body text, events_back bigint,
        entries_back bigint, cents_back bigint)
    LEFT JOIN clock k ON k.account_id = g.account_id AND k.test = g.test
), journaled AS (
    INSERT INTO journal (account_id, test, charge_id, version, kind, recorded_at, actor, request_id, payload,
                         event_id, event_sequence, event_body)
    SELECT account_id, test, charge_id, version, kind, recorded_at, actor, request_id,
           CASE WHEN entry IS NULL THEN payload
                ELSE jsonb_set(payload, '{entry}', entry || jsonb_build_object(
                         'sequence', entry_sequence, 'balance_after_cents', balance_after_cents)) END,
           event_id, CASE WHEN event_id IS NOT NULL THEN event_sequence END, decode(event_body, 'base64')
    FROM numbered ORDER BY place
    RETURNING journal_id
), credited AS (
    UPDATE payment p SET credited_at = n.recorded_at
    FROM numbered n
    WHERE n.recorded_at > n.at AND p.payment_id = (n.payload #>> '{payment,payment_id}')::uuid AND p.account_id = n.account_id
), mailed AS (
    -- Makes the payer's mails of these charges due. Costs a key look-up for each charge; few have a row.
    UPDATE mail_request r SET due_at = :now::timestamptz
    FROM unnest(:mailed::uuid[]) AS g (charge_id)
    WHERE r.charge_id = g.charge_id
), posted AS MATERIALIZED (
    SELECT array_agg(journal_id) AS journal_ids FROM journaled
), projected AS MATERIALIZED (
    SELECT project(journal_ids, :which::text[]),
           CASE WHEN 'events' = ANY (:which::text[]) THEN enqueue_deliveries(journal_ids, :now::timestamptz) END
    FROM posted
)
SELECT EXISTS (SELECT FROM numbered WHERE covered AND balance_after_cents < 0) AS uncovered FROM projected;
