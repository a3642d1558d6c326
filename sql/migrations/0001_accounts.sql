-- Who may ask: merchant accounts, their credentials and tokens, the people and partners behind them.

CREATE TABLE account (
    account_id  uuid PRIMARY KEY,
    name        text NOT NULL,
    document    text NOT NULL,
    city        text NOT NULL,
    -- NULL until the registration is complete; boletos need it (MERCHANT_ADDRESS_REQUIRED).
    address     jsonb,
    kyc         text NOT NULL CHECK (kyc IN ('pending', 'approved', 'rejected')),
    pix_key     text NOT NULL,
    -- NULL means the platform's default.
    rate_per_s  integer CHECK (rate_per_s > 0),
    rate_burst  integer CHECK (rate_burst > 0),
    created_at  timestamptz NOT NULL
);

CREATE TABLE integrator (
    integrador_code text PRIMARY KEY CHECK (integrador_code ~ '^INTG-[A-Z0-9]{6}$'),
    name            text NOT NULL,
    account_id      uuid REFERENCES account,
    active          boolean NOT NULL,
    created_at      timestamptz NOT NULL
);

CREATE TABLE dashboard_user (
    email          text PRIMARY KEY,
    account_id     uuid NOT NULL REFERENCES account,
    role           text NOT NULL CHECK (role IN ('owner', 'finance', 'developer', 'support')),
    password_hash  text NOT NULL,
    created_at     timestamptz NOT NULL
);

-- The mode of everything a caller does comes from here and from nowhere else.
CREATE TABLE credential (
    client_id             text PRIMARY KEY,
    account_id            uuid NOT NULL REFERENCES account,
    test                  boolean NOT NULL,
    secret_hash           bytea NOT NULL CHECK (length(secret_hash) = 32),
    -- While a rotation overlaps, the secret that was current before it still opens the door.
    previous_secret_hash  bytea CHECK (length(previous_secret_hash) = 32),
    previous_until        timestamptz,
    scopes                text[] NOT NULL,
    created_at            timestamptz NOT NULL,
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

-- One row while standalone PIX issuing is suspended in production, none otherwise.
CREATE TABLE pix_suspension (
    single        boolean PRIMARY KEY DEFAULT true CHECK (single),
    suspended_at  timestamptz NOT NULL
);
