-- Make the read tables anew beside the real ones. Temporary tables of the same names come first in the search path,
-- so the statements of project.sql fill them, unchanged, while the journal is read from where it is.

-- name: hold_journal
-- Nobody appends while the copy is made; whoever is appending is waited for. Readers go on.
LOCK TABLE public.journal IN SHARE MODE;

-- name: shadow_charge
CREATE TEMPORARY TABLE read_charge (LIKE public.read_charge INCLUDING ALL) ON COMMIT DROP;
-- name: shadow_payment
CREATE TEMPORARY TABLE read_payment (LIKE public.read_payment INCLUDING ALL) ON COMMIT DROP;
-- name: shadow_refund
CREATE TEMPORARY TABLE read_refund (LIKE public.read_refund INCLUDING ALL) ON COMMIT DROP;
-- name: shadow_withdrawal
CREATE TEMPORARY TABLE read_withdrawal (LIKE public.read_withdrawal INCLUDING ALL) ON COMMIT DROP;
-- name: shadow_event
CREATE TEMPORARY TABLE read_event (LIKE public.read_event INCLUDING ALL) ON COMMIT DROP;
-- name: shadow_ledger
CREATE TEMPORARY TABLE read_ledger (LIKE public.read_ledger INCLUDING ALL) ON COMMIT DROP;

-- name: empty
-- Not TRUNCATE: a verification that began before would see empty tables.
WITH charges AS (DELETE FROM public.read_charge),
     payments AS (DELETE FROM public.read_payment),
     refunds AS (DELETE FROM public.read_refund),
     withdrawals AS (DELETE FROM public.read_withdrawal),
     events AS (DELETE FROM public.read_event)
DELETE FROM public.read_ledger;

-- name: fill_charge
INSERT INTO public.read_charge TABLE pg_temp.read_charge;
-- name: fill_payment
INSERT INTO public.read_payment TABLE pg_temp.read_payment;
-- name: fill_refund
INSERT INTO public.read_refund TABLE pg_temp.read_refund;
-- name: fill_withdrawal
INSERT INTO public.read_withdrawal TABLE pg_temp.read_withdrawal;
-- name: fill_event
INSERT INTO public.read_event TABLE pg_temp.read_event;
-- name: fill_ledger
INSERT INTO public.read_ledger TABLE pg_temp.read_ledger;

-- The daily totals of reports, made anew with them.

-- name: shadow_report_charge
CREATE TEMPORARY TABLE report_charge (LIKE public.report_charge INCLUDING ALL) ON COMMIT DROP;
-- name: shadow_report_cohort
CREATE TEMPORARY TABLE report_cohort (LIKE public.report_cohort INCLUDING ALL) ON COMMIT DROP;
-- name: shadow_report_due
CREATE TEMPORARY TABLE report_due (LIKE public.report_due INCLUDING ALL) ON COMMIT DROP;
-- name: shadow_report_wait
CREATE TEMPORARY TABLE report_wait (LIKE public.report_wait INCLUDING ALL) ON COMMIT DROP;
-- name: shadow_report_entry
CREATE TEMPORARY TABLE report_entry (LIKE public.report_entry INCLUDING ALL) ON COMMIT DROP;
-- name: shadow_report_refund
CREATE TEMPORARY TABLE report_refund (LIKE public.report_refund INCLUDING ALL) ON COMMIT DROP;
-- name: shadow_report_integrator
CREATE TEMPORARY TABLE report_integrator (LIKE public.report_integrator INCLUDING ALL) ON COMMIT DROP;

-- name: empty_reports
WITH charges AS (DELETE FROM public.report_charge),
     cohorts AS (DELETE FROM public.report_cohort),
     dues AS (DELETE FROM public.report_due),
     waits AS (DELETE FROM public.report_wait),
     entries AS (DELETE FROM public.report_entry),
     refunds AS (DELETE FROM public.report_refund)
DELETE FROM public.report_integrator;

-- name: fill_report_charge
INSERT INTO public.report_charge TABLE pg_temp.report_charge;
-- name: fill_report_cohort
INSERT INTO public.report_cohort TABLE pg_temp.report_cohort;
-- name: fill_report_due
INSERT INTO public.report_due TABLE pg_temp.report_due;
-- name: fill_report_wait
INSERT INTO public.report_wait TABLE pg_temp.report_wait;
-- name: fill_report_entry
INSERT INTO public.report_entry TABLE pg_temp.report_entry;
-- name: fill_report_refund
INSERT INTO public.report_refund TABLE pg_temp.report_refund;
-- name: fill_report_integrator
INSERT INTO public.report_integrator TABLE pg_temp.report_integrator;
