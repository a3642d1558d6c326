-- Hints: the bank's callbacks, which are checked with the bank before anything is booked.

-- name: store
-- A hint received twice is checked once. A hint that was checked and is received again is checked again: a forged hint
-- must not suppress the genuine one, and a payment already booked is not booked twice.
--
-- A hint about no charge or boleto of ours is counted but not stored: asking the bank about it would be in vain, and
-- the reconcilers find unknown money in the bank's lists. OFFSET 0 forces a key look-up for each.
WITH known AS MATERIALIZED (
    SELECT DISTINCT ON (g.about) g.about, g.txid
    FROM unnest(:abouts::text[], :txids::text[]) AS g (about, txid)
    WHERE CASE
        WHEN starts_with(g.about, :boletos)
        THEN EXISTS (SELECT FROM boleto b WHERE b.number = g.txid AND b.bank = :bank OFFSET 0)
        ELSE g.txid ~ '^[0-9a-f]{32}$'
         AND EXISTS (SELECT FROM charge c WHERE c.charge_id = g.txid::uuid AND c.bank = :bank AND NOT c.test OFFSET 0)
    END
    ORDER BY g.about
), stored AS (
    INSERT INTO bank_hint (bank, about, txid, received_at, due_at, request_id)
    SELECT :bank, about, txid, :now::timestamptz, :now::timestamptz, :request_id::text FROM known
    ON CONFLICT (about, bank) DO NOTHING
    RETURNING about
)
SELECT (SELECT count(*) FROM stored) AS stored, cardinality(:abouts::text[]) - (SELECT count(*) FROM known) AS unknown;

-- name: are_full
-- Whether the queue of hints is full. It is usually short, so counting it is cheap.
SELECT count(*) >= :waiting_max AS found FROM (SELECT FROM bank_hint LIMIT :waiting_max) AS waiting;

-- name: claim
-- Claims due hints, of PIX or of boletos. There is no state for it: due_at moves by the length of a lease, so after a
-- worker's death the hint is due again.
UPDATE bank_hint SET attempts = attempts + 1, due_at = :lease_until
WHERE hint_id = ANY(ARRAY(
    SELECT hint_id FROM bank_hint WHERE of_boleto = :of_boleto AND due_at <= :now AND bank = ANY(:banks::text[])
    ORDER BY due_at LIMIT :limit FOR UPDATE SKIP LOCKED
))
RETURNING hint_id, bank, about, txid, received_at, attempts, request_id;

-- name: reported
-- How many payments the unchecked callbacks report for each boleto, without those confirmed before and received again.
-- OFFSET 0 forces a key look-up, so that bank_hint_done is never hashed whole.
SELECT g.number, r.payments
FROM unnest(:numbers::text[]) AS g (number)
CROSS JOIN LATERAL (
    SELECT count(*)::integer AS payments FROM bank_hint h
    WHERE h.txid = g.number AND h.bank = :bank
      AND NOT EXISTS (SELECT FROM bank_hint_done d WHERE d.about = h.about AND d.bank = h.bank OFFSET 0)
) r
WHERE r.payments > 0;

-- name: settle
-- Deletes the checked hints; a confirmed hint about a boleto is recorded in bank_hint_done. The others wait for their
-- next check.
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
