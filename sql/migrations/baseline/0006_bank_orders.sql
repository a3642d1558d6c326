-- Orders to banks, hints and lists from banks, and the pool of PIX locations.

-- Open orders. The statement that ends an order moves it to bank_order_done, so the queue stays small, however many
-- orders there were. Pages are half empty, so that a claimed order stays on its page and the WAL holds only the change,
-- not the whole order again. Vacuumed every thousand orders.
CREATE TABLE bank_order (
    order_id     uuid PRIMARY KEY,
    account_id   uuid,
    charge_id    uuid,
    test         boolean NOT NULL,
    -- The bank that gets it (COMPE code): that of its charge, or of new charges if the order has no charge.
    bank         text NOT NULL,
    -- As in commands/bank_orders/kinds.py; a kind not listed here has no lane and is refused. Each lane is processed
    -- separately: requests wait for boletos, refunds and withdrawals are polled for days, and a bank may answer on one
    -- lane and be silent on another.
    kind         text NOT NULL,
    lane         text NOT NULL GENERATED ALWAYS AS (CASE
                     WHEN kind IN ('cob_register', 'pix_simulate') THEN 'pix'
                     WHEN kind IN ('cob_remove', 'cob_revise') THEN 'pix_change'
                     WHEN kind IN ('boleto_register') THEN 'boleto'
                     WHEN kind IN ('boleto_write_off', 'boleto_redate', 'boleto_pay') THEN 'boleto_change'
                     WHEN kind IN ('boleto_reconcile') THEN 'reconciliation'
                     WHEN kind IN ('refund_return') THEN 'refund'
                     WHEN kind IN ('refund_transfer') THEN 'transfer'
                     WHEN kind IN ('withdrawal_send') THEN 'withdrawal' END) STORED,
    request      jsonb NOT NULL,
    state        text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'working')),
    attempts     integer NOT NULL DEFAULT 0,
    due_at       timestamptz NOT NULL,
    lease_until  timestamptz,
    -- Set if a request waits for the outcome: after this instant no request reads it any more.
    deadline     timestamptz,
    reply_to     text,
    -- The state that the last attempt stored for the next one.
    outcome      jsonb,
    created_at   timestamptz NOT NULL
) WITH (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000
);
CREATE INDEX bank_order_due ON bank_order (lane, test, due_at, order_id) WHERE state = 'waiting';
-- The orders of accounts that order more than their share (runtime/coordination/due_times.py): they are due later, but
-- are claimed at once if nothing else is due. And withdrawals that may still be cancelled, which wait for their time.
CREATE INDEX bank_order_early ON bank_order (lane, test, due_at, order_id)
    WHERE state = 'waiting' AND attempts = 0 AND due_at > created_at;
CREATE INDEX bank_order_leased ON bank_order (lease_until) WHERE state = 'working';
CREATE INDEX bank_order_charge ON bank_order (charge_id);
-- Concurrent requests with the same Idempotency-Key register one boleto, with or without Redis.
CREATE UNIQUE INDEX bank_order_boleto_key ON bank_order (account_id, test, (request ->> 'key')) WHERE kind = 'boleto_register';
-- One change of a boleto at a time: write-off, new date, payment and reconciliation never meet at the bank.
CREATE UNIQUE INDEX bank_order_boleto_alone ON bank_order (charge_id)
    WHERE kind IN ('boleto_write_off', 'boleto_redate', 'boleto_pay', 'boleto_reconcile');

-- Ended orders, partitioned by the month of their ids (0014_months). The request to the bank is not kept: the journal
-- has the change that caused it.
CREATE TABLE bank_order_done (
    order_id     uuid PRIMARY KEY,
    account_id   uuid,
    charge_id    uuid,
    created_at   timestamptz NOT NULL,
    ended_at     timestamptz NOT NULL,
    attempts     integer NOT NULL,
    test         boolean NOT NULL,
    bank         text NOT NULL,
    kind         text NOT NULL,
    state        text NOT NULL CHECK (state IN ('done', 'refused', 'abandoned')),
    outcome      jsonb
) PARTITION BY RANGE (order_id);
CREATE TABLE bank_order_done_other PARTITION OF bank_order_done DEFAULT;
-- Few among all ended orders: staff see the newest of them (stuck.given_up).
CREATE INDEX bank_order_failed ON bank_order_done (order_id) WHERE state <> 'done' AND NOT test;

-- Callbacks to be checked. A hint moves no money: it makes a worker ask the bank, and is deleted when the bank has
-- confirmed it or knows nothing of it.
CREATE TABLE bank_hint (
    hint_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    bank         text NOT NULL,
    -- The subject: a PIX by its endToEndId or, without one, by txid:<txid>; of a boleto boleto:<number>:<digest of the
    -- item>. A hint received twice is stored once.
    about        text NOT NULL,
    txid         text NOT NULL,
    received_at  timestamptz NOT NULL,
    attempts     integer NOT NULL DEFAULT 0,
    due_at       timestamptz NOT NULL,
    -- The callback's request_id, by which log lines and journal rows of a resulting payment are found.
    request_id   text,
    -- Boletos have an API of their own, which may hang alone: their hints are claimed separately, so that they delay no
    -- PIX.
    of_boleto    boolean NOT NULL GENERATED ALWAYS AS (starts_with(about, 'boleto:')) STORED,
    UNIQUE (about, bank)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000
);
CREATE INDEX bank_hint_due ON bank_hint (of_boleto, due_at);
-- For counting the payments that callbacks report for one boleto, by its number.
CREATE INDEX bank_hint_txid ON bank_hint (txid);

-- Confirmed hints about boletos, partitioned by month (0014_months). The bank reports only a boleto's total, and the
-- callbacks tell of how many payments it consists, so a callback received again must not count again. A PIX is
-- identified by its endToEndId, so hints about PIX are not kept.
CREATE TABLE bank_hint_done (
    about         text NOT NULL,
    bank          text NOT NULL,
    confirmed_at  timestamptz NOT NULL
) PARTITION BY RANGE (confirmed_at);
CREATE INDEX bank_hint_done_about ON bank_hint_done (about, bank);
CREATE TABLE bank_hint_done_other PARTITION OF bank_hint_done DEFAULT;

-- The progress of each reconciler pass through a bank's lists of received or sent money
-- (workers/incoming/intervals.py).
CREATE TABLE bank_reconciled (
    bank          text NOT NULL,
    method        text NOT NULL CHECK (method IN ('pix', 'boleto', 'transfer')),
    pass          text NOT NULL,
    -- Everything the bank listed before `until` is booked; the current pass ends at `goal`.
    until         timestamptz NOT NULL,
    goal          timestamptz NOT NULL,
    -- The current interval goes from `until` to this, and continues with the bank's page `after`.
    window_until  timestamptz,
    after         text,
    -- Width of the next interval: halved when an interval is too full, and grown again afterwards.
    width_s       integer NOT NULL CHECK (width_s > 0),
    PRIMARY KEY (bank, method, pass)
);

-- A bank's answers per hour, counted by workers (workers/housekeeping/bank_calls.py) and kept for 31 days.
CREATE TABLE bank_call_hour (
    hour         timestamptz NOT NULL,
    bank         text NOT NULL,
    operation    text NOT NULL,
    calls        bigint NOT NULL,
    rejected     bigint NOT NULL,
    unanswered   bigint NOT NULL,
    duration_ms  bigint NOT NULL,
    slowest_ms   bigint NOT NULL,
    PRIMARY KEY (hour, bank, operation)
);

-- Items of a bank's list that cannot be parsed: set aside so that they do not stop the reconciler, deleted once they
-- can be read.
CREATE TABLE bank_unreadable (
    bank      text NOT NULL,
    method    text NOT NULL CHECK (method IN ('pix', 'boleto', 'transfer')),
    -- The item's identifier (endToEndId, boleto number), or a digest of the item if the identifier cannot be read
    -- either.
    about     text NOT NULL,
    -- The item as the bank listed it, sealed because it may name a person.
    item_sealed  bytea NOT NULL,
    found_at  timestamptz NOT NULL,
    PRIMARY KEY (bank, method, about)
);
CREATE INDEX bank_unreadable_found ON bank_unreadable (found_at, bank, method, about);

-- Money that fits no charge: staff assign it to a charge or confirm that it was returned.
CREATE TABLE suspense (
    suspense_id       uuid PRIMARY KEY,
    bank              text NOT NULL,
    kind              text NOT NULL CHECK (kind IN ('pix_unknown_txid', 'pix_without_txid', 'boleto_unknown')),
    -- Identifies the receipt: the endToEndId, or the boleto's number and the total that the bank reported. Once
    -- assigned, it is the payment's source.
    source            text NOT NULL,
    -- The txid or the boleto's number.
    reference         text,
    amount_cents      bigint NOT NULL CHECK (amount_cents > 0),
    received_at       timestamptz NOT NULL,
    found_at          timestamptz NOT NULL,
    -- Name and document of the sender, if the bank gives them.
    payer_sealed      bytea,
    state             text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'assigned', 'returned')),
    -- The member of staff, or the bank if it took the money back.
    settled_by        text,
    settled_at        timestamptz,
    charge_id         uuid,
    -- The bank's identifier of the return.
    return_reference  text,
    note              text,
    UNIQUE (bank, source),
    CHECK ((state = 'open') = (settled_at IS NULL) AND (state = 'assigned') = (charge_id IS NOT NULL)
           AND (state = 'returned') = (return_reference IS NOT NULL))
) WITH (fillfactor = 85);
CREATE INDEX suspense_page ON suspense (state, received_at, suspense_id);
CREATE INDEX suspense_of_charge ON suspense (charge_id) WHERE charge_id IS NOT NULL;
-- Returned money has no charge to decide how long its sender is kept; settled_at decides.
CREATE INDEX suspense_returned ON suspense (settled_at) WHERE state = 'returned' AND payer_sealed IS NOT NULL;
CREATE INDEX suspense_reference ON suspense (bank, reference) WHERE reference IS NOT NULL;

-- PIX keys for which our callback address is registered at a bank.
CREATE TABLE bank_callback (
    bank           text NOT NULL,
    pix_key        text NOT NULL,
    url            text NOT NULL,
    registered_at  timestamptz NOT NULL,
    PRIMARY KEY (bank, pix_key)
);

-- The pool of PIX locations, requested in advance so that creating a PIX charge waits for no bank. A row is a block, as
-- one process takes it; taking it deletes the row, so a charge costs a fiftieth of a row to store and vacuum.
-- toast_tuple_target keeps a block in the row's page; by default PostgreSQL moves values out of rows above 2 KB.
CREATE TABLE pix_location (
    test          boolean NOT NULL,
    bank          text NOT NULL,
    block_id      bigint GENERATED ALWAYS AS IDENTITY,
    count         bigint GENERATED ALWAYS AS (cardinality(location_ids)) STORED,
    location_ids  bigint[] NOT NULL,
    locations     text[] NOT NULL CHECK (cardinality(locations) = cardinality(location_ids)),
    PRIMARY KEY (test, bank, block_id)
) WITH (
    toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000
);

-- The rate of consumption, which decides how many locations are kept ready. The number taken is `made` less the rows in
-- pix_location, so taking one writes nothing here.
CREATE TABLE pix_pool (
    test        boolean NOT NULL,
    bank        text NOT NULL,
    made        bigint NOT NULL,
    -- The number taken at the last count, and the rate computed then.
    taken       bigint NOT NULL DEFAULT 0,
    per_s       double precision NOT NULL DEFAULT 0,
    counted_at  timestamptz NOT NULL,
    -- When a request to the bank last created none; NULL after a later request created some.
    silent_at   timestamptz,
    PRIMARY KEY (test, bank)
) WITH (fillfactor = 50);

-- Leases for duties that one process of the installation runs at a time, such as filling pix_location. A row remains
-- after its lease has run out.
CREATE TABLE lease (
    name      text PRIMARY KEY,
    holder    text NOT NULL,
    taken_at  timestamptz NOT NULL,
    until     timestamptz NOT NULL
) WITH (fillfactor = 50);

-- The latest heartbeat of each worker process. The row of a process that died stays for an hour.
CREATE TABLE worker_heartbeat (
    -- Host, process number and a random part, as in logs and leases.
    worker   text PRIMARY KEY,
    beat_at  timestamptz NOT NULL,
    -- The duties whose latest rounds all failed.
    failing  text[] NOT NULL
) WITH (fillfactor = 50);
