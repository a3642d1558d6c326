-- Refunds: what goes back, how far it has come, and the orders that have the bank do it.

-- Beside what is back with the payer (refunded_cents), what is on its way to him: it cannot be asked for twice.
ALTER TABLE payment
    ADD COLUMN refunding_cents bigint NOT NULL DEFAULT 0 CHECK (refunding_cents >= 0),
    -- The seatbelt behind the charge's lock.
    ADD CONSTRAINT payment_refunds CHECK (refunded_cents + refunding_cents <= amount_cents);

CREATE TABLE refund (
    account_id    uuid NOT NULL,
    -- Its hex digits are what the bank knows it by: chosen and committed before the bank is asked.
    refund_id     uuid NOT NULL,
    test          boolean NOT NULL,
    charge_id     uuid NOT NULL,
    payment_id    uuid NOT NULL,
    amount_cents  bigint NOT NULL CHECK (amount_cents > 0),
    status        text NOT NULL CHECK (status IN ('pending', 'succeeded', 'failed')),
    created_at    timestamptz NOT NULL,
    PRIMARY KEY (refund_id, account_id)
) WITH (fillfactor = 85);

CREATE TABLE read_refund (
    account_id   uuid NOT NULL,
    refund_id    uuid NOT NULL,
    test         boolean NOT NULL,
    created_at   timestamptz NOT NULL,
    status       text NOT NULL,
    charge_id    uuid NOT NULL,
    payment_id   uuid NOT NULL,
    -- With payment_id the key of its payment in read_payment, where the totals stand.
    paid_at      timestamptz NOT NULL,
    external_id  text,
    doc          jsonb NOT NULL,
    PRIMARY KEY (refund_id, account_id)
) WITH (fillfactor = 85);
CREATE INDEX read_refund_page ON read_refund (account_id, test, created_at, refund_id);
CREATE INDEX read_refund_status ON read_refund (account_id, test, status, created_at, refund_id);
CREATE INDEX read_refund_charge ON read_refund (charge_id, created_at, refund_id);
CREATE INDEX read_refund_payment ON read_refund (payment_id, created_at, refund_id);
CREATE INDEX read_refund_reference ON read_refund (account_id, test, external_id, created_at, refund_id)
    WHERE external_id IS NOT NULL;

-- Orders about refunds have lanes of their own: some are asked about for days.
DROP INDEX bank_order_due;
CREATE INDEX bank_order_due ON bank_order (test, due_at, order_id)
    WHERE state = 'waiting' AND left(kind, 7) <> 'boleto_' AND left(kind, 7) <> 'refund_';
CREATE INDEX bank_order_due_refund ON bank_order (test, due_at, order_id)
    WHERE state = 'waiting' AND left(kind, 7) = 'refund_';

-- The simulated bank. What became of money sent follows from the clock: nothing runs in the background.

CREATE TABLE simulated_bank.devolucao (
    world          text NOT NULL CHECK (world IN ('sandbox', 'production')),
    end_to_end_id  text NOT NULL,
    id             text NOT NULL CHECK (id ~ '^[a-zA-Z0-9]{1,35}$'),
    amount_cents   bigint NOT NULL CHECK (amount_cents > 0),
    description    text,
    return_id      text NOT NULL,
    asked_at       timestamptz NOT NULL,
    -- EM_PROCESSAMENTO before, DEVOLVIDO or NAO_REALIZADO from then on.
    settles_at     timestamptz NOT NULL,
    fails          boolean NOT NULL,
    PRIMARY KEY (world, end_to_end_id, id)
);

-- PIX sent to a key: not of API Pix, which only receives.
CREATE TABLE simulated_bank.transfer (
    world          text NOT NULL CHECK (world IN ('sandbox', 'production')),
    id             text NOT NULL CHECK (id ~ '^[a-zA-Z0-9]{1,35}$'),
    amount_cents   bigint NOT NULL CHECK (amount_cents > 0),
    pix_key        text NOT NULL,
    document       text NOT NULL,
    description    text,
    end_to_end_id  text NOT NULL,
    asked_at       timestamptz NOT NULL,
    settles_at     timestamptz NOT NULL,
    fails          boolean NOT NULL,
    PRIMARY KEY (world, id)
);

CREATE TABLE simulated_bank.refund_rules (
    world           text PRIMARY KEY CHECK (world IN ('sandbox', 'production')),
    -- How long money that goes back is on its way.
    settle_after_s  double precision NOT NULL CHECK (settle_after_s >= 0),
    -- Whether it does not arrive in the end.
    fails           boolean NOT NULL
);
INSERT INTO simulated_bank.refund_rules VALUES ('sandbox', 0, false), ('production', 0, false);

-- Of the PIX side of boletos, for who sends one back.
CREATE INDEX boleto_payment_pix ON simulated_bank.boleto_payment (world, end_to_end_id) WHERE end_to_end_id IS NOT NULL;
