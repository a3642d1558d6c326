-- Callbacks of the bank, as hints, and how far the reconciler has asked.

-- name: store
-- Received twice, kept once. One that was found to be unfounded is checked again when it is received again: a forged
-- hint must not suppress the true one.
INSERT INTO bank_hint AS h (bank, about, txid, received_at, due_at)
SELECT DISTINCT ON (g.about) :bank, g.about, g.txid, :now::timestamptz, :now::timestamptz
FROM unnest(:abouts::text[], :txids::text[]) AS g (about, txid)
ORDER BY g.about
ON CONFLICT (about, bank) DO UPDATE
SET txid = excluded.txid, state = 'waiting', attempts = 0, due_at = excluded.due_at
WHERE h.state = 'unfounded'
RETURNING about;

-- name: claim
-- Take what is due. It is deferred by the length of a lease and not marked: after a worker's death it is due again.
UPDATE bank_hint SET attempts = attempts + 1, due_at = :lease_until
WHERE hint_id IN (
    SELECT hint_id FROM bank_hint WHERE state = 'waiting' AND due_at <= :now AND bank = ANY(:banks::text[])
    ORDER BY due_at LIMIT :limit FOR UPDATE SKIP LOCKED
)
RETURNING hint_id, bank, about, txid, attempts;

-- name: reported
-- How many payments the callbacks that were not checked yet report for each boleto.
SELECT txid AS number, count(*)::integer AS payments FROM bank_hint
WHERE state = 'waiting' AND bank = :bank AND txid = ANY(:numbers::text[]) GROUP BY txid;

-- name: settle
UPDATE bank_hint h SET state = g.state, attempts = g.attempts, due_at = g.due_at
FROM unnest(:verdicts.hint_id::bigint[], :verdicts.state::text[], :verdicts.attempts::integer[],
            :verdicts.due_at::timestamptz[]) AS g (hint_id, state, attempts, due_at)
WHERE h.hint_id = g.hint_id AND h.state = 'waiting';

-- name: unbooked
-- Which of these receipts are not on the books yet, and whether we know a production charge for them. Each is
-- looked up by the payment's own unique key, so that asking about everything again costs little. Of PIX charges only
-- dual ones can have been brought by a partner.
SELECT g.end_to_end_id, c.charge_id IS NOT NULL AS known, r.integrador_code
FROM unnest(:charge_ids::uuid[], :end_to_end_ids::text[]) AS g (charge_id, end_to_end_id)
LEFT JOIN charge c ON c.charge_id = g.charge_id AND NOT c.test
LEFT JOIN read_charge r
    ON c.payment_method = 'boleto_pix' AND r.charge_id = c.charge_id AND r.account_id = c.account_id
WHERE NOT EXISTS (
    SELECT FROM payment p
    WHERE p.account_id = c.account_id AND p.test = c.test AND p.source = g.end_to_end_id
);

-- name: reconciled
SELECT until FROM bank_reconciled WHERE bank = :bank AND method = :method;

-- name: set_reconciled
INSERT INTO bank_reconciled AS b (bank, method, until) VALUES (:bank, :method, :until)
ON CONFLICT (bank, method) DO UPDATE SET until = greatest(b.until, excluded.until);
