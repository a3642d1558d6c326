-- Shadow tables: temporary tables with the names of the read tables. They come first in the search path, so the
-- functions of 0015_projections and report_fold.sql fill them unchanged.

-- name: order
CREATE TEMPORARY TABLE journal_order (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, journal_id bigint NOT NULL) ON COMMIT DROP;

-- name: make
-- for each of read_charge, read_payment, read_refund, read_withdrawal, read_event, read_ledger, report_charge,
--   report_cohort, report_due, report_wait, report_entry, report_refund, report_integrator, span_charge, span_entry
SELECT make_shadow('{each}');

-- name: plans_anew
-- A statement prepared on this connection before the shadows existed would still write to the real tables.
DISCARD PLANS;

-- name: real_kept
-- Protects the real tables: a READ ONLY transaction can write temporary tables only.
SET TRANSACTION READ ONLY;

-- name: page
SELECT journal_id FROM journal_order WHERE place > :after ORDER BY place LIMIT :limit;

-- name: shadow_first
-- pg_temp is searched first unless search_path names it.
SELECT set_config('search_path', quote_ident(current_schema()), true);

-- name: real_first
SELECT set_config('search_path', format('%I, pg_temp', current_schema()), true);

-- name: count
-- for each of read_event, read_ledger
SELECT count(*) AS rows FROM pg_temp.{each};
