-- The write side of charges. The table charge decides; read_charge is a copy derived from the journal.

-- name: create_pix
-- Stores a batch of creations in one statement and so in one round trip: for each its idempotency key, the charge, its
-- journal row, its read row and the order to register it at the bank. A test charge without an order is written to the
-- books of the sandbox's bank instead, which are in this database; a production charge without one fails the statement,
-- since no bank would ever hear of it. A key already used yields no row; the caller then reads its owner. Items come
-- sorted by key, so that two batches with common keys cannot deadlock. While standalone PIX is suspended, or if the
-- account is not approved, a production item inserts nothing, whatever the caller has cached of the account. (The key
-- is looked up before, contract section 1, so a replay never gets here.)
--
-- Each item is one JSON object: encoding arrays of sixteen columns costs the client more than this costs PostgreSQL to
-- parse. `at` is the real instant, given when the account's sandbox clock differs: the charge is dated by that clock,
-- keys and orders by real time.
WITH given AS (
    SELECT c.account_id, c.test, g.key, decode(g.fingerprint, 'base64') AS fingerprint, c.charge_id, c.amount_cents,
           c.external_id, c.created_at, c.expires_at, c.send_email, g.location, decode(g.payer_sealed, 'base64') AS payer_sealed,
           g.payer_document_hash, g.bank, g.actor, g.request_id, i.item -> 'payload' AS payload, g.order_id,
           i.item -> 'order' AS request,
           coalesce(g.at, c.created_at) AS at, g.due_at
    FROM unnest(:items::jsonb[]) AS i (item)
    CROSS JOIN LATERAL jsonb_to_record(i.item) AS g (
        key text, fingerprint text, bank text, location text, payer_sealed text, payer_document_hash text, actor text,
        request_id text, order_id uuid, at timestamptz, due_at timestamptz)
    CROSS JOIN LATERAL jsonb_to_record(i.item #> '{payload,charge}') AS c (
        account_id uuid, test boolean, charge_id uuid, amount_cents bigint, external_id text, created_at timestamptz,
        expires_at timestamptz, send_email boolean)
), allowed AS (
    SELECT * FROM given g
    WHERE g.test OR (NOT EXISTS (SELECT FROM pix_suspension)
                     AND (SELECT a.kyc = 'approved' FROM account a WHERE a.account_id = g.account_id))
), claimed AS (
    INSERT INTO idempotency (account_id, test, key, fingerprint, resource_type, resource_id, first_used_at)
    SELECT account_id, test, key, fingerprint, 'charge', charge_id, at FROM allowed
    ON CONFLICT DO NOTHING
    RETURNING resource_id
), mine AS (
    SELECT g.* FROM allowed g JOIN claimed c ON c.resource_id = g.charge_id
), charged AS (
    INSERT INTO charge (account_id, charge_id, test, bank, payment_method, status, version, amount_cents, external_id,
                        created_at, expires_at, location, payer_sealed, payer_document_hash)
    SELECT account_id, charge_id, test, bank, 'pix', 'pending', 1, amount_cents, external_id,
           created_at, expires_at, location, payer_sealed, payer_document_hash
    FROM mine
), ordered AS (
    INSERT INTO bank_order (order_id, account_id, charge_id, test, bank, kind, request, due_at, created_at)
    SELECT order_id, account_id, charge_id, test, bank, 'cob_register', request, coalesce(due_at, at), at FROM mine
    WHERE NOT (test AND order_id IS NULL)
), put AS (
    INSERT INTO simulated_cob (world, txid, status, amount_cents, pix_key, description, created_at, expires_in_s, location_id)
    SELECT 'sandbox', encode(uuid_send(charge_id), 'hex'), 'ATIVA', r.amount_cents, r.pix_key,
           nullif(left(r.description, :description_max), ''), r.created_at, r.expires_in_s, r.location_id
    FROM mine CROSS JOIN LATERAL jsonb_to_record(request) AS r (
        amount_cents bigint, pix_key text, description text, created_at timestamptz, expires_in_s integer, location_id bigint)
    WHERE test AND order_id IS NULL
), mail_requested AS (
    INSERT INTO mail_request (charge_id, account_id, due_at)
    SELECT charge_id, account_id, created_at FROM mine WHERE send_email AND NOT test
), journaled AS (
    INSERT INTO journal (account_id, test, charge_id, version, kind, recorded_at, actor, request_id, payload)
    SELECT account_id, test, charge_id, 1, 'charge.created', created_at, actor, request_id, payload FROM mine
    RETURNING account_id, charge_id, test, version, journal_id, payload
), projected AS (
    INSERT INTO read_charge (created_at, amount_cents, due_date, status, payment_method, public_id, external_id,
                             nosso_numero, txid, integrador_code, payer_document_hash, account_id, charge_id, test, version,
                             journal_id)
    SELECT c.*, m.payer_document_hash, j.account_id, j.charge_id, j.test, j.version, j.journal_id
    FROM journaled j JOIN mine m ON m.charge_id = j.charge_id CROSS JOIN LATERAL created_charge(j.payload) c
    RETURNING charge_id
)
SELECT coalesce(array_agg(charge_id), '{}') AS charge_ids FROM projected;

-- name: lock
-- Locks the charges until the transaction ends, in id order; every change of a status begins here. Also returns by how
-- much the clock of a test charge's sandbox is ahead of real time, and the account's fees.
SELECT c.account_id, c.charge_id, c.test, c.payment_method, c.status, c.version, c.amount_cents, c.refunded_cents,
       c.external_id, c.created_at, c.expires_at, coalesce(k.ahead_s, 0) AS ahead_s, a.fees,
       c.payer_erased_at IS NOT NULL AS payer_erased
FROM charge c
LEFT JOIN account a ON a.account_id = c.account_id
LEFT JOIN sandbox_clock k ON c.test AND k.account_id = c.account_id
WHERE c.charge_id = ANY(:charge_ids)
ORDER BY c.charge_id
FOR UPDATE OF c;

-- name: store
-- The changed columns of charges that this transaction has locked, and the payments it credits.
WITH stored AS (
    UPDATE charge c
    SET status = g.status, version = g.version, expires_at = g.expires_at
    FROM unnest(:charges.charge_id::uuid[], :charges.account_id::uuid[], :charges.status::text[],
                :charges.version::integer[], :charges.expires_at::timestamptz[])
         AS g (charge_id, account_id, status, version, expires_at)
    WHERE c.charge_id = g.charge_id AND c.account_id = g.account_id
)
INSERT INTO payment (account_id, payment_id, test, charge_id, source, method, amount_cents, fee_cents, anomaly, settles,
                     paid_at, credited_at, payer_sealed)
SELECT g.account_id, g.payment_id, g.test, g.charge_id, g.source, g.method, g.amount_cents, g.fee_cents, g.anomaly,
       g.settles, g.paid_at, g.credited_at, decode(g.payer_sealed, 'base64')
FROM unnest(:payments::jsonb[]) AS i (item)
CROSS JOIN LATERAL jsonb_to_record(i.item) AS g (
    account_id uuid, payment_id uuid, test boolean, charge_id uuid, source text, method text, amount_cents bigint,
    fee_cents bigint, anomaly text, settles boolean, paid_at timestamptz, credited_at timestamptz, payer_sealed text);

-- name: overdue_of_account
-- Pending charges of one account and mode that have expired; a read expires them before it answers. Test charges go by
-- their account's clock, which is read for them only.
SELECT charge_id FROM charge
WHERE account_id = :account_id AND test = :test AND status = 'pending'
  AND expires_at <= :now::timestamptz + interval '1 second' * coalesce((
      SELECT ahead_s FROM sandbox_clock WHERE :test::boolean AND account_id = :account_id), 0)
ORDER BY expires_at
LIMIT :limit;

-- name: overdue
-- The same over all accounts, by real time. SKIP LOCKED leaves out charges that another worker is expiring. One range
-- of an index, however many accounts there are.
SELECT charge_id FROM charge
WHERE status = 'pending' AND expires_at <= :now
ORDER BY expires_at
LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- name: clocks_ahead
-- Accounts whose sandbox is ahead of real time, a page of them.
SELECT account_id, ahead_s FROM sandbox_clock
WHERE ahead_s > 0 AND account_id > :after
ORDER BY account_id
LIMIT :limit;

-- name: overdue_ahead
-- The test charges of these accounts that have expired by their clocks.
SELECT due.charge_id
FROM unnest(:clocks.account_id::uuid[], :clocks.ahead_s::bigint[]) AS k (account_id, ahead_s)
CROSS JOIN LATERAL (
    SELECT charge_id FROM charge
    WHERE account_id = k.account_id AND test AND status = 'pending'
      AND expires_at <= :now::timestamptz + interval '1 second' * k.ahead_s
    ORDER BY expires_at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
) due
LIMIT :limit;

-- name: pending_by_reference
-- Two rows are enough to see that the reference is ambiguous.
SELECT charge_id FROM charge
WHERE account_id = :account_id AND test = :test AND external_id = :external_id AND status = 'pending' AND expires_at > :now
ORDER BY charge_id
LIMIT 2;

-- name: pending_boleto_by_reference
-- As pending_by_reference, boletos only: a PIX charge has no due date to change.
SELECT charge_id FROM charge
WHERE account_id = :account_id AND test = :test AND external_id = :external_id AND status = 'pending' AND expires_at > :now
  AND payment_method <> 'pix'
ORDER BY charge_id
LIMIT 2;
