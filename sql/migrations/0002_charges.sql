-- The write side: what decides. Rows here are locked and changed by commands only.
--
-- Keys carry account_id, the column a cluster would distribute by, in second place: charge ids are
-- time-ordered, so new rows meet at the right edge of the index, and a bank, which knows a charge
-- only by its txid (the charge id in hex), finds it by the same key.

CREATE TABLE idempotency (
    account_id     uuid NOT NULL,
    test           boolean NOT NULL,
    key            text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    fingerprint    bytea NOT NULL CHECK (length(fingerprint) = 32),
    resource_type  text NOT NULL,
    resource_id    uuid NOT NULL,
    first_used_at  timestamptz NOT NULL,
    replay_count   integer NOT NULL DEFAULT 0,
    -- Never partitioned by time and never purged: running a money operation again is the one unsafe outcome.
    PRIMARY KEY (account_id, test, key)
) WITH (fillfactor = 90);

CREATE TABLE charge (
    account_id      uuid NOT NULL,
    charge_id       uuid NOT NULL,
    test            boolean NOT NULL,
    payment_method  text NOT NULL CHECK (payment_method IN ('pix', 'boleto', 'boleto_hibrido', 'boleto_pix')),
    status          text NOT NULL CHECK (status IN ('pending', 'paid', 'expired', 'cancelled', 'refunded', 'failed')),
    version         integer NOT NULL,
    amount_cents    bigint NOT NULL CHECK (amount_cents > 0),
    refunded_cents  bigint NOT NULL DEFAULT 0 CHECK (refunded_cents >= 0),
    external_id     text,
    created_at      timestamptz NOT NULL,
    -- The first instant at which it is no longer payable: for PIX creation + expires_in, for a boleto
    -- the midnight after its effective due date.
    expires_at      timestamptz NOT NULL,
    location        text,
    -- Name, document, e-mail and phone of the payer, sealed; nothing personal is kept in the clear.
    payer_sealed    bytea,
    PRIMARY KEY (charge_id, account_id)
) WITH (fillfactor = 85);
-- What the sweeper and every read of an account look for: pending and past its time.
CREATE INDEX charge_overdue ON charge (account_id, test, expires_at) WHERE status = 'pending';
-- Cancel and re-date by reference look at pending charges only.
CREATE INDEX charge_reference ON charge (account_id, test, external_id, charge_id)
    WHERE status = 'pending' AND external_id IS NOT NULL;

CREATE TABLE payment (
    account_id     uuid NOT NULL,
    payment_id     uuid NOT NULL,
    test           boolean NOT NULL,
    charge_id      uuid NOT NULL,
    -- What makes this payment happen once: the endToEndId, or the bank's receipt of a boleto.
    source         text NOT NULL,
    method         text NOT NULL CHECK (method IN ('pix', 'boleto')),
    amount_cents   bigint NOT NULL CHECK (amount_cents > 0),
    anomaly        text CHECK (anomaly IN ('duplicate', 'paid_after_cancel', 'amount_mismatch')),
    settles        boolean NOT NULL,
    paid_at        timestamptz NOT NULL,
    credited_at    timestamptz NOT NULL,
    refunded_cents bigint NOT NULL DEFAULT 0 CHECK (refunded_cents BETWEEN 0 AND amount_cents),
    PRIMARY KEY (payment_id, account_id),
    UNIQUE (account_id, test, source)
);
-- The seatbelt behind the row lock: at most one payment settles a charge.
CREATE UNIQUE INDEX payment_settling ON payment (charge_id, account_id) WHERE settles;

-- One row per account and mode hands out the dense numbers of feed and ledger and the running
-- balance. It is locked after the charges, in key order, and never while anybody else is waited for.
CREATE TABLE account_clock (
    account_id      uuid NOT NULL,
    test            boolean NOT NULL,
    event_sequence  bigint NOT NULL DEFAULT 0,
    entry_sequence  bigint NOT NULL DEFAULT 0,
    balance_cents   bigint NOT NULL DEFAULT 0,
    -- The latest instant given to an event or entry: instants never run backwards along the numbers.
    latest_at       timestamptz NOT NULL DEFAULT '-infinity',
    PRIMARY KEY (account_id, test)
) WITH (fillfactor = 50);
