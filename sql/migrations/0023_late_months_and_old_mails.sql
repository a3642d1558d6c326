-- A month of the feed may be made late, while its events are being written; mails that are over are forgotten.

-- Takes the place of 0014's. That one moved rows and attached the month while others wrote: what came in between was against
-- the new partition's bound, so that the month could not be made, or, for somebody who had just been sent to the partition
-- for all others, the event itself could not be written. Here writers wait from before the move until the month is there:
-- some milliseconds for a month that is yet to come. Readers wait for the attaching alone. It gives up after half a
-- second of waiting (55P03), so that nobody stands behind it for longer, and is tried again.
--
-- Months before :first are made too when events lie among the others for them: nobody made them in their time.
-- A month for which more than :moved_most events lie there is left alone, and they with it, because payments would wait for
-- as long as the moving takes; NULL moves any number.
DROP FUNCTION feed_make_months(date, date);
CREATE FUNCTION feed_make_months(first date, last date, moved_most integer DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SET lock_timeout = '500ms' AS $$
DECLARE
    months date[];
    month date;
    name text;
    from_at timestamptz;
    to_at timestamptz;
    made integer := 0;
BEGIN
    SELECT array_agg(wanted.month ORDER BY wanted.month) INTO months FROM (
        SELECT generate_series(date_trunc('month', first::timestamp), last::timestamp, interval '1 month')::date AS month
        UNION
        SELECT date_trunc('month', created_at AT TIME ZONE 'UTC')::date FROM public.read_event_other
        WHERE created_at < date_trunc('month', first::timestamp) AT TIME ZONE 'UTC'
    ) AS wanted;
    FOREACH month IN ARRAY months LOOP
        name := 'read_event_' || to_char(month, 'YYYY_MM');
        CONTINUE WHEN to_regclass('public.' || name) IS NOT NULL OR to_regclass('feed_archive.' || name) IS NOT NULL;
        from_at := month::timestamp AT TIME ZONE 'UTC';
        to_at := (month + interval '1 month') AT TIME ZONE 'UTC';
        CONTINUE WHEN moved_most < (SELECT count(*) FROM (SELECT FROM public.read_event_other
                                                          WHERE created_at >= from_at AND created_at < to_at
                                                          LIMIT moved_most::bigint + 1) AS lying);
        EXECUTE format('CREATE TABLE public.%I (LIKE public.read_event INCLUDING ALL)', name);
        LOCK TABLE ONLY public.read_event IN SHARE ROW EXCLUSIVE MODE;
        EXECUTE format('WITH moved AS (DELETE FROM public.read_event_other WHERE created_at >= %L AND created_at < %L RETURNING *) '
                       'INSERT INTO public.%I SELECT * FROM moved', from_at, to_at, name);
        EXECUTE format('ALTER TABLE public.read_event ATTACH PARTITION public.%I FOR VALUES FROM (%L) TO (%L)', name,
                       from_at, to_at);
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;

-- Mails that went out, or never will: `due_at` is then when that was settled.
CREATE INDEX mail_over ON mail (due_at, mail_id) WHERE state IN ('sent', 'failed', 'skipped');
