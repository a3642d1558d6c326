-- Make the read tables anew beside the real ones. Temporary tables of the same names come first in the search path, so
-- the functions of 0015_projections and report_fold.sql fill them unchanged; after `real_first` these names mean the real tables again.

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

-- name: shadow
-- for each of read_charge, read_payment, read_refund, read_withdrawal, read_event, read_ledger, report_charge,
--   report_cohort, report_due, report_wait, report_entry, report_refund, report_integrator
CREATE TEMPORARY TABLE {each} (LIKE {each} INCLUDING ALL) ON COMMIT DROP;

-- name: real_first
SELECT set_config('search_path', format('%I, pg_temp', current_schema()), true);

-- name: empty
-- for each of read_charge, read_payment, read_refund, read_withdrawal, read_event, read_ledger, report_charge,
--   report_cohort, report_due, report_wait, report_entry, report_refund, report_integrator
-- Not TRUNCATE: a verification that began before would see empty tables.
DELETE FROM {each};

-- name: fill
-- for each of read_charge, read_payment, read_refund, read_withdrawal, read_event, read_ledger, report_charge,
--   report_cohort, report_due, report_wait, report_entry, report_refund, report_integrator
WITH made AS MATERIALIZED (TABLE pg_temp.{each}) INSERT INTO {each} TABLE made;
