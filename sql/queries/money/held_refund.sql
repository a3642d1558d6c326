-- Refunds by transfer that are held until staff decide (commands/money/held_refunds.py).

-- name: add
INSERT INTO held_refund (account_id, refund_id, charge_id, amount_cents, why, request, held_at)
SELECT g.account_id, g.refund_id, g.charge_id, g.amount_cents, g.why, g.request, :now
FROM unnest(:held.account_id::uuid[], :held.refund_id::uuid[], :held.charge_id::uuid[], :held.amount_cents::bigint[],
            :held.why::text[], :requests::jsonb[])
     AS g (account_id, refund_id, charge_id, amount_cents, why, request);

-- name: hold
-- Locks the row until the transaction ends: two members of staff who decide the same refund are serialized here.
SELECT charge_id, request, state FROM held_refund WHERE refund_id = :refund_id FOR UPDATE;

-- name: decide
-- If the charge's payer was erased before the refund was requested, no later erasure would clear this row. So the
-- sealed destination is removed here and remains only in the bank order until that ends. The caller holds the charge's
-- lock, as an erasure does.
UPDATE held_refund h SET state = :state, decided_by = :by, decided_at = :now, reason = :reason,
    request = CASE WHEN c.payer_erased_at IS NULL THEN h.request ELSE h.request - 'destination_sealed' END
FROM charge c
WHERE h.refund_id = :refund_id AND c.charge_id = h.charge_id AND c.account_id = h.account_id;

-- name: page
-- both ways
-- Index held_refund_page.
SELECT h.held_at AS at, h.refund_id AS id, h.account_id, a.name AS merchant, a.kyc, h.charge_id, h.amount_cents, h.why,
       h.request, h.state, h.decided_by, h.decided_at, h.reason, c.payer_sealed
FROM held_refund h
JOIN account a ON a.account_id = h.account_id
JOIN charge c ON c.charge_id = h.charge_id AND c.account_id = h.account_id
WHERE h.state = :state
  AND (h.held_at, h.refund_id) {<} (:at, :id)
ORDER BY h.held_at {DESC}, h.refund_id {DESC}
LIMIT :limit;

-- name: find
SELECT h.held_at AS at, h.refund_id AS id, h.account_id, a.name AS merchant, a.kyc, h.charge_id, h.amount_cents, h.why,
       h.request, h.state, h.decided_by, h.decided_at, h.reason, c.payer_sealed
FROM held_refund h
JOIN account a ON a.account_id = h.account_id
JOIN charge c ON c.charge_id = h.charge_id AND c.account_id = h.account_id
WHERE h.refund_id = :refund_id;

-- name: total
-- Reads every open row; there are few, since each waits for a person.
SELECT count(*) AS rows, coalesce(sum(amount_cents), 0)::bigint AS cents, min(held_at) AS oldest_at
FROM held_refund WHERE state = 'open';
