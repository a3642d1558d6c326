-- The feed lies in months, so that an old one leaves it at once, as a whole, and no row is deleted.
--
-- Numbers are handed out by account_clock; that none is double needs no index over all months, and `verify` counts them.

CREATE TABLE feed_event (
    account_id   uuid NOT NULL,
    test         boolean NOT NULL,
    sequence     bigint NOT NULL,
    event_id     uuid NOT NULL,
    type         text NOT NULL,
    charge_id    uuid NOT NULL,
    external_id  text,
    created_at   timestamptz NOT NULL,
    body         bytea NOT NULL,
    PRIMARY KEY (account_id, test, sequence, created_at)
) PARTITION BY RANGE (created_at);

-- Where the feed begins: months before it were detached. What is made anew from the journal begins there too.
CREATE TABLE feed_begin (
    single     boolean PRIMARY KEY DEFAULT true CHECK (single),
    begins_at  timestamptz NOT NULL
);
INSERT INTO feed_begin (begins_at) VALUES ('-infinity');

-- Detached months stay here, each a table, until somebody moves them elsewhere.
CREATE SCHEMA feed_archive;

-- Months of UTC. An event that finds no month of its own goes to the one for all others: the feed never stands still
-- because nobody made a month.
CREATE FUNCTION feed_make_months(first date, last date) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    month date;
    name text;
    from_at timestamptz;
    to_at timestamptz;
    made integer := 0;
BEGIN
    FOR month IN SELECT generate_series(date_trunc('month', first::timestamp), last::timestamp, interval '1 month')::date LOOP
        name := 'read_event_' || to_char(month, 'YYYY_MM');
        CONTINUE WHEN to_regclass('public.' || name) IS NOT NULL OR to_regclass('feed_archive.' || name) IS NOT NULL;
        from_at := month::timestamp AT TIME ZONE 'UTC';
        to_at := (month + interval '1 month') AT TIME ZONE 'UTC';
        -- Made beside the feed, with what was kept for it, and then attached.
        EXECUTE format('CREATE TABLE public.%I (LIKE public.read_event INCLUDING ALL)', name);
        EXECUTE format('WITH moved AS (DELETE FROM public.read_event_other WHERE created_at >= %L AND created_at < %L RETURNING *) '
                       'INSERT INTO public.%I SELECT * FROM moved', from_at, to_at, name);
        EXECUTE format('ALTER TABLE public.read_event ATTACH PARTITION public.%I FOR VALUES FROM (%L) TO (%L)', name,
                       from_at, to_at);
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;

-- Take the months that ended before an instant out of the feed; answers how many.
CREATE FUNCTION feed_detach_months(ended_before timestamptz) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    month record;
    detached integer := 0;
BEGIN
    FOR month IN
        SELECT c.relname AS name, (to_date(right(c.relname, 7), 'YYYY_MM') + interval '1 month')::timestamp AT TIME ZONE 'UTC' AS ended
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'public.read_event'::regclass AND c.relname ~ '^read_event_[0-9]{4}_[0-9]{2}$'
        ORDER BY c.relname
    LOOP
        EXIT WHEN month.ended > ended_before;
        UPDATE feed_begin SET begins_at = greatest(begins_at, month.ended);
        EXECUTE format('ALTER TABLE public.read_event DETACH PARTITION public.%I', month.name);
        EXECUTE format('ALTER TABLE public.%I SET SCHEMA feed_archive', month.name);
        detached := detached + 1;
    END LOOP;
    RETURN detached;
END $$;

ALTER TABLE read_event RENAME TO read_event_whole;
ALTER TABLE feed_event RENAME TO read_event;
ALTER INDEX feed_event_pkey RENAME TO read_event_key;
CREATE TABLE read_event_other PARTITION OF read_event DEFAULT;
SELECT feed_make_months(coalesce((SELECT min(created_at) FROM read_event_whole), now())::date, (now() + interval '2 months')::date);
INSERT INTO read_event SELECT account_id, test, sequence, event_id, type, charge_id, external_id, created_at, body FROM read_event_whole;
DROP TABLE read_event_whole;
CREATE INDEX read_event_type ON read_event (account_id, test, type, sequence);
CREATE INDEX read_event_charge ON read_event (charge_id, sequence);
CREATE INDEX read_event_reference ON read_event (account_id, test, external_id, sequence) WHERE external_id IS NOT NULL;
CREATE INDEX read_event_created ON read_event (account_id, test, created_at, sequence);

-- A delivery is of its event's month, so that the body is looked for in that month alone.
UPDATE webhook_delivery d SET created_at = r.created_at
FROM read_event r
WHERE r.account_id = d.account_id AND r.test = d.test AND r.sequence = d.sequence AND r.created_at <> d.created_at;
