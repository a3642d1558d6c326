-- The write side of charges: rows that commands lock and change.
--
-- A charge's id alone is its key: it is time-ordered, so new rows meet at the right edge of the index, and a bank, which
-- knows a charge only by its txid (the id in hex), finds it by the same key.

-- Here and in other tables that grow for ever, a number of changed rows calls for a vacuum: a fifth of a billion rows is
-- reached years too late.
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
    -- Vacuumed by the row: by a share of its rows, the larger a table is the later. Analyzed soon: connections keep plans that were
    -- made while their table was empty, which may walk an account's rows for one of them, until statistics are new.
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);

CREATE TABLE charge (
    account_id      uuid NOT NULL,
    charge_id       uuid NOT NULL,
    test            boolean NOT NULL,
    -- The bank that carries it (COMPE code); of a test charge, the one that it would be carried by.
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
    -- The payer's document under a keyed fingerprint, to find the charge by. What tells of a payer is here, in rows that can
    -- be changed, and never in the journal: it is erased here.
    payer_document_hash  text,
    -- When its payer was erased: who pays it after that is not kept either.
    payer_erased_at timestamptz,
    PRIMARY KEY (charge_id)
) WITH (
    -- A charge that is paid stays on its page. Were pages full, its row would move to the last one and leave a gap, and the
    -- next charges would each go into a gap of another old page, which after a checkpoint goes to the log whole.
    fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
-- For every read of an account, and for the sweeper over all accounts: pending and past its time.
CREATE INDEX charge_overdue ON charge (account_id, test, expires_at) WHERE status = 'pending';
CREATE INDEX charge_expiring ON charge (expires_at) WHERE status = 'pending';
-- Cancel and re-date by reference look at pending charges only.
CREATE INDEX charge_reference ON charge (account_id, test, external_id, charge_id)
    WHERE status = 'pending' AND external_id IS NOT NULL;

-- How far the walks along the charges have come that erase payers after some time, one for each mode
-- (commands/payers/retention.py); and the charges they passed while their payer was still needed.
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

-- Numbers of boletos, handed out in blocks and used once; those that a process did not use when it ended are lost.
CREATE SEQUENCE boleto_control AS bigint INCREMENT BY 50 MINVALUE 1 MAXVALUE 9999999949;

-- The boleto of a charge that has one.
CREATE TABLE boleto (
    account_id     uuid NOT NULL,
    charge_id      uuid NOT NULL,
    bank           text NOT NULL,
    -- The nosso numero in the form in which that bank's API takes it.
    number         text NOT NULL CHECK (length(number) BETWEEN 1 AND 25),
    due_on         date NOT NULL,
    -- Fine, interest and discounts it is registered with (domain/boleto/terms.py), by which its payments are judged.
    terms          jsonb,
    -- The bank accepts changes only some time after this.
    registered_at  timestamptz NOT NULL,
    -- All that was booked for it. The bank reports a total, which grows when a boleto is paid again.
    booked_cents   bigint NOT NULL DEFAULT 0 CHECK (booked_cents >= 0),
    PRIMARY KEY (charge_id, account_id)
) WITH (
    fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
-- A bank knows a boleto by its number alone.
CREATE UNIQUE INDEX boleto_number ON boleto (number, bank);

-- A payer asked for a second copy (segunda via) of a boleto that can no longer be paid, on its public page. Nothing of whoever asked
-- is kept: who has the link may ask, and the payer is the charge's.
CREATE TABLE second_copy_request (
    account_id   uuid NOT NULL,
    charge_id    uuid PRIMARY KEY,
    test         boolean NOT NULL,
    -- The latest time, and its day in São Paulo: once a day.
    asked_at     timestamptz NOT NULL,
    asked_on     date NOT NULL,
    times        integer NOT NULL DEFAULT 1 CHECK (times > 0),
    -- The merchant answered with another charge, to which the page then leads, or put the request away.
    closed_at    timestamptz,
    answered_by  uuid,
    CHECK (answered_by IS NULL OR closed_at IS NOT NULL)
) WITH (
    fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
CREATE INDEX second_copy_request_open ON second_copy_request (account_id, test, asked_at, charge_id) WHERE closed_at IS NULL;
