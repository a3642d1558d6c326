-- Where merchants want to be told.

-- name: set
-- One endpoint per account. Setting it again keeps its id, so that what is still to be delivered goes to the
-- new address; the secret before stops at once, because whoever asks for a new registration may have lost it.
-- No row when the account does not exist.
INSERT INTO webhook_endpoint (endpoint_id, account_id, url, secret_sealed, kinds, created_at)
SELECT gen_random_uuid(), account_id, :url, :secret_sealed, :kinds::text[], :now
FROM account WHERE account_id = :account_id
ON CONFLICT (account_id) DO UPDATE
    SET url = excluded.url, secret_sealed = excluded.secret_sealed,
        previous_secret_sealed = NULL, previous_until = NULL
RETURNING endpoint_id;

-- name: rotate
-- The secret that was current signs along until :previous_until. One old secret at most: a second rotation within
-- the overlap ends the first one's.
UPDATE webhook_endpoint
SET previous_secret_sealed = secret_sealed, previous_until = :previous_until, secret_sealed = :secret_sealed
WHERE account_id = :account_id
RETURNING endpoint_id;
