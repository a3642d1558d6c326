-- Boletos (boletos): their numbers, what of them is ours to know, and the orders about them.

-- Handed out in blocks, used once for ever: what a process did not use when it ended is left out.
CREATE SEQUENCE boleto_control AS bigint INCREMENT BY 50 MINVALUE 1 MAXVALUE 9999999949;

-- Beside the charge: what a bank's news about a number needs, and no charge without a boleto has.
CREATE TABLE boleto (
    account_id     uuid NOT NULL,
    charge_id      uuid NOT NULL,
    number         text NOT NULL CHECK (number ~ '^000[1-9][0-9]{16}$'),
    due_on         date NOT NULL,
    -- The bank changes a boleto only some time after this.
    registered_at  timestamptz NOT NULL,
    -- All that was booked for it. The bank tells a total, which grows when a boleto is paid again.
    booked_cents   bigint NOT NULL DEFAULT 0 CHECK (booked_cents >= 0),
    PRIMARY KEY (charge_id, account_id)
) WITH (fillfactor = 85);
-- A bank knows a boleto by its number alone.
CREATE UNIQUE INDEX boleto_number ON boleto (number);

-- Orders about boletos have lanes of their own: people wait for them, and a bank may answer in one and hang in the other.
DROP INDEX bank_order_due;
CREATE INDEX bank_order_due ON bank_order (test, due_at, order_id) WHERE state = 'waiting' AND left(kind, 7) <> 'boleto_';
CREATE INDEX bank_order_due_boleto ON bank_order (test, due_at, order_id) WHERE state = 'waiting' AND left(kind, 7) = 'boleto_';
-- Requests with one Idempotency-Key that run at once register one boleto, with or without Redis.
CREATE UNIQUE INDEX bank_order_boleto_key ON bank_order (account_id, test, (request ->> 'key'))
    WHERE kind = 'boleto_register' AND state IN ('waiting', 'working');
-- One change of a boleto at a time: cancelling, re-dating, paying and putting right never meet at the bank.
CREATE UNIQUE INDEX bank_order_boleto_alone ON bank_order (charge_id)
    WHERE kind IN ('boleto_write_off', 'boleto_redate', 'boleto_pay', 'boleto_align') AND state IN ('waiting', 'working');
