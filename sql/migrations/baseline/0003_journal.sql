-- The journal of what happened (append only), the numbers handed out with it, and read_charge, a pure function of the
-- journal.

CREATE TABLE journal (
    -- Identifies the row. Within a charge rows are ordered by (version, journal_id).
    journal_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id      uuid NOT NULL,
    test            boolean NOT NULL,
    -- NULL when the row is about no charge: a withdrawal, or a partner's share of another account's payment.
    charge_id       uuid,
    -- The version of the charge, or of the withdrawal if the row is about one.
    version         integer NOT NULL,
    kind            text NOT NULL,
    recorded_at     timestamptz NOT NULL,
    -- The origin: a client_id, the id of an audit entry, or the part of this service that acted by itself.
    actor           text NOT NULL,
    request_id      text,
    -- {"charge": fields that changed, "payment": {...}, "entry": {...}}; money in cents. No data of a payer: no name,
    -- document or address, sealed or not, and no fingerprint of one.
    payload         jsonb NOT NULL,
    -- Set when the row is also an event of the feed. The body is frozen: webhook attempts and feed send these bytes.
    event_id        uuid,
    event_sequence  bigint,
    event_body      bytea,
    CHECK ((event_id IS NULL) = (event_sequence IS NULL) AND (event_id IS NULL) = (event_body IS NULL))
) WITH (
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
-- The history of one charge. Its first row is left out to keep creations cheap: the charge's document has the same
-- content.
CREATE INDEX journal_of_charge ON journal (charge_id, version, journal_id) WHERE kind <> 'charge.created';
-- The first rows of a range of charges, and the rows of a day, for verifications and rebuilds. Both columns grow along
-- with the table, so BRIN, with a few bytes for each megabyte, is enough.
CREATE INDEX journal_created ON journal USING brin (charge_id) WHERE kind = 'charge.created';
CREATE INDEX journal_recorded ON journal USING brin (recorded_at) WHERE NOT test;
-- The subject of a row without a charge: a withdrawal, a partner share (identified by its refund or payment), or a
-- ledger entry of its own.
CREATE FUNCTION journal_subject(payload jsonb) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(payload #>> '{withdrawal,withdrawal_id}', payload #>> '{entry,withdrawal_id}', payload #>> '{entry,refund_id}',
                    payload #>> '{entry,payment_id}', payload #>> '{entry,entry_id}', '00000000-0000-0000-0000-000000000000')::uuid
$$;
CREATE INDEX journal_of_other ON journal (journal_subject(payload), version, journal_id) WHERE charge_id IS NULL;

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the journal is append only';
END $$;
CREATE TRIGGER journal_is_append_only BEFORE UPDATE OR DELETE ON journal FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER journal_is_kept BEFORE TRUNCATE ON journal FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Hash chains, block by block, over the journal and the audit log (chain_rows in 0008_people;
-- sql/queries/journal/seal.sql). A verification finds a row that was changed, inserted or deleted later; a digest kept
-- elsewhere proves that the chain itself was not recomputed.
CREATE TABLE seal (
    chain      text NOT NULL CHECK (chain IN ('journal', 'audit')),
    -- The last row of the block; the block begins after the last row of the previous one.
    last_id    bigint NOT NULL,
    rows       bigint NOT NULL,
    -- SHA-256 of the previous block's digest (none for the first), followed by the digests of the block's rows, in
    -- order.
    digest     bytea NOT NULL,
    sealed_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (chain, last_id)
) WITH (
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
CREATE TRIGGER seal_is_append_only BEFORE UPDATE OR DELETE ON seal FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER seal_is_kept BEFORE TRUNCATE ON seal FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- SHA-256 of a row as a JSON array, whose text does not depend on session settings. Instants in microseconds.
CREATE FUNCTION journal_digest(j journal) RETURNS bytea LANGUAGE sql STABLE AS $$
    SELECT sha256(convert_to(jsonb_build_array(
        j.journal_id, j.account_id, j.test, j.charge_id, j.version, j.kind,
        (extract(epoch FROM j.recorded_at) * 1000000)::bigint, j.actor, j.request_id, j.payload, j.event_id, j.event_sequence,
        encode(j.event_body, 'hex'))::text, 'UTF8'))
$$;

-- One row per account and mode hands out the dense sequences of feed and ledger and keeps the running balance. It is
-- locked after the charges, in key order, and its holder waits for nothing else.
CREATE TABLE account_clock (
    account_id      uuid NOT NULL,
    test            boolean NOT NULL,
    event_sequence  bigint NOT NULL DEFAULT 0,
    entry_sequence  bigint NOT NULL DEFAULT 0,
    balance_cents   bigint NOT NULL DEFAULT 0,
    -- The latest instant given to an event or entry: instants never decrease along the sequences.
    latest_at       timestamptz NOT NULL DEFAULT '-infinity',
    PRIMARY KEY (account_id, test)
) WITH (fillfactor = 50);

-- Merges the changes of one charge, in order of version, into one object; later fields win.
CREATE AGGREGATE jsonb_merge(jsonb) (SFUNC = jsonb_concat, STYPE = jsonb, INITCOND = '{}');

-- The columns by which charges are found, and pointers to the journal rows with their documents, which are not stored
-- twice (charge_view). Columns of eight bytes come first, so that none is padded.
CREATE TABLE read_charge (
    created_at           timestamptz NOT NULL,
    amount_cents         bigint NOT NULL,
    -- Its journal row charge.created, which has its first document.
    journal_id           bigint NOT NULL,
    -- The journal row of the payment that settled it, which has that payment's document.
    paid_journal_id      bigint,
    version              integer NOT NULL,
    due_date             date,
    account_id           uuid NOT NULL,
    charge_id            uuid NOT NULL,
    test                 boolean NOT NULL,
    status               text NOT NULL,
    payment_method       text NOT NULL,
    public_id            text NOT NULL,
    external_id          text,
    payer_document_hash  text,
    nosso_numero         text,
    txid                 text,
    integrador_code      text,
    -- Every field that changed, as it is now; NULL while none has.
    changes              jsonb,
    PRIMARY KEY (charge_id)
) WITH (
    -- As in charge: changed rows stay on their page, new rows go to the last page.
    fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
CREATE UNIQUE INDEX read_charge_public ON read_charge (public_id);
CREATE INDEX read_charge_page ON read_charge (account_id, test, created_at, charge_id);
-- Serves a filter by status, by method, or by both: each pair of the two is one range.
CREATE INDEX read_charge_status ON read_charge (account_id, test, status, payment_method, created_at, charge_id);
CREATE INDEX read_charge_reference ON read_charge (account_id, test, external_id, created_at, charge_id)
    WHERE external_id IS NOT NULL;
CREATE INDEX read_charge_payer ON read_charge (account_id, test, payer_document_hash, created_at, charge_id)
    WHERE payer_document_hash IS NOT NULL;
CREATE INDEX read_charge_nosso_numero ON read_charge (account_id, test, nosso_numero, created_at, charge_id)
    WHERE nosso_numero IS NOT NULL;
CREATE INDEX read_charge_txid ON read_charge (account_id, test, txid, created_at, charge_id) WHERE txid IS NOT NULL;
CREATE INDEX read_charge_integrador ON read_charge (account_id, test, integrador_code, created_at, charge_id)
    WHERE integrador_code IS NOT NULL;
CREATE INDEX read_charge_due ON read_charge (account_id, test, due_date, created_at, charge_id)
    WHERE due_date IS NOT NULL;
