-- One row for each Idempotency-Key that created something. The primary key guarantees that each key creates one thing.

-- name: find
-- The owners of these keys; one look-up for all requests of the same moment.
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
-- The order of the boleto being issued under a key; this works without Redis. Uses the unique index that allows one
-- such order at a time.
SELECT order_id FROM bank_order
WHERE account_id = :account_id AND test = :test AND request ->> 'key' = :key AND kind = 'boleto_register';

-- name: made
-- What a key created: the page to which a form leads when it is submitted again.
SELECT resource_id, fingerprint FROM idempotency
WHERE account_id = :account_id AND test = :test AND key = :key;

-- name: made_of
-- What these keys created; a key that created nothing has no row.
SELECT key, resource_id FROM idempotency WHERE account_id = :account_id AND test = :test AND key = ANY(:keys::text[]);
