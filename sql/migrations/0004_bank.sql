-- What is to be told to banks, what banks told us, and the PIX locations kept ready.

CREATE TABLE bank_order (
    order_id     uuid PRIMARY KEY,
    account_id   uuid,
    charge_id    uuid,
    test         boolean NOT NULL,
    -- cob_register | cob_remove | pix_simulate (a sandbox payer paid) | locations (fill the pool, somebody may be waiting)
    kind         text NOT NULL,
    request      jsonb NOT NULL,
    state        text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'working', 'done', 'refused', 'abandoned')),
    attempts     integer NOT NULL DEFAULT 0,
    due_at       timestamptz NOT NULL,
    lease_until  timestamptz,
    -- For an order whose door is waiting: past this instant nobody reads the outcome any more.
    deadline     timestamptz,
    reply_to     text,
    outcome      jsonb,
    created_at   timestamptz NOT NULL
) WITH (fillfactor = 85);
CREATE INDEX bank_order_due ON bank_order (test, due_at, order_id) WHERE state = 'waiting';
CREATE INDEX bank_order_leased ON bank_order (lease_until) WHERE state = 'working';
CREATE INDEX bank_order_charge ON bank_order (charge_id) WHERE state IN ('waiting', 'working');

-- Callbacks as they came. A hint moves nothing: it makes a worker ask the bank.
CREATE TABLE bank_hint (
    hint_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- What the hint is about (endToEndId, or the boleto's number and state): told twice, it is kept once.
    about        text NOT NULL UNIQUE,
    txid         text NOT NULL,
    received_at  timestamptz NOT NULL,
    attempts     integer NOT NULL DEFAULT 0,
    due_at       timestamptz NOT NULL,
    state        text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'confirmed', 'unfounded'))
);
CREATE INDEX bank_hint_due ON bank_hint (due_at) WHERE state = 'waiting';

-- How far the reconciler has asked the bank for received PIX.
CREATE TABLE bank_reconciled (
    bank   text PRIMARY KEY,
    until  timestamptz NOT NULL
);

-- Locations asked for ahead, so that creating a PIX charge waits for no bank. Taking one deletes the row.
CREATE TABLE pix_location (
    test         boolean NOT NULL,
    location_id  bigint NOT NULL,
    location     text NOT NULL CHECK (length(location) <= 77),
    PRIMARY KEY (test, location_id)
);
