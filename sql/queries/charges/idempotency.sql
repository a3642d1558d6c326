-- One row per Idempotency-Key that made something. The primary key is the promise.

-- name: find
-- The owners of these keys; one lookup for all that ask at the same moment.
SELECT i.account_id, i.test, i.key, i.fingerprint, i.resource_type, i.resource_id, i.first_used_at, i.replay_count
FROM unnest(:account_ids::uuid[], :tests::boolean[], :keys::text[]) AS g (account_id, test, key)
JOIN idempotency i USING (account_id, test, key);

-- name: count_replays
-- The keys come distinct and sorted, so two processes that count the same keys never deadlock.
UPDATE idempotency i
SET replay_count = i.replay_count + g.times
FROM unnest(:account_ids::uuid[], :tests::boolean[], :keys::text[], :times::integer[]) AS g (account_id, test, key, times)
WHERE i.account_id = g.account_id AND i.test = g.test AND i.key = g.key;

-- name: ordered
-- The boleto being issued under a key: its order is found here also while Redis is away. Answered by the
-- index that lets one of them be under way.
SELECT order_id FROM bank_order
WHERE account_id = :account_id AND test = :test AND request ->> 'key' = :key AND kind = 'boleto_register';

-- name: made
-- What a key made: where a form leads to when it is sent again.
SELECT resource_type, resource_id, fingerprint FROM idempotency
WHERE account_id = :account_id AND test = :test AND key = :key;

-- name: made_of
-- What each of these keys made, of those that made something.
SELECT key, resource_id FROM idempotency WHERE account_id = :account_id AND test = :test AND key = ANY(:keys::text[]);
