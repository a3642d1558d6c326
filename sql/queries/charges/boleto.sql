-- Boletos, and the orders about them. An order is written for a request, done by a worker, and settled with its charge.

-- name: take_numbers
-- The first control number of a block of 50.
SELECT nextval('boleto_control') AS control;

-- name: terms
-- What of the account and of the partner decides whether a boleto may be issued; asked after the key was looked up.
SELECT a.kyc = 'approved' AS approved, a.address, i.active IS TRUE AS integrator_active
FROM account a LEFT JOIN integrator i ON i.integrador_code = :integrador_code::text
WHERE a.account_id = :account_id;

-- name: order_registrations
-- Orders to register, of requests whose keys made nothing yet. No row: an order of the same key is under way, or the key
-- was used this moment; the caller looks the key up.
WITH fresh AS MATERIALIZED (
    SELECT g.order_id, g.account_id, g.charge_id, g.test, g.bank, 'boleto_register', i.item -> 'request',
           coalesce(g.due_at, g.created_at), g.deadline, g.reply_to, g.created_at
    FROM unnest(:items::jsonb[]) AS i (item)
    CROSS JOIN LATERAL jsonb_to_record(i.item) AS g (
        order_id uuid, account_id uuid, charge_id uuid, test boolean, bank text, created_at timestamptz, due_at timestamptz,
        deadline timestamptz, reply_to text)
    WHERE NOT EXISTS (
        SELECT FROM idempotency k
        WHERE k.account_id = g.account_id AND k.test = g.test AND k.key = i.item #>> '{request,key}')
    ORDER BY g.account_id, g.test, i.item #>> '{request,key}'
)
INSERT INTO bank_order (order_id, account_id, charge_id, test, bank, kind, request, due_at, deadline, reply_to, created_at)
TABLE fresh
ON CONFLICT DO NOTHING
RETURNING order_id;

-- name: ordered
-- Those of these that were written before, at work or ended.
SELECT order_id FROM bank_order WHERE order_id = ANY(:order_ids::uuid[])
UNION ALL
SELECT order_id FROM bank_order_done WHERE order_id = ANY(:order_ids::uuid[]);

-- name: order_change
-- An order to change a boleto. One that only waits to reconcile what an earlier, unanswered change left is taken over:
-- `reconcile` remembers that there is something to reconcile. No row: another change of this boleto is under way.
WITH taken_over AS (
    DELETE FROM bank_order
    WHERE charge_id = :charge_id AND kind = 'boleto_reconcile' AND state <> 'working' AND :kind::text <> 'boleto_pay'
    RETURNING order_id, account_id, charge_id, test, bank, kind, attempts, created_at
), ended AS (
    INSERT INTO bank_order_done (order_id, account_id, charge_id, test, bank, kind, state, attempts, created_at, ended_at)
    SELECT order_id, account_id, charge_id, test, bank, kind, 'abandoned', attempts, created_at, :now FROM taken_over
), carried AS MATERIALIZED (
    SELECT bank FROM charge WHERE charge_id = :charge_id AND account_id = :account_id
)
INSERT INTO bank_order (order_id, account_id, charge_id, test, bank, kind, request, due_at, deadline, reply_to, created_at)
SELECT :order_id, :account_id, :charge_id, :test, (SELECT bank FROM carried), :kind,
       CASE WHEN EXISTS (SELECT FROM taken_over) THEN :request::jsonb || '{"reconcile": true}' ELSE :request::jsonb END,
       :now, :deadline, :reply_to, :now
ON CONFLICT DO NOTHING
RETURNING order_id;

-- name: give_up
-- No request waits for the answer any more. When the bank may have been asked, or an earlier change was still to be
-- reconciled, the same statement writes an order to reconcile the boleto. One that has its charge gets one in any case: that
-- may have been paid by something else meanwhile, and the payment left the boleto to this order; then one look is enough. No
-- row: the answer is there.
WITH given_up AS (
    DELETE FROM bank_order WHERE order_id = :order_id AND attempts = coalesce(:attempts::integer, attempts)
    RETURNING order_id, account_id, charge_id, test, bank, kind, request, attempts, created_at
), ended AS (
    INSERT INTO bank_order_done (order_id, account_id, charge_id, test, bank, kind, state, attempts, created_at, ended_at, outcome)
    SELECT order_id, account_id, charge_id, test, bank, kind, 'abandoned', attempts, created_at, :now, :outcome FROM given_up
), charged AS MATERIALIZED (
    SELECT FROM given_up g JOIN charge c ON c.charge_id = g.charge_id
), reconciliation AS (
    INSERT INTO bank_order (order_id, account_id, charge_id, test, bank, kind, request, due_at, created_at)
    SELECT :reconcile_id, account_id, charge_id, test, bank, 'boleto_reconcile',
           jsonb_build_object('after', CASE WHEN touched THEN kind ELSE :closing END, 'request', request),
           :now, :now
    FROM (SELECT *, attempts > :untouched::integer OR request ? 'reconcile' AS touched FROM given_up) g
    WHERE touched OR EXISTS (SELECT FROM charged)
)
SELECT order_id FROM given_up;

-- name: order_reconciliation
-- Have a worker make the bank's state equal to ours.
INSERT INTO bank_order (order_id, account_id, charge_id, test, bank, kind, request, due_at, created_at)
SELECT :reconcile_id, :account_id, :charge_id, :test, :bank, 'boleto_reconcile',
       jsonb_build_object('after', :after::text, 'request', :request::jsonb), :now, :now
ON CONFLICT DO NOTHING;

-- name: outcome
-- How an order ended, for a request that got no reply.
SELECT coalesce(outcome, '{}') AS outcome FROM bank_order_done WHERE order_id = :order_id;

-- name: issue
-- Registered boletos become charges: order settled, key, charge, boleto, journal and read row in one statement. An order
-- that was given up meanwhile, or is another lease's, makes nothing (giving it up wrote an order to undo it).
-- A key that was used meanwhile makes no charge, and has the boleto undone. With a dual charge comes the order for its cob.
-- `at` is the real instant, of items whose account's clock shows another: keys and orders go by it.
WITH given AS (
    SELECT g.order_id, g.attempts, g.reconcile_id, g.key, decode(g.fingerprint, 'hex') AS fingerprint,
           decode(g.payer_sealed, 'base64') AS payer_sealed, g.actor, g.request_id, g.registered_at, g.expires_at,
           c.account_id, c.test, c.charge_id, c.payment_method, c.amount_cents, c.external_id, c.created_at,
           c.nosso_numero, c.due_date, c.terms, c.send_email, g.payer_document_hash, i.item -> 'payload' AS payload, g.location,
           g.cob_order_id, g.cob,
           coalesce(g.at, c.created_at) AS at
    FROM unnest(:items::jsonb[]) AS i (item)
    CROSS JOIN LATERAL jsonb_to_record(i.item) AS g (
        order_id uuid, attempts integer, reconcile_id uuid, key text, fingerprint text, payer_sealed text,
        payer_document_hash text, actor text, request_id text, registered_at timestamptz, expires_at timestamptz, location text,
        cob_order_id uuid, cob jsonb, at timestamptz)
    CROSS JOIN LATERAL jsonb_to_record(i.item #> '{payload,charge}') AS c (
        account_id uuid, test boolean, charge_id uuid, payment_method text, amount_cents bigint, external_id text,
        created_at timestamptz, nosso_numero text, due_date date, terms jsonb, send_email boolean)
), held AS (
    DELETE FROM bank_order o USING given g
    WHERE o.order_id = ANY(ARRAY(SELECT order_id FROM given)) AND o.order_id = g.order_id AND o.attempts = g.attempts
    RETURNING o.order_id, o.account_id, o.charge_id, o.test, o.bank, o.kind, o.request, o.attempts, o.created_at, g.at
), ended AS (
    INSERT INTO bank_order_done (order_id, account_id, charge_id, test, bank, kind, state, attempts, created_at, ended_at)
    SELECT order_id, account_id, charge_id, test, bank, kind, 'done', attempts, created_at, at FROM held
), claimed AS (
    INSERT INTO idempotency (account_id, test, key, fingerprint, resource_type, resource_id, first_used_at)
    SELECT g.account_id, g.test, g.key, g.fingerprint, 'charge', g.charge_id, g.at
    FROM given g JOIN held h USING (order_id)
    ORDER BY g.account_id, g.test, g.key
    ON CONFLICT DO NOTHING
    RETURNING resource_id
), mine AS (
    SELECT g.*, h.bank FROM given g JOIN held h USING (order_id) JOIN claimed c ON c.resource_id = g.charge_id
), undone AS (
    INSERT INTO bank_order (order_id, account_id, charge_id, test, bank, kind, request, due_at, created_at)
    SELECT g.reconcile_id, g.account_id, g.charge_id, g.test, h.bank, 'boleto_reconcile',
           jsonb_build_object('after', 'boleto_register', 'request', h.request), g.at, g.at
    FROM given g JOIN held h USING (order_id)
    WHERE NOT EXISTS (SELECT FROM claimed c WHERE c.resource_id = g.charge_id)
), charged AS (
    INSERT INTO charge (account_id, charge_id, test, bank, payment_method, status, version, amount_cents, external_id,
                        created_at, expires_at, location, payer_sealed, payer_document_hash)
    SELECT account_id, charge_id, test, bank, payment_method, 'pending', 1, amount_cents, external_id, created_at,
           expires_at, location, payer_sealed, payer_document_hash
    FROM mine
    RETURNING charge_id
), kept AS (
    INSERT INTO boleto (account_id, charge_id, bank, number, due_on, terms, registered_at)
    SELECT account_id, charge_id, bank, nosso_numero, due_date, terms, registered_at FROM mine
), with_cob AS (
    INSERT INTO bank_order (order_id, account_id, charge_id, test, bank, kind, request, due_at, created_at)
    SELECT cob_order_id, account_id, charge_id, test, bank, 'cob_register', cob, at, at
    FROM mine WHERE cob IS NOT NULL
), mail_requested AS (
    INSERT INTO mail_request (charge_id, account_id, due_at)
    SELECT charge_id, account_id, created_at FROM mine WHERE send_email AND NOT test
), journaled AS (
    INSERT INTO journal (account_id, test, charge_id, version, kind, recorded_at, actor, request_id, payload)
    -- Behind the charges: the projection, which follows the last of these rows, reads them.
    SELECT account_id, test, charge_id, 1, 'charge.created', created_at, actor, request_id, payload
    FROM mine JOIN charged USING (charge_id)
    RETURNING charge_id, journal_id
)
SELECT (SELECT array_agg(order_id) FROM held) AS settled, array_agg(charge_id) AS charge_ids,
       project_created(array_agg(journal_id)) AS projected
FROM journaled;

-- name: issue_found
-- A boleto that was paid at the bank although its creation had been given up: the charge is made after all, without its
-- key (the merchant was told that nothing came of it, and may have used the key for another boleto).
WITH given AS (
    SELECT g.actor, g.request_id, g.registered_at, g.expires_at, decode(g.payer_sealed, 'base64') AS payer_sealed, c.account_id,
           c.test, c.charge_id, c.payment_method, c.amount_cents, c.external_id, c.created_at, c.nosso_numero, c.due_date,
           c.terms, g.payer_document_hash, :item::jsonb -> 'payload' AS payload
    FROM jsonb_to_record(:item::jsonb) AS g (actor text, request_id text, registered_at timestamptz, expires_at timestamptz,
                                             payer_sealed text, payer_document_hash text)
    CROSS JOIN LATERAL jsonb_to_record(:item::jsonb #> '{payload,charge}') AS c (
        account_id uuid, test boolean, charge_id uuid, payment_method text, amount_cents bigint, external_id text,
        created_at timestamptz, nosso_numero text, due_date date, terms jsonb)
), charged AS (
    INSERT INTO charge (account_id, charge_id, test, bank, payment_method, status, version, amount_cents, external_id,
                        created_at, expires_at, payer_sealed, payer_document_hash)
    SELECT account_id, charge_id, test, :bank, payment_method, 'pending', 1, amount_cents, external_id, created_at,
           expires_at, payer_sealed, payer_document_hash
    FROM given
    ON CONFLICT DO NOTHING
    RETURNING charge_id
), mine AS (
    SELECT g.* FROM given g JOIN charged USING (charge_id)
), kept AS (
    INSERT INTO boleto (account_id, charge_id, bank, number, due_on, terms, registered_at)
    SELECT account_id, charge_id, :bank, nosso_numero, due_date, terms, registered_at FROM mine
), journaled AS (
    INSERT INTO journal (account_id, test, charge_id, version, kind, recorded_at, actor, request_id, payload)
    SELECT account_id, test, charge_id, 1, 'charge.created', registered_at, actor, request_id, payload FROM mine
    RETURNING journal_id
)
SELECT project_created(array_agg(journal_id)) AS projected FROM journaled;

-- name: of_numbers
-- The charges of these boletos.
SELECT number, charge_id FROM boleto WHERE bank = :bank AND number = ANY(:numbers::text[]);

-- name: booked_of
SELECT booked_cents FROM boleto WHERE bank = :bank AND number = :number;

-- name: standing
-- What was booked so far for boletos whose charges are locked by this transaction, and what their payments show: the PIX
-- that were named, and how much came as unidentified PIX.
SELECT s.number, s.charge_id, s.account_id, s.due_on, s.terms, s.booked_cents, r.integrador_code, p.named, p.unnamed_cents
FROM boleto s
JOIN read_charge r ON r.charge_id = s.charge_id AND r.account_id = s.account_id
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(p.doc ->> 'end_to_end_id') FILTER (WHERE p.doc ->> 'end_to_end_id' IS NOT NULL),
                    '{}'::text[]) AS named,
           coalesce(sum((p.doc -> 'amount_cents')::bigint) FILTER (WHERE p.doc ->> 'end_to_end_id' IS NULL),
                    0)::bigint AS unnamed_cents
    FROM payment_view p
    WHERE s.booked_cents > 0 AND p.charge_id = s.charge_id AND p.method = 'pix' AND p.doc ? 'nosso_numero'
) p
WHERE s.bank = :bank AND s.number = ANY(:numbers::text[]);

-- name: agreed
-- Of these charges, locked by this transaction, those that cost by their terms.
SELECT charge_id, due_on, terms FROM boleto WHERE charge_id = ANY(:charge_ids::uuid[]) AND terms IS NOT NULL;

-- name: booked
-- Store the bank's totals, with the payments that make them up.
UPDATE boleto s SET booked_cents = g.booked_cents
FROM unnest(:numbers::text[], :booked_cents::bigint[]) AS g (number, booked_cents)
WHERE s.bank = :bank AND s.number = g.number AND s.booked_cents < g.booked_cents;

-- name: redated
UPDATE boleto SET due_on = :due_on WHERE charge_id = :charge_id AND account_id = :account_id;

-- name: number_of_charge
SELECT s.number, c.payment_method FROM boleto s JOIN charge c USING (charge_id, account_id) WHERE s.charge_id = :charge_id AND NOT c.test;
