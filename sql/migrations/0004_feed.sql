-- The feed, partitioned by month (0014_months).
--
-- Numbers are handed out by account_clock; that none is double needs no index over all months, and `verify` counts them.
-- The body is not kept twice: the journal has it, which also a month that was detached still names.

CREATE TABLE read_event (
    sequence     bigint NOT NULL,
    created_at   timestamptz NOT NULL,
    -- The row that has its body.
    journal_id   bigint NOT NULL,
    account_id   uuid NOT NULL,
    event_id     uuid NOT NULL,
    charge_id    uuid,
    test         boolean NOT NULL,
    type         text NOT NULL,
    external_id  text,
    PRIMARY KEY (account_id, test, sequence, created_at)
) PARTITION BY RANGE (created_at);
CREATE INDEX read_event_type ON read_event (account_id, test, type, sequence);
CREATE INDEX read_event_charge ON read_event (charge_id, sequence);
CREATE INDEX read_event_reference ON read_event (account_id, test, external_id, sequence) WHERE external_id IS NOT NULL;
CREATE INDEX read_event_created ON read_event (account_id, test, created_at, sequence);
-- For events whose month was not made: the feed never stops because of that.
CREATE TABLE read_event_other PARTITION OF read_event DEFAULT;

-- Where the feed begins: months before it were detached. A rebuild begins there too.
CREATE TABLE feed_begin (
    single     boolean PRIMARY KEY DEFAULT true CHECK (single),
    begins_at  timestamptz NOT NULL
);
INSERT INTO feed_begin (begins_at) VALUES ('-infinity');
