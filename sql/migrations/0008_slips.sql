-- Slips (boletos): their numbers, what of them is ours to know, and the orders about them.

-- Handed out in blocks, used once for ever: what a process did not use when it ended is left out.
CREATE SEQUENCE slip_control AS bigint INCREMENT BY 50 MINVALUE 1 MAXVALUE 9999999949;

-- Beside the charge: what a bank's news about a number needs, and no charge without a slip has.
CREATE TABLE slip (
    account_id     uuid NOT NULL,
    charge_id      uuid NOT NULL,
    number         text NOT NULL CHECK (number ~ '^000[1-9][0-9]{16}$'),
    due_on         date NOT NULL,
    -- The bank changes a slip only some time after this.
    registered_at  timestamptz NOT NULL,
    -- All that was booked for it. The bank tells a total, which grows when a slip is paid again.
    booked_cents   bigint NOT NULL DEFAULT 0 CHECK (booked_cents >= 0),
    PRIMARY KEY (charge_id, account_id)
) WITH (fillfactor = 85);
-- A bank knows a slip by its number alone.
CREATE UNIQUE INDEX slip_number ON slip (number);

-- Orders about slips have lanes of their own: people wait for them, and a bank may answer in one and hang in the other.
DROP INDEX bank_order_due;
CREATE INDEX bank_order_due ON bank_order (test, due_at, order_id) WHERE state = 'waiting' AND left(kind, 5) <> 'slip_';
CREATE INDEX bank_order_due_slip ON bank_order (test, due_at, order_id) WHERE state = 'waiting' AND left(kind, 5) = 'slip_';
-- Requests with one Idempotency-Key that run at once register one slip, with or without Redis.
CREATE UNIQUE INDEX bank_order_slip_key ON bank_order (account_id, test, (request ->> 'key'))
    WHERE kind = 'slip_register' AND state IN ('waiting', 'working');
-- One change of a slip at a time: cancelling, re-dating, paying and putting right never meet at the bank.
CREATE UNIQUE INDEX bank_order_slip_alone ON bank_order (charge_id)
    WHERE kind IN ('slip_write_off', 'slip_redate', 'slip_pay', 'slip_align') AND state IN ('waiting', 'working');
