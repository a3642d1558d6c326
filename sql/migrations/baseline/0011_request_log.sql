-- Requests to the API, without their query and, in production, without bodies. Partitioned by day; old days are dropped
-- whole.

CREATE TABLE request_log (
    account_id   uuid NOT NULL,
    test         boolean NOT NULL,
    at           timestamptz NOT NULL,
    request_id   text NOT NULL,
    client_id    text NOT NULL,
    method       text NOT NULL,
    path         text NOT NULL,
    status       smallint NOT NULL,
    code         text,
    duration_us  integer NOT NULL,
    -- The Location of a 201, which leads to what was created.
    made         text,
    -- For a refusal: {"message", "fields": {name: message}, "agent"}.
    refusal      text,
    -- Redacted bodies of a sandbox write (api/body/redaction.py), request and response, or their sizes.
    sent         text CHECK (sent IS NULL OR test),
    answered     text CHECK (answered IS NULL OR test)
) PARTITION BY RANGE (at);
-- Only two indexes for every request, and no unique key to check: a row costs the database 5 us and the API 3 us.
CREATE INDEX request_log_page ON request_log (account_id, test, at, request_id);
-- 48 random bits of the id suffice, and halve the index.
CREATE INDEX request_log_id ON request_log (left(request_id, 12));
-- Errors are few among many requests, so each class has an index of its own.
CREATE INDEX request_log_refused ON request_log (account_id, test, at, request_id) WHERE status BETWEEN 400 AND 499;
CREATE INDEX request_log_broken ON request_log (account_id, test, at, request_id) WHERE status >= 500;
CREATE TABLE request_log_other PARTITION OF request_log DEFAULT;
-- Old rows of days that had no partition are found by it. Other days do not have it.
CREATE INDEX request_log_other_at ON request_log_other (at);

-- Makes partitions for days (UTC) before they begin. A day with requests in the default partition stays there whole:
-- rows of a log are not moved. Like every function that makes or removes partitions, it has its owner's rights
-- (0014_months).
CREATE FUNCTION request_log_make_days(first date, last date) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    day date;
    name text;
    from_at timestamptz;
    to_at timestamptz;
    made integer := 0;
BEGIN
    FOR day IN SELECT generate_series(first::timestamp, last::timestamp, interval '1 day')::date LOOP
        name := 'request_log_' || to_char(day, 'YYYY_MM_DD');
        from_at := day::timestamp AT TIME ZONE 'UTC';
        to_at := (day + 1)::timestamp AT TIME ZONE 'UTC';
        CONTINUE WHEN to_regclass(name) IS NOT NULL
            OR EXISTS (SELECT FROM request_log_other WHERE at >= from_at AND at < to_at);
        EXECUTE format('CREATE TABLE %I PARTITION OF request_log FOR VALUES FROM (%L) TO (%L)', name, from_at, to_at);
        PERFORM expect_few_values(name);
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;

-- Drops the days that ended before an instant, at most days_max, and deletes at most rows_max rows of days that had no
-- partition; returns how many days and rows. A day without partition may have tens of millions of rows: deleted at once,
-- they would exceed the time limit of a statement, at every try, and the days would stay as well.
CREATE FUNCTION request_log_forget_days(ended_before timestamptz, days_max integer, rows_max integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    day record;
    forgotten integer := 0;
    deleted integer;
BEGIN
    FOR day IN
        SELECT c.relname AS name, (to_date(right(c.relname, 10), 'YYYY_MM_DD') + 1)::timestamp AT TIME ZONE 'UTC' AS ended
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'request_log'::regclass AND c.relname ~ '^request_log_[0-9]{4}_[0-9]{2}_[0-9]{2}$'
        ORDER BY c.relname LIMIT days_max
    LOOP
        EXIT WHEN day.ended > ended_before;
        EXECUTE format('DROP TABLE %I', day.name);
        forgotten := forgotten + 1;
    END LOOP;
    DELETE FROM request_log_other WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM request_log_other WHERE at < ended_before ORDER BY at LIMIT rows_max));
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN forgotten + deleted;
END $$;

SELECT request_log_make_days((now() AT TIME ZONE 'UTC')::date, ((now() AT TIME ZONE 'UTC')::date + 7));
