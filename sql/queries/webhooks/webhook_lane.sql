-- Lanes: one for each endpoint and mode, with circuit breaker, slow start and pause (decided in
-- domain/webhooks/breaker.py).

-- name: lock
-- Locks the lanes that a batch of finished attempts may change: those with a failure, and those that are not healthy,
-- which a success changes. A healthy lane is neither locked nor written. Locks are taken in key order, so that two
-- batches never deadlock. Returns the present URL, because an attempt may have gone to the previous one.
SELECT l.endpoint_id, l.test, e.url, l.state, l.concurrency, l.consecutive_failures AS failures, l.failing_since,
       l.strained_by, l.blocked_until, l.probes, l.gone, l.gone_since, l.noticed, l.paused_at, l.paused_reason, l.holding
FROM unnest(:lanes.endpoint_id::uuid[], :lanes.mode.test::boolean[], :failed::boolean[]) AS g(endpoint_id, test, failed)
JOIN webhook_lane l ON l.endpoint_id = g.endpoint_id AND l.test = g.test
JOIN webhook_endpoint e ON e.endpoint_id = l.endpoint_id
WHERE g.failed OR l.state <> 'open' OR l.consecutive_failures > 0
   OR l.concurrency < CASE WHEN g.test THEN :cap_test::integer ELSE :cap::integer END
ORDER BY l.endpoint_id, l.test
FOR UPDATE OF l;

-- name: store
UPDATE webhook_lane AS l
SET state = g.state, concurrency = g.concurrency, consecutive_failures = g.failures, failing_since = g.failing_since,
    strained_by = g.strained_by::uuid[], blocked_until = g.blocked_until, probes = g.probes, gone = g.gone,
    gone_since = g.gone_since, noticed = g.noticed, paused_at = g.paused_at, paused_reason = g.paused_reason,
    holding = g.holding,
    releasing_since = CASE WHEN g.state = 'paused' THEN NULL WHEN l.state = 'paused' THEN clock_timestamp()
                           ELSE l.releasing_since END
FROM unnest(
    :keys.endpoint_id::uuid[], :keys.mode.test::boolean[], :lanes.state::text[], :lanes.concurrency::integer[],
    :lanes.failures::integer[], :lanes.failing_since::timestamptz[], :strained_bys::text[],
    :lanes.blocked_until::timestamptz[], :lanes.probes::integer[], :lanes.gone::integer[],
    :lanes.gone_since::timestamptz[], :lanes.noticed::boolean[], :lanes.paused_at::timestamptz[],
    :lanes.paused_reason::text[], :lanes.holding::boolean[]
) AS g(endpoint_id, test, state, concurrency, failures, failing_since, strained_by, blocked_until, probes, gone, gone_since,
       noticed, paused_at, paused_reason, holding)
WHERE l.endpoint_id = g.endpoint_id AND l.test = g.test;

-- name: endpoints
-- What a notice to the merchant contains about an endpoint.
SELECT e.endpoint_id, e.account_id, e.url FROM webhook_endpoint e WHERE e.endpoint_id = ANY(:endpoint_ids::uuid[]);

-- name: of_account
-- Locks both lanes of the account's endpoint until the transaction ends.
SELECT l.endpoint_id, l.test, e.url, l.state, l.concurrency, l.consecutive_failures AS failures, l.failing_since,
       l.strained_by, l.blocked_until, l.probes, l.gone, l.gone_since, l.noticed, l.paused_at, l.paused_reason, l.holding
FROM webhook_endpoint e
JOIN webhook_lane l ON l.endpoint_id = e.endpoint_id
WHERE e.account_id = :account_id
ORDER BY l.endpoint_id, l.test
FOR UPDATE OF l;

-- name: hold
-- Holds the pending deliveries of lanes that were paused, a bounded number per lane and round. Their due_at becomes
-- now, so the retention of held deliveries counts from the pause. A delivery written too late for this is sent alone,
-- like a manual redelivery, and is held if it fails, so the race loses nothing.
WITH lane AS (
    SELECT endpoint_id, test FROM webhook_lane WHERE holding ORDER BY endpoint_id, test LIMIT :lanes_max
    FOR UPDATE SKIP LOCKED
), picked AS (
    SELECT lane.endpoint_id, lane.test, d.delivery_id
    FROM lane
    CROSS JOIN LATERAL (
        SELECT delivery_id FROM webhook_delivery
        WHERE endpoint_id = lane.endpoint_id AND test = lane.test AND state = 'pending'
        ORDER BY due_at, sequence
        LIMIT :limit
        FOR UPDATE SKIP LOCKED
    ) AS d
), held AS (
    UPDATE webhook_delivery AS d
    SET state = 'held', due_at = :now::timestamptz
    FROM picked
    WHERE d.delivery_id = ANY(ARRAY(SELECT delivery_id FROM picked)) AND d.delivery_id = picked.delivery_id
      AND d.state IN ('pending', 'held')
    RETURNING d.delivery_id
), done AS (
    UPDATE webhook_lane AS l
    SET holding = false
    FROM lane
    WHERE l.endpoint_id = lane.endpoint_id AND l.test = lane.test
      AND (SELECT count(*) FROM picked WHERE picked.endpoint_id = lane.endpoint_id AND picked.test = lane.test) < :limit
)
SELECT delivery_id FROM held;

-- name: release
-- Releases the held deliveries of lanes that are no longer paused: in the order of events, before newer ones, and with
-- the full retry schedule. releasing_since marks the reopened lanes, so that a round costs nothing for lanes that stay
-- paused. If a sandbox's clock was advanced, created_at lies in the future; then the delivery is due since it was held.
WITH opened AS (
    SELECT l.endpoint_id, l.test FROM webhook_lane l
    WHERE l.releasing_since IS NOT NULL
      -- OFFSET 0 forces a look-up for each lane, instead of a join with all held deliveries.
      AND EXISTS (SELECT FROM webhook_delivery d
                  WHERE d.endpoint_id = l.endpoint_id AND d.test = l.test AND d.state = 'held' OFFSET 0)
    ORDER BY l.releasing_since
    LIMIT :lanes_max
), picked AS (
    SELECT d.delivery_id
    FROM opened
    CROSS JOIN LATERAL (
        SELECT delivery_id FROM webhook_delivery
        WHERE endpoint_id = opened.endpoint_id AND test = opened.test AND state = 'held'
        ORDER BY sequence
        LIMIT :limit
        FOR UPDATE SKIP LOCKED
    ) AS d
)
UPDATE webhook_delivery AS d
SET state = 'pending', step = 0, due_at = least(d.created_at, d.due_at)
FROM picked
WHERE d.delivery_id = ANY(ARRAY(SELECT delivery_id FROM picked)) AND d.delivery_id = picked.delivery_id
  AND d.state IN ('pending', 'held')
RETURNING d.delivery_id;

-- name: end_release
-- Keeps the mark for :late after the lane was opened: a transaction that writes a delivery reads the lane without a
-- lock, so it may have seen the lane paused and commit a held row shortly after it was opened.
UPDATE webhook_lane AS l
SET releasing_since = NULL
FROM (
    SELECT endpoint_id, test FROM webhook_lane
    WHERE releasing_since <= clock_timestamp() - :late::interval
    ORDER BY releasing_since
    LIMIT :lanes_max
    FOR UPDATE SKIP LOCKED
) AS old
WHERE l.endpoint_id = old.endpoint_id AND l.test = old.test
  AND NOT EXISTS (SELECT FROM webhook_delivery d
                  WHERE d.endpoint_id = l.endpoint_id AND d.test = l.test AND d.state = 'held' OFFSET 0);

-- name: probe
-- Probes paused lanes at an interval with one of their held deliveries. The choice rotates over the ten oldest and the
-- newest, so that one bad event cannot keep the lane closed. The delivery keeps its due_at, the instant it was held, so
-- a probe does not prolong its retention.
WITH lane AS (
    SELECT endpoint_id, test, probes FROM webhook_lane
    WHERE state = 'paused' AND blocked_until <= :now
    ORDER BY blocked_until
    LIMIT :lanes_max
    FOR UPDATE SKIP LOCKED
), postponed AS (
    UPDATE webhook_lane AS l
    SET blocked_until = :next_at::timestamptz
    FROM lane
    WHERE l.endpoint_id = lane.endpoint_id AND l.test = lane.test
), chosen AS (
    SELECT c.delivery_id
    FROM lane
    CROSS JOIN LATERAL (
        SELECT among.delivery_id, row_number() OVER (ORDER BY among.sequence) AS n, count(*) OVER () AS several
        FROM (
            (SELECT delivery_id, sequence FROM webhook_delivery
             WHERE endpoint_id = lane.endpoint_id AND test = lane.test AND state = 'held'
             ORDER BY sequence LIMIT 10)
            UNION
            (SELECT delivery_id, sequence FROM webhook_delivery
             WHERE endpoint_id = lane.endpoint_id AND test = lane.test AND state = 'held'
             ORDER BY sequence DESC LIMIT 1)
        ) AS among
    ) AS c
    WHERE c.n = 1 + lane.probes % c.several
)
UPDATE webhook_delivery AS d
SET state = 'pending'
FROM chosen
WHERE d.delivery_id = ANY(ARRAY(SELECT delivery_id FROM chosen)) AND d.delivery_id = chosen.delivery_id
  AND d.state IN ('pending', 'held') AND d.state <> 'pending'
RETURNING d.delivery_id;

-- name: forget_held
-- Gives up deliveries held too long: the feed still has the event, and the merchant may request a redelivery.
WITH old AS (
    SELECT delivery_id FROM webhook_delivery
    WHERE state = 'held' AND due_at <= :before
    ORDER BY due_at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
)
UPDATE webhook_delivery AS d
SET state = 'exhausted'
FROM old
WHERE d.delivery_id = ANY(ARRAY(SELECT delivery_id FROM old)) AND d.delivery_id = old.delivery_id
  AND d.state IN ('pending', 'held')
RETURNING d.delivery_id;
