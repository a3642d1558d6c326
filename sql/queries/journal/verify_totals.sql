-- Verifies the daily totals of reports, slice by slice (readmodels/verify_totals.py), up to report_position.

-- name: next_day
-- The next day with totals. The days between two such days belong to the slice of the first.
SELECT least((SELECT min(day) FROM report_entry WHERE account_id = '00000000-0000-0000-0000-000000000000' AND day > :day),
             (SELECT min(day) FROM report_refund WHERE account_id = '00000000-0000-0000-0000-000000000000' AND day > :day),
             (SELECT min(day) FROM report_integrator WHERE account_id = '00000000-0000-0000-0000-000000000000' AND day > :day))
       AS key;

-- name: fill_days
-- Journal rows of all accounts: a partner's row is counted under the merchant's account.
WITH journaled AS MATERIALIZED (
    SELECT journal_id FROM journal
    WHERE NOT test AND recorded_at >= (:day::date::timestamp AT TIME ZONE 'America/Sao_Paulo')
      AND recorded_at < (:until::date::timestamp AT TIME ZONE 'America/Sao_Paulo')
      AND journal_id <= (SELECT journal_id FROM report_position)
)
INSERT INTO journal_order (journal_id) SELECT journal_id FROM journaled ORDER BY journal_id;

-- name: differences_of_days
-- for each of report_entry, report_refund, report_integrator
WITH kept AS MATERIALIZED (
    SELECT * FROM {each} WHERE day >= :day AND day < :until AND account_id BETWEEN :low AND :high
), made AS MATERIALIZED (
    SELECT * FROM pg_temp.{each} WHERE account_id BETWEEN :low AND :high
)
SELECT '{each}' AS table, 'missing or stale' AS what, count(*) AS rows FROM (TABLE made EXCEPT TABLE kept) d
UNION ALL
SELECT '{each}', 'not in the journal', count(*) FROM (TABLE kept EXCEPT TABLE made) d;

-- name: differences_of_entry_days
-- The same days in span_entry.
WITH kept AS MATERIALIZED (
    SELECT * FROM span_entry WHERE span = 'day' AND starts >= :day AND starts < :until AND account_id BETWEEN :low AND :high
), made AS MATERIALIZED (
    SELECT * FROM pg_temp.span_entry
    WHERE span = 'day' AND starts >= :day AND starts < :until AND account_id BETWEEN :low AND :high
)
SELECT 'span_entry' AS table, 'missing or stale' AS what, count(*) AS rows FROM (TABLE made EXCEPT TABLE kept) d
UNION ALL
SELECT 'span_entry', 'not in the journal', count(*) FROM (TABLE kept EXCEPT TABLE made) d;

-- name: issued_after
-- The account and day of the charge :count charges further on.
SELECT account_id, (created_at AT TIME ZONE 'America/Sao_Paulo')::date AS day FROM read_charge
WHERE (account_id, test, created_at) >= (:account_id, :test, :day::date::timestamp AT TIME ZONE 'America/Sao_Paulo')
  AND account_id <= :high AND test = :test
  AND (created_at AT TIME ZONE 'America/Sao_Paulo')::date >= :since AND (created_at AT TIME ZONE 'America/Sao_Paulo')::date < :until
ORDER BY account_id, test, created_at, charge_id OFFSET :count LIMIT 1;

-- name: fill_issued
-- Computes the totals of one mode's charges, issued between two pairs of account and day. report_charge holds each
-- charge as it was at report_position. (In the kept tables a row that no charge counts for any more stays, with zeros.)
-- OFFSET 0 forces a look-up for each charge of the slice: its days, estimated as few, would make the planner begin at
-- report_charge, and read all of it for each slice.
WITH behind AS MATERIALIZED (
    SELECT DISTINCT charge_id FROM journal
    WHERE journal_id > (SELECT journal_id FROM report_position) AND test = :test AND payload #> '{charge,paid_at}' IS NOT NULL
), issued AS MATERIALIZED (
    SELECT charge_id, (changes ->> 'paid_at')::timestamptz AS paid_at FROM read_charge c
    WHERE (c.account_id, c.test, c.created_at) >= (:account_id, :test, :day::date::timestamp AT TIME ZONE 'America/Sao_Paulo')
      AND (c.account_id, c.test, c.created_at) < (:to_account_id, :test, :to_day::date::timestamp AT TIME ZONE 'America/Sao_Paulo')
      AND c.test = :test
), charged AS MATERIALIZED (
    SELECT r.*, (r.created_at AT TIME ZONE 'America/Sao_Paulo')::date AS day,
           CASE WHEN b.charge_id IS NULL THEN i.paid_at END AS paid_at
    FROM issued i
    CROSS JOIN LATERAL (SELECT * FROM report_charge WHERE charge_id = i.charge_id OFFSET 0) r
    LEFT JOIN behind b ON b.charge_id = i.charge_id
    WHERE (r.created_at AT TIME ZONE 'America/Sao_Paulo')::date >= :since
      AND (r.created_at AT TIME ZONE 'America/Sao_Paulo')::date < :until
), spanned AS (
    INSERT INTO pg_temp.span_charge
    SELECT account_id, :test, 'issued', 'day', day, payment_method, status, count(*), sum(amount_cents) FROM charged
    GROUP BY 1, 5, 6, 7
), cohort AS (
    INSERT INTO pg_temp.report_cohort
    SELECT account_id, day, payment_method, status, count(*), sum(amount_cents) FROM charged GROUP BY 1, 2, 3, 4
)
INSERT INTO pg_temp.report_wait
SELECT account_id, day, payment_method, wait_bucket(created_at, paid_at), count(*)
FROM charged WHERE paid_at IS NOT NULL GROUP BY 1, 2, 3, 4;

-- name: differences_of_issued
-- for each of report_cohort, report_wait
WITH kept AS MATERIALIZED (
    SELECT * FROM {each}
    WHERE (account_id, day) >= (:account_id, :day) AND (account_id, day) < (:to_account_id, :to_day) AND charges <> 0
      AND day >= :since AND day < :until AND account_id <> '00000000-0000-0000-0000-000000000000'
)
SELECT '{each}' AS table, 'missing or stale' AS what, count(*) AS rows FROM (TABLE pg_temp.{each} EXCEPT TABLE kept) d
UNION ALL
SELECT '{each}', 'not in the journal', count(*) FROM (TABLE kept EXCEPT TABLE pg_temp.{each}) d;

-- name: differences_of_charge_days
-- The same days in span_charge, for either mode; also used for due dates.
WITH kept AS MATERIALIZED (
    SELECT * FROM span_charge
    WHERE (account_id, test, dated, span, starts) >= (:account_id, :test, :dated, 'day', :day)
      AND (account_id, test, dated, span, starts) < (:to_account_id, :test, :dated, 'day', :to_day)
      AND test = :test AND dated = :dated AND span = 'day' AND charges <> 0 AND starts >= :since AND starts < :until
)
SELECT 'span_charge' AS table, 'missing or stale' AS what, count(*) AS rows FROM (TABLE pg_temp.span_charge EXCEPT TABLE kept) d
UNION ALL
SELECT 'span_charge', 'not in the journal', count(*) FROM (TABLE kept EXCEPT TABLE pg_temp.span_charge) d;

-- name: due_after
SELECT account_id, due_date AS day FROM read_charge
WHERE (account_id, test, due_date) >= (:account_id, :test, :day::date) AND account_id <= :high
  AND test = :test AND due_date IS NOT NULL AND due_date >= :since AND due_date < :until
ORDER BY account_id, test, due_date, created_at, charge_id OFFSET :count LIMIT 1;

-- name: fill_due
-- The same for boletos, by due date. A boleto re-dated after report_position counts at its due date of then.
-- OFFSET 0: as in fill_issued.
WITH candidate AS MATERIALIZED (
    SELECT charge_id FROM read_charge
    WHERE (account_id, test, due_date) >= (:account_id, :test, :day::date) AND test = :test AND due_date IS NOT NULL
      AND (account_id, test, due_date) < (:to_account_id, :test, :to_day::date)
    UNION
    SELECT charge_id FROM journal
    WHERE journal_id > (SELECT journal_id FROM report_position) AND test = :test AND payload #> '{charge,due_date}' IS NOT NULL
), summed AS MATERIALIZED (
    SELECT r.account_id, r.status, r.due_date, r.payment_method, count(*) AS charges, sum(r.amount_cents) AS cents
    FROM candidate c
    CROSS JOIN LATERAL (SELECT * FROM report_charge WHERE charge_id = c.charge_id OFFSET 0) r
    WHERE (r.account_id, r.due_date) >= (:account_id, :day) AND (r.account_id, r.due_date) < (:to_account_id, :to_day)
      AND r.due_date >= :since AND r.due_date < :until
    GROUP BY 1, 2, 3, 4
), spanned AS (
    INSERT INTO pg_temp.span_charge
    SELECT account_id, :test, 'due', 'day', due_date, payment_method, status, charges, cents FROM summed
)
INSERT INTO pg_temp.report_due SELECT * FROM summed;

-- name: differences_of_due
-- for each of report_due
WITH kept AS MATERIALIZED (
    SELECT * FROM {each}
    WHERE account_id BETWEEN :account_id AND :to_account_id AND charges <> 0
      AND (account_id, due_date) >= (:account_id, :day) AND (account_id, due_date) < (:to_account_id, :to_day)
      AND due_date >= :since AND due_date < :until AND account_id <> '00000000-0000-0000-0000-000000000000'
)
SELECT '{each}' AS table, 'missing or stale' AS what, count(*) AS rows FROM (TABLE pg_temp.{each} EXCEPT TABLE kept) d
UNION ALL
SELECT '{each}', 'not in the journal', count(*) FROM (TABLE kept EXCEPT TABLE pg_temp.{each}) d;

-- name: next_month
SELECT date_trunc('month', least(
           (SELECT min(day) FROM report_cohort WHERE account_id = '00000000-0000-0000-0000-000000000000' AND day >= :day),
           (SELECT min(due_date) FROM report_due WHERE account_id = '00000000-0000-0000-0000-000000000000' AND due_date >= :day))
       + interval '1 month')::date AS key;

-- name: of_all
-- The totals of all accounts together must be the sums over the accounts.
WITH cohort AS MATERIALIZED (
    SELECT account_id = '00000000-0000-0000-0000-000000000000' AS together, day, payment_method, status,
           sum(charges) AS charges, sum(cents) AS cents
    FROM report_cohort WHERE day >= :day AND day < :until GROUP BY 1, 2, 3, 4 HAVING sum(charges) <> 0
), wait AS MATERIALIZED (
    SELECT account_id = '00000000-0000-0000-0000-000000000000' AS together, day, payment_method, bucket, sum(charges) AS charges
    FROM report_wait WHERE day >= :day AND day < :until GROUP BY 1, 2, 3, 4
), due AS MATERIALIZED (
    SELECT account_id = '00000000-0000-0000-0000-000000000000' AS together, status, due_date, payment_method,
           sum(charges) AS charges, sum(cents) AS cents
    FROM report_due WHERE due_date >= :day AND due_date < :until GROUP BY 1, 2, 3, 4 HAVING sum(charges) <> 0
)
SELECT 'report_cohort' AS table, 'not the sum of all accounts' AS what, count(*) AS rows
FROM (SELECT FROM cohort GROUP BY day, payment_method, status, charges, cents HAVING count(*) <> 2) d
UNION ALL
SELECT 'report_wait', 'not the sum of all accounts', count(*)
FROM (SELECT FROM wait GROUP BY day, payment_method, bucket, charges HAVING count(*) <> 2) d
UNION ALL
SELECT 'report_due', 'not the sum of all accounts', count(*)
FROM (SELECT FROM due GROUP BY status, due_date, payment_method, charges, cents HAVING count(*) <> 2) d;

-- name: spans_after
-- The account of the row :count rows further on, in either table, whichever is lower.
SELECT least((SELECT account_id FROM span_charge WHERE account_id >= :first AND account_id <= :high
              ORDER BY account_id OFFSET :count LIMIT 1),
             (SELECT account_id FROM span_entry WHERE account_id >= :first AND account_id <= :high
              ORDER BY account_id OFFSET :count LIMIT 1)) AS key;

-- name: fill_spans
-- Sums months, years and decades from the day rows of the same tables, which are compared with the journal and the
-- charges elsewhere.
WITH charged AS (
    INSERT INTO pg_temp.span_charge
    SELECT d.account_id, d.test, d.dated, s.span, s.starts, d.payment_method, d.status, sum(d.charges), sum(d.cents)
    FROM span_charge d CROSS JOIN LATERAL spans_of(d.starts) s
    WHERE d.account_id BETWEEN :first AND :last AND d.span = 'day' AND d.starts >= :since AND d.starts < :until
      AND s.span <> 'day'
    GROUP BY 1, 2, 3, 4, 5, 6, 7 HAVING sum(d.charges) <> 0
)
INSERT INTO pg_temp.span_entry
SELECT d.account_id, s.span, s.starts, d.type, d.method, sum(d.entries), sum(d.cents)
FROM span_entry d CROSS JOIN LATERAL spans_of(d.starts) s
WHERE d.account_id BETWEEN :first AND :last AND d.span = 'day' AND d.starts >= :since AND d.starts < :until
  AND s.span <> 'day'
GROUP BY 1, 2, 3, 4, 5;

-- name: differences_of_spans
-- Only spans that lie wholly within the verified days.
WITH charged AS MATERIALIZED (
    SELECT * FROM span_charge
    WHERE account_id BETWEEN :first AND :last AND span <> 'day' AND charges <> 0
      AND starts >= :since AND starts + ('1 ' || span)::interval <= :until
), made AS MATERIALIZED (
    SELECT * FROM pg_temp.span_charge WHERE starts >= :since AND starts + ('1 ' || span)::interval <= :until
), posted AS MATERIALIZED (
    SELECT * FROM span_entry
    WHERE account_id BETWEEN :first AND :last AND span <> 'day'
      AND starts >= :since AND starts + ('1 ' || span)::interval <= :until
), made_of_entries AS MATERIALIZED (
    SELECT * FROM pg_temp.span_entry WHERE starts >= :since AND starts + ('1 ' || span)::interval <= :until
)
SELECT 'span_charge' AS table, 'not the sum of its days' AS what, count(*) AS rows
FROM ((TABLE made EXCEPT TABLE charged) UNION (TABLE charged EXCEPT TABLE made)) d
UNION ALL
SELECT 'span_entry', 'not the sum of its days', count(*)
FROM ((TABLE made_of_entries EXCEPT TABLE posted) UNION (TABLE posted EXCEPT TABLE made_of_entries)) d;
