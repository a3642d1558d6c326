-- Work that is stuck, in production and over all merchants, for staff. Each statement reads bounded ranges of the
-- indexes by which the queues are claimed.

-- name: orders
-- Orders created before :before that have not ended, read in the order of due_at. Not stuck are a withdrawal of an
-- unapproved account, which waits for a decision (bank_order.claim_money), and an untried order that is not due yet: it
-- may still be cancelled. An order whose lease has run out waits for a worker's next round.
WITH open AS MATERIALIZED (
    SELECT q.* FROM (VALUES ('pix'), ('pix_change'), ('boleto'), ('boleto_change'), ('reconciliation'), ('refund'), ('transfer'),
                 ('withdrawal')) AS l (lane)
    CROSS JOIN LATERAL (
        SELECT order_id, account_id, charge_id, bank, kind, lane, state, attempts, created_at, due_at, outcome FROM bank_order
        WHERE lane = l.lane AND NOT test AND state = 'waiting'
        ORDER BY due_at, order_id LIMIT :look) AS q
    UNION ALL
    SELECT * FROM (
        SELECT order_id, account_id, charge_id, bank, kind, lane, state, attempts, created_at, due_at, outcome FROM bank_order
        WHERE state = 'working' AND lease_until <= statement_timestamp() AND NOT test
        ORDER BY lease_until LIMIT :look) AS lost
)
SELECT o.order_id, o.account_id, a.name AS merchant, o.charge_id, o.bank, o.kind, o.attempts, o.created_at, o.due_at,
       o.state = 'working' AS lost, o.outcome ->> 'detail' AS detail
FROM open o
LEFT JOIN account a ON a.account_id = o.account_id
WHERE o.created_at < :before AND (o.attempts > 0 OR o.due_at < :before)
  AND (o.kind <> 'withdrawal_send' OR (
      SELECT w.status <> 'pending' OR a.kyc = 'approved' FROM withdrawal w
      WHERE w.withdrawal_id = o.order_id AND w.account_id = o.account_id))
ORDER BY o.created_at, o.order_id
LIMIT :limit;

-- name: given_up
-- The newest orders that the bank refused, and those abandoned: index bank_order_failed.
SELECT d.order_id, d.account_id, a.name AS merchant, d.charge_id, d.bank, d.kind, d.state, d.attempts, d.created_at, d.ended_at
FROM bank_order_done d
LEFT JOIN account a ON a.account_id = d.account_id
WHERE d.state <> 'done' AND NOT d.test
ORDER BY d.order_id DESC
LIMIT :limit;

-- name: deliveries
-- Deliveries in state stuck, newest first: index webhook_delivery_stuck. Those of a removed endpoint, which has no lane,
-- are about to be deleted.
SELECT d.delivery_id, d.account_id, a.name AS merchant, d.type, d.sequence, d.attempt, d.created_at
FROM webhook_delivery d
JOIN account a ON a.account_id = d.account_id
WHERE d.state = 'stuck' AND NOT d.test
  AND EXISTS (SELECT FROM webhook_lane l WHERE l.endpoint_id = d.endpoint_id AND NOT l.test OFFSET 0)
ORDER BY d.created_at DESC, d.delivery_id DESC
LIMIT :limit;

-- name: lanes
-- Failing receivers, the paused ones first. Their held deliveries are counted up to :count_max.
SELECT e.account_id, a.name AS merchant, l.state, coalesce(l.paused_at, l.failing_since) AS since,
       (SELECT count(*) FROM (
           SELECT FROM webhook_delivery d
           WHERE d.endpoint_id = l.endpoint_id AND NOT d.test AND d.state = 'held' LIMIT :count_max) AS few) AS held
FROM (
    SELECT endpoint_id, state, paused_at, failing_since FROM webhook_lane
    WHERE state <> 'open' AND NOT test
    ORDER BY state DESC, coalesce(paused_at, failing_since), endpoint_id LIMIT :limit
) AS l
JOIN webhook_endpoint e ON e.endpoint_id = l.endpoint_id
JOIN account a ON a.account_id = e.account_id
ORDER BY l.state DESC, since, e.account_id;
