-- The simulated bank's own tables. Only banks/simulated uses them, except that the creation of a test charge writes its
-- cob (sql/queries/charges/charge.sql); they decide nothing about charges. Each row belongs to a world: the sandbox
-- bank inside the workers, or the bank that production mode reaches over HTTP in local work.
--
-- The state of a boleto, a devolucao or a transfer follows from its rows and the clock; nothing runs in the background.
--
-- Tables to which each sandbox creation adds a row grow as charges do, and have the same autovacuum settings
-- (0002_charges).

CREATE TABLE simulated_location (
    world        text NOT NULL CHECK (world IN ('sandbox', 'production')),
    location_id  bigint GENERATED ALWAYS AS IDENTITY,
    -- The last part of the location: 22 URL-safe characters, ordered by time, since random ones would each dirty
    -- another page of the index.
    token        text NOT NULL CHECK (length(token) = 22),
    location     text NOT NULL CHECK (length(location) <= 77),
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (world, location_id)
) WITH (
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
CREATE UNIQUE INDEX simulated_location_token ON simulated_location (token);

CREATE TABLE simulated_cob (
    world         text NOT NULL CHECK (world IN ('sandbox', 'production')),
    txid          text NOT NULL CHECK (txid ~ '^[a-zA-Z0-9]{26,35}$'),
    status        text NOT NULL CHECK (status IN ('ATIVA', 'CONCLUIDA', 'REMOVIDA_PELO_USUARIO_RECEBEDOR')),
    revisao       integer NOT NULL DEFAULT 0,
    amount_cents  bigint NOT NULL CHECK (amount_cents > 0),
    pix_key       text NOT NULL,
    description   text,
    payer_sealed  bytea,
    created_at    timestamptz NOT NULL,
    expires_in_s  integer NOT NULL CHECK (expires_in_s > 0),
    location_id   bigint NOT NULL,
    -- For a cobv, which has no expiracao: it ends with the last day of its terms (domain/boleto/terms.py).
    due_on        date,
    terms         jsonb,
    PRIMARY KEY (world, txid),
    CHECK ((due_on IS NULL) = (terms IS NULL))
) WITH (
    fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
-- Not unique, so that a statement with a hundred cobs refuses the one whose location is taken, instead of failing as a
-- whole.
CREATE INDEX simulated_cob_location ON simulated_cob (world, location_id);

CREATE TABLE simulated_pix (
    world           text NOT NULL CHECK (world IN ('sandbox', 'production')),
    end_to_end_id   text NOT NULL,
    -- NULL: paid directly to the key, without a cob.
    txid            text,
    amount_cents    bigint NOT NULL CHECK (amount_cents > 0),
    pix_key         text,
    paid_at         timestamptz NOT NULL,
    payer_name      text NOT NULL,
    payer_document  text NOT NULL,
    -- When to call the receiver's callback next; NULL if it was called or none is registered.
    tell_at         timestamptz,
    tell_attempts   integer NOT NULL DEFAULT 0,
    -- Listed in an unreadable form, for tests of list readers.
    garbled         boolean NOT NULL DEFAULT false,
    -- For a cobv: parts of the amount by its terms on that day.
    interest_cents  bigint NOT NULL DEFAULT 0 CHECK (interest_cents >= 0),
    fine_cents      bigint NOT NULL DEFAULT 0 CHECK (fine_cents >= 0),
    discount_cents  bigint NOT NULL DEFAULT 0 CHECK (discount_cents >= 0),
    PRIMARY KEY (world, end_to_end_id)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
CREATE INDEX simulated_pix_of_cob ON simulated_pix (world, txid);
CREATE INDEX simulated_pix_paid ON simulated_pix (world, paid_at, end_to_end_id);
CREATE INDEX simulated_pix_untold ON simulated_pix (tell_at) WHERE tell_at IS NOT NULL;

CREATE TABLE simulated_callback (
    world       text NOT NULL CHECK (world IN ('sandbox', 'production')),
    pix_key     text NOT NULL,
    url         text NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (world, pix_key)
);

-- The fault to simulate; no row: none. timeout_before hangs before doing anything, cut breaks off in the middle of an
-- answer.
CREATE TABLE simulated_fault (
    world     text PRIMARY KEY CHECK (world IN ('sandbox', 'production')),
    fault     text NOT NULL
              CHECK (fault IN ('up', 'down', 'slow', 'lost_reply', 'refuse', 'timeout_before', 'cut', 'error500', 'html')),
    -- For `slow`: how long each answer takes; NULL: the bank's default.
    delay_ms  integer CHECK (delay_ms BETWEEN 1 AND 60000)
);

-- The key that signs the payloads of locations. The kid names the SECRET_KEY that opens the private part.
CREATE TABLE simulated_signing_key (
    kid             text PRIMARY KEY,
    private_sealed  bytea NOT NULL,
    certificate     bytea NOT NULL,
    created_at      timestamptz NOT NULL
);

CREATE TABLE simulated_boleto (
    world            text NOT NULL CHECK (world IN ('sandbox', 'production')),
    -- 000, the agreement (convenio), ten digits chosen by the client; never reused, even after a write-off.
    number           text NOT NULL CHECK (number ~ '^000[1-9][0-9]{16}$'),
    seu_numero       text NOT NULL CHECK (length(seu_numero) BETWEEN 1 AND 15),
    amount_cents     bigint NOT NULL CHECK (amount_cents BETWEEN 1 AND 9999999999),
    issued_on        date NOT NULL,
    due_on           date NOT NULL,
    -- Fine, interest and discounts (domain/boleto/terms.py). The first day of the fine, and the number of days after
    -- the due date on which payment is still accepted, have changes of their own in the API.
    terms            jsonb,
    fine_from        date,
    late_days        integer NOT NULL DEFAULT 0 CHECK (late_days >= 0),
    description      text,
    payer_sealed     bytea NOT NULL,
    registered_at    timestamptz NOT NULL,
    -- Of its PIX side, if any: the txid, and the last part of the location in the QR Code.
    txid             text CHECK (txid ~ '^BOLETO[0-9]{17}DATA[0-9]{8}$'),
    token            text CHECK (length(token) = 22),
    location         text CHECK (length(location) <= 77),
    -- The number of its payments on all rails. Counted in this row too, so that a concurrent payment and write-off
    -- contend for the row lock and the second sees the first.
    payments         integer NOT NULL DEFAULT 0,
    written_off_at   timestamptz,
    -- When it settles or was written off; the boleto does not change after that.
    moved_at         timestamptz,
    -- Listed in an unreadable form, for tests of list readers.
    garbled          boolean NOT NULL DEFAULT false,
    PRIMARY KEY (world, number)
) WITH (
    fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
CREATE UNIQUE INDEX simulated_boleto_token ON simulated_boleto (token);
CREATE INDEX simulated_boleto_moved ON simulated_boleto (world, moved_at, number) WHERE moved_at IS NOT NULL;
CREATE INDEX simulated_boleto_registered ON simulated_boleto (world, registered_at, number);

CREATE TABLE simulated_boleto_payment (
    world           text NOT NULL CHECK (world IN ('sandbox', 'production')),
    payment_id      bigint GENERATED ALWAYS AS IDENTITY,
    number          text NOT NULL,
    rail            text NOT NULL CHECK (rail IN ('boleto', 'pix')),
    amount_cents    bigint NOT NULL CHECK (amount_cents > 0),
    -- Parts of the amount by the boleto's terms on that day.
    interest_cents  bigint NOT NULL DEFAULT 0 CHECK (interest_cents >= 0),
    fine_cents      bigint NOT NULL DEFAULT 0 CHECK (fine_cents >= 0),
    discount_cents  bigint NOT NULL DEFAULT 0 CHECK (discount_cents >= 0),
    paid_at         timestamptz NOT NULL,
    -- Before this the payment is only announced, and can be called off.
    settles_at      timestamptz NOT NULL,
    called_off      boolean NOT NULL DEFAULT false,
    end_to_end_id   text,
    payer_name      text NOT NULL,
    payer_document  text NOT NULL,
    -- When to call the receiver's webhook next; NULL if it was called or none is registered.
    tell_at         timestamptz,
    tell_attempts   integer NOT NULL DEFAULT 0,
    PRIMARY KEY (world, payment_id),
    FOREIGN KEY (world, number) REFERENCES simulated_boleto (world, number)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
CREATE INDEX simulated_boleto_payment_number ON simulated_boleto_payment (world, number);
-- For devolucoes of PIX that paid a boleto.
CREATE INDEX simulated_boleto_payment_pix ON simulated_boleto_payment (world, end_to_end_id) WHERE end_to_end_id IS NOT NULL;
CREATE INDEX simulated_boleto_payment_untold ON simulated_boleto_payment (tell_at) WHERE tell_at IS NOT NULL;

-- Where payments of boletos are reported: at the real bank, an address entered by hand in its portal.
CREATE TABLE simulated_boleto_webhook (
    world          text PRIMARY KEY CHECK (world IN ('sandbox', 'production')),
    url            text NOT NULL,
    registered_at  timestamptz NOT NULL
);

-- Rules of the real bank that would hinder local work: off by default.
CREATE TABLE simulated_boleto_rules (
    world             text PRIMARY KEY CHECK (world IN ('sandbox', 'production')),
    -- Changes and write-offs only 30 minutes after registration.
    apply_30_minutes  boolean NOT NULL,
    -- For how long the same detail of a boleto is repeated (30 s at the real bank).
    detail_cache_s    double precision NOT NULL CHECK (detail_cache_s >= 0),
    -- The time from the announcement of a payment to its settlement.
    settle_after_s    double precision NOT NULL CHECK (settle_after_s >= 0)
);
INSERT INTO simulated_boleto_rules VALUES ('sandbox', false, 0, 0), ('production', false, 0, 0.2);

CREATE TABLE simulated_devolucao (
    world          text NOT NULL CHECK (world IN ('sandbox', 'production')),
    end_to_end_id  text NOT NULL,
    id             text NOT NULL CHECK (id ~ '^[a-zA-Z0-9]{1,35}$'),
    -- MED_*: devolucoes that the bank begins itself.
    natureza       text NOT NULL DEFAULT 'ORIGINAL' CHECK (natureza IN ('ORIGINAL', 'MED_FRAUDE', 'MED_OPERACIONAL')),
    amount_cents   bigint NOT NULL CHECK (amount_cents > 0),
    description    text,
    return_id      text NOT NULL,
    asked_at       timestamptz NOT NULL,
    -- EM_PROCESSAMENTO before this instant, DEVOLVIDO or NAO_REALIZADO from then on.
    settles_at     timestamptz NOT NULL,
    fails          boolean NOT NULL,
    PRIMARY KEY (world, end_to_end_id, id)
) WITH (
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);

-- PIX sent to a key: not part of API Pix, which only receives.
CREATE TABLE simulated_transfer (
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
) WITH (
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);

CREATE TABLE simulated_refund_rules (
    world           text PRIMARY KEY CHECK (world IN ('sandbox', 'production')),
    -- The time from the request to the settlement.
    settle_after_s  double precision NOT NULL CHECK (settle_after_s >= 0),
    -- Whether it then fails.
    fails           boolean NOT NULL
);
INSERT INTO simulated_refund_rules VALUES ('sandbox', 0, false), ('production', 0, false);
