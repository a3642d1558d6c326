-- Lanes that break, pause and recover; what is held meanwhile; and the notices that tell merchants of it.

ALTER TABLE webhook_lane
    -- How many requests may be under way at once: grows with each success up to the cap, falls back to one.
    ADD COLUMN room           integer NOT NULL DEFAULT 2 CHECK (room > 0),
    -- Deliveries (at most three) that strained the receiver since its last success: one bad event breaks no lane.
    ADD COLUMN strained_by    uuid[] NOT NULL DEFAULT '{}',
    -- Probes that failed since the lane broke or paused: how long until the next one, and whose turn it is.
    ADD COLUMN probes         integer NOT NULL DEFAULT 0,
    -- Answers of 410 in a row, and when the first of them came.
    ADD COLUMN gone           integer NOT NULL DEFAULT 0,
    ADD COLUMN gone_since     timestamptz,
    -- Somebody was told that it fails, and is owed the news that it recovered.
    ADD COLUMN noticed        boolean NOT NULL DEFAULT false,
    ADD COLUMN paused_at      timestamptz,
    ADD COLUMN paused_reason  text CHECK (paused_reason IN ('no_success', 'gone')),
    -- Paused, and some of what was pending is not held yet: moved in bounded batches.
    ADD COLUMN holding        boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN webhook_lane.blocked_until IS
    'Nothing is sent before: the receiver asked for time, or the next probe of a lane that is broken or paused.';
CREATE INDEX webhook_lane_holding ON webhook_lane (endpoint_id, test) WHERE holding;
CREATE INDEX webhook_lane_paused ON webhook_lane (blocked_until) WHERE state = 'paused';

-- Every endpoint has both lanes from its registration on.
INSERT INTO webhook_lane (endpoint_id, test)
SELECT e.endpoint_id, mode.test FROM webhook_endpoint e CROSS JOIN (VALUES (false), (true)) AS mode (test)
ON CONFLICT DO NOTHING;

ALTER TABLE webhook_delivery
    -- Workers that died of it. Apart from step and attempt, because a redelivery begins the schedule again.
    ADD COLUMN losses  integer NOT NULL DEFAULT 0;
UPDATE webhook_delivery SET losses = greatest(0, attempt - step - (state = 'sending')::integer)
WHERE state IN ('pending', 'sending');

-- What is due at the same moment goes in the order of its events.
CREATE INDEX webhook_delivery_next ON webhook_delivery (endpoint_id, test, due_at, sequence) WHERE state = 'pending';
DROP INDEX webhook_delivery_due;
CREATE INDEX webhook_delivery_held ON webhook_delivery (endpoint_id, test, sequence) WHERE state = 'held';
-- Held rows are kept for fourteen days from when they were due.
CREATE INDEX webhook_delivery_held_since ON webhook_delivery (due_at) WHERE state = 'held';

-- What a merchant's people are told of: read by the dashboard, sent by e-mail.
CREATE TABLE notice (
    notice_id    uuid PRIMARY KEY,
    account_id   uuid NOT NULL REFERENCES account,
    test         boolean NOT NULL,
    kind         text NOT NULL,  -- webhook_failing | webhook_paused | webhook_recovered
    -- The kind of event that was not taken (or was again); of test events with [TESTE/SANDBOX] in front.
    event_type   text NOT NULL,
    endpoint_id  uuid,           -- outlives the endpoint
    at           timestamptz NOT NULL,
    facts        jsonb NOT NULL,
    -- E-mail: leased until mail_after by whoever sends it, done with mailed_at.
    mail_after   timestamptz NOT NULL,
    mail_tries   integer NOT NULL DEFAULT 0,
    mailed_at    timestamptz
);
CREATE INDEX notice_of_account ON notice (account_id, at, notice_id);
CREATE INDEX notice_unmailed ON notice (mail_after) WHERE mailed_at IS NULL;
