-- The feed, partitioned by mode and month (0014_months). Sandbox events have the instants of the sandbox's clock, which
-- may be years ahead; separate partitions keep them from affecting the months of production.
--
-- account_clock hands out the sequences, so no unique index over all months is needed; `verify` counts them. The body
-- is stored only in the journal, and the rows of a detached month still refer to it.

CREATE TABLE read_event (
    sequence     bigint NOT NULL,
    created_at   timestamptz NOT NULL,
    -- The journal row with its body.
    journal_id   bigint NOT NULL,
    account_id   uuid NOT NULL,
    event_id     uuid NOT NULL,
    charge_id    uuid,
    test         boolean NOT NULL,
    type         text NOT NULL,
    external_id  text,
    PRIMARY KEY (account_id, test, sequence, created_at)
) PARTITION BY LIST (test);
CREATE TABLE read_event_production PARTITION OF read_event FOR VALUES IN (false) PARTITION BY RANGE (created_at);
CREATE TABLE read_event_sandbox PARTITION OF read_event FOR VALUES IN (true) PARTITION BY RANGE (created_at);
CREATE INDEX read_event_type ON read_event (account_id, test, type, sequence);
CREATE INDEX read_event_charge ON read_event (charge_id, sequence);
CREATE INDEX read_event_reference ON read_event (account_id, test, external_id, sequence) WHERE external_id IS NOT NULL;
CREATE INDEX read_event_created ON read_event (account_id, test, created_at, sequence);
-- For events whose month has no partition, so that a missing month never stops the feed.
CREATE TABLE read_event_production_other PARTITION OF read_event_production DEFAULT;
CREATE TABLE read_event_sandbox_other PARTITION OF read_event_sandbox DEFAULT;

-- The instant where the feed begins: earlier months were detached. A rebuild begins there too.
CREATE TABLE feed_begin (
    single     boolean PRIMARY KEY DEFAULT true CHECK (single),
    begins_at  timestamptz NOT NULL
);
INSERT INTO feed_begin (begins_at) VALUES ('-infinity');
