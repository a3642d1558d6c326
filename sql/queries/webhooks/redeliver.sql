-- Redelivers events that were sent, or were never sent because no endpoint was registered. The delivery stays the same
-- row: same id, same event, same bytes; attempts count on, and the retry schedule starts again.

-- name: hold
-- Allows one redelivery per account at a time: a redelivered row moves back to the partition of open deliveries, and a
-- transaction waiting for a moved row would fail.
SELECT endpoint_id FROM webhook_endpoint WHERE account_id = :account_id FOR NO KEY UPDATE;

-- name: one
-- Returns a row if the delivery is the account's and its event is still in the feed. Without the event there is no
-- body, and the delivery would be claimed again and again but never sent. A delivery being sent stays as it is; a
-- waiting one becomes due. It becomes pending even while its lane is paused: the redelivery is then the lane's next
-- probe.
WITH mine AS (
    SELECT d.delivery_id FROM webhook_delivery d
    WHERE d.delivery_id = :delivery_id AND d.endpoint_id IS NOT DISTINCT FROM :endpoint_id AND d.test = :test -- by its key
      AND EXISTS (SELECT FROM read_event r
                  WHERE r.account_id = d.account_id AND r.test = d.test AND r.sequence = d.sequence
                    AND r.created_at = d.created_at)
), again AS (
    UPDATE webhook_delivery AS d
    SET state = 'pending', step = 0, losses = 0, due_at = :now::timestamptz, lease_until = NULL, delivered_at = NULL
    FROM mine
    WHERE d.delivery_id = mine.delivery_id AND d.state <> 'sending'
)
SELECT delivery_id FROM mine;

-- name: range
-- Redelivers every event in the range whose kind the endpoint receives. They become due in the order of the feed,
-- :apart from each other, so that new events need not wait behind all of them; while the lane is paused they are held
-- like its other deliveries. A locked row is being claimed or stored by another transaction; skipping it is correct and
-- prevents a deadlock.
WITH asked AS MATERIALIZED (
    SELECT webhook_delivery_id(e.endpoint_id, r.event_id) AS delivery_id, e.endpoint_id, r.account_id, r.test, r.event_id,
           r.sequence, r.type, r.created_at, CASE WHEN l.state = 'paused' THEN 'held' ELSE 'pending' END AS state,
           :now::timestamptz + (row_number() OVER (ORDER BY r.sequence) - 1) * :apart::interval AS due_at
    FROM webhook_endpoint e
    JOIN read_event r ON r.account_id = :account_id AND r.test = :test
                     AND r.sequence BETWEEN :from_sequence AND :to_sequence AND r.type = ANY(e.kinds)
    LEFT JOIN webhook_lane l ON l.endpoint_id = e.endpoint_id AND l.test = :test
    WHERE e.account_id = :account_id
    ORDER BY r.sequence
), idle AS MATERIALIZED (
    SELECT d.delivery_id, asked.state, asked.due_at
    FROM asked
    JOIN webhook_delivery d ON d.delivery_id = asked.delivery_id
    WHERE d.state <> 'sending' AND NOT (d.state IN ('pending', asked.state) AND d.step = 0 AND d.due_at <= asked.due_at)
    FOR UPDATE OF d SKIP LOCKED
), again AS (
    UPDATE webhook_delivery AS d
    SET state = idle.state, step = 0, losses = 0, due_at = idle.due_at, lease_until = NULL, delivered_at = NULL
    FROM idle
    WHERE d.delivery_id = idle.delivery_id
), missing AS MATERIALIZED (
    SELECT delivery_id, endpoint_id, account_id, test, event_id, sequence, type, state, due_at, created_at
    FROM asked
    WHERE NOT EXISTS (SELECT FROM webhook_delivery d WHERE d.delivery_id = asked.delivery_id)
    ORDER BY sequence
), fresh AS (
    INSERT INTO webhook_delivery_open (delivery_id, endpoint_id, account_id, test, event_id, sequence, type, state, due_at,
                                       created_at)
    TABLE missing
    ON CONFLICT (delivery_id) DO NOTHING
)
SELECT count(*) AS deliveries FROM asked;
