-- Rebuilds the read tables from the journal, slice by slice (readmodels/rebuild.py). The slice is projected into shadow
-- tables (shadow.sql); rows that differ from their shadow are replaced in place, so writers wait for one slice at most.

-- name: begin
INSERT INTO rebuild (begun_at, standing) VALUES (:begun_at, :standing::jsonb) RETURNING rebuild_id, begun_at, standing;

-- name: unfinished
SELECT rebuild_id, begun_at, standing FROM rebuild WHERE ended_at IS NULL ORDER BY rebuild_id DESC LIMIT 1;

-- name: forget
DELETE FROM rebuild WHERE rebuild_id <= (SELECT rebuild_id FROM rebuild ORDER BY rebuild_id DESC OFFSET :kept LIMIT 1);

-- name: store
UPDATE rebuild SET standing = :standing::jsonb WHERE rebuild_id = :rebuild_id;

-- name: end
-- Ends earlier, interrupted rebuilds too: this one has done their work.
UPDATE rebuild SET ended_at = clock_timestamp() WHERE rebuild_id <= :rebuild_id AND ended_at IS NULL;

-- name: charges_between
SELECT charge_id FROM charge WHERE charge_id BETWEEN :first AND :last;

-- name: lock_charges
-- Every command that changes a charge locks it. SKIP LOCKED: this never waits while holding locks; skipped charges are
-- done in a later turn.
SELECT charge_id FROM charge WHERE charge_id = ANY(:charge_ids::uuid[]) ORDER BY charge_id FOR UPDATE SKIP LOCKED;

-- name: withdrawals_between
SELECT withdrawal_id FROM withdrawal WHERE withdrawal_id BETWEEN :first AND :last;

-- name: lock_withdrawals
SELECT withdrawal_id FROM withdrawal WHERE withdrawal_id = ANY(:withdrawal_ids::uuid[])
ORDER BY withdrawal_id FOR UPDATE SKIP LOCKED;

-- name: charges
-- for each of read_charge, read_payment, read_refund, read_event
-- Skips the rows of charges not locked here: another transaction holds them, or they have just been created.
SELECT repair('{each}', format(
    'r.charge_id BETWEEN %L AND %L AND NOT EXISTS (SELECT FROM charge c WHERE c.charge_id = r.charge_id AND c.charge_id <> ALL (%L::uuid[]))',
    :first::uuid, :last::uuid, :held::uuid[])) AS rows;

-- name: withdrawals
SELECT repair('read_withdrawal', format(
    'r.withdrawal_id BETWEEN %L AND %L AND NOT EXISTS '
    '(SELECT FROM withdrawal w WHERE w.withdrawal_id = r.withdrawal_id AND w.withdrawal_id <> ALL (%L::uuid[]))',
    :first::uuid, :last::uuid, :held::uuid[])) AS rows;

-- name: clear_lines
-- Ledger entries and events are written once, together with their journal row, so a row that differs from the journal
-- is wrong whatever is locked.
DELETE FROM read_ledger l USING pg_temp.read_ledger m
WHERE l.account_id = m.account_id AND l.test = m.test AND l.sequence = m.sequence AND ROW(l.*) IS DISTINCT FROM ROW(m.*);
-- name: fill_lines
WITH missing AS MATERIALIZED (
    SELECT m.* FROM pg_temp.read_ledger m LEFT JOIN read_ledger l USING (account_id, test, sequence) WHERE l.entry_id IS NULL
)
INSERT INTO read_ledger TABLE missing;

-- name: clear_events
DELETE FROM read_event e USING pg_temp.read_event m
WHERE e.account_id = m.account_id AND e.test = m.test AND e.sequence = m.sequence AND ROW(e.*) IS DISTINCT FROM ROW(m.*);
-- name: fill_events
WITH missing AS MATERIALIZED (
    SELECT m.* FROM pg_temp.read_event m LEFT JOIN read_event e USING (account_id, test, sequence, created_at) WHERE e.event_id IS NULL
)
INSERT INTO read_event TABLE missing;

-- name: drop_lines
DELETE FROM read_ledger l
USING unnest(:lines.account_id::uuid[], :lines.test::boolean[], :lines.sequence::bigint[]) AS g (account_id, test, sequence)
WHERE l.account_id = g.account_id AND l.test = g.test AND l.sequence = g.sequence
  AND NOT EXISTS (SELECT FROM pg_temp.read_ledger m WHERE m.account_id = l.account_id AND m.test = l.test
                  AND m.sequence = l.sequence AND ROW(m.*) IS NOT DISTINCT FROM ROW(l.*));

-- name: drop_events
DELETE FROM read_event e
USING unnest(:events.account_id::uuid[], :events.test::boolean[], :events.sequence::bigint[], :events.created_at::timestamptz[])
     AS g (account_id, test, sequence, created_at)
WHERE e.account_id = g.account_id AND e.test = g.test AND e.sequence = g.sequence AND e.created_at = g.created_at
  AND NOT EXISTS (SELECT FROM pg_temp.read_event m WHERE m.account_id = e.account_id AND m.test = e.test
                  AND m.sequence = e.sequence AND ROW(m.*) IS NOT DISTINCT FROM ROW(e.*));

-- name: report_charges
SELECT repair('report_charge', format('r.charge_id BETWEEN %L AND %L', :first::uuid, :last::uuid)) AS rows;

-- name: days
-- for each of report_entry, report_refund, report_integrator
SELECT repair('{each}', format('r.day >= %L AND r.day < %L', :day::date, :until::date)) AS rows;

-- name: entry_days
SELECT repair('span_entry', format('r.span = %L AND r.starts >= %L AND r.starts < %L', 'day', :day::date, :until::date)) AS rows;

-- name: charge_days
SELECT repair('span_charge', format(
    '(r.account_id, r.test, r.dated, r.span, r.starts) >= (%1$L::uuid, %2$L::boolean, %3$L, %4$L, %5$L::date) AND '
    '(r.account_id, r.test, r.dated, r.span, r.starts) < (%6$L::uuid, %2$L::boolean, %3$L, %4$L, %7$L::date) AND '
    'r.test = %2$L::boolean AND r.dated = %3$L AND r.span = %4$L',
    :account_id::uuid, :test::boolean, :dated::text, 'day', :day::date, :to_account_id::uuid, :to_day::date)) AS rows;

-- name: spans
-- for each of span_charge, span_entry
SELECT repair('{each}', format('r.account_id BETWEEN %L AND %L AND r.span <> %L', :first::uuid, :last::uuid, 'day')) AS rows;

-- name: issued
-- for each of report_cohort, report_wait
SELECT repair('{each}', format(
    '(r.account_id, r.day) >= (%L::uuid, %L::date) AND (r.account_id, r.day) < (%L::uuid, %L::date) AND r.account_id <> %L',
    :account_id::uuid, :day::date, :to_account_id::uuid, :to_day::date, '00000000-0000-0000-0000-000000000000')) AS rows;

-- name: due
SELECT repair('report_due', format(
    '(r.account_id, r.due_date) >= (%L::uuid, %L::date) AND (r.account_id, r.due_date) < (%L::uuid, %L::date) AND r.account_id <> %L',
    :account_id::uuid, :day::date, :to_account_id::uuid, :to_day::date, '00000000-0000-0000-0000-000000000000')) AS rows;

-- name: fill_together
WITH cohort AS (
    INSERT INTO pg_temp.report_cohort
    SELECT '00000000-0000-0000-0000-000000000000'::uuid, day, payment_method, status, sum(charges), sum(cents) FROM report_cohort
    WHERE day >= :day AND day < :until AND account_id <> '00000000-0000-0000-0000-000000000000'
    GROUP BY 2, 3, 4 HAVING sum(charges) <> 0
), wait AS (
    INSERT INTO pg_temp.report_wait
    SELECT '00000000-0000-0000-0000-000000000000'::uuid, day, payment_method, bucket, sum(charges) FROM report_wait
    WHERE day >= :day AND day < :until AND account_id <> '00000000-0000-0000-0000-000000000000' GROUP BY 2, 3, 4
)
INSERT INTO pg_temp.report_due
SELECT '00000000-0000-0000-0000-000000000000'::uuid, status, due_date, payment_method, sum(charges), sum(cents) FROM report_due
WHERE due_date >= :day AND due_date < :until AND account_id <> '00000000-0000-0000-0000-000000000000'
GROUP BY 2, 3, 4 HAVING sum(charges) <> 0;

-- name: together
SELECT repair('report_cohort', format('r.account_id = %L AND r.day >= %L AND r.day < %L', k.nobody, :day::date, :until::date))
       + repair('report_wait', format('r.account_id = %L AND r.day >= %L AND r.day < %L', k.nobody, :day::date, :until::date))
       + repair('report_due', format('r.account_id = %L AND r.due_date >= %L AND r.due_date < %L', k.nobody, :day::date, :until::date))
       AS rows
FROM (VALUES ('00000000-0000-0000-0000-000000000000')) AS k (nobody);
