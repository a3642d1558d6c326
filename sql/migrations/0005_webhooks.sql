-- Where merchants want to be told, what is to be told them, and each attempt to do so.

CREATE TABLE webhook_endpoint (
    endpoint_id             uuid PRIMARY KEY,
    account_id              uuid NOT NULL UNIQUE REFERENCES account,
    url                     text NOT NULL,
    secret_sealed           bytea NOT NULL,
    -- After a rotation the secret before it signs too, in X-Service-Signature-Previous, until this instant.
    previous_secret_sealed  bytea,
    previous_until          timestamptz,
    kinds                   text[] NOT NULL,
    created_at              timestamptz NOT NULL
);

-- A lane is an endpoint in one mode: sandbox trouble never delays production. Breaker and pause live here.
CREATE TABLE webhook_lane (
    endpoint_id           uuid NOT NULL REFERENCES webhook_endpoint ON DELETE CASCADE,
    test                  boolean NOT NULL,
    state                 text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'broken', 'paused')),
    consecutive_failures  integer NOT NULL DEFAULT 0,
    failing_since         timestamptz,
    blocked_until         timestamptz,
    PRIMARY KEY (endpoint_id, test)
);

CREATE TABLE webhook_delivery (
    delivery_id   uuid PRIMARY KEY,
    endpoint_id   uuid NOT NULL REFERENCES webhook_endpoint ON DELETE CASCADE,
    account_id    uuid NOT NULL,
    test          boolean NOT NULL,
    event_id      uuid NOT NULL,
    sequence      bigint NOT NULL,
    type          text NOT NULL,
    state         text NOT NULL DEFAULT 'pending'
                  CHECK (state IN ('pending', 'sending', 'delivered', 'held', 'exhausted', 'stuck')),
    -- step counts the schedule and only moves when the receiver was really asked; attempt counts all tries.
    step          integer NOT NULL DEFAULT 0,
    attempt       integer NOT NULL DEFAULT 0,
    due_at        timestamptz NOT NULL,
    lease_until   timestamptz,
    created_at    timestamptz NOT NULL,
    delivered_at  timestamptz,
    UNIQUE (endpoint_id, event_id)
) WITH (fillfactor = 70);
CREATE INDEX webhook_delivery_due ON webhook_delivery (endpoint_id, test, due_at, delivery_id) WHERE state = 'pending';
CREATE INDEX webhook_delivery_leased ON webhook_delivery (lease_until) WHERE state = 'sending';
CREATE INDEX webhook_delivery_flying ON webhook_delivery (endpoint_id, test) WHERE state = 'sending';
CREATE INDEX webhook_delivery_feed ON webhook_delivery (account_id, test, sequence);

CREATE TABLE webhook_attempt (
    delivery_id  uuid NOT NULL REFERENCES webhook_delivery ON DELETE CASCADE,
    attempt      integer NOT NULL,
    started_at   timestamptz NOT NULL,
    duration_ms  integer NOT NULL,
    status       integer,
    -- delivered | rejected | timeout | connection_refused | connection_reset | dns_error | tls_error | blocked_address | worker_lost | network_error
    outcome      text NOT NULL,
    answer       bytea,
    PRIMARY KEY (delivery_id, attempt)
);
