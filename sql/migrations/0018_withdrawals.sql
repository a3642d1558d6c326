-- Withdrawals: a merchant's balance sent to his own PIX key, asked for or once a day by itself. Production only.

-- What happens to a wallet need not concern a charge: withdrawals, and what a partner is given of others' payments.
ALTER TABLE journal ALTER COLUMN charge_id DROP NOT NULL;
COMMENT ON COLUMN journal.version IS 'Of the charge, or of the withdrawal when the row is about one.';
ALTER TABLE read_event ALTER COLUMN charge_id DROP NOT NULL;

CREATE TABLE withdrawal (
    account_id     uuid NOT NULL REFERENCES account,
    -- Its hex digits are what the bank knows it by: chosen and committed before the bank is asked.
    withdrawal_id  uuid NOT NULL,
    status         text NOT NULL CHECK (status IN ('pending', 'processing', 'succeeded', 'failed', 'cancelled')),
    version        integer NOT NULL,
    amount_cents   bigint NOT NULL CHECK (amount_cents > 0),
    -- The Sao Paulo day whose daily withdrawal this is; NULL when somebody asked for it.
    automatic_on   date,
    created_at     timestamptz NOT NULL,
    PRIMARY KEY (withdrawal_id, account_id)
) WITH (fillfactor = 85);
-- One for each account and day, whatever two workers and a restart do.
CREATE UNIQUE INDEX withdrawal_automatic ON withdrawal (account_id, automatic_on) WHERE automatic_on IS NOT NULL;

-- Who wants what lies above `keep_cents` sent once a day. No row: nobody asked for it.
CREATE TABLE auto_withdrawal (
    account_id  uuid PRIMARY KEY REFERENCES account,
    keep_cents  bigint NOT NULL CHECK (keep_cents >= 0),
    -- The last day on which the balance was looked at, whether or not there was something to send.
    looked_on   date NOT NULL DEFAULT '-infinity'
);
CREATE INDEX auto_withdrawal_due ON auto_withdrawal (looked_on, account_id);

CREATE TABLE read_withdrawal (
    account_id     uuid NOT NULL,
    withdrawal_id  uuid NOT NULL,
    created_at     timestamptz NOT NULL,
    status         text NOT NULL,
    external_id    text,
    doc            jsonb NOT NULL,
    PRIMARY KEY (withdrawal_id, account_id)
) WITH (fillfactor = 85);
CREATE INDEX read_withdrawal_page ON read_withdrawal (account_id, created_at, withdrawal_id);
CREATE INDEX read_withdrawal_status ON read_withdrawal (account_id, status, created_at, withdrawal_id);
CREATE INDEX read_withdrawal_reference ON read_withdrawal (account_id, external_id, created_at, withdrawal_id)
    WHERE external_id IS NOT NULL;

-- Orders about withdrawals have a lane of their own: they wait for their moment, and are asked about for days.
DROP INDEX bank_order_due;
CREATE INDEX bank_order_due ON bank_order (test, due_at, order_id)
    WHERE state = 'waiting' AND left(kind, 7) <> 'boleto_' AND left(kind, 7) <> 'refund_' AND left(kind, 11) <> 'withdrawal_';
CREATE INDEX bank_order_due_withdrawal ON bank_order (due_at, order_id)
    WHERE state = 'waiting' AND left(kind, 11) = 'withdrawal_';
