-- The dashboard: who is signed in, who may try a password, what people did; and what a credential's owner looks at.

CREATE TABLE dashboard_session (
    -- Of the random 256 bits in the cookie: who reads this table cannot sign in with it.
    session_hash  bytea PRIMARY KEY CHECK (length(session_hash) = 32),
    email         text NOT NULL REFERENCES dashboard_user ON DELETE CASCADE,
    created_at    timestamptz NOT NULL,
    -- Carried on once a minute at most: a page costs a read.
    seen_at       timestamptz NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX dashboard_session_of ON dashboard_session (email, created_at);
CREATE INDEX dashboard_session_created ON dashboard_session (created_at);

-- Passwords tried for one e-mail, and from one address. Keyed fingerprints: whom somebody looked for is nobody's business.
CREATE TABLE sign_in_attempt (
    subject   text PRIMARY KEY,
    attempts  integer NOT NULL,
    until     timestamptz NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX sign_in_attempt_until ON sign_in_attempt (until);

-- What people did in the dashboard, written in the transaction that does it.
CREATE TABLE audit (
    -- Chosen when the form is shown: a form that is sent twice does its thing once.
    audit_id      uuid PRIMARY KEY,
    account_id    uuid NOT NULL,
    email         text NOT NULL,
    at            timestamptz NOT NULL,
    action        text NOT NULL,
    subject       text,
    -- No secret, no document, no payload.
    facts         jsonb NOT NULL,
    address_hash  text NOT NULL,
    request_id    text NOT NULL
);
CREATE INDEX audit_of_account ON audit (account_id, at, audit_id);
CREATE FUNCTION refuse_change_of_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append only';
END $$;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE ON audit
    FOR EACH ROW EXECUTE FUNCTION refuse_change_of_audit();
CREATE TRIGGER audit_is_kept BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();

ALTER TABLE credential
    -- What its owner calls it; NULL for those that came with the account.
    ADD COLUMN name           text CHECK (length(name) BETWEEN 1 AND 60),
    ADD COLUMN rotated_at     timestamptz,
    -- When it last got a token, to the minute.
    ADD COLUMN last_token_at  timestamptz;
-- A rotation without overlap ends the tokens that the old secret got.
CREATE INDEX access_token_client ON access_token (client_id);

-- The life of one charge. Its first row is left out: creating charges is what must cost least, and what that row
-- says stands in the charge's own document.
CREATE INDEX journal_of_charge ON journal (charge_id, journal_id) WHERE kind <> 'charge.created';
