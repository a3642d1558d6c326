-- The simulated bank's cobs and received PIX (banks/simulated). Every statement concerns one world.

-- name: add_locations
-- One statement for any number of locations, so that thousands a second cost few round trips.
INSERT INTO simulated_location (world, token, location, created_at)
SELECT :world, g.token, :prefix::text || g.token, :now FROM unnest(:tokens::text[]) AS g (token)
RETURNING location_id, location;

-- name: put_cobs
-- PUTs any number of cobs and returns the result for each txid. An existing cob is changed while ATIVA (the standard
-- allows repeating a PUT; the same PUT changes nothing) and refused otherwise. DISTINCT ON: one statement cannot update
-- a row twice.
WITH given AS (
    SELECT DISTINCT ON (g.txid) * FROM unnest(
        :cobs.txid::text[], :cobs.amount_cents::bigint[], :cobs.pix_key::text[], :descriptions::text[], :payers::bytea[],
        :cobs.created_at::timestamptz[], :cobs.expires_in_s::integer[], :cobs.location_id::bigint[]
    ) AS g (txid, amount_cents, pix_key, description, payer_sealed, created_at, expires_in_s, location_id)
), placed AS (
    SELECT g.*, l.location,
           EXISTS (SELECT FROM simulated_cob o
                   WHERE o.world = :world AND o.location_id = g.location_id AND o.txid <> g.txid)
           OR row_number() OVER (PARTITION BY g.location_id ORDER BY g.txid) > 1 AS taken
    FROM given g
    LEFT JOIN simulated_location l ON l.world = :world AND l.location_id = g.location_id
), put AS (
    INSERT INTO simulated_cob AS c (world, txid, status, amount_cents, pix_key, description, payer_sealed,
                                         created_at, expires_in_s, location_id)
    SELECT :world, txid, 'ATIVA', amount_cents, pix_key, description, payer_sealed, created_at, expires_in_s, location_id
    FROM placed WHERE location IS NOT NULL AND NOT taken
    ON CONFLICT (world, txid) DO UPDATE
    SET revisao = c.revisao + (c.amount_cents <> excluded.amount_cents OR c.pix_key <> excluded.pix_key)::integer,
        amount_cents = excluded.amount_cents, pix_key = excluded.pix_key, description = excluded.description,
        payer_sealed = excluded.payer_sealed, location_id = excluded.location_id
    WHERE c.status = 'ATIVA'
    RETURNING c.txid
)
SELECT p.txid,
       CASE WHEN put.txid IS NOT NULL THEN 'put'
            WHEN p.location IS NULL THEN 'no_location'
            WHEN p.taken THEN 'location_taken'
            ELSE 'not_active' END AS became
FROM placed p LEFT JOIN put ON put.txid = p.txid;

-- name: cobs
SELECT c.txid, c.status, c.revisao, c.amount_cents, c.pix_key, c.description, c.payer_sealed, c.created_at,
       c.expires_in_s, c.location_id, l.location, c.due_on, c.terms
FROM simulated_cob c
JOIN simulated_location l ON l.world = c.world AND l.location_id = c.location_id
WHERE c.world = :world AND c.txid = ANY(:txids::text[]);

-- name: cob_at
-- The cob that a payer's bank reads at the location in the QR Code.
SELECT c.txid, c.status, c.revisao, c.amount_cents, c.pix_key, c.description, c.payer_sealed, c.created_at,
       c.expires_in_s, c.location_id, l.location, c.due_on, c.terms
FROM simulated_location l
JOIN simulated_cob c ON c.world = l.world AND c.location_id = l.location_id
WHERE l.token = :token AND l.world = :world;

-- name: put_cobv
-- PUTs one cobv and returns the result, as above. A PUT replaces a cobv that is ATIVA.
WITH placed AS (
    SELECT l.location_id,
           EXISTS (SELECT FROM simulated_cob o
                   WHERE o.world = :world AND o.location_id = l.location_id AND o.txid <> :txid) AS taken
    FROM simulated_location l WHERE l.world = :world AND l.location_id = :location_id
), put AS (
    INSERT INTO simulated_cob AS c (world, txid, status, amount_cents, pix_key, description, payer_sealed, created_at,
                                    expires_in_s, location_id, due_on, terms)
    SELECT :world, :txid, 'ATIVA', :amount_cents, :pix_key, :description, :payer_sealed, :created_at, :expires_in_s,
           location_id, :due_on, :terms
    FROM placed WHERE NOT taken
    ON CONFLICT (world, txid) DO UPDATE
    SET revisao = c.revisao + (c.amount_cents <> excluded.amount_cents OR c.due_on <> excluded.due_on)::integer,
        amount_cents = excluded.amount_cents, pix_key = excluded.pix_key, description = excluded.description,
        payer_sealed = excluded.payer_sealed, location_id = excluded.location_id, due_on = excluded.due_on,
        terms = excluded.terms, created_at = excluded.created_at, expires_in_s = excluded.expires_in_s
    WHERE c.status = 'ATIVA' AND c.due_on IS NOT NULL
    RETURNING c.txid
)
SELECT CASE WHEN EXISTS (SELECT FROM put) THEN 'put'
            WHEN NOT EXISTS (SELECT FROM placed) THEN 'no_location'
            WHEN (SELECT taken FROM placed) THEN 'location_taken'
            ELSE 'not_active' END AS became;

-- name: standing
SELECT status, created_at FROM simulated_cob WHERE world = :world AND txid = :txid AND due_on IS NOT NULL;

-- name: redate_cobv
-- Only an ATIVA cobv; the same day again makes no new revision.
UPDATE simulated_cob
SET revisao = revisao + (due_on <> :due_on)::integer, due_on = :due_on, terms = :terms, expires_in_s = :expires_in_s
WHERE world = :world AND txid = :txid AND status = 'ATIVA' AND due_on IS NOT NULL
RETURNING txid;

-- name: remove_cob
-- Only an ATIVA cob can be removed. No row: there is none, or it is no longer ATIVA.
UPDATE simulated_cob SET status = 'REMOVIDA_PELO_USUARIO_RECEBEDOR', revisao = revisao + 1
WHERE world = :world AND txid = :txid AND status = 'ATIVA'
RETURNING txid;

-- name: revise_cob
-- Only an ATIVA cob takes another expiracao, even if it has expired; the same expiracao makes no new revision.
UPDATE simulated_cob
SET revisao = revisao + (expires_in_s <> :expires_in_s)::integer, expires_in_s = :expires_in_s
WHERE world = :world AND txid = :txid AND status = 'ATIVA' AND due_on IS NULL
RETURNING txid;

-- name: receive
-- Books each PIX that payers paid once, and concludes its cob. If the cob is concluded or removed already, or was never
-- registered, the money is received all the same.
WITH given AS (
    SELECT * FROM unnest(
        :paid.end_to_end_id::text[], :paid.txid::text[], :paid.amount_cents::bigint[], :paid.paid_at::timestamptz[],
        :paid.garbled::boolean[], :paid.interest_cents::bigint[], :paid.fine_cents::bigint[], :paid.discount_cents::bigint[]
    ) AS g (end_to_end_id, txid, amount_cents, paid_at, garbled, interest_cents, fine_cents, discount_cents)
), concluded AS (
    UPDATE simulated_cob c SET status = 'CONCLUIDA', revisao = c.revisao + 1
    FROM (SELECT DISTINCT txid FROM given) g
    WHERE c.world = :world AND c.txid = g.txid AND c.status = 'ATIVA'
), booked AS MATERIALIZED (
    SELECT g.*, c.pix_key FROM given g LEFT JOIN simulated_cob c ON c.world = :world AND c.txid = g.txid
)
INSERT INTO simulated_pix (world, end_to_end_id, txid, amount_cents, pix_key, paid_at, payer_name,
                                payer_document, tell_at, garbled, interest_cents, fine_cents, discount_cents)
SELECT :world, g.end_to_end_id, g.txid, g.amount_cents, g.pix_key, g.paid_at, :payer_name, :payer_document,
       :tell_at::timestamptz, g.garbled, g.interest_cents, g.fine_cents, g.discount_cents
FROM booked g
ON CONFLICT DO NOTHING;

-- name: conclude
-- A cob and its PIX written by concurrent transactions do not see each other. Each writer runs this afterwards; the
-- later of the two sees both. The keys are an array, not a join: a plan made while the table was empty, and kept, would
-- scan it whole.
UPDATE simulated_cob SET status = 'CONCLUIDA', revisao = revisao + 1
WHERE world = :world AND status = 'ATIVA'
  AND txid = ANY(ARRAY(SELECT DISTINCT txid FROM simulated_pix WHERE world = :world AND txid = ANY(:txids::text[])));

-- name: pix_of_cob
SELECT end_to_end_id, txid, amount_cents, pix_key, paid_at, payer_name, payer_document, garbled, interest_cents, fine_cents,
       discount_cents
FROM simulated_pix WHERE world = :world AND txid = :txid
ORDER BY paid_at, end_to_end_id LIMIT :limit;

-- name: pix
SELECT end_to_end_id, txid, amount_cents, pix_key, paid_at, payer_name, payer_document, garbled, interest_cents, fine_cents,
       discount_cents
FROM simulated_pix WHERE world = :world AND end_to_end_id = :end_to_end_id;

-- name: count_received
SELECT count(*) AS count FROM simulated_pix p
WHERE p.world = :world AND p.paid_at BETWEEN :since AND :until
  AND (NOT :returned::boolean OR EXISTS (
      SELECT FROM simulated_devolucao d WHERE d.world = p.world AND d.end_to_end_id = p.end_to_end_id));

-- name: received
-- The standard numbers pages, hence OFFSET.
SELECT end_to_end_id, txid, amount_cents, pix_key, paid_at, payer_name, payer_document, garbled, interest_cents, fine_cents,
       discount_cents
FROM simulated_pix p
WHERE p.world = :world AND p.paid_at BETWEEN :since AND :until
  AND (NOT :returned::boolean OR EXISTS (
      SELECT FROM simulated_devolucao d WHERE d.world = p.world AND d.end_to_end_id = p.end_to_end_id))
ORDER BY paid_at, end_to_end_id LIMIT :limit OFFSET :skip;

-- name: register_callback
INSERT INTO simulated_callback (world, pix_key, url, created_at) VALUES (:world, :pix_key, :url, :now)
ON CONFLICT (world, pix_key) DO UPDATE SET url = excluded.url, created_at = excluded.created_at;

-- name: callback
SELECT pix_key, url, created_at FROM simulated_callback WHERE world = :world AND pix_key = :pix_key;

-- name: claim_untold
-- Claims the due callbacks. The next try is stored before this one is made, so a bank that dies in between calls twice
-- rather than not at all. PIX to a key without a registered callback are left out.
WITH due AS (
    SELECT world, end_to_end_id FROM simulated_pix
    WHERE world = :world AND tell_at <= :now ORDER BY tell_at LIMIT :limit FOR UPDATE SKIP LOCKED
), tried AS (
    UPDATE simulated_pix p
    SET tell_attempts = p.tell_attempts + 1,
        tell_at = CASE WHEN p.tell_attempts + 1 < :attempts_max::integer
                       THEN :now::timestamptz + least(0.5 * 2 ^ p.tell_attempts, 60) * interval '1 second' END
    FROM due d WHERE p.world = d.world AND p.end_to_end_id = d.end_to_end_id
    RETURNING p.end_to_end_id, p.txid, p.amount_cents, p.pix_key, p.paid_at, p.payer_name, p.payer_document, p.garbled,
              p.interest_cents, p.fine_cents, p.discount_cents
)
SELECT t.*, c.url FROM tried t JOIN simulated_callback c ON c.world = :world AND c.pix_key = t.pix_key;

-- name: told
UPDATE simulated_pix SET tell_at = NULL WHERE world = :world AND end_to_end_id = ANY(:end_to_end_ids::text[]);

-- name: set_fault
INSERT INTO simulated_fault (world, fault, delay_ms) VALUES (:world, :fault, :delay_ms)
ON CONFLICT (world) DO UPDATE SET fault = excluded.fault, delay_ms = excluded.delay_ms;

-- name: fault
SELECT fault, delay_ms FROM simulated_fault WHERE world = :world;

-- name: keep_key
-- Processes that start together each create a key; the first one is kept.
INSERT INTO simulated_signing_key (kid, private_sealed, certificate, created_at)
VALUES (:kid, :private_sealed, :certificate, :now) ON CONFLICT DO NOTHING;

-- name: key
SELECT private_sealed, certificate FROM simulated_signing_key WHERE kid = :kid;
