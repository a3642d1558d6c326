-- Callbacks of the bank, as hints.

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
