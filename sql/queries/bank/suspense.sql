-- Money that fits no charge (commands/money/suspense.py).

-- name: add
-- Each once, however often the bank lists it.
INSERT INTO suspense (suspense_id, bank, kind, source, reference, amount_cents, received_at, found_at, payer_sealed)
SELECT g.suspense_id, :bank, g.kind, g.source, g.reference, g.amount_cents, g.received_at, :now, g.payer_sealed
FROM unnest(:found.suspense_id::uuid[], :found.kind::text[], :found.source::text[], :found.reference::text[],
            :found.amount_cents::bigint[], :found.received_at::timestamptz[], :found.payer_sealed::bytea[])
     AS g (suspense_id, kind, source, reference, amount_cents, received_at, payer_sealed)
ON CONFLICT (bank, source) DO NOTHING
RETURNING source;

-- name: hold_boletos
-- For the rest of the transaction: who puts a boleto's money into suspense and who makes its charge after all wait for each
-- other, in one order.
SELECT pg_advisory_xact_lock(hashtextextended(:bank || '/' || number, 0)) FROM (
    SELECT unnest(:numbers::text[]) AS number ORDER BY 1
) AS ordered;

-- name: leave_boletos
-- What is there of boletos that have charges by now, when nobody has settled any of it; answers what stays of the others.
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
-- What is in suspense already of these boletos: the bank tells a boleto's total, of which only the rest is new.
SELECT reference AS number, sum(amount_cents)::bigint AS cents FROM suspense
WHERE bank = :bank AND kind = 'boleto_unknown' AND reference = ANY(:numbers::text[])
GROUP BY reference;

-- name: hold_sources
-- For the rest of the transaction, in one order. Locked and not changed yet, they keep nobody waiting who lists the same money.
SELECT suspense_id FROM suspense
WHERE bank = :bank AND (source = ANY(:sources::text[]) OR (reference = ANY(:numbers::text[]) AND kind = 'boleto_unknown'))
ORDER BY suspense_id FOR UPDATE;

-- name: hold
-- For the rest of the transaction: two who settle the same money wait for each other here.
SELECT kind, source, reference, amount_cents, received_at, payer_sealed, state FROM suspense
WHERE suspense_id = :suspense_id FOR UPDATE;

-- name: charge
-- A charge of production that money can be assigned to, with the partner it is attributed to.
SELECT c.account_id, r.integrador_code FROM charge c
JOIN read_charge r ON r.charge_id = c.charge_id AND r.account_id = c.account_id
WHERE c.charge_id = :charge_id AND NOT c.test;

-- name: set_assigned
-- To a charge whose payer was erased it comes without who sent it.
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
-- Of a boleto it stands nowhere which PIX paid what: only when all that was paid into it is back, none of it is left here.
UPDATE suspense s SET state = 'returned', return_reference = g.reference, settled_by = :by, settled_at = :now
FROM unnest(:returned.of::text[], :returned.cents::bigint[], :returned.reference::text[]) AS g (number, cents, reference)
WHERE s.bank = :bank AND s.reference = g.number AND s.kind = 'boleto_unknown' AND s.state = 'open'
  AND g.cents >= (SELECT sum(t.amount_cents) FROM suspense t
                  WHERE t.bank = :bank AND t.reference = g.number AND t.kind = 'boleto_unknown');

-- name: page
-- both ways
-- suspense_page.
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
