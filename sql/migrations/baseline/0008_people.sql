-- People: their sign-in to the dashboard, and the audit log of what they did.

-- Staff are people of no account, with roles of their own. The table itself ensures that no change of role makes staff,
-- and that no staff gets into an account.
CREATE TABLE dashboard_user (
    email          text PRIMARY KEY,
    account_id     uuid REFERENCES account,
    role           text NOT NULL,
    -- What the person is called; NULL of those who were never asked.
    name           text CHECK (length(name) BETWEEN 1 AND 100),
    -- NULL until one was chosen by the link in a mail: nobody else ever sees it.
    password_hash  text,
    -- The secret of the second factor, sealed with the e-mail it belongs to; NULL without one.
    totp_sealed    bytea,
    totp_since     timestamptz,
    -- The 30-second step of the last code that was accepted: neither it nor an earlier one is accepted again.
    totp_step      bigint NOT NULL DEFAULT 0,
    created_at     timestamptz NOT NULL,
    -- Of staff, when a colleague gave the role: who has it for less than a day is none of two. NULL: the operator gave it.
    role_given_at  timestamptz,
    CONSTRAINT dashboard_user_role_check CHECK (CASE
        WHEN account_id IS NULL THEN role IN ('admin', 'operations', 'finance', 'support')
        ELSE role IN ('owner', 'finance', 'developer', 'support') AND role_given_at IS NULL END)
);
CREATE INDEX dashboard_user_of_account ON dashboard_user (account_id, email);

-- Instead of a code of the second factor. Keyed fingerprints; a row that was used is deleted.
CREATE TABLE recovery_code (
    email      text NOT NULL REFERENCES dashboard_user ON DELETE CASCADE,
    code_hash  text NOT NULL,
    PRIMARY KEY (email, code_hash)
);

-- People invited to an account. A person is made of it when its link is used: until then nothing tells whether the
-- e-mail signs in elsewhere, where it stays.
CREATE TABLE invitation (
    account_id  uuid NOT NULL REFERENCES account,
    email       text NOT NULL,
    name        text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    role        text NOT NULL CHECK (role IN ('owner', 'finance', 'developer', 'support')),
    invited_by  text NOT NULL,
    invited_at  timestamptz NOT NULL,
    PRIMARY KEY (account_id, email)
);
CREATE INDEX invitation_of_email ON invitation (email, invited_at);

-- One-time links to choose a password by. The text of a link is derived from its id under SECRET_KEY when its mail is
-- sent; here is the hash of it.
CREATE TABLE access_link (
    -- The id of the mail that carries it.
    link_id     uuid PRIMARY KEY,
    token_hash  bytea NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    email       text NOT NULL,
    -- Of an invitation, the account it is to; NULL when it is for somebody's own password.
    account_id  uuid REFERENCES account,
    expires_at  timestamptz NOT NULL,
    -- A row that was used stays until it is old: a mail that is sent again must not renew it.
    used_at     timestamptz
);
CREATE INDEX access_link_of ON access_link (email);
CREATE INDEX access_link_expired ON access_link (expires_at);

CREATE TABLE dashboard_session (
    -- Of the random 256 bits in the cookie: a reader of this table cannot sign in with it.
    session_hash  bytea PRIMARY KEY CHECK (length(session_hash) = 32),
    email         text NOT NULL REFERENCES dashboard_user ON DELETE CASCADE,
    created_at    timestamptz NOT NULL,
    -- Written once a minute at most: a page costs a read.
    seen_at       timestamptz NOT NULL,
    -- When the password, and the code of whoever has a second factor, was last given in it.
    proved_at     timestamptz NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX dashboard_session_of ON dashboard_session (email, created_at);
CREATE INDEX dashboard_session_created ON dashboard_session (created_at);

-- Networks that somebody has signed in from, as keyed fingerprints: another one is told by e-mail.
CREATE TABLE sign_in_place (
    email       text NOT NULL REFERENCES dashboard_user ON DELETE CASCADE,
    place_hash  text NOT NULL,
    seen_at     timestamptz NOT NULL,
    PRIMARY KEY (email, place_hash)
) WITH (fillfactor = 80);

-- Passwords tried for one e-mail, from one address, for one e-mail from one address or in one browser, and links asked
-- for: keyed fingerprints of these.
CREATE TABLE sign_in_attempt (
    subject   text PRIMARY KEY,
    attempts  integer NOT NULL,
    until     timestamptz NOT NULL,
    -- Of an e-mail at which many passwords were tried: when the next one is looked at.
    next_at   timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 80);
CREATE INDEX sign_in_attempt_until ON sign_in_attempt (until);

-- What people did in the dashboard, written in the transaction that does it.
CREATE TABLE audit (
    -- Chosen when the form is shown: a form that is sent twice acts once.
    audit_id      uuid PRIMARY KEY,
    -- In the order of writing, for the chain of hashes.
    number        bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    -- The nil UUID for what staff did.
    account_id    uuid NOT NULL,
    email         text NOT NULL,
    at            timestamptz NOT NULL,
    action        text NOT NULL,
    subject       text,
    -- No secret, no document, no payload.
    facts         jsonb NOT NULL,
    address_hash  text NOT NULL,
    request_id    text NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
CREATE INDEX audit_of_account ON audit (account_id, at, audit_id);
-- What staff did to one merchant or partner.
CREATE INDEX audit_of_subject ON audit (account_id, subject, at, audit_id) WHERE subject IS NOT NULL;

CREATE FUNCTION refuse_change_of_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append only';
END $$;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE ON audit
    FOR EACH ROW EXECUTE FUNCTION refuse_change_of_audit();
CREATE TRIGGER audit_is_kept BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();

-- As journal_digest.
CREATE FUNCTION audit_digest(a audit) RETURNS bytea LANGUAGE sql STABLE AS $$
    SELECT sha256(convert_to(jsonb_build_array(
        a.number, a.audit_id, a.account_id, a.email, (extract(epoch FROM a.at) * 1000000)::bigint, a.action, a.subject, a.facts,
        a.address_hash, a.request_id)::text, 'UTF8'))
$$;

-- What a chain goes along: rows from one number to another, at most so many (NULL: all), each with its digest.
CREATE FUNCTION chain_rows(of_chain text, first bigint, up_to bigint, rows_max bigint) RETURNS TABLE (id bigint, digest bytea)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF of_chain = 'journal' THEN
        RETURN QUERY SELECT j.journal_id, journal_digest(j) FROM journal j
                     WHERE j.journal_id >= first AND j.journal_id <= up_to ORDER BY j.journal_id LIMIT rows_max;
    ELSE
        RETURN QUERY SELECT a.number, audit_digest(a) FROM audit a
                     WHERE a.number >= first AND a.number <= up_to ORDER BY a.number LIMIT rows_max;
    END IF;
END $$;
