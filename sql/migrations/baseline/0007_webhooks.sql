-- Merchants' webhook endpoints, the deliveries due to them, and each attempt.

CREATE TABLE webhook_endpoint (
    endpoint_id    uuid PRIMARY KEY,
    -- NULL once it was removed: it has no lanes then, and its deliveries are deleted in batches before its row.
    account_id     uuid UNIQUE REFERENCES account,
    url            text NOT NULL,
    secret_sealed  bytea NOT NULL,
    kinds          text[] NOT NULL,
    created_at     timestamptz NOT NULL
);

-- After a rotation the secret before it signs too, in X-Service-Signature-Previous, until its own instant.
CREATE TABLE webhook_old_secret (
    endpoint_id    uuid NOT NULL REFERENCES webhook_endpoint ON DELETE CASCADE,
    account_id     uuid NOT NULL,
    secret_sealed  bytea NOT NULL,
    until          timestamptz NOT NULL
);
CREATE INDEX webhook_old_secret_until ON webhook_old_secret (endpoint_id, until);

-- A lane is an endpoint in one mode, so that sandbox trouble never delays production; both exist from the registration on.
-- It keeps the circuit breaker's state.
CREATE TABLE webhook_lane (
    endpoint_id           uuid NOT NULL REFERENCES webhook_endpoint ON DELETE CASCADE,
    test                  boolean NOT NULL,
    state                 text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'broken', 'paused')),
    consecutive_failures  integer NOT NULL DEFAULT 0,
    failing_since         timestamptz,
    -- Nothing is sent before: the receiver's Retry-After, or the next probe of a lane that is broken or paused.
    blocked_until         timestamptz,
    -- How many requests may be in flight: grows with each success up to the cap, falls back to one.
    concurrency           integer NOT NULL DEFAULT 2 CHECK (concurrency > 0),
    -- Deliveries (at most three) that strained the receiver since its last success: one bad event breaks no lane.
    strained_by           uuid[] NOT NULL DEFAULT '{}',
    -- Failed probes since the lane broke or paused: they decide when the next one goes, and with which delivery.
    probes                integer NOT NULL DEFAULT 0,
    -- Answers of 410 in a row, and when the first of them came.
    gone                  integer NOT NULL DEFAULT 0,
    gone_since            timestamptz,
    -- The merchant was notified of the failure, and is to be notified of the recovery.
    noticed               boolean NOT NULL DEFAULT false,
    paused_at             timestamptz,
    paused_reason         text CHECK (paused_reason IN ('no_success', 'gone')),
    -- Paused, and some of what was pending is not held yet: moved in bounded batches.
    holding               boolean NOT NULL DEFAULT false,
    -- When it was paused last and opened again, while something held may still lie there.
    releasing_since       timestamptz,
    PRIMARY KEY (endpoint_id, test)
);
CREATE INDEX webhook_lane_holding ON webhook_lane (endpoint_id, test) WHERE holding;
CREATE INDEX webhook_lane_paused ON webhook_lane (blocked_until) WHERE state = 'paused';
CREATE INDEX webhook_lane_releasing ON webhook_lane (releasing_since) WHERE releasing_since IS NOT NULL;

-- A delivery's id follows from the event and the endpoint: it begins with the event's time, so that it names the month
-- the delivery is kept in, and an event goes to an endpoint once because the id is a key. Like the event's it names the
-- cell, behind the version.
CREATE FUNCTION webhook_delivery_id(endpoint_id uuid, event_id uuid) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (overlay(overlay(md5(endpoint_id::text || event_id::text) PLACING '8' FROM 17)
                    PLACING left(event_id::text, 8) || substr(event_id::text, 10, 4) || '7' || substr(event_id::text, 16, 3)
                    FROM 1))::uuid
$$;

-- What is open is the queue that is claimed from; what ended lies in months. A change of the state moves the row, so a
-- statement that names open states reads the queue alone, whatever was ever sent.
CREATE TABLE webhook_delivery (
    delivery_id   uuid NOT NULL,
    endpoint_id   uuid NOT NULL,
    account_id    uuid NOT NULL,
    test          boolean NOT NULL,
    event_id      uuid NOT NULL,
    sequence      bigint NOT NULL,
    type          text NOT NULL,
    state         text NOT NULL DEFAULT 'pending',
    -- step counts along the retry schedule and only moves when the receiver was really asked; attempt counts all tries.
    step          integer NOT NULL DEFAULT 0,
    attempt       integer NOT NULL DEFAULT 0,
    -- Workers that died of it. Apart from step and attempt, because a redelivery begins the schedule again.
    losses        integer NOT NULL DEFAULT 0,
    due_at        timestamptz NOT NULL,
    lease_until   timestamptz,
    -- Of its event, so that the body is looked for in that month of the feed alone.
    created_at    timestamptz NOT NULL,
    delivered_at  timestamptz
) PARTITION BY LIST (state);
-- The list of deliveries: without a filter a range of the first; by state, by kind or by both one range of the second
-- for each pair. One index for the two filters, because every attempt writes each index anew.
CREATE INDEX webhook_delivery_feed ON webhook_delivery (endpoint_id, test, sequence);
CREATE INDEX webhook_delivery_state ON webhook_delivery (endpoint_id, test, state, type, sequence);

CREATE TABLE webhook_delivery_open PARTITION OF webhook_delivery (
    PRIMARY KEY (delivery_id),
    FOREIGN KEY (endpoint_id) REFERENCES webhook_endpoint ON DELETE CASCADE
) FOR VALUES IN ('pending', 'sending', 'held') WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000
);
-- Deliveries due at the same moment go in the order of their events.
CREATE INDEX webhook_delivery_next ON webhook_delivery_open (endpoint_id, test, due_at, sequence) WHERE state = 'pending';
-- What is due, of whichever endpoint.
CREATE INDEX webhook_delivery_due ON webhook_delivery_open (due_at) INCLUDE (endpoint_id, test) WHERE state = 'pending';
CREATE INDEX webhook_delivery_leased ON webhook_delivery_open (lease_until) WHERE state = 'sending';
CREATE INDEX webhook_delivery_flying ON webhook_delivery_open (endpoint_id, test) WHERE state = 'sending';
CREATE INDEX webhook_delivery_held ON webhook_delivery_open (endpoint_id, test, sequence) WHERE state = 'held';
-- Held rows are kept for fourteen days from the pause, or from when they became due after it.
CREATE INDEX webhook_delivery_held_since ON webhook_delivery_open (due_at) WHERE state = 'held';

-- By the month of their events (0014_months). No foreign key: a month is dropped as a whole, and a worker deletes those of
-- an endpoint that was removed.
CREATE TABLE webhook_delivery_done PARTITION OF webhook_delivery (
    PRIMARY KEY (delivery_id)
) FOR VALUES IN ('delivered', 'exhausted', 'stuck') PARTITION BY RANGE (delivery_id);
CREATE TABLE webhook_delivery_done_other PARTITION OF webhook_delivery_done DEFAULT;

-- By the month of their deliveries' events, with which they are dropped.
CREATE TABLE webhook_attempt (
    delivery_id  uuid NOT NULL,
    attempt      integer NOT NULL,
    started_at   timestamptz NOT NULL,
    duration_ms  integer NOT NULL,
    status       integer,
    -- delivered | rejected | timeout | connection_refused | connection_reset | dns_error | tls_error | blocked_address
    -- | worker_lost | network_error
    outcome      text NOT NULL,
    answer       bytea,
    PRIMARY KEY (delivery_id, attempt)
) PARTITION BY RANGE (delivery_id);
CREATE TABLE webhook_attempt_other PARTITION OF webhook_attempt DEFAULT;
