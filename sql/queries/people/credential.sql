-- Credentials and tokens of callers.

-- name: find
SELECT secret_hash, previous_secret_hash, previous_until, scopes, revoked_at
FROM credential WHERE client_id = :client_id;

-- name: issue_token
-- Issues a token if the presented secret is still valid. The lock makes this wait for a rotation without overlap or a
-- revocation under way, which ends the existing tokens; a token written meanwhile would outlive the secret by an hour.
-- Also notes the credential's last use, to the minute, for its owner to check before revoking it.
WITH held AS MATERIALIZED (
    SELECT client_id FROM credential
    WHERE client_id = :client_id AND revoked_at IS NULL
      AND (secret_hash = :presented OR (previous_secret_hash = :presented AND previous_until > :issued_at))
    FOR NO KEY UPDATE
), used AS (
    UPDATE credential c SET last_token_at = :issued_at
    FROM held
    WHERE c.client_id = held.client_id
      AND (c.last_token_at IS NULL OR c.last_token_at < :issued_at::timestamptz - interval '1 minute')
)
INSERT INTO access_token (token_hash, client_id, scopes, issued_at, expires_at)
SELECT :token_hash, client_id, :scopes::text[], :issued_at, :expires_at FROM held
RETURNING client_id;

-- name: callers
-- The scopes and the account of each token. Tokens of a revoked credential are not found. The sandbox clock is read for
-- test credentials only.
SELECT t.token_hash, t.client_id, c.account_id, c.test, t.scopes, t.expires_at, a.kyc = 'approved' AS approved,
       a.name, a.city,
       coalesce(a.receiving_key, (SELECT pix_key FROM receiving_key), a.account_id::text) AS pix_key,
       a.rate_per_s, a.rate_burst, coalesce(k.ahead_s, 0) AS ahead_s
FROM access_token t
JOIN credential c USING (client_id)
JOIN account a USING (account_id)
LEFT JOIN sandbox_clock k ON c.test AND k.account_id = c.account_id
WHERE t.token_hash = ANY(:token_hashes::bytea[]) AND c.revoked_at IS NULL;

-- name: forget_expired_tokens
-- By the earlier clock, the caller's or this server's: a worker whose clock is ahead would delete tokens that are still valid.
DELETE FROM access_token WHERE token_hash = ANY(ARRAY(
    SELECT token_hash FROM access_token WHERE expires_at < least(:now, statement_timestamp()) - :kept::interval
    ORDER BY expires_at LIMIT 5000 FOR UPDATE SKIP LOCKED));
