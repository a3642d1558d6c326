-- Merchants' webhook endpoints, the deliveries due to them, and each attempt.

CREATE TABLE webhook_endpoint (
    endpoint_id    uuid PRIMARY KEY,
    -- NULL after removal: the endpoint has no lanes then, and its deliveries are deleted in batches before its row.
    account_id     uuid UNIQUE REFERENCES account,
    url            text NOT NULL,
    secret_sealed  bytea NOT NULL,
    kinds          text[] NOT NULL,
    created_at     timestamptz NOT NULL
);

-- After a rotation the previous secret signs too, in X-Service-Signature-Previous, until `until`.
CREATE TABLE webhook_old_secret (
    endpoint_id    uuid NOT NULL REFERENCES webhook_endpoint ON DELETE CASCADE,
    account_id     uuid NOT NULL,
    secret_sealed  bytea NOT NULL,
    until          timestamptz NOT NULL
);
CREATE INDEX webhook_old_secret_until ON webhook_old_secret (endpoint_id, until);

-- A lane is an endpoint in one mode, so that sandbox trouble never delays production; both lanes exist from the
-- registration on. The row holds the circuit breaker's state.
CREATE TABLE webhook_lane (
    endpoint_id           uuid NOT NULL REFERENCES webhook_endpoint ON DELETE CASCADE,
    test                  boolean NOT NULL,
    state                 text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'broken', 'paused')),
    consecutive_failures  integer NOT NULL DEFAULT 0,
    failing_since         timestamptz,
    -- Nothing is sent before this: the receiver's Retry-After, or the next probe of a broken or paused lane.
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
    -- The merchant was notified of the failure, and must be notified of the recovery.
    noticed               boolean NOT NULL DEFAULT false,
    paused_at             timestamptz,
    paused_reason         text CHECK (paused_reason IN ('no_success', 'gone')),
    -- The lane is paused, and some pending deliveries are not held yet; they are moved in bounded batches.
    holding               boolean NOT NULL DEFAULT false,
    -- When the lane was reopened after its last pause; set while held deliveries may remain.
    releasing_since       timestamptz,
    PRIMARY KEY (endpoint_id, test)
);
CREATE INDEX webhook_lane_holding ON webhook_lane (endpoint_id, test) WHERE holding;
CREATE INDEX webhook_lane_paused ON webhook_lane (blocked_until) WHERE state = 'paused';
CREATE INDEX webhook_lane_releasing ON webhook_lane (releasing_since) WHERE releasing_since IS NOT NULL;

-- A delivery's id is derived from event and endpoint. It begins with the event's time, so that it determines the
-- monthly partition; since it is a key, an event goes to an endpoint once. Like the event's id it contains the cell's
-- number, after the version.
CREATE FUNCTION webhook_delivery_id(endpoint_id uuid, event_id uuid) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (overlay(overlay(md5(endpoint_id::text || event_id::text) PLACING '8' FROM 17)
                    PLACING left(event_id::text, 8) || substr(event_id::text, 10, 4) || '7' || substr(event_id::text, 16, 3)
                    FROM 1))::uuid
$$;

-- Open deliveries are the queue from which workers claim; ended ones lie in monthly partitions. A change of state moves
-- the row, so a statement that names open states reads the queue only, however much was ever sent.
CREATE TABLE webhook_delivery (
    delivery_id   uuid NOT NULL,
    endpoint_id   uuid NOT NULL,
    account_id    uuid NOT NULL,
    test          boolean NOT NULL,
    event_id      uuid NOT NULL,
    sequence      bigint NOT NULL,
    type          text NOT NULL,
    state         text NOT NULL DEFAULT 'pending',
    -- step is the position in the retry schedule and advances only if the receiver was really contacted; attempt counts
    -- all tries.
    step          integer NOT NULL DEFAULT 0,
    attempt       integer NOT NULL DEFAULT 0,
    -- How many workers died while sending it. Counted separately, because a redelivery restarts the schedule.
    losses        integer NOT NULL DEFAULT 0,
    due_at        timestamptz NOT NULL,
    lease_until   timestamptz,
    -- The event's created_at, so that the body is looked up in that month of the feed only.
    created_at    timestamptz NOT NULL,
    delivered_at  timestamptz
) PARTITION BY LIST (state);
-- For the list of deliveries: without a filter it reads a range of the first index; by state, by kind or by both, one
-- range of the second for each pair. The two filters share an index because every attempt writes to each index.
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
-- Due deliveries of all endpoints.
CREATE INDEX webhook_delivery_due ON webhook_delivery_open (due_at) INCLUDE (endpoint_id, test) WHERE state = 'pending';
CREATE INDEX webhook_delivery_leased ON webhook_delivery_open (lease_until) WHERE state = 'sending';
CREATE INDEX webhook_delivery_flying ON webhook_delivery_open (endpoint_id, test) WHERE state = 'sending';
CREATE INDEX webhook_delivery_held ON webhook_delivery_open (endpoint_id, test, sequence) WHERE state = 'held';
-- Held rows are kept for fourteen days from the pause, or from when they became due if that is later.
CREATE INDEX webhook_delivery_held_since ON webhook_delivery_open (due_at) WHERE state = 'held';

-- Ended deliveries by the month of their events (0014_months). No foreign key: a month is dropped as a whole, and a
-- worker deletes the deliveries of a removed endpoint.
CREATE TABLE webhook_delivery_done PARTITION OF webhook_delivery (
    PRIMARY KEY (delivery_id)
) FOR VALUES IN ('delivered', 'exhausted', 'stuck') PARTITION BY RANGE (delivery_id);
CREATE TABLE webhook_delivery_done_other PARTITION OF webhook_delivery_done DEFAULT;
-- Deliveries that stopped workers, of all endpoints, for staff. There are hardly any.
CREATE INDEX webhook_delivery_stuck ON webhook_delivery_done (created_at, delivery_id)
    WHERE state = 'stuck' AND NOT test;

-- Attempts by the month of their deliveries' events; the two are dropped together.
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
