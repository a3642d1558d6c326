-- Make the read tables anew beside the real ones. Temporary tables of the same names come first in the search path, so
-- the statements of project.sql fill them unchanged; after `real_first` these names mean the real tables again.

-- name: hold_journal
-- Waits for transactions that append, and keeps others from appending while the copy is made. Readers go on.
LOCK TABLE journal IN SHARE MODE;

-- name: shadow_order
CREATE TEMPORARY TABLE journal_order (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, journal_id bigint NOT NULL) ON COMMIT DROP;
-- name: fill_order
-- Along a charge the order is that of its versions: journal ids that several nodes handed out do not grow with time.
WITH journaled AS MATERIALIZED (SELECT journal_id FROM journal ORDER BY version, journal_id)
INSERT INTO journal_order (journal_id) TABLE journaled;
-- name: page
SELECT journal_id FROM journal_order WHERE place > :after ORDER BY place LIMIT :limit;

-- name: shadow_charge
CREATE TEMPORARY TABLE read_charge (LIKE read_charge INCLUDING ALL) ON COMMIT DROP;
-- name: shadow_payment
CREATE TEMPORARY TABLE read_payment (LIKE read_payment INCLUDING ALL) ON COMMIT DROP;
-- name: shadow_refund
CREATE TEMPORARY TABLE read_refund (LIKE read_refund INCLUDING ALL) ON COMMIT DROP;
-- name: shadow_withdrawal
CREATE TEMPORARY TABLE read_withdrawal (LIKE read_withdrawal INCLUDING ALL) ON COMMIT DROP;
-- name: shadow_event
CREATE TEMPORARY TABLE read_event (LIKE read_event INCLUDING ALL) ON COMMIT DROP;
-- name: shadow_ledger
CREATE TEMPORARY TABLE read_ledger (LIKE read_ledger INCLUDING ALL) ON COMMIT DROP;

-- name: real_first
SELECT set_config('search_path', format('%I, pg_temp', current_schema()), true);

-- name: empty
-- Not TRUNCATE: a verification that began before would see empty tables.
WITH charges AS (DELETE FROM read_charge),
     payments AS (DELETE FROM read_payment),
     refunds AS (DELETE FROM read_refund),
     withdrawals AS (DELETE FROM read_withdrawal),
     events AS (DELETE FROM read_event)
DELETE FROM read_ledger;

-- name: fill_charge
WITH made AS MATERIALIZED (TABLE pg_temp.read_charge) INSERT INTO read_charge TABLE made;
-- name: fill_payment
WITH made AS MATERIALIZED (TABLE pg_temp.read_payment) INSERT INTO read_payment TABLE made;
-- name: fill_refund
WITH made AS MATERIALIZED (TABLE pg_temp.read_refund) INSERT INTO read_refund TABLE made;
-- name: fill_withdrawal
WITH made AS MATERIALIZED (TABLE pg_temp.read_withdrawal) INSERT INTO read_withdrawal TABLE made;
-- name: fill_event
WITH made AS MATERIALIZED (TABLE pg_temp.read_event) INSERT INTO read_event TABLE made;
-- name: fill_ledger
WITH made AS MATERIALIZED (TABLE pg_temp.read_ledger) INSERT INTO read_ledger TABLE made;

-- The daily totals of reports, made anew with them.

-- name: shadow_report_charge
CREATE TEMPORARY TABLE report_charge (LIKE report_charge INCLUDING ALL) ON COMMIT DROP;
-- name: shadow_report_cohort
CREATE TEMPORARY TABLE report_cohort (LIKE report_cohort INCLUDING ALL) ON COMMIT DROP;
-- name: shadow_report_due
CREATE TEMPORARY TABLE report_due (LIKE report_due INCLUDING ALL) ON COMMIT DROP;
-- name: shadow_report_wait
CREATE TEMPORARY TABLE report_wait (LIKE report_wait INCLUDING ALL) ON COMMIT DROP;
-- name: shadow_report_entry
CREATE TEMPORARY TABLE report_entry (LIKE report_entry INCLUDING ALL) ON COMMIT DROP;
-- name: shadow_report_refund
CREATE TEMPORARY TABLE report_refund (LIKE report_refund INCLUDING ALL) ON COMMIT DROP;
-- name: shadow_report_integrator
CREATE TEMPORARY TABLE report_integrator (LIKE report_integrator INCLUDING ALL) ON COMMIT DROP;

-- name: empty_reports
WITH charges AS (DELETE FROM report_charge),
     cohorts AS (DELETE FROM report_cohort),
     dues AS (DELETE FROM report_due),
     waits AS (DELETE FROM report_wait),
     entries AS (DELETE FROM report_entry),
     refunds AS (DELETE FROM report_refund)
DELETE FROM report_integrator;

-- name: fill_report_charge
WITH made AS MATERIALIZED (TABLE pg_temp.report_charge) INSERT INTO report_charge TABLE made;
-- name: fill_report_cohort
WITH made AS MATERIALIZED (TABLE pg_temp.report_cohort) INSERT INTO report_cohort TABLE made;
-- name: fill_report_due
WITH made AS MATERIALIZED (TABLE pg_temp.report_due) INSERT INTO report_due TABLE made;
-- name: fill_report_wait
WITH made AS MATERIALIZED (TABLE pg_temp.report_wait) INSERT INTO report_wait TABLE made;
-- name: fill_report_entry
WITH made AS MATERIALIZED (TABLE pg_temp.report_entry) INSERT INTO report_entry TABLE made;
-- name: fill_report_refund
WITH made AS MATERIALIZED (TABLE pg_temp.report_refund) INSERT INTO report_refund TABLE made;
-- name: fill_report_integrator
WITH made AS MATERIALIZED (TABLE pg_temp.report_integrator) INSERT INTO report_integrator TABLE made;
