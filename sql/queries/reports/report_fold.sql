-- Folds the given journal rows into the daily totals, each row once. The same statements serve live folding, rebuild
-- and verification, so tables are named without a schema, as in 0015_projections. Daily totals cover production; each
-- row is added under its account and under the nil UUID, which stands for all accounts. The totals of spans (span_*)
-- are kept per account only, and those of charges in both modes.

-- name: horizon
-- The last numbers handed out before this instant. Rows below them may not be committed yet: see writers.
SELECT statement_timestamp() AS as_of, CASE WHEN j.is_called THEN j.last_value ELSE 0 END AS journal_id,
       CASE WHEN a.is_called THEN a.last_value ELSE 0 END AS audit_number
FROM journal_journal_id_seq j, audit_number_seq a;

-- name: writers
-- Transactions that may still commit rows of the journal or the audit log. A writer takes the table lock before its row
-- gets a number, and releases it after the commit is visible. So once all transactions that held it when the horizon
-- was read have ended, no row below the horizon can appear any more. Reading pg_locks delays none of them.
SELECT virtualtransaction AS writer FROM pg_locks
WHERE locktype = 'relation' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND relation IN ('journal'::regclass, 'audit'::regclass) AND mode = 'RowExclusiveLock' AND granted;

-- name: claim
-- One worker folds at a time; the others skip.
SELECT journal_id, as_of FROM report_position FOR UPDATE SKIP LOCKED;

-- name: hold
SELECT journal_id, as_of FROM report_position FOR UPDATE;

-- name: position
SELECT journal_id, as_of FROM report_position;

-- name: lag
-- An upper bound of the journal rows not folded yet.
SELECT CASE WHEN s.is_called THEN s.last_value - p.journal_id ELSE 0 END AS rows FROM report_position p, journal_journal_id_seq s;

-- name: page
SELECT journal_id FROM journal WHERE journal_id > :above AND journal_id <= :up_to ORDER BY journal_id LIMIT :limit;

-- name: advance
UPDATE report_position SET journal_id = :journal_id, as_of = greatest(as_of, :as_of);

-- name: charges
-- Merges the changes of each charge, subtracts the charge from the row that counted it, and adds it to the row of its
-- new state.
WITH change AS (
    SELECT j.charge_id, j.account_id, j.test, jsonb_merge(j.payload -> 'charge' ORDER BY j.version, j.journal_id) AS fields
    FROM journal j
    WHERE j.journal_id = ANY(:journal_ids) AND j.payload ? 'charge'
    GROUP BY j.charge_id, j.account_id, j.test
), was AS (
    SELECT r.*, t.test FROM change t JOIN report_charge r ON r.charge_id = t.charge_id
), now_is AS (
    SELECT t.charge_id, t.account_id, t.test, coalesce(w.created_at, (t.fields ->> 'created_at')::timestamptz) AS created_at,
           coalesce(w.payment_method, t.fields ->> 'payment_method') AS payment_method,
           coalesce(t.fields ->> 'status', w.status) AS status,
           coalesce((t.fields ->> 'due_date')::date, w.due_date) AS due_date,
           coalesce(w.amount_cents, (t.fields ->> 'amount_cents')::bigint) AS amount_cents,
           (t.fields ->> 'paid_at')::timestamptz AS paid_at
    FROM change t LEFT JOIN was w ON w.charge_id = t.charge_id
), stored AS (
    INSERT INTO report_charge (charge_id, account_id, created_at, payment_method, status, due_date, amount_cents)
    SELECT charge_id, account_id, created_at, payment_method, status, due_date, amount_cents FROM now_is
    ON CONFLICT (charge_id) DO UPDATE SET status = excluded.status, due_date = excluded.due_date
), moved AS (
    SELECT account_id, test, payment_method, status, due_date,
           (created_at AT TIME ZONE 'America/Sao_Paulo')::date AS issued_on, charges, charges * amount_cents AS cents
    FROM (
        SELECT account_id, test, payment_method, status, due_date, created_at, amount_cents, 1 AS charges FROM now_is
        UNION ALL
        SELECT account_id, test, payment_method, status, due_date, created_at, amount_cents, -1 FROM was
    ) m
), by_day AS (
    SELECT m.account_id, m.test, d.dated, d.day, m.payment_method, m.status, sum(m.charges) AS charges, sum(m.cents) AS cents
    FROM moved m CROSS JOIN LATERAL (VALUES ('issued', m.issued_on), ('due', m.due_date)) AS d (dated, day)
    WHERE d.day IS NOT NULL
    GROUP BY 1, 2, 3, 4, 5, 6 HAVING sum(m.charges) <> 0 OR sum(m.cents) <> 0
), spanned AS (
    INSERT INTO span_charge AS r (account_id, test, dated, span, starts, payment_method, status, charges, cents)
    SELECT m.account_id, m.test, m.dated, s.span, s.starts, m.payment_method, m.status, sum(m.charges), sum(m.cents)
    FROM by_day m CROSS JOIN LATERAL spans_of(m.day) s GROUP BY 1, 2, 3, 4, 5, 6, 7
    ON CONFLICT (account_id, test, dated, span, starts, payment_method, status) DO UPDATE
    SET charges = r.charges + excluded.charges, cents = r.cents + excluded.cents
), issued AS (
    INSERT INTO report_cohort AS r (account_id, day, payment_method, status, charges, cents)
    SELECT a.account_id, m.day, m.payment_method, m.status, sum(m.charges), sum(m.cents)
    FROM by_day m CROSS JOIN LATERAL unnest(ARRAY[m.account_id, '00000000-0000-0000-0000-000000000000']) AS a (account_id)
    WHERE NOT m.test AND m.dated = 'issued' GROUP BY 1, 2, 3, 4
    ON CONFLICT (account_id, day, payment_method, status) DO UPDATE
    SET charges = r.charges + excluded.charges, cents = r.cents + excluded.cents
), due AS (
    INSERT INTO report_due AS r (account_id, status, due_date, payment_method, charges, cents)
    SELECT a.account_id, m.status, m.day, m.payment_method, sum(m.charges), sum(m.cents)
    FROM by_day m CROSS JOIN LATERAL unnest(ARRAY[m.account_id, '00000000-0000-0000-0000-000000000000']) AS a (account_id)
    WHERE NOT m.test AND m.dated = 'due' GROUP BY 1, 2, 3, 4
    ON CONFLICT (account_id, status, due_date, payment_method) DO UPDATE
    SET charges = r.charges + excluded.charges, cents = r.cents + excluded.cents
)
-- A charge is settled once, so its time to payment is counted once.
INSERT INTO report_wait AS r (account_id, day, payment_method, bucket, charges)
SELECT a.account_id, (n.created_at AT TIME ZONE 'America/Sao_Paulo')::date, n.payment_method,
       wait_bucket(n.created_at, n.paid_at), count(*)
FROM now_is n CROSS JOIN LATERAL unnest(ARRAY[n.account_id, '00000000-0000-0000-0000-000000000000']) AS a (account_id)
WHERE NOT n.test AND n.paid_at IS NOT NULL
GROUP BY 1, 2, 3, 4
ON CONFLICT (account_id, day, payment_method, bucket) DO UPDATE SET charges = r.charges + excluded.charges;

-- name: entries
-- Ledger entries, by the day they were written. For a refund or a reversal by the bank, the method of its payment is
-- looked up; a payment's method never changes.
WITH counted AS MATERIALIZED (
    SELECT j.account_id, (j.recorded_at AT TIME ZONE 'America/Sao_Paulo')::date AS day, e.type,
           coalesce(j.payload #>> '{payment,method}', j.payload #>> '{fee,method}', p.method, '') AS method, count(*) AS entries, sum(e.amount_cents) AS cents,
           count(*) FILTER (WHERE j.payload #>> '{payment,late}' = 'true') AS late,
           count(*) FILTER (WHERE j.payload #>> '{payment,anomaly}' IS NOT NULL) AS anomalous
    FROM journal j
    CROSS JOIN LATERAL jsonb_to_record(j.payload -> 'entry') AS e (type text, amount_cents bigint)
    CROSS JOIN LATERAL jsonb_to_record(coalesce(j.payload -> 'fund', '{}')) AS f (paid_at timestamptz, payment_id uuid)
    LEFT JOIN read_payment p ON p.account_id = j.account_id AND p.test = j.test AND p.paid_at = f.paid_at
                            AND p.payment_id = f.payment_id
    WHERE j.journal_id = ANY(:journal_ids) AND NOT j.test AND j.payload ? 'entry'
    GROUP BY 1, 2, 3, 4
), spanned AS (
    INSERT INTO span_entry AS r (account_id, span, starts, type, method, entries, cents)
    SELECT c.account_id, s.span, s.starts, c.type, c.method, sum(c.entries), sum(c.cents)
    FROM counted c CROSS JOIN LATERAL spans_of(c.day) s GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT (account_id, span, starts, type, method) DO UPDATE
    SET entries = r.entries + excluded.entries, cents = r.cents + excluded.cents
)
INSERT INTO report_entry AS r (account_id, day, type, method, entries, cents, late, anomalous)
SELECT a.account_id, c.day, c.type, c.method, sum(c.entries), sum(c.cents), sum(c.late), sum(c.anomalous)
FROM counted c CROSS JOIN LATERAL unnest(ARRAY[c.account_id, '00000000-0000-0000-0000-000000000000']) AS a (account_id)
GROUP BY 1, 2, 3, 4
ON CONFLICT (account_id, day, type, method) DO UPDATE
SET entries = r.entries + excluded.entries, cents = r.cents + excluded.cents, late = r.late + excluded.late,
    anomalous = r.anomalous + excluded.anomalous;

-- name: refunds
WITH counted AS MATERIALIZED (
    SELECT a.account_id, (j.recorded_at AT TIME ZONE 'America/Sao_Paulo')::date, p.method, split_part(j.kind, '.', 2), count(*),
           sum((f.doc ->> 'amount_cents')::bigint)
    FROM journal j
    JOIN read_refund f ON f.refund_id = (j.payload #>> '{refund,refund_id}')::uuid AND f.account_id = j.account_id
    JOIN read_payment p ON p.account_id = f.account_id AND p.test = f.test AND p.paid_at = f.paid_at
                       AND p.payment_id = f.payment_id
    CROSS JOIN LATERAL unnest(ARRAY[j.account_id, '00000000-0000-0000-0000-000000000000']) AS a (account_id)
    WHERE j.journal_id = ANY(:journal_ids) AND NOT j.test AND j.payload ? 'refund'
    GROUP BY 1, 2, 3, 4
)
INSERT INTO report_refund AS r (account_id, day, method, what, refunds, cents)
TABLE counted
ON CONFLICT (account_id, day, method, what) DO UPDATE
SET refunds = r.refunds + excluded.refunds, cents = r.cents + excluded.cents;

-- name: integrators
-- Charges by the day they were issued, payments when booked, shares when posted; all under the merchant of the charge.
WITH counted AS MATERIALIZED (
    SELECT a.account_id, (t.at AT TIME ZONE 'America/Sao_Paulo')::date, t.integrador_code, sum(t.charges), sum(t.charge_cents), sum(t.payments),
           sum(t.payment_cents), sum(greatest(t.share_cents, 0)), sum(greatest(-t.share_cents, 0))
    FROM (
        SELECT j.account_id, j.recorded_at AS at, j.payload #>> '{charge,integrador_code}' AS integrador_code, 1 AS charges,
               (j.payload #>> '{charge,amount_cents}')::bigint AS charge_cents, 0 AS payments, 0::bigint AS payment_cents,
               0::bigint AS share_cents
        FROM journal j
        WHERE j.journal_id = ANY(:journal_ids) AND NOT j.test AND j.kind = 'charge.created'
        UNION ALL
        SELECT j.account_id, j.recorded_at, j.payload #>> '{payment,integrador_code}', 0, 0, 1,
               (j.payload #>> '{payment,amount_cents}')::bigint, 0
        FROM journal j
        WHERE j.journal_id = ANY(:journal_ids) AND NOT j.test AND j.payload ? 'payment'
        UNION ALL
        SELECT (j.payload #>> '{share,account_id}')::uuid, j.recorded_at, j.payload #>> '{share,integrador_code}', 0, 0, 0, 0,
               (j.payload #>> '{share,share_cents}')::bigint
        FROM journal j
        WHERE j.journal_id = ANY(:journal_ids) AND NOT j.test AND j.payload ? 'share'
    ) t
    CROSS JOIN LATERAL unnest(ARRAY[t.account_id, '00000000-0000-0000-0000-000000000000']) AS a (account_id)
    WHERE t.integrador_code IS NOT NULL
    GROUP BY 1, 2, 3
)
INSERT INTO report_integrator AS r (account_id, day, integrador_code, charges, charge_cents, payments, payment_cents,
                                    given_cents, taken_back_cents)
TABLE counted
ON CONFLICT (account_id, day, integrador_code) DO UPDATE
SET charges = r.charges + excluded.charges, charge_cents = r.charge_cents + excluded.charge_cents,
    payments = r.payments + excluded.payments, payment_cents = r.payment_cents + excluded.payment_cents,
    given_cents = r.given_cents + excluded.given_cents, taken_back_cents = r.taken_back_cents + excluded.taken_back_cents;

-- name: attempts
-- Adds up the counts that webhook workers left. They do not come from the journal, so a rebuild leaves them alone.
WITH counted AS (
    DELETE FROM report_attempt_told
    WHERE ctid = ANY(ARRAY(SELECT ctid FROM report_attempt_told LIMIT :limit))
    RETURNING *
)
INSERT INTO report_attempt AS r (account_id, day, outcome, attempts, duration_ms)
SELECT a.account_id, t.day, t.outcome, sum(t.attempts), sum(t.duration_ms)
FROM counted t CROSS JOIN LATERAL unnest(ARRAY[t.account_id, '00000000-0000-0000-0000-000000000000']) AS a (account_id)
GROUP BY 1, 2, 3
ON CONFLICT (account_id, day, outcome) DO UPDATE
SET attempts = r.attempts + excluded.attempts, duration_ms = r.duration_ms + excluded.duration_ms;
