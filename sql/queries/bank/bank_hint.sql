-- Callbacks of the bank, as hints.

-- name: store
-- Received twice, checked once. One that was checked is checked again when it is received again: a forged hint must not
-- suppress the true one, and what is on the books is not booked twice.
--
-- What is about no charge or boleto of ours is counted and not kept: the bank could only be asked in vain, and money that fits
-- nothing of ours is found in its lists. Each is looked up by its key (OFFSET 0).
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
-- Whether as many wait as are kept. Few wait as a rule, and all of them are counted in no time.
SELECT count(*) >= :waiting_max AS found FROM (SELECT FROM bank_hint LIMIT :waiting_max) AS waiting;

-- name: claim
-- Take what is due, of PIX or of boletos. It is deferred by the length of a lease and not marked: after a worker's death it is due again.
UPDATE bank_hint SET attempts = attempts + 1, due_at = :lease_until
WHERE hint_id = ANY(ARRAY(
    SELECT hint_id FROM bank_hint WHERE of_boleto = :of_boleto AND due_at <= :now AND bank = ANY(:banks::text[])
    ORDER BY due_at LIMIT :limit FOR UPDATE SKIP LOCKED
))
RETURNING hint_id, bank, about, txid, received_at, attempts, request_id;

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
