-- Money that fits no charge (commands/money/suspense.py).

-- name: add
-- Adds each receipt once, however often the bank lists it.
INSERT INTO suspense (suspense_id, bank, kind, source, reference, amount_cents, received_at, found_at, payer_sealed)
SELECT g.suspense_id, :bank, g.kind, g.source, g.reference, g.amount_cents, g.received_at, :now, g.payer_sealed
FROM unnest(:found.suspense_id::uuid[], :found.kind::text[], :found.source::text[], :found.reference::text[],
            :found.amount_cents::bigint[], :found.received_at::timestamptz[], :found.payer_sealed::bytea[])
     AS g (suspense_id, kind, source, reference, amount_cents, received_at, payer_sealed)
ON CONFLICT (bank, source) DO NOTHING
RETURNING source;

-- name: hold_boletos
-- Locks boleto numbers until the transaction ends, in one order: putting a boleto's money into suspense and creating
-- its charge after all wait for each other.
SELECT pg_advisory_xact_lock(hashtextextended(:bank || '/' || number, 0)) FROM (
    SELECT unnest(:numbers::text[]) AS number ORDER BY 1
) AS ordered;

-- name: leave_boletos
-- Removes the suspense rows of boletos that have charges by now, if none of a boleto's rows was settled. For the other
-- boletos returns the sum that stays.
WITH held AS MATERIALIZED (
    SELECT suspense_id, reference, amount_cents, state FROM suspense
    WHERE bank = :bank AND kind = 'boleto_unknown' AND reference = ANY(:numbers::text[])
    ORDER BY suspense_id FOR UPDATE
), begun AS MATERIALIZED (
    SELECT DISTINCT reference FROM held WHERE state <> 'open'
), gone AS (
    DELETE FROM suspense s USING held h
    WHERE s.suspense_id = h.suspense_id AND h.reference NOT IN (SELECT reference FROM begun)
)
SELECT reference AS number, sum(amount_cents)::bigint AS cents FROM held JOIN begun USING (reference) GROUP BY reference;

-- name: told_of_boletos
-- The sums already in suspense for these boletos: the bank reports a boleto's total, so only the difference is new.
SELECT reference AS number, sum(amount_cents)::bigint AS cents FROM suspense
WHERE bank = :bank AND kind = 'boleto_unknown' AND reference = ANY(:numbers::text[])
GROUP BY reference;

-- name: hold_sources
-- Locks the rows until the transaction ends, in one order. A row lock without a change does not block an INSERT ... ON
-- CONFLICT DO NOTHING of the same money. Two look-ups, because no index serves an OR.
SELECT suspense_id FROM suspense
WHERE suspense_id = ANY(ARRAY(
    SELECT suspense_id FROM suspense WHERE bank = :bank AND source = ANY(:sources::text[])
    UNION ALL
    SELECT suspense_id FROM suspense
    WHERE bank = :bank AND reference = ANY(:numbers::text[]) AND kind = 'boleto_unknown'))
ORDER BY suspense_id FOR UPDATE;

-- name: hold
-- Locks the row until the transaction ends: two members of staff who settle the same money are serialized here.
SELECT kind, source, reference, amount_cents, received_at, payer_sealed, state FROM suspense
WHERE suspense_id = :suspense_id FOR UPDATE;

-- name: charge
-- The production charge to assign money to, with its partner's code.
SELECT c.account_id, r.integrador_code FROM charge c
JOIN read_charge r ON r.charge_id = c.charge_id AND r.account_id = c.account_id
WHERE c.charge_id = :charge_id AND NOT c.test;

-- name: set_assigned
-- If the charge's payer was erased, the sealed sender is erased too.
UPDATE suspense s SET state = 'assigned', charge_id = :charge_id, settled_by = :by, settled_at = :now, note = :note,
                      payer_sealed = CASE WHEN c.payer_erased_at IS NULL THEN s.payer_sealed END
FROM charge c
WHERE s.suspense_id = :suspense_id AND c.charge_id = :charge_id;

-- name: set_returned
UPDATE suspense SET state = 'returned', return_reference = :reference, settled_by = :by, settled_at = :now, note = :note
WHERE suspense_id = :suspense_id;

-- name: note_returned
UPDATE suspense s SET state = 'returned', return_reference = g.reference, settled_by = :by, settled_at = :now
FROM unnest(:returned.of::text[], :returned.cents::bigint[], :returned.reference::text[]) AS g (source, cents, reference)
WHERE s.bank = :bank AND s.source = g.source AND s.state = 'open' AND s.amount_cents <= g.cents;

-- name: note_returned_boletos
-- Nothing records which PIX paid which suspense row of a boleto, so rows are marked only when the whole sum of the
-- boleto is returned.
UPDATE suspense s SET state = 'returned', return_reference = g.reference, settled_by = :by, settled_at = :now
FROM unnest(:returned.of::text[], :returned.cents::bigint[], :returned.reference::text[]) AS g (number, cents, reference)
WHERE s.bank = :bank AND s.reference = g.number AND s.kind = 'boleto_unknown' AND s.state = 'open'
  AND g.cents >= (SELECT sum(t.amount_cents) FROM suspense t
                  WHERE t.bank = :bank AND t.reference = g.number AND t.kind = 'boleto_unknown');

-- name: page
-- both ways
-- Index suspense_page.
SELECT received_at AS at, suspense_id AS id, bank, kind, source, reference, amount_cents, found_at, payer_sealed, state,
       settled_by, settled_at, charge_id, return_reference, note
FROM suspense
WHERE state = :state
  AND kind = :kind -- when kind
  AND (received_at, suspense_id) {<} (:at, :id)
ORDER BY received_at {DESC}, suspense_id {DESC}
LIMIT :limit;

-- name: find
SELECT received_at AS at, suspense_id AS id, bank, kind, source, reference, amount_cents, found_at, payer_sealed, state,
       settled_by, settled_at, charge_id, return_reference, note
FROM suspense WHERE suspense_id = :suspense_id;

-- name: totals
SELECT kind, count(*) AS rows, sum(amount_cents)::bigint AS cents, min(received_at) AS oldest_at
FROM suspense WHERE state = 'open' GROUP BY kind ORDER BY kind;
