-- Credentials, for the pages of their owner.

-- name: of_account
-- The valid credentials, newest first, then the latest revoked ones, up to a limit.
(SELECT client_id, test, name, scopes, created_at, rotated_at, previous_until, last_token_at, revoked_at, created_by,
        rotated_by
 FROM credential
 WHERE account_id = :account_id AND revoked_at IS NULL ORDER BY created_at DESC, client_id LIMIT :limit)
UNION ALL
(SELECT client_id, test, name, scopes, created_at, rotated_at, previous_until, last_token_at, revoked_at, created_by,
        rotated_by
 FROM credential
 WHERE account_id = :account_id AND revoked_at IS NOT NULL ORDER BY revoked_at DESC LIMIT :revoked_limit);

-- name: find
SELECT client_id, test, name, scopes, created_at, rotated_at, previous_until, last_token_at, revoked_at, created_by,
        rotated_by
 FROM credential
WHERE client_id = :client_id AND account_id = :account_id;

-- name: lock_account
-- Serializes the creation of an account's credentials, so that their number stays bounded.
SELECT account_id FROM account WHERE account_id = :account_id FOR NO KEY UPDATE;

-- name: count
SELECT count(*) AS working FROM credential WHERE account_id = :account_id AND test = :test AND revoked_at IS NULL;

-- name: create
INSERT INTO credential (client_id, account_id, test, secret_hash, scopes, name, created_at, created_by)
VALUES (:client_id, :account_id, :test, :secret_hash, :scopes::text[], :name, :now, :by);

-- name: rotate
-- At most one old secret is valid: a rotation during the overlap of an earlier one ends that overlap. Without
-- :previous_until the old secret ends at once.
UPDATE credential
SET previous_secret_hash = CASE WHEN :previous_until::timestamptz IS NULL THEN NULL ELSE secret_hash END,
    previous_until = :previous_until::timestamptz, secret_hash = :secret_hash, rotated_at = :now,
    rotated_by = :by
WHERE client_id = :client_id AND account_id = :account_id AND revoked_at IS NULL
RETURNING client_id;

-- name: end_tokens
DELETE FROM access_token WHERE client_id = :client_id;

-- name: revoke
UPDATE credential
SET revoked_at = :now, previous_secret_hash = NULL, previous_until = NULL
WHERE client_id = :client_id AND account_id = :account_id AND revoked_at IS NULL
RETURNING client_id;

-- name: of_person
-- The valid credentials that this person created, last rotated, or rotated before (if the old secret is still valid): a
-- person who leaves may have written the secrets down.
SELECT client_id, test, name, scopes, created_at, rotated_at, previous_until, last_token_at, revoked_at, created_by,
       rotated_by
FROM credential c
WHERE account_id = :account_id AND revoked_at IS NULL AND (
    created_by = :email OR rotated_by = :email OR previous_until > :now AND EXISTS (
        SELECT FROM audit a
        WHERE a.account_id = c.account_id AND a.subject = c.client_id AND a.email = :email
          AND a.action = 'credential.rotated'))
ORDER BY test, created_at, client_id;
