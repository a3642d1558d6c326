-- Merchant accounts, partners, API credentials and their tokens, and the platform's own settings.

CREATE TABLE account (
    account_id  uuid PRIMARY KEY,
    name        text NOT NULL,
    document    text NOT NULL,
    city        text NOT NULL,
    -- NULL until the registration is complete; boletos need it (MERCHANT_ADDRESS_REQUIRED).
    address     jsonb,
    -- blocked: the account was approved, and may issue nothing until it is approved again.
    kyc         text NOT NULL CHECK (kyc IN ('pending', 'approved', 'rejected', 'blocked')),
    kyc_reason  text CHECK (length(kyc_reason) BETWEEN 1 AND 500),
    kyc_at      timestamptz,
    -- The payout key as registered; later changes are in payout_change.
    pix_key     text NOT NULL,
    -- The key under which its charges are received, if not the platform's (table receiving_key).
    receiving_key text,
    -- Staff's reason for allowing refunds by transfer to others than the payer; NULL: only to the payer.
    refunds_to_others text CHECK (length(refunds_to_others) BETWEEN 1 AND 500),
    -- NULL means the platform's default.
    rate_per_s  integer CHECK (rate_per_s > 0),
    rate_burst  integer CHECK (rate_burst > 0),
    -- The account's complete fee terms (domain/merchants/fees.py); NULL means the platform's default.
    fees        jsonb CHECK (fees ?& '{pix_bps,pix_cents,pix_cents_min,pix_cents_max,boleto_cents,withdrawal_cents}'),
    -- The contact shown to payers; the telephone number in E.164.
    contact_phone    text NOT NULL DEFAULT '',
    contact_whatsapp boolean NOT NULL DEFAULT false,
    contact_email    text NOT NULL DEFAULT '',
    created_at  timestamptz NOT NULL
);
-- For the platform's list of merchants, newest first: of all, and of one state.
CREATE INDEX account_created ON account (created_at, account_id);
CREATE INDEX account_kyc ON account (kyc, created_at, account_id);

-- The staff's checks of a registration. `seen` is the SHA-256 of the data checked: data corrected later counts as
-- unchecked (readmodels/dashboard/registration_review.py).
CREATE TABLE registration_check (
    account_id  uuid NOT NULL REFERENCES account,
    item        text NOT NULL CHECK (item IN ('company', 'address', 'people', 'payout_key', 'activity')),
    seen        bytea NOT NULL,
    checked_by  text NOT NULL,
    checked_at  timestamptz NOT NULL,
    PRIMARY KEY (account_id, item)
);

-- The staff's internal notes about an account; never changed.
CREATE TABLE account_note (
    note_id     uuid PRIMARY KEY,
    account_id  uuid NOT NULL REFERENCES account,
    written_at  timestamptz NOT NULL,
    written_by  text NOT NULL,
    text        text NOT NULL CHECK (length(text) BETWEEN 1 AND 2000)
);
CREATE INDEX account_note_account ON account_note (account_id, written_at, note_id);

-- A merchant's logo as opaque PNGs that we encode ourselves (commands/merchants/profile/logo.py): `image` for pages and
-- paper, `preview` for link previews in messengers. `digest` covers both and is part of their address.
CREATE TABLE merchant_logo (
    account_id  uuid PRIMARY KEY REFERENCES account,
    digest      bytea NOT NULL CHECK (length(digest) = 16),
    width       smallint NOT NULL CHECK (width BETWEEN 1 AND 400),
    height      smallint NOT NULL CHECK (height BETWEEN 1 AND 200),
    image       bytea NOT NULL CHECK (length(image) BETWEEN 1 AND 32768),
    preview     bytea NOT NULL CHECK (length(preview) BETWEEN 1 AND 32768),
    set_at      timestamptz NOT NULL
);
-- Not unique: two merchants may have one logo.
CREATE INDEX merchant_logo_digest ON merchant_logo (digest);

-- A name without capitals and accents, by which it is found however somebody types it.
CREATE FUNCTION folded(name text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT regexp_replace(normalize(lower(name), NFKD), '[\u0300-\u036f]', '', 'g')
$$;
CREATE INDEX account_name ON account (folded(name) text_pattern_ops, account_id);
CREATE INDEX account_document ON account (document, account_id);

-- Tells the planner how few distinct values the columns for account, mode, state and the like have in tables never
-- analyzed, for all tables of the schema or for one. Without it the planner assumes two hundred distinct values for any
-- column of such a table, so that a range of an account's rows looks as cheap as a look-up by key; and such a plan is
-- kept until the table is analyzed, by when it may have many rows. Left out are tables where such columns alone form a
-- key (account_clock), since each row then differs, and columns with statistics from ANALYZE. PostgreSQL before 18
-- offers no way to do this.
CREATE FUNCTION expect_few_values(only_of text DEFAULT NULL) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    few record;
    told integer := 0;
BEGIN
    IF current_setting('server_version_num')::integer < 180000 THEN
        RETURN 0;
    END IF;
    FOR few IN
        WITH expected (name, number) AS (
            VALUES ('account_id', 2), ('test', 2), ('world', 2), ('endpoint_id', 2), ('bank', 2), ('status', 5), ('state', 5),
                   ('kind', 5), ('lane', 5), ('type', 5), ('payment_method', 5), ('method', 5)
        )
        SELECT c.relname::text AS relation, a.attname::text AS name, c.relkind = 'p' AS parent, e.number
        FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid
        JOIN expected e ON e.name = a.attname
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT a.attisdropped
          AND (only_of IS NULL OR c.relname = only_of)
          AND NOT EXISTS (
              SELECT FROM pg_index i
              WHERE i.indrelid = c.oid AND i.indisunique AND i.indexprs IS NULL AND i.indpred IS NULL AND (
                  SELECT bool_and(k.attname IN (SELECT name FROM expected))
                  FROM pg_attribute k WHERE k.attrelid = c.oid AND k.attnum = ANY(i.indkey::smallint[])))
          AND NOT EXISTS (SELECT FROM pg_stats s
                          WHERE s.schemaname = current_schema() AND s.tablename = c.relname AND s.attname = a.attname)
    LOOP
        PERFORM pg_restore_attribute_stats(
            'schemaname', current_schema()::text, 'relname', few.relation, 'attname', few.name, 'inherited', few.parent,
            'null_frac', 0::real, 'avg_width', 16, 'n_distinct', few.number::real);
        told := told + 1;
    END LOOP;
    RETURN told;
END $$;

-- The cell in which an id of ours was made (runtime/cells/number.py).
CREATE FUNCTION cell_of(id uuid) RETURNS integer LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT (get_byte(uuid_send(id), 6) & 15) << 8 | get_byte(uuid_send(id), 7)
$$;

-- Partners are registered in the home cell; the other cells have a copy, which their workers update.
CREATE TABLE integrator (
    integrador_code text PRIMARY KEY CHECK (integrador_code ~ '^INTG-[A-Z0-9]{6}$'),
    name            text NOT NULL,
    -- May be in any cell.
    account_id      uuid,
    active          boolean NOT NULL,
    created_at      timestamptz NOT NULL,
    -- Grows with each change, in commit order.
    version         bigint GENERATED BY DEFAULT AS IDENTITY
);
CREATE INDEX integrator_version ON integrator (version);

-- The version up to which this cell has copied the partners.
CREATE TABLE partner_copy (
    single          boolean PRIMARY KEY DEFAULT true CHECK (single),
    version         bigint NOT NULL
);
INSERT INTO partner_copy (version) VALUES (0);

-- A partner's share of a payment in basis points (250 is 2.5 %), and since when: a charge keeps the share in force when
-- it was issued. No row before an instant means no share.
CREATE TABLE integrator_share (
    integrador_code  text NOT NULL REFERENCES integrator,
    since            timestamptz NOT NULL,
    share_bps        integer NOT NULL CHECK (share_bps BETWEEN 0 AND 10000),
    PRIMARY KEY (integrador_code, since)
);

-- Shares proposed by one member of staff, which another must confirm.
CREATE TABLE share_proposal (
    proposal_id      uuid PRIMARY KEY,
    integrador_code  text NOT NULL REFERENCES integrator,
    share_bps        integer NOT NULL CHECK (share_bps BETWEEN 0 AND 10000),
    proposed_by      text NOT NULL,
    proposed_at      timestamptz NOT NULL,
    state            text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'confirmed', 'withdrawn')),
    decided_by       text,
    decided_at       timestamptz,
    CHECK ((state = 'open') = (decided_by IS NULL)),
    CHECK (state <> 'confirmed' OR decided_by <> proposed_by)
);
CREATE INDEX share_proposal_open ON share_proposal (integrador_code) WHERE state = 'open';

-- The only source of a caller's mode.
CREATE TABLE credential (
    client_id             text PRIMARY KEY,
    account_id            uuid NOT NULL REFERENCES account,
    test                  boolean NOT NULL,
    secret_hash           bytea NOT NULL CHECK (length(secret_hash) = 32),
    -- Accepted besides the current secret until previous_until, when a rotation asked for an overlap.
    previous_secret_hash  bytea CHECK (length(previous_secret_hash) = 32),
    previous_until        timestamptz,
    scopes                text[] NOT NULL,
    -- Chosen by the owner; NULL for the credentials created with the account.
    name                  text CHECK (length(name) BETWEEN 1 AND 60),
    created_at            timestamptz NOT NULL,
    rotated_at            timestamptz,
    -- The e-mails of the people who made it and who last gave it a new secret.
    created_by            text,
    rotated_by            text,
    -- When it last got a token, to the minute.
    last_token_at         timestamptz,
    revoked_at            timestamptz
);
CREATE INDEX credential_account ON credential (account_id);

-- Opaque 256-bit tokens; only their hash is kept.
CREATE TABLE access_token (
    token_hash  bytea PRIMARY KEY CHECK (length(token_hash) = 32),
    client_id   text NOT NULL REFERENCES credential,
    scopes      text[] NOT NULL,
    issued_at   timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL
);
CREATE INDEX access_token_expired ON access_token (expires_at);
-- A rotation without overlap ends the tokens that the old secret got.
CREATE INDEX access_token_client ON access_token (client_id);

-- The platform's own PIX key, under which charges are received. No row: each account's id serves as its key, which the
-- simulated bank accepts.
CREATE TABLE receiving_key (
    single   boolean PRIMARY KEY DEFAULT true CHECK (single),
    pix_key  text NOT NULL,
    set_at   timestamptz NOT NULL
);

-- One row while standalone PIX issuing is suspended in production, none otherwise.
CREATE TABLE pix_suspension (
    single        boolean PRIMARY KEY DEFAULT true CHECK (single),
    suspended_at  timestamptz NOT NULL
);

-- How far each account's sandbox is ahead of real time (docs/decisions/0013). Production has no row here and reads none:
-- statements join this table for test rows only.
CREATE TABLE sandbox_clock (
    account_id  uuid PRIMARY KEY REFERENCES account,
    -- Seconds, not an interval: the length of an interval's days depends on the session's time zone.
    ahead_s     bigint NOT NULL CHECK (ahead_s >= 0),
    moved_at    timestamptz NOT NULL
);

-- The values sealed with another key than the current one (runtime/seal.py: the first byte names the key), in `pages`
-- pages of a table from page `first`: the row's position (ctid), the row key that the seal is bound to, and the sealed
-- bytes. `member` is the dotted path of a jsonb column's member that holds the bytes in base64.
CREATE FUNCTION sealed_otherwise(original text, sealed text, member text, bound text[], current integer, first bigint, pages bigint)
RETURNS TABLE (at text, row_key text, bytes bytea) LANGUAGE plpgsql STABLE AS $$
DECLARE
    path text[] := string_to_array(member, '.');
    held text := CASE WHEN member IS NULL THEN format('%I', sealed) ELSE format('decode(%I #>> %L::text[], ''base64'')', sealed, path) END;
BEGIN
    RETURN QUERY EXECUTE format(
        'SELECT ctid::text, concat_ws('' '', %1$s), %2$s FROM %3$I WHERE ctid >= $1 AND ctid < $2 AND num_nulls(%1$s) = 0'
        ' AND length(%2$s) > 0 AND substring(%2$s FROM 1 FOR 1) <> $3',
        (SELECT string_agg(format('%I', c), ', ') FROM unnest(bound) c), held, original)
    USING format('(%s,0)', first)::tid, format('(%s,0)', first + pages)::tid, set_byte('\x00', 0, current);
END $$;

-- Replaces sealed values by re-sealed ones, unless a value has changed meanwhile; returns how many rows.
CREATE FUNCTION reseal(original text, sealed text, member text, places text[], before bytea[], after bytea[]) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    path text[] := string_to_array(member, '.');
    held text := CASE WHEN member IS NULL THEN format('t.%I', sealed) ELSE format('decode(t.%I #>> %L::text[], ''base64'')', sealed, path) END;
    made text := CASE WHEN member IS NULL THEN 'g.after'
        ELSE format('jsonb_set(t.%I, %L::text[], to_jsonb(translate(encode(g.after, ''base64''), E''\n'', '''')))', sealed, path) END;
    rows bigint;
BEGIN
    EXECUTE format(
        'UPDATE %1$I t SET %2$I = %3$s FROM unnest($1, $2, $3) AS g (place, before, after)'
        ' WHERE t.ctid = ANY($1::tid[]) AND t.ctid = g.place::tid AND %4$s = g.before', original, sealed, made, held)
    USING places, before, after;
    GET DIAGNOSTICS rows = ROW_COUNT;
    RETURN rows;
END $$;

-- The fingerprints of the keys in SECRET_KEY, by key id: a process with another key under one of these ids does not
-- start (runtime/servers/sealing_keys.py).
CREATE TABLE sealing_key (
    key_id       smallint PRIMARY KEY CHECK (key_id BETWEEN 1 AND 255),
    fingerprint  text NOT NULL
);

-- The number of this schema's cell, and in the home cell (0) the addresses of the others. Every id made here contains
-- the number (runtime/cells/number.py); processes refuse a database whose number is not the expected one.
CREATE TABLE this_cell (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    number  integer NOT NULL CHECK (number BETWEEN 0 AND 4095)
);
INSERT INTO this_cell (number) VALUES (0);

CREATE TABLE cell (
    number            integer PRIMARY KEY CHECK (number BETWEEN 1 AND 4095),
    name              text NOT NULL UNIQUE CHECK (name ~ '^[a-z][a-z0-9_-]{0,39}$' AND name <> 'home'),
    -- The addresses of its database for the application and for reports, with their passwords.
    addresses_sealed  bytea NOT NULL,
    -- During a move: the new addresses, and since when requests to the cell wait for the move to end.
    next_sealed       bytea,
    held_since        timestamptz,
    added_at          timestamptz NOT NULL,
    moved_at          timestamptz
);

-- Blocks of boleto control numbers by cell, so that no two cells give out the same number. The home cell stores the
-- blocks of all other cells, another cell its own. Numbers in no block belong to the home cell.
CREATE TABLE number_block (
    first   bigint PRIMARY KEY CHECK (first > 0),
    last    bigint NOT NULL CHECK (last BETWEEN first AND 9999999999),
    number  integer NOT NULL CHECK (number BETWEEN 1 AND 4095)
);
