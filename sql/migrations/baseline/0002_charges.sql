-- The write side of charges: rows that commands lock and change.
--
-- The primary key is the charge's id alone. Ids are ordered by time, so new rows go to the right edge of the index. A
-- bank names a charge by its txid (the id in hex), so its callbacks use the same key.

-- In this and other tables that grow without bound, autovacuum starts after a fixed number of changed rows. By the
-- default, a fifth of the rows, a table of a billion rows would be vacuumed years too late.
CREATE TABLE idempotency (
    first_used_at  timestamptz NOT NULL,
    replay_count   integer NOT NULL DEFAULT 0,
    account_id     uuid NOT NULL,
    test           boolean NOT NULL,
    key            text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    fingerprint    bytea NOT NULL CHECK (length(fingerprint) = 32),
    resource_type  text NOT NULL,
    resource_id    uuid NOT NULL,
    -- Never purged: a forgotten key would let a money operation run again.
    PRIMARY KEY (account_id, test, key)
) WITH (
    -- Vacuum after a fixed number of rows, as above. Analyze early: until there are new statistics, connections keep
    -- plans made while the table was empty, which may walk all of an account's rows to find one.
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);

CREATE TABLE charge (
    account_id      uuid NOT NULL,
    charge_id       uuid NOT NULL,
    test            boolean NOT NULL,
    -- The bank of the charge (COMPE code); for a test charge, the bank it would have in production.
    bank            text NOT NULL CHECK (length(bank) = 3),
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
    -- A keyed hash of the payer's document, for finding the charge. Payers' data is stored here, in rows that can be
    -- changed, and never in the journal, so that it can be erased.
    payer_document_hash  text,
    -- When the payer was erased. The payer of a later payment is not stored either.
    payer_erased_at timestamptz,
    PRIMARY KEY (charge_id)
) WITH (
    -- Leaves room so that the new row version of a paid charge stays on its page. In full pages it would go to the last
    -- page and leave a gap; new charges would then fill gaps in many old pages, each written to the WAL whole after a
    -- checkpoint.
    fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
-- Pending charges by expiry: for every read of an account, and for the sweeper over all accounts.
CREATE INDEX charge_overdue ON charge (account_id, test, expires_at) WHERE status = 'pending';
CREATE INDEX charge_expiring ON charge (expires_at) WHERE status = 'pending';
-- Cancel and re-date by reference look at pending charges only.
CREATE INDEX charge_reference ON charge (account_id, test, external_id, charge_id)
    WHERE status = 'pending' AND external_id IS NOT NULL;

-- The positions of the walks that erase payers after their retention period, one for each mode
-- (commands/payers/retention.py), and the charges they passed whose payer was still needed.
CREATE TABLE payer_retention (
    test       boolean PRIMARY KEY,
    charge_id  uuid NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE payer_kept (
    account_id  uuid NOT NULL,
    charge_id   uuid PRIMARY KEY,
    test        boolean NOT NULL,
    look_at     timestamptz NOT NULL
);
CREATE INDEX payer_kept_due ON payer_kept (test, look_at);

-- Control numbers of boletos, handed out in blocks and used once; a process that ends loses the unused rest of its
-- block.
CREATE SEQUENCE boleto_control AS bigint INCREMENT BY 50 MINVALUE 1 MAXVALUE 9999999949;

-- The boleto of a charge that has one.
CREATE TABLE boleto (
    account_id     uuid NOT NULL,
    charge_id      uuid NOT NULL,
    bank           text NOT NULL,
    -- The nosso numero in the form in which that bank's API takes it.
    number         text NOT NULL CHECK (length(number) BETWEEN 1 AND 25),
    due_on         date NOT NULL,
    -- The fine, interest and discounts of its registration (domain/boleto/terms.py), which decide the amount due on a
    -- day.
    terms          jsonb,
    -- The bank accepts changes only some time after this.
    registered_at  timestamptz NOT NULL,
    -- The sum booked for it. The bank reports a total, which grows if the boleto is paid again.
    booked_cents   bigint NOT NULL DEFAULT 0 CHECK (booked_cents >= 0),
    PRIMARY KEY (charge_id, account_id)
) WITH (
    fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
-- A bank knows a boleto by its number alone.
CREATE UNIQUE INDEX boleto_number ON boleto (number, bank);

-- Requests for a second copy (segunda via) of a boleto that can no longer be paid, made on its public page. Nothing
-- about the person who asked is stored: anyone with the link may ask, and the payer is known from the charge.
CREATE TABLE second_copy_request (
    account_id   uuid NOT NULL,
    charge_id    uuid PRIMARY KEY,
    test         boolean NOT NULL,
    -- The latest time, and its day in São Paulo: once a day.
    asked_at     timestamptz NOT NULL,
    asked_on     date NOT NULL,
    times        integer NOT NULL DEFAULT 1 CHECK (times > 0),
    -- When the merchant answered with another charge, to which the page then links, or dismissed the request.
    closed_at    timestamptz,
    answered_by  uuid,
    CHECK (answered_by IS NULL OR closed_at IS NOT NULL)
) WITH (
    fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
CREATE INDEX second_copy_request_open ON second_copy_request (account_id, test, asked_at, charge_id) WHERE closed_at IS NULL;
