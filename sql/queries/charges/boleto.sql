-- Boletos and their bank orders. A request writes an order, a worker executes it, and the statement that stores the
-- result in the charge ends it.

-- name: take_numbers
-- The first control number of a block of 50.
SELECT nextval('boleto_control') AS control;

-- name: terms
-- What decides whether a boleto may be issued: the account's approval and address, and whether the partner is active.
-- Read after the idempotency key was looked up.
SELECT a.kyc = 'approved' AS approved, a.address, i.active IS TRUE AS integrator_active
FROM account a LEFT JOIN integrator i ON i.integrador_code = :integrador_code::text
WHERE a.account_id = :account_id;

-- name: order_registrations
-- Writes the orders to register the boletos of requests whose keys are unused. No row: an order with the same key is
-- under way, or the key has just been used; the caller then looks the key up.
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
-- Which of these orders exist already, open or ended.
SELECT order_id FROM bank_order WHERE order_id = ANY(:order_ids::uuid[])
UNION ALL
SELECT order_id FROM bank_order_done WHERE order_id = ANY(:order_ids::uuid[]);

-- name: order_change
-- Writes an order to change a boleto. It replaces a waiting order that would reconcile an earlier, unanswered change;
-- `reconcile` records that there is something to reconcile. No row: another change of this boleto is under way.
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
-- Abandons an order whose request no longer waits for the answer. If the bank may have been asked, or an earlier change
-- was still to be reconciled, the same statement writes an order to reconcile the boleto. If the order's charge exists,
-- it writes one in any case: the charge may have been paid by other means meanwhile, with the boleto left to this order
-- to close; then one query of the boleto is enough. No row: the order has ended, and its answer is stored.
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
-- Has a worker bring the boleto at the bank to the state it has here.
INSERT INTO bank_order (order_id, account_id, charge_id, test, bank, kind, request, due_at, created_at)
SELECT :reconcile_id, :account_id, :charge_id, :test, :bank, 'boleto_reconcile',
       jsonb_build_object('after', :after::text, 'request', :request::jsonb), :now, :now
ON CONFLICT DO NOTHING;

-- name: outcome
-- How an order ended, for a request that waited in vain for the reply.
SELECT coalesce(outcome, '{}') AS outcome FROM bank_order_done WHERE order_id = :order_id;

-- name: issue
-- Turns registered boletos into charges: ends the order and writes key, charge, boleto, journal and read row in one
-- statement. An order that was given up meanwhile, or that another lease holds, creates nothing (giving it up wrote an
-- order to undo the registration). If the key was used meanwhile, there is no charge, and an order to undo the boleto
-- is written. A dual charge also gets the order for its cob. `at` is the real instant, given when the account's sandbox
-- clock differs; keys and orders are dated by it.
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
    -- Joined with `charged` so that it runs after it: the projection, which runs after these rows, reads the charges.
    SELECT account_id, test, charge_id, 1, 'charge.created', created_at, actor, request_id, payload
    FROM mine JOIN charged USING (charge_id)
    RETURNING charge_id, journal_id
)
SELECT (SELECT array_agg(order_id) FROM held) AS settled, array_agg(charge_id) AS charge_ids,
       project_created(array_agg(journal_id)) AS projected
FROM journaled;

-- name: issue_found
-- Creates the charge of a boleto that was paid at the bank although its creation had been given up. It does not get its
-- key: the merchant was told that the creation failed, and may have used the key for another boleto.
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
-- What was booked so far for boletos whose charges this transaction has locked. From their payments: the EndToEndIds
-- that the bank named, and the sum of the PIX payments without one.
SELECT s.number, s.charge_id, s.due_on, s.terms, s.booked_cents, r.integrador_code, p.named, p.unnamed_cents
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
-- The terms (interest, fine, discount) of those of these charges that have any; the transaction has locked the charges.
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
