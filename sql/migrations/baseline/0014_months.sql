-- Tables partitioned by month (UTC), so that an old month is detached as a whole and no row is deleted.
--
-- A table's partition key is an instant, or the UUIDv7 that is its primary key: an id then determines its month, and a
-- look-up by id reads one partition. Each table has a default partition `<table>_other`, for rows whose month has no
-- partition yet.
--
-- A partition belongs to the owner of its table, so these functions run with the owner's rights, which workers do not
-- have otherwise. They accept only the tables named here, and no table that a caller might have created.

CREATE FUNCTION refuse_other_tables(parent text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF parent NOT IN ('read_event_production', 'read_event_sandbox', 'bank_order_done', 'bank_hint_done',
                      'webhook_delivery_done', 'webhook_attempt') THEN
        RAISE EXCEPTION '% is not partitioned by month', parent;
    END IF;
END $$;

-- The lower bound of a month's partition, as text.
CREATE FUNCTION month_begins(month date, by_id boolean) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN by_id THEN (lpad(to_hex((extract(epoch FROM month::timestamp) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid::text
        ELSE (month || ' 00:00:00+00') END
$$;

-- The instant of a UUIDv7; NULL for another UUID. PostgreSQL 18 has a function of its own for this.
CREATE FUNCTION instant_of_id(id uuid) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN substr(id::text, 15, 1) = '7'
        THEN to_timestamp(('x0000' || left(translate(id::text, '-', ''), 12))::bit(64)::bigint / 1000.0) END
$$;

-- Makes the months from :first to :last, and earlier months with rows in the default partition.
--
-- Writers wait from before those rows are moved until the month is attached: some milliseconds for a future month.
-- Readers wait only while it is attached. The function gives up after waiting half a second for a lock (55P03), so that
-- nothing queues behind it for longer; the caller tries again. A month with more than :moved_max rows in the default
-- partition is left there, because writers would wait as long as the move takes; NULL moves any number.
CREATE FUNCTION make_months(parent text, first date, last date, moved_max integer DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '500ms' AS $$
DECLARE
    key text;
    by_id boolean;
    instant text;
    months date[];
    month date;
    name text;
    from_key text;
    to_key text;
    lying bigint;
    made integer := 0;
BEGIN
    PERFORM refuse_other_tables(parent);
    SELECT quote_ident(a.attname), a.atttypid = 'uuid'::regtype INTO STRICT key, by_id
    FROM pg_partitioned_table p JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0]
    WHERE p.partrelid = parent::regclass;
    instant := CASE WHEN by_id THEN format('instant_of_id(%s)', key) ELSE key END;
    EXECUTE format('SELECT array_agg(DISTINCT date_trunc(''month'', %1$s AT TIME ZONE ''UTC'')::date) FROM %2$I '
                   'WHERE %3$s < %4$L AND %1$s IS NOT NULL',
                   instant, parent || '_other', key, month_begins(date_trunc('month', first::timestamp)::date, by_id)) INTO months;
    FOR month IN
        SELECT unnest(months) AS wanted
        UNION
        SELECT generate_series(date_trunc('month', first::timestamp), last::timestamp, interval '1 month')::date
        ORDER BY wanted
    LOOP
        name := parent || to_char(month, '_YYYY_MM');
        CONTINUE WHEN to_regclass(name) IS NOT NULL OR to_regclass(parent || to_char(month, '_"archive"_YYYY_MM')) IS NOT NULL;
        from_key := month_begins(month, by_id);
        to_key := month_begins((month + interval '1 month')::date, by_id);
        EXECUTE format('SELECT count(*) FROM (SELECT FROM %1$I WHERE %2$s >= %3$L AND %2$s < %4$L LIMIT %5$L::bigint + 1) AS lying',
                       parent || '_other', key, from_key, to_key, moved_max) INTO lying;
        CONTINUE WHEN lying > moved_max;
        -- Storage parameters are not inherited. Rows are only added, so autovacuum goes by a number of rows, not by a share.
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL) WITH ('
                       'autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000, '
                       'autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000)', name, parent);
        PERFORM expect_few_values(name);
        EXECUTE format('LOCK TABLE ONLY %I IN SHARE ROW EXCLUSIVE MODE', parent);
        EXECUTE format('WITH moved AS (DELETE FROM %1$I WHERE %2$s >= %3$L AND %2$s < %4$L RETURNING *) '
                       'INSERT INTO %5$I SELECT * FROM moved', parent || '_other', key, from_key, to_key, name);
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, name, from_key, to_key);
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;

-- Detaches the months that ended before an instant; returns when each ended. A month becomes a table
-- `<table>_archive_YYYY_MM`, which stays until an operator moves it elsewhere. Data that merchants may read stays for
-- 400 days, whatever the caller asks: the function has the owner's rights, and its caller may be a compromised process.
CREATE FUNCTION detach_months(parent text, ended_before timestamptz) RETURNS SETOF timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '500ms' AS $$
DECLARE
    month record;
BEGIN
    PERFORM refuse_other_tables(parent);
    IF parent NOT IN ('bank_order_done', 'bank_hint_done') AND ended_before > now() - interval '399 days' THEN -- clocks differ
        RAISE EXCEPTION 'months of % stay for 400 days', parent;
    END IF;
    -- Waits for another worker that is detaching, so that the loop below does not see months which that worker took.
    EXECUTE format('LOCK TABLE ONLY %I IN SHARE UPDATE EXCLUSIVE MODE', parent);
    FOR month IN
        SELECT c.relname AS name, (to_date(right(c.relname, 7), 'YYYY_MM') + interval '1 month')::timestamp AT TIME ZONE 'UTC' AS ended
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = parent::regclass AND c.relname ~ ('^' || parent || '_[0-9]{4}_[0-9]{2}$')
        ORDER BY c.relname
    LOOP
        EXIT WHEN month.ended > ended_before;
        EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', parent, month.name);
        EXECUTE format('ALTER TABLE %I RENAME TO %I', month.name, parent || '_archive' || right(month.name, 8));
        RETURN NEXT month.ended;
    END LOOP;
END $$;

-- Drops the months that ended before an instant, without deleting rows one by one; returns how many.
CREATE FUNCTION drop_months(parent text, ended_before timestamptz) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '500ms' AS $$
DECLARE
    ended timestamptz;
    dropped integer := 0;
BEGIN
    IF parent NOT IN ('webhook_delivery_done', 'webhook_attempt') THEN
        RAISE EXCEPTION 'months of % are kept', parent;
    END IF;
    FOR ended IN SELECT detach_months(parent, ended_before) LOOP
        EXECUTE format('DROP TABLE %I', parent || to_char(ended AT TIME ZONE 'UTC' - interval '1 month', '_"archive"_YYYY_MM'));
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END $$;

-- SECURITY DEFINER functions find tables and functions of this schema only, whatever search_path the caller has set and
-- whatever temporary tables the caller has created; and only the application's role may call them (sql/roles.py).
DO $$
DECLARE
    named regprocedure;
BEGIN
    FOR named IN SELECT oid FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND prosecdef LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', named, current_schema());
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', named);
    END LOOP;
END $$;
