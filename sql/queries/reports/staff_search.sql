-- What staff find over all accounts by what a caller has in hand. Where an index begins with the account, each account is
-- probed: a hundred thousand probes are a third of a second, and only staff ask.

-- name: by_id
SELECT charge_id, account_id, test FROM charge WHERE charge_id = :charge_id;

-- name: by_number
SELECT c.charge_id, c.account_id, c.test FROM boleto b JOIN charge c ON c.charge_id = b.charge_id WHERE b.number = :number;

-- name: by_link
SELECT charge_id, account_id, test FROM read_charge WHERE public_id = :public_id;

-- name: by_payment
SELECT p.charge_id, p.account_id, p.test
FROM account a CROSS JOIN (VALUES (false), (true)) AS m (test)
CROSS JOIN LATERAL (
    SELECT charge_id, account_id, test FROM payment
    WHERE account_id = a.account_id AND test = m.test AND source = :end_to_end_id
) AS p
LIMIT :limit;

-- name: by_reference
-- Production alone, the newest of each account.
SELECT r.charge_id, r.account_id, r.test
FROM account a CROSS JOIN LATERAL (
    SELECT charge_id, account_id, test, created_at FROM read_charge
    WHERE account_id = a.account_id AND NOT test AND external_id = :reference
    ORDER BY created_at DESC, charge_id DESC LIMIT :limit
) AS r
ORDER BY r.created_at DESC, r.charge_id DESC LIMIT :limit;

-- name: by_payer
SELECT r.charge_id, r.account_id, r.test
FROM account a CROSS JOIN LATERAL (
    SELECT charge_id, account_id, test, created_at FROM read_charge
    WHERE account_id = a.account_id AND NOT test AND payer_document_hash = :document_hash
    ORDER BY created_at DESC, charge_id DESC LIMIT :limit
) AS r
ORDER BY r.created_at DESC, r.charge_id DESC LIMIT :limit;

-- name: request
-- request_log_id.
SELECT q.account_id, a.name AS merchant, q.test, q.at, q.request_id, q.method, q.path, q.status, q.code, q.duration_us
FROM request_log q JOIN account a ON a.account_id = q.account_id
WHERE left(q.request_id, 12) = left(:request_id, 12) AND q.request_id = :request_id LIMIT 1;

-- name: names
SELECT account_id, name FROM account WHERE account_id = ANY(:account_ids::uuid[]);
