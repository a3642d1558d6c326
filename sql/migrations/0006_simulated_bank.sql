-- The simulated bank's own books. It is another company: nothing of ours is read or written here but by
-- banks/simulated, and nothing here decides what a charge is. Each row belongs to a world: the sandbox bank that
-- workers carry with them, or the bank that production mode talks to over HTTP in local work.

CREATE SCHEMA simulated_bank;

CREATE TABLE simulated_bank.location (
    world        text NOT NULL CHECK (world IN ('sandbox', 'production')),
    location_id  bigint GENERATED ALWAYS AS IDENTITY,
    -- The last part of its address: 32 URL-safe characters nobody can guess.
    token        text NOT NULL CHECK (length(token) = 32),
    location     text NOT NULL CHECK (length(location) <= 77),
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (world, location_id)
);
CREATE UNIQUE INDEX location_token ON simulated_bank.location (token);

CREATE TABLE simulated_bank.cob (
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
    PRIMARY KEY (world, txid)
) WITH (fillfactor = 85);
-- Not unique: a statement that puts a hundred cobs must refuse the one whose location is taken, not fall over it.
CREATE INDEX cob_location ON simulated_bank.cob (world, location_id);

CREATE TABLE simulated_bank.pix (
    world           text NOT NULL CHECK (world IN ('sandbox', 'production')),
    end_to_end_id   text NOT NULL,
    txid            text NOT NULL,
    amount_cents    bigint NOT NULL CHECK (amount_cents > 0),
    pix_key         text,
    paid_at         timestamptz NOT NULL,
    payer_name      text NOT NULL,
    payer_document  text NOT NULL,
    -- When the receiver's callback is to be called next; NULL when he knows or nobody is to be told.
    tell_at         timestamptz,
    tell_attempts   integer NOT NULL DEFAULT 0,
    PRIMARY KEY (world, end_to_end_id)
);
CREATE INDEX pix_of_cob ON simulated_bank.pix (world, txid);
CREATE INDEX pix_paid ON simulated_bank.pix (world, paid_at, end_to_end_id);
CREATE INDEX pix_untold ON simulated_bank.pix (tell_at) WHERE tell_at IS NOT NULL;

CREATE TABLE simulated_bank.callback (
    world       text NOT NULL CHECK (world IN ('sandbox', 'production')),
    pix_key     text NOT NULL,
    url         text NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (world, pix_key)
);

-- How the bank is to misbehave; no row: it does not.
CREATE TABLE simulated_bank.fault (
    world  text PRIMARY KEY CHECK (world IN ('sandbox', 'production')),
    fault  text NOT NULL CHECK (fault IN ('up', 'down', 'slow', 'lost_reply', 'refuse'))
);

-- What locations are signed with. The kid names the SECRET_KEY that opens the private part.
CREATE TABLE simulated_bank.signing_key (
    kid             text PRIMARY KEY,
    private_sealed  bytea NOT NULL,
    certificate     bytea NOT NULL,
    created_at      timestamptz NOT NULL
);

-- Ours, not the bank's: the keys for which the bank was told where to call us back.
CREATE TABLE bank_callback (
    pix_key        text PRIMARY KEY,
    url            text NOT NULL,
    registered_at  timestamptz NOT NULL
);
