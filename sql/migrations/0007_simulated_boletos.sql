-- The simulated bank's boletos (boletos). What a boleto is at a moment - open, announced, paid - follows from its
-- payments and the clock; nothing runs in the background to settle it.

CREATE TABLE simulated_bank.boleto (
    world            text NOT NULL CHECK (world IN ('sandbox', 'production')),
    -- 000, the agreement, ten digits of the client's: used once for ever, also after a write-off.
    number           text NOT NULL CHECK (number ~ '^000[1-9][0-9]{16}$'),
    seu_numero       text NOT NULL CHECK (length(seu_numero) BETWEEN 1 AND 15),
    amount_cents     bigint NOT NULL CHECK (amount_cents BETWEEN 1 AND 9999999999),
    issued_on        date NOT NULL,
    due_on           date NOT NULL,
    description      text,
    payer_sealed     bytea NOT NULL,
    registered_at    timestamptz NOT NULL,
    -- Of its PIX side, while it has one: the txid, and the last part of the address in the QR Code.
    txid             text CHECK (txid ~ '^BOLETO[0-9]{17}DATA[0-9]{8}$'),
    token            text CHECK (length(token) = 24),
    location         text CHECK (length(location) <= 77),
    -- How often it was paid, all rails together. It stands here, and not only in the payments, so that a payment and
    -- a write-off at the same moment meet at this row: one of them finds what the other did.
    payments         integer NOT NULL DEFAULT 0,
    written_off_at   timestamptz,
    -- When it is settled or was written off; it moves no more after that.
    moved_at         timestamptz,
    PRIMARY KEY (world, number)
) WITH (fillfactor = 85);
CREATE UNIQUE INDEX boleto_token ON simulated_bank.boleto (token);
CREATE INDEX boleto_moved ON simulated_bank.boleto (world, moved_at, number) WHERE moved_at IS NOT NULL;
CREATE INDEX boleto_registered ON simulated_bank.boleto (world, registered_at, number);

CREATE TABLE simulated_bank.boleto_payment (
    world           text NOT NULL CHECK (world IN ('sandbox', 'production')),
    payment_id      bigint GENERATED ALWAYS AS IDENTITY,
    number          text NOT NULL,
    rail            text NOT NULL CHECK (rail IN ('boleto', 'pix')),
    amount_cents    bigint NOT NULL CHECK (amount_cents > 0),
    paid_at         timestamptz NOT NULL,
    -- From when the money is the receiver's; before that the payment is only announced, and can be called off.
    settles_at      timestamptz NOT NULL,
    called_off      boolean NOT NULL DEFAULT false,
    end_to_end_id   text,
    payer_name      text NOT NULL,
    payer_document  text NOT NULL,
    -- When the receiver is to be told next; NULL when he knows or nobody is to be told.
    tell_at         timestamptz,
    tell_attempts   integer NOT NULL DEFAULT 0,
    PRIMARY KEY (world, payment_id),
    FOREIGN KEY (world, number) REFERENCES simulated_bank.boleto (world, number)
);
CREATE INDEX boleto_payment_number ON simulated_bank.boleto_payment (world, number);
CREATE INDEX boleto_payment_untold ON simulated_bank.boleto_payment (tell_at) WHERE tell_at IS NOT NULL;

-- Where payments of boletos are told: at the real bank, an address entered by hand in its portal.
CREATE TABLE simulated_bank.boleto_webhook (
    world          text PRIMARY KEY CHECK (world IN ('sandbox', 'production')),
    url            text NOT NULL,
    registered_at  timestamptz NOT NULL
);

-- The real bank's rules that stand in the way of local work, each to be switched on.
CREATE TABLE simulated_bank.boleto_rules (
    world             text PRIMARY KEY CHECK (world IN ('sandbox', 'production')),
    -- Changes and write-offs only 30 minutes after registration.
    apply_30_minutes  boolean NOT NULL,
    -- The detail of a boleto is shown again for this long (30 s at the real bank).
    detail_cache_s    double precision NOT NULL CHECK (detail_cache_s >= 0),
    -- From the announcement of a payment to its settlement.
    settle_after_s    double precision NOT NULL CHECK (settle_after_s >= 0)
);
INSERT INTO simulated_bank.boleto_rules VALUES ('sandbox', false, 0, 0), ('production', false, 0, 0.2);

-- More ways to misbehave: hang before doing anything, cut the answer in the middle, a 500, a page of HTML.
ALTER TABLE simulated_bank.fault DROP CONSTRAINT fault_fault_check;
ALTER TABLE simulated_bank.fault ADD CONSTRAINT fault_fault_check
    CHECK (fault IN ('up', 'down', 'slow', 'lost_reply', 'refuse', 'timeout_before', 'cut', 'error500', 'html'));
