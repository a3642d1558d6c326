-- Searches for staff over all accounts, by whatever identifier a caller has at hand. If an index begins with the
-- account, each account is probed: a hundred thousand probes take a third of a second, and only staff search.

-- name: by_id
-- By the id of the charge, or of one of its payments or refunds.
SELECT c.charge_id, c.account_id, c.test, a.name AS merchant
FROM (
    SELECT charge_id, account_id, test FROM charge WHERE charge_id = :id
    UNION ALL SELECT charge_id, account_id, test FROM payment WHERE payment_id = :id
    UNION ALL SELECT charge_id, account_id, test FROM refund WHERE refund_id = :id
) AS c JOIN account a ON a.account_id = c.account_id;

-- name: by_number
SELECT c.charge_id, c.account_id, c.test, a.name AS merchant
FROM boleto b JOIN charge c ON c.charge_id = b.charge_id JOIN account a ON a.account_id = c.account_id
WHERE b.number = :number;

-- name: by_link
SELECT r.charge_id, r.account_id, r.test, a.name AS merchant
FROM read_charge r JOIN account a ON a.account_id = r.account_id
WHERE r.public_id = :public_id;

-- name: by_payment
SELECT p.charge_id, a.account_id, m.test, a.name AS merchant
FROM account a CROSS JOIN (VALUES (false), (true)) AS m (test)
CROSS JOIN LATERAL (
    SELECT charge_id FROM payment WHERE account_id = a.account_id AND test = m.test AND source = :end_to_end_id
) AS p
LIMIT :limit;

-- name: by_reference
-- Production only; the newest charges of each account.
SELECT r.charge_id, a.account_id, r.test, a.name AS merchant
FROM account a CROSS JOIN LATERAL (
    SELECT charge_id, test, created_at FROM read_charge
    WHERE account_id = a.account_id AND NOT test AND external_id = :reference
    ORDER BY created_at DESC, charge_id DESC LIMIT :limit
) AS r
ORDER BY r.created_at DESC, r.charge_id DESC LIMIT :limit;

-- name: by_payer
SELECT r.charge_id, a.account_id, r.test, a.name AS merchant
FROM account a CROSS JOIN LATERAL (
    SELECT charge_id, test, created_at FROM read_charge
    WHERE account_id = a.account_id AND NOT test AND payer_document_hash = :document_hash
    ORDER BY created_at DESC, charge_id DESC LIMIT :limit
) AS r
ORDER BY r.created_at DESC, r.charge_id DESC LIMIT :limit;

-- name: payments
-- The latest :limit payments of each charge, newest first.
SELECT g.charge_id, p.doc
FROM unnest(:charge_ids::uuid[]) AS g(charge_id)
CROSS JOIN LATERAL (
    SELECT paid_at, payment_id, doc FROM payment_view WHERE charge_id = g.charge_id
    ORDER BY paid_at DESC, payment_id DESC LIMIT :limit
) AS p
ORDER BY p.paid_at DESC, p.payment_id DESC;

-- name: request
-- Index request_log_id.
SELECT q.account_id, a.name AS merchant, q.test, q.at, q.request_id, q.method, q.path, q.status, q.code, q.duration_us
FROM request_log q JOIN account a ON a.account_id = q.account_id
WHERE left(q.request_id, 12) = left(:request_id, 12) AND q.request_id = :request_id LIMIT 1;
