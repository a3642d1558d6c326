-- The feed, partitioned by month, so that an old month is detached as a whole and no row is deleted.
--
-- Numbers are handed out by account_clock; that none is double needs no index over all months, and `verify` counts them.

CREATE TABLE read_event (
    account_id   uuid NOT NULL,
    test         boolean NOT NULL,
    sequence     bigint NOT NULL,
    event_id     uuid NOT NULL,
    type         text NOT NULL,
    charge_id    uuid,
    external_id  text,
    created_at   timestamptz NOT NULL,
    body         bytea NOT NULL,
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

-- Make the months (of UTC) from :first to :last, and earlier ones for which events lie in the default partition.
--
-- Writers wait from before those events are moved until the month is attached: some milliseconds for a month that is yet
-- to come. Readers wait for the attaching alone. It gives up after half a second of waiting (55P03), so that nothing
-- queues behind it for longer; the caller tries again.
-- A month with more than :moved_max events in the default partition is left there, because payments would wait for as
-- long as the moving takes; NULL moves any number.
CREATE FUNCTION feed_make_months(first date, last date, moved_max integer DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SET lock_timeout = '500ms' AS $$
DECLARE
    months date[];
    month date;
    tag text;
    name text;
    from_at timestamptz;
    to_at timestamptz;
    made integer := 0;
BEGIN
    SELECT array_agg(wanted.month ORDER BY wanted.month) INTO months FROM (
        SELECT generate_series(date_trunc('month', first::timestamp), last::timestamp, interval '1 month')::date AS month
        UNION
        SELECT date_trunc('month', created_at AT TIME ZONE 'UTC')::date FROM read_event_other
        WHERE created_at < date_trunc('month', first::timestamp) AT TIME ZONE 'UTC'
    ) AS wanted;
    FOREACH month IN ARRAY months LOOP
        tag := to_char(month, 'YYYY_MM');
        name := 'read_event_' || tag;
        CONTINUE WHEN to_regclass(name) IS NOT NULL OR to_regclass('feed_archive_' || tag) IS NOT NULL;
        from_at := month::timestamp AT TIME ZONE 'UTC';
        to_at := (month + interval '1 month') AT TIME ZONE 'UTC';
        CONTINUE WHEN moved_max < (SELECT count(*) FROM (SELECT FROM read_event_other
                                                          WHERE created_at >= from_at AND created_at < to_at
                                                          LIMIT moved_max::bigint + 1) AS lying);
        EXECUTE format('CREATE TABLE %I (LIKE read_event INCLUDING ALL)', name);
        LOCK TABLE ONLY read_event IN SHARE ROW EXCLUSIVE MODE;
        EXECUTE format('WITH moved AS (DELETE FROM read_event_other WHERE created_at >= %L AND created_at < %L RETURNING *) '
                       'INSERT INTO %I SELECT * FROM moved', from_at, to_at, name);
        EXECUTE format('ALTER TABLE read_event ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name,
                       from_at, to_at);
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;

-- Take the months that ended before an instant out of the feed; answers how many. Each becomes a table feed_archive_...,
-- which stays until an operator moves it elsewhere.
CREATE FUNCTION feed_detach_months(ended_before timestamptz) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    month record;
    detached integer := 0;
BEGIN
    FOR month IN
        SELECT c.relname AS name, (to_date(right(c.relname, 7), 'YYYY_MM') + interval '1 month')::timestamp AT TIME ZONE 'UTC' AS ended
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'read_event'::regclass AND c.relname ~ '^read_event_[0-9]{4}_[0-9]{2}$'
        ORDER BY c.relname
    LOOP
        EXIT WHEN month.ended > ended_before;
        UPDATE feed_begin SET begins_at = greatest(begins_at, month.ended);
        EXECUTE format('ALTER TABLE read_event DETACH PARTITION %I', month.name);
        EXECUTE format('ALTER TABLE %I RENAME TO %I', month.name, replace(month.name, 'read_event', 'feed_archive'));
        detached := detached + 1;
    END LOOP;
    RETURN detached;
END $$;
