-- Requests to banks, what banks report to us, and the PIX locations kept ready.

-- What is open. An order that ends leaves, in the statement that ends it, for bank_order_done: what is claimed from stays
-- small, however many orders there were. Its pages are half empty, so that a claimed order stays on its page: the log then
-- holds what changed, and not the order again. It is vacuumed every thousand orders.
CREATE TABLE bank_order (
    order_id     uuid PRIMARY KEY,
    account_id   uuid,
    charge_id    uuid,
    test         boolean NOT NULL,
    -- Whom it is for (COMPE code): the bank that carries its charge; of an order without one, the bank of new charges.
    bank         text NOT NULL,
    -- As in commands/bank_orders/kinds.py; a kind that is not named here has no lane and is refused. Each lane is worked
    -- off for itself: requests wait for boletos, refunds and withdrawals are asked about for days, and a bank may answer
    -- about one and not about another.
    kind         text NOT NULL,
    lane         text NOT NULL GENERATED ALWAYS AS (CASE
                     WHEN kind IN ('cob_register', 'cob_remove', 'cob_revise', 'pix_simulate') THEN 'pix'
                     WHEN kind IN ('boleto_register', 'boleto_write_off', 'boleto_redate', 'boleto_pay',
                                   'boleto_reconcile') THEN 'boleto'
                     WHEN kind IN ('refund_return', 'refund_transfer') THEN 'refund'
                     WHEN kind IN ('withdrawal_send') THEN 'withdrawal' END) STORED,
    request      jsonb NOT NULL,
    state        text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'working')),
    attempts     integer NOT NULL DEFAULT 0,
    due_at       timestamptz NOT NULL,
    lease_until  timestamptz,
    -- When a request waits for the outcome: past this instant no request reads it any more.
    deadline     timestamptz,
    reply_to     text,
    -- What the last attempt left for the next one.
    outcome      jsonb,
    created_at   timestamptz NOT NULL
) WITH (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000
);
CREATE INDEX bank_order_due ON bank_order (lane, test, due_at, order_id) WHERE state = 'waiting';
-- Of an account that orders more than its share (runtime/coordination/due_times.py): due later, and taken up at once when
-- nothing else is due. No other order is in here.
CREATE INDEX bank_order_early ON bank_order (lane, test, due_at, order_id)
    WHERE state = 'waiting' AND attempts = 0 AND due_at > created_at AND kind IN ('cob_register', 'boleto_register');
CREATE INDEX bank_order_leased ON bank_order (lease_until) WHERE state = 'working';
CREATE INDEX bank_order_charge ON bank_order (charge_id);
-- Requests with one Idempotency-Key that run at once register one boleto, with or without Redis.
CREATE UNIQUE INDEX bank_order_boleto_key ON bank_order (account_id, test, (request ->> 'key')) WHERE kind = 'boleto_register';
-- One change of a boleto at a time: write-off, new date, payment and reconciliation never meet at the bank.
CREATE UNIQUE INDEX bank_order_boleto_alone ON bank_order (charge_id)
    WHERE kind IN ('boleto_write_off', 'boleto_redate', 'boleto_pay', 'boleto_reconcile');

-- How orders ended, partitioned by the month of their ids (0014_months). What was asked of the bank is not kept: the journal
-- has what it was asked for.
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

-- Callbacks that are to be checked. A hint moves nothing: it makes a worker ask the bank, and leaves when the bank has
-- confirmed it or knows nothing of it.
CREATE TABLE bank_hint (
    hint_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    bank         text NOT NULL,
    -- What the hint is about (endToEndId, or the boleto's number and state): received twice, it is kept once.
    about        text NOT NULL,
    txid         text NOT NULL,
    received_at  timestamptz NOT NULL,
    attempts     integer NOT NULL DEFAULT 0,
    due_at       timestamptz NOT NULL,
    -- Of the callback: what is booked because of it is found by it, in the log and in the journal.
    request_id   text,
    -- Boletos are asked about at an API of their own, which may hang by itself: claimed apart, they keep no PIX waiting.
    of_boleto    boolean NOT NULL GENERATED ALWAYS AS (starts_with(about, 'boleto:')) STORED,
    UNIQUE (about, bank)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000
);
CREATE INDEX bank_hint_due ON bank_hint (of_boleto, due_at);
-- How many payments callbacks report for one boleto is asked by its number.
CREATE INDEX bank_hint_txid ON bank_hint (txid);

-- Confirmed hints about boletos, partitioned by month (0014_months). The bank tells a boleto's total alone, and callbacks how
-- many payments it is of: one that is received again must not count again. A PIX is known by its endToEndId, so hints
-- about PIX are not kept.
CREATE TABLE bank_hint_done (
    about         text NOT NULL,
    bank          text NOT NULL,
    confirmed_at  timestamptz NOT NULL
) PARTITION BY RANGE (confirmed_at);
CREATE INDEX bank_hint_done_about ON bank_hint_done (about, bank);
CREATE TABLE bank_hint_done_other PARTITION OF bank_hint_done DEFAULT;

-- How far each pass of a reconciler has asked a bank for what it received, or sent (workers/incoming/intervals.py).
CREATE TABLE bank_reconciled (
    bank          text NOT NULL,
    method        text NOT NULL CHECK (method IN ('pix', 'boleto', 'transfer')),
    pass          text NOT NULL,
    -- What the bank listed before this is booked; the pass ends for now at `goal`.
    until         timestamptz NOT NULL,
    goal          timestamptz NOT NULL,
    -- The interval under way goes from `until` to this, and continues with the page that the bank named `after`.
    window_until  timestamptz,
    after         text,
    -- How wide the next interval is to be: halved when one is too full, and grown again.
    width_s       integer NOT NULL CHECK (width_s > 0),
    PRIMARY KEY (bank, method, pass)
);

-- How a bank answered in an hour, counted by workers (workers/housekeeping/bank_calls.py) and kept for 31 days.
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

-- What a bank listed and nobody here can read: set aside, so that it stops nothing. Gone once it is read.
CREATE TABLE bank_unreadable (
    bank      text NOT NULL,
    method    text NOT NULL CHECK (method IN ('pix', 'boleto', 'transfer')),
    -- Its own identifier (endToEndId, boleto's number), or a digest of it when that cannot be read either.
    about     text NOT NULL,
    -- As the bank listed it: it may name a person.
    item_sealed  bytea NOT NULL,
    found_at  timestamptz NOT NULL,
    PRIMARY KEY (bank, method, about)
);
CREATE INDEX bank_unreadable_found ON bank_unreadable (found_at, bank, method, about);

-- Money that fits no charge: staff assign it to one, or see that it went back.
CREATE TABLE suspense (
    suspense_id       uuid PRIMARY KEY,
    bank              text NOT NULL,
    kind              text NOT NULL CHECK (kind IN ('pix_unknown_txid', 'pix_without_txid', 'boleto_unknown')),
    -- What makes it one: the endToEndId, or the boleto's number and the total that the bank told. Once assigned, the
    -- payment's source.
    source            text NOT NULL,
    -- The txid or the boleto's number.
    reference         text,
    amount_cents      bigint NOT NULL CHECK (amount_cents > 0),
    received_at       timestamptz NOT NULL,
    found_at          timestamptz NOT NULL,
    -- Name and document, where the bank tells them.
    payer_sealed      bytea,
    state             text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'assigned', 'returned')),
    -- A member of staff, or the bank, which took it back.
    settled_by        text,
    settled_at        timestamptz,
    charge_id         uuid,
    -- Of the return: what the bank knows it by.
    return_reference  text,
    note              text,
    UNIQUE (bank, source),
    CHECK ((state = 'open') = (settled_at IS NULL) AND (state = 'assigned') = (charge_id IS NOT NULL)
           AND (state = 'returned') = (return_reference IS NOT NULL))
) WITH (fillfactor = 85);
CREATE INDEX suspense_page ON suspense (state, received_at, suspense_id);
CREATE INDEX suspense_of_charge ON suspense (charge_id) WHERE charge_id IS NOT NULL;
-- Of money that went back no charge tells how long its sender is kept.
CREATE INDEX suspense_returned ON suspense (settled_at) WHERE state = 'returned' AND payer_sealed IS NOT NULL;
CREATE INDEX suspense_reference ON suspense (bank, reference) WHERE reference IS NOT NULL;

-- The keys for which a bank was told our callback's address.
CREATE TABLE bank_callback (
    bank           text NOT NULL,
    pix_key        text NOT NULL,
    url            text NOT NULL,
    registered_at  timestamptz NOT NULL,
    PRIMARY KEY (bank, pix_key)
);

-- Locations asked for ahead, so that creating a PIX charge waits for no bank. A row is a block of them, as one process
-- takes it, and taking it deletes the row: a charge costs a fiftieth of a row to keep and to vacuum. Blocks stay in the
-- row's own page, where a location's text would otherwise be moved out at 2 KB.
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

-- What decides how many locations are kept ready: how fast they are taken. All were made or are in pix_location, so taking
-- one writes nothing here.
CREATE TABLE pix_pool (
    test        boolean NOT NULL,
    bank        text NOT NULL,
    made        bigint NOT NULL,
    -- As counted last, and the rate it came to.
    taken       bigint NOT NULL DEFAULT 0,
    per_s       double precision NOT NULL DEFAULT 0,
    counted_at  timestamptz NOT NULL,
    -- When the bank was asked last and made none; NULL since it made one.
    silent_at   timestamptz,
    PRIMARY KEY (test, bank)
) WITH (fillfactor = 50);

-- Duties that one process of the installation does at a time, such as filling pix_location; a row outlives its lease.
CREATE TABLE lease (
    name      text PRIMARY KEY,
    holder    text NOT NULL,
    taken_at  timestamptz NOT NULL,
    until     timestamptz NOT NULL
) WITH (fillfactor = 50);

-- What each worker process last said of itself. A process that ended leaves its row for an hour.
CREATE TABLE worker_heartbeat (
    -- Host and process number, as in logs and leases.
    worker   text PRIMARY KEY,
    beat_at  timestamptz NOT NULL,
    -- The duties whose latest rounds all failed.
    failing  text[] NOT NULL
) WITH (fillfactor = 50);
