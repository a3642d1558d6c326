-- People: their sign-in to the dashboard, and the audit log of what they did.

-- Staff are people without an account, with roles of their own. A constraint ensures that no change of role turns a
-- merchant's person into staff, and that staff have no account.
CREATE TABLE dashboard_user (
    email          text PRIMARY KEY,
    account_id     uuid REFERENCES account,
    role           text NOT NULL,
    -- The person's name; NULL if they were never asked.
    name           text CHECK (length(name) BETWEEN 1 AND 100),
    -- NULL until the person chooses a password through a mailed link, so nobody else ever sees it.
    password_hash  text,
    -- The secret of the second factor, sealed with the e-mail it belongs to; NULL without one.
    totp_sealed    bytea,
    totp_since     timestamptz,
    -- The 30-second step of the last accepted code: neither this code nor an earlier one is accepted again.
    totp_step      bigint NOT NULL DEFAULT 0,
    created_at     timestamptz NOT NULL,
    -- For staff: when a colleague gave them the role. With less than a day in the role, a person may be neither the
    -- first nor the second in a decision that needs two members of staff. NULL: the operator gave the role.
    role_given_at  timestamptz,
    CONSTRAINT dashboard_user_role_check CHECK (CASE
        WHEN account_id IS NULL THEN role IN ('admin', 'operations', 'finance', 'support')
        ELSE role IN ('owner', 'finance', 'developer', 'support') AND role_given_at IS NULL END)
);
CREATE INDEX dashboard_user_of_account ON dashboard_user (account_id, email);

-- Codes that replace a code of the second factor, as keyed fingerprints; a used code is deleted.
CREATE TABLE recovery_code (
    email      text NOT NULL REFERENCES dashboard_user ON DELETE CASCADE,
    code_hash  text NOT NULL,
    PRIMARY KEY (email, code_hash)
);

-- People invited to an account. The person is created when the link is used; until then nothing reveals whether the
-- e-mail belongs to a person of another account, who stays there.
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

-- One-time links for choosing a password. A link's token is derived from its id under SECRET_KEY when the mail is sent;
-- this table has its hash.
CREATE TABLE access_link (
    -- The id of the mail that carries it.
    link_id     uuid PRIMARY KEY,
    token_hash  bytea NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    email       text NOT NULL,
    -- For an invitation, the inviting account; NULL for a link to one's own password.
    account_id  uuid REFERENCES account,
    expires_at  timestamptz NOT NULL,
    -- A used link stays until it is old, so that sending its mail again does not renew it.
    used_at     timestamptz
);
CREATE INDEX access_link_of ON access_link (email);
CREATE INDEX access_link_expired ON access_link (expires_at);

CREATE TABLE dashboard_session (
    -- The hash of the random 256 bits in the cookie: a reader of this table cannot sign in with it.
    session_hash  bytea PRIMARY KEY CHECK (length(session_hash) = 32),
    email         text NOT NULL REFERENCES dashboard_user ON DELETE CASCADE,
    created_at    timestamptz NOT NULL,
    -- Written at most once a minute, so most pages cost only a read.
    seen_at       timestamptz NOT NULL,
    -- When the password (and the code, if there is a second factor) was last given in this session.
    proved_at     timestamptz NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX dashboard_session_of ON dashboard_session (email, created_at);
CREATE INDEX dashboard_session_created ON dashboard_session (created_at);

-- Networks from which a person has signed in, as keyed fingerprints: a new one is reported by e-mail.
CREATE TABLE sign_in_place (
    email       text NOT NULL REFERENCES dashboard_user ON DELETE CASCADE,
    place_hash  text NOT NULL,
    seen_at     timestamptz NOT NULL,
    PRIMARY KEY (email, place_hash)
) WITH (fillfactor = 80);

-- Counts of passwords tried for one e-mail, from one address, and for one e-mail from one address or in one browser,
-- and of links requested. `subject` is a keyed fingerprint.
CREATE TABLE sign_in_attempt (
    subject   text PRIMARY KEY,
    attempts  integer NOT NULL,
    until     timestamptz NOT NULL,
    -- For an e-mail with many tried passwords: when the next one is accepted for checking.
    next_at   timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 80);
CREATE INDEX sign_in_attempt_until ON sign_in_attempt (until);

-- What people did in the dashboard, written in the transaction of the action.
CREATE TABLE audit (
    -- Chosen when the form is shown, so that a form submitted twice acts once.
    audit_id      uuid PRIMARY KEY,
    -- In the order of writing, for the hash chain.
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

-- The rows of a chain from one number to another, at most rows_max (NULL: all), each with its digest.
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
