-- Callbacks of the bank, as hints.

-- name: store
-- Received twice, checked once. One that was checked is checked again when it is received again: a forged hint must not
-- suppress the true one, and what is on the books is not booked twice.
INSERT INTO bank_hint (bank, about, txid, received_at, due_at)
SELECT DISTINCT ON (g.about) :bank, g.about, g.txid, :now::timestamptz, :now::timestamptz
FROM unnest(:abouts::text[], :txids::text[]) AS g (about, txid)
ORDER BY g.about
ON CONFLICT (about, bank) DO NOTHING
RETURNING about;

-- name: are_full
-- Whether as many wait as are kept. Few wait as a rule, and all of them are counted in no time.
SELECT count(*) >= :waiting_max AS found FROM (SELECT FROM bank_hint LIMIT :waiting_max) AS waiting;

-- name: claim
-- Take what is due. It is deferred by the length of a lease and not marked: after a worker's death it is due again.
UPDATE bank_hint SET attempts = attempts + 1, due_at = :lease_until
WHERE hint_id = ANY(ARRAY(
    SELECT hint_id FROM bank_hint WHERE due_at <= :now AND bank = ANY(:banks::text[])
    ORDER BY due_at LIMIT :limit FOR UPDATE SKIP LOCKED
))
RETURNING hint_id, bank, about, txid, received_at, attempts;

-- name: reported
-- How many payments the callbacks that were not checked yet report for each boleto; not those received again. Each is looked
-- up (OFFSET 0): what was confirmed is never hashed whole.
SELECT g.number, r.payments
FROM unnest(:numbers::text[]) AS g (number)
CROSS JOIN LATERAL (
    SELECT count(*)::integer AS payments FROM bank_hint h
    WHERE h.txid = g.number AND h.bank = :bank
      AND NOT EXISTS (SELECT FROM bank_hint_done d WHERE d.about = h.about AND d.bank = h.bank OFFSET 0)
) r
WHERE r.payments > 0;

-- name: settle
-- What was checked leaves; of boletos it is kept that the bank has confirmed it. What was not waits for its next check.
WITH given AS MATERIALIZED (
    SELECT g.hint_id, g.state, g.attempts, g.due_at
    FROM unnest(:verdicts.hint_id::bigint[], :verdicts.state::text[], :verdicts.attempts::integer[],
                :verdicts.due_at::timestamptz[]) AS g (hint_id, state, attempts, due_at)
), ended AS (
    DELETE FROM bank_hint h USING given g
    WHERE h.hint_id = ANY(:verdicts.hint_id::bigint[]) AND h.hint_id = g.hint_id AND g.state <> 'waiting'
    RETURNING h.about, h.bank, g.state
), kept AS (
    INSERT INTO bank_hint_done (about, bank, confirmed_at)
    SELECT about, bank, :now FROM ended WHERE state = 'confirmed' AND starts_with(about, :boletos)
)
UPDATE bank_hint h SET attempts = g.attempts, due_at = g.due_at
FROM given g
WHERE h.hint_id = ANY(:verdicts.hint_id::bigint[]) AND h.hint_id = g.hint_id AND g.state = 'waiting';
