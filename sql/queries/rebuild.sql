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
-- name: shadow_event
CREATE TEMPORARY TABLE read_event (LIKE public.read_event INCLUDING ALL) ON COMMIT DROP;
-- name: shadow_ledger
CREATE TEMPORARY TABLE read_ledger (LIKE public.read_ledger INCLUDING ALL) ON COMMIT DROP;

-- name: empty
-- Not TRUNCATE: a verification that began before would see empty tables.
WITH charges AS (DELETE FROM public.read_charge),
     payments AS (DELETE FROM public.read_payment),
     refunds AS (DELETE FROM public.read_refund),
     events AS (DELETE FROM public.read_event)
DELETE FROM public.read_ledger;

-- name: fill_charge
INSERT INTO public.read_charge TABLE pg_temp.read_charge;
-- name: fill_payment
INSERT INTO public.read_payment TABLE pg_temp.read_payment;
-- name: fill_refund
INSERT INTO public.read_refund TABLE pg_temp.read_refund;
-- name: fill_event
INSERT INTO public.read_event TABLE pg_temp.read_event;
-- name: fill_ledger
INSERT INTO public.read_ledger TABLE pg_temp.read_ledger;
