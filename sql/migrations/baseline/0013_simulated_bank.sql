-- The simulated bank's own tables: banks/simulated reads and writes them, and nothing here decides what a charge is. A creation writes
-- the cob of a test charge besides (sql/queries/charges/charge.sql).
-- Each row belongs to a world: the sandbox bank that runs inside workers, or the bank that production mode reaches over
-- HTTP in local work.
--
-- The state of a boleto, a return or a transfer follows from its rows and the clock; nothing runs in the background.
--
-- What the sandbox writes with each creation grows as charges do, and is looked after as they are (0002_charges).

CREATE TABLE simulated_location (
    world        text NOT NULL CHECK (world IN ('sandbox', 'production')),
    location_id  bigint GENERATED ALWAYS AS IDENTITY,
    -- The last part of its address: 22 URL-safe characters, ordered by time, or each would dirty a page of the index.
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
    -- Of a cobv, which has no expiracao: it ends with the last day of its terms (domain/boleto/terms.py).
    due_on        date,
    terms         jsonb,
    PRIMARY KEY (world, txid),
    CHECK ((due_on IS NULL) = (terms IS NULL))
) WITH (
    fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
-- Not unique: a statement that puts a hundred cobs refuses the one whose location is taken, instead of failing whole.
CREATE INDEX simulated_cob_location ON simulated_cob (world, location_id);

CREATE TABLE simulated_pix (
    world           text NOT NULL CHECK (world IN ('sandbox', 'production')),
    end_to_end_id   text NOT NULL,
    -- NULL: paid to the key by hand, for no cob.
    txid            text,
    amount_cents    bigint NOT NULL CHECK (amount_cents > 0),
    pix_key         text,
    paid_at         timestamptz NOT NULL,
    payer_name      text NOT NULL,
    payer_document  text NOT NULL,
    -- When the receiver's callback is to be called next; NULL when it was told, or none is registered.
    tell_at         timestamptz,
    tell_attempts   integer NOT NULL DEFAULT 0,
    -- Listed without what a list must have, for tests of those who read it.
    garbled         boolean NOT NULL DEFAULT false,
    -- Parts of the amount, of a cobv on that day.
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

-- The fault to play; no row: none. timeout_before hangs before doing anything, cut breaks off in the middle of an answer.
CREATE TABLE simulated_fault (
    world     text PRIMARY KEY CHECK (world IN ('sandbox', 'production')),
    fault     text NOT NULL
              CHECK (fault IN ('up', 'down', 'slow', 'lost_reply', 'refuse', 'timeout_before', 'cut', 'error500', 'html')),
    -- Of `slow`: how long each answer takes; NULL: as long as the bank has it.
    delay_ms  integer CHECK (delay_ms BETWEEN 1 AND 60000)
);

-- What locations are signed with. The kid names the SECRET_KEY that opens the private part.
CREATE TABLE simulated_signing_key (
    kid             text PRIMARY KEY,
    private_sealed  bytea NOT NULL,
    certificate     bytea NOT NULL,
    created_at      timestamptz NOT NULL
);

CREATE TABLE simulated_boleto (
    world            text NOT NULL CHECK (world IN ('sandbox', 'production')),
    -- 000, the agreement, ten digits of the client's: never used again, also after a write-off.
    number           text NOT NULL CHECK (number ~ '^000[1-9][0-9]{16}$'),
    seu_numero       text NOT NULL CHECK (length(seu_numero) BETWEEN 1 AND 15),
    amount_cents     bigint NOT NULL CHECK (amount_cents BETWEEN 1 AND 9999999999),
    issued_on        date NOT NULL,
    due_on           date NOT NULL,
    -- Fine, interest and discounts (domain/boleto/terms.py); the first day of the fine, and how many days after the due
    -- date it is still taken, which changes of their own move.
    terms            jsonb,
    fine_from        date,
    late_days        integer NOT NULL DEFAULT 0 CHECK (late_days >= 0),
    description      text,
    payer_sealed     bytea NOT NULL,
    registered_at    timestamptz NOT NULL,
    -- Of its PIX side, if any: the txid, and the last part of the address in the QR Code.
    txid             text CHECK (txid ~ '^BOLETO[0-9]{17}DATA[0-9]{8}$'),
    token            text CHECK (length(token) = 22),
    location         text CHECK (length(location) <= 77),
    -- How often it was paid, all rails together. Counted here too, so that a payment and a write-off at the same moment
    -- contend for this row and one sees what the other did.
    payments         integer NOT NULL DEFAULT 0,
    written_off_at   timestamptz,
    -- When it settles or was written off; it does not change after that.
    moved_at         timestamptz,
    -- Listed without what a list must have, for tests of those who read it.
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
    -- Parts of the amount, by the boleto's terms on that day.
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
    -- When the receiver is to be told next; NULL when it was told, or no webhook is registered.
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
-- To return what was paid to the PIX side of a boleto.
CREATE INDEX simulated_boleto_payment_pix ON simulated_boleto_payment (world, end_to_end_id) WHERE end_to_end_id IS NOT NULL;
CREATE INDEX simulated_boleto_payment_untold ON simulated_boleto_payment (tell_at) WHERE tell_at IS NOT NULL;

-- Where payments of boletos are reported: at the real bank, an address entered by hand in its portal.
CREATE TABLE simulated_boleto_webhook (
    world          text PRIMARY KEY CHECK (world IN ('sandbox', 'production')),
    url            text NOT NULL,
    registered_at  timestamptz NOT NULL
);

-- Rules of the real bank that hinder local work: off unless switched on.
CREATE TABLE simulated_boleto_rules (
    world             text PRIMARY KEY CHECK (world IN ('sandbox', 'production')),
    -- Changes and write-offs only 30 minutes after registration.
    apply_30_minutes  boolean NOT NULL,
    -- The detail of a boleto is shown again for this long (30 s at the real bank).
    detail_cache_s    double precision NOT NULL CHECK (detail_cache_s >= 0),
    -- From the announcement of a payment to its settlement.
    settle_after_s    double precision NOT NULL CHECK (settle_after_s >= 0)
);
INSERT INTO simulated_boleto_rules VALUES ('sandbox', false, 0, 0), ('production', false, 0, 0.2);

CREATE TABLE simulated_devolucao (
    world          text NOT NULL CHECK (world IN ('sandbox', 'production')),
    end_to_end_id  text NOT NULL,
    id             text NOT NULL CHECK (id ~ '^[a-zA-Z0-9]{1,35}$'),
    -- Of those that the bank begins itself: MED.
    natureza       text NOT NULL DEFAULT 'ORIGINAL' CHECK (natureza IN ('ORIGINAL', 'MED_FRAUDE', 'MED_OPERACIONAL')),
    amount_cents   bigint NOT NULL CHECK (amount_cents > 0),
    description    text,
    return_id      text NOT NULL,
    asked_at       timestamptz NOT NULL,
    -- EM_PROCESSAMENTO before, DEVOLVIDO or NAO_REALIZADO from then on.
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
    -- From the request to the settlement.
    settle_after_s  double precision NOT NULL CHECK (settle_after_s >= 0),
    -- Whether it fails then.
    fails           boolean NOT NULL
);
INSERT INTO simulated_refund_rules VALUES ('sandbox', 0, false), ('production', 0, false);
