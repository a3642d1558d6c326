-- Merchants' webhook endpoints.

-- name: set
-- One endpoint per account. Setting it again keeps its id, so that undelivered events go to the new address; it also
-- keeps its secret, and the previous secrets during their overlap. Both lanes are created with the endpoint and reset
-- at a new address. No row if the account does not exist.
WITH owner AS MATERIALIZED (
    SELECT account_id FROM account WHERE account_id = :account_id
), endpoint AS (
    INSERT INTO webhook_endpoint (endpoint_id, account_id, url, secret_sealed, kinds, created_at)
    SELECT :endpoint_id, account_id, :url, :secret_sealed, :kinds::text[], :now
    FROM owner
    ON CONFLICT (account_id) DO UPDATE
        SET url = excluded.url
    RETURNING endpoint_id, secret_sealed
), lanes AS (
    INSERT INTO webhook_lane (endpoint_id, test)
    SELECT endpoint_id, mode.test FROM endpoint CROSS JOIN (VALUES (false), (true)) AS mode (test)
    ON CONFLICT (endpoint_id, test) DO UPDATE
        SET state = 'open', concurrency = 2, consecutive_failures = 0, failing_since = NULL, strained_by = '{}',
            blocked_until = NULL, probes = 0, gone = 0, gone_since = NULL, paused_at = NULL, paused_reason = NULL,
            holding = false,
            releasing_since = CASE WHEN webhook_lane.state = 'paused' THEN clock_timestamp() ELSE webhook_lane.releasing_since END
)
SELECT endpoint_id, secret_sealed FROM endpoint;

-- name: choose_kinds
-- Sets the event kinds that the endpoint receives from now on.
UPDATE webhook_endpoint SET kinds = :kinds::text[] WHERE account_id = :account_id RETURNING endpoint_id;

-- name: remove
-- Deletes the lanes at once; without a lane nothing is sent. The endpoint may have millions of deliveries; a worker
-- deletes them.
WITH removed AS (
    UPDATE webhook_endpoint SET account_id = NULL WHERE account_id = :account_id RETURNING endpoint_id
), closed AS (
    DELETE FROM webhook_lane WHERE endpoint_id IN (SELECT endpoint_id FROM removed)
), forgotten AS (
    DELETE FROM webhook_old_secret WHERE endpoint_id IN (SELECT endpoint_id FROM removed)
)
SELECT endpoint_id FROM removed;

-- name: removed
SELECT endpoint_id FROM webhook_endpoint WHERE account_id IS NULL LIMIT 1;

-- name: forget_deliveries
-- Deletes a bounded number of a removed endpoint's deliveries, with their attempts; concurrent workers take different
-- rows.
WITH gone AS MATERIALIZED (
    SELECT delivery_id FROM webhook_delivery WHERE endpoint_id = :endpoint_id LIMIT :limit FOR UPDATE SKIP LOCKED
), attempts AS (
    DELETE FROM webhook_attempt WHERE delivery_id = ANY(ARRAY(SELECT delivery_id FROM gone))
)
DELETE FROM webhook_delivery WHERE delivery_id = ANY(ARRAY(SELECT delivery_id FROM gone));

-- name: forget
-- If a delivery was written while the endpoint was being removed, the endpoint stays until the next round.
DELETE FROM webhook_endpoint e
WHERE e.endpoint_id = :endpoint_id AND e.account_id IS NULL
  AND NOT EXISTS (SELECT FROM webhook_delivery d WHERE d.endpoint_id = e.endpoint_id);

-- name: hold
-- Allows one rotation at a time, so that the next statement counts all old secrets and sees the current one.
SELECT endpoint_id FROM webhook_endpoint WHERE account_id = :account_id FOR UPDATE;

-- name: revoke_old
-- The old secrets stop signing at once, for a rotation after a leak.
DELETE FROM webhook_old_secret WHERE endpoint_id = :endpoint_id;

-- name: rotate
-- The previous secret also signs until :until, and each older one until its own instant. No row if :old_max old secrets
-- sign already.
WITH endpoint AS MATERIALIZED (
    SELECT endpoint_id, account_id, secret_sealed FROM webhook_endpoint WHERE endpoint_id = :endpoint_id
), alive AS MATERIALIZED (
    SELECT count(*) AS n FROM webhook_old_secret WHERE endpoint_id = :endpoint_id AND until > :now
), forgotten AS (
    DELETE FROM webhook_old_secret WHERE endpoint_id = :endpoint_id AND until <= :now
), kept AS (
    INSERT INTO webhook_old_secret (endpoint_id, account_id, secret_sealed, until)
    SELECT endpoint_id, account_id, secret_sealed, :until FROM endpoint CROSS JOIN alive WHERE alive.n < :old_max
    RETURNING endpoint_id
)
UPDATE webhook_endpoint e SET secret_sealed = :secret_sealed
FROM kept WHERE e.endpoint_id = kept.endpoint_id
RETURNING e.endpoint_id;
