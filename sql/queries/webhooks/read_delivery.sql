-- Deliveries for the merchant, in the order of the feed. An account has one endpoint, so an event's sequence identifies
-- a delivery, and the URL is looked up once. The charge is looked up for the rows of the page only. The partitions
-- (open deliveries, and ended ones by month) are merged along their indexes, as the feed's months are.

-- name: find
-- By the primary key. IS NOT DISTINCT FROM keeps the endpoint's indexes out of the plan.
SELECT d.delivery_id, d.event_id, d.type, d.sequence,
       (SELECT r.charge_id FROM read_event r
        WHERE r.account_id = d.account_id AND r.test = d.test AND r.sequence = d.sequence
          AND r.created_at = d.created_at) AS charge_id,
       (SELECT url FROM webhook_endpoint WHERE account_id = :account_id) AS url,
       d.state, d.attempt, d.due_at, d.created_at, d.delivered_at, d.test
FROM webhook_delivery d
WHERE d.delivery_id = :delivery_id AND d.test = :test
  AND d.endpoint_id IS NOT DISTINCT FROM (SELECT endpoint_id FROM webhook_endpoint WHERE account_id = :account_id);

-- name: page
-- both ways
-- Index webhook_delivery_feed.
SELECT d.delivery_id, d.event_id, d.type, d.sequence,
       (SELECT r.charge_id FROM read_event r
        WHERE r.account_id = d.account_id AND r.test = d.test AND r.sequence = d.sequence
          AND r.created_at = d.created_at) AS charge_id,
       (SELECT url FROM webhook_endpoint WHERE account_id = :account_id) AS url,
       d.state, d.attempt, d.due_at, d.created_at, d.delivered_at, d.test
FROM webhook_delivery d
WHERE d.endpoint_id = (SELECT endpoint_id FROM webhook_endpoint WHERE account_id = :account_id) AND d.test = :test
  AND d.sequence > :above AND d.sequence < :below
ORDER BY d.sequence {DESC}
LIMIT :limit;

-- name: by_state
-- both ways
-- Index webhook_delivery_state: one range for each requested pair of state and kind; the first page of each is merged.
-- (type, sequence) is compared and ordered as a pair, so that webhook_delivery_feed, which has no type, cannot be used.
-- With type = k.type it could: if the queue was small when analyzed, that index looks as cheap, and it reads the whole
-- feed.
SELECT d.delivery_id, d.event_id, d.type, d.sequence,
       (SELECT r.charge_id FROM read_event r
        WHERE r.account_id = :account_id AND r.test = d.test AND r.sequence = d.sequence
          AND r.created_at = d.created_at) AS charge_id,
       (SELECT url FROM webhook_endpoint WHERE account_id = :account_id) AS url,
       d.state, d.attempt, d.due_at, d.created_at, d.delivered_at, d.test
FROM unnest(:states::text[]) AS s (state)
CROSS JOIN unnest(:types::text[]) AS k (type)
CROSS JOIN LATERAL (
    SELECT delivery_id, event_id, type, sequence, state, attempt, due_at, created_at, delivered_at, test
    FROM webhook_delivery
    WHERE endpoint_id = (SELECT endpoint_id FROM webhook_endpoint WHERE account_id = :account_id)
      AND test = :test AND state = s.state
      AND (type, sequence) > (k.type, :above) AND (type, sequence) < (k.type, :below)
    ORDER BY type {DESC}, sequence {DESC}
    LIMIT :limit
) d
ORDER BY d.sequence {DESC}
LIMIT :limit;

-- name: by_charge
-- both ways
-- Index read_event_charge finds the charge's events, webhook_delivery_feed the delivery of each.
SELECT d.delivery_id, d.event_id, d.type, d.sequence, r.charge_id,
       (SELECT url FROM webhook_endpoint WHERE account_id = :account_id) AS url,
       d.state, d.attempt, d.due_at, d.created_at, d.delivered_at, d.test
FROM read_event r
CROSS JOIN LATERAL (
    SELECT delivery_id, event_id, type, sequence, state, attempt, due_at, created_at, delivered_at, test
    FROM webhook_delivery
    WHERE endpoint_id = (SELECT endpoint_id FROM webhook_endpoint WHERE account_id = :account_id)
      AND test = :test AND sequence = r.sequence
    LIMIT 1
) d
WHERE r.account_id = :account_id AND r.test = :test AND r.charge_id = :charge_id
  AND r.sequence > :above AND r.sequence < :below
  AND d.state = ANY(:states::text[]) AND d.type = ANY(:types::text[])
ORDER BY r.sequence {DESC}
LIMIT :limit;

-- name: by_event
-- The delivery's id is derived from endpoint and event, so there is at most one row and no order.
SELECT d.delivery_id, d.event_id, d.type, d.sequence,
       (SELECT r.charge_id FROM read_event r
        WHERE r.account_id = d.account_id AND r.test = d.test AND r.sequence = d.sequence
          AND r.created_at = d.created_at) AS charge_id,
       e.url, d.state, d.attempt, d.due_at, d.created_at, d.delivered_at, d.test
FROM webhook_endpoint e
JOIN webhook_delivery d ON d.delivery_id = webhook_delivery_id(e.endpoint_id, :event_id)
WHERE e.account_id = :account_id AND d.test = :test
  AND d.sequence > :above AND d.sequence < :below
  AND d.state = ANY(:states::text[]) AND d.type = ANY(:types::text[])
  AND EXISTS (SELECT FROM read_event r WHERE r.account_id = d.account_id AND r.test = d.test -- when charge_id
              AND r.sequence = d.sequence AND r.created_at = d.created_at AND r.charge_id = :charge_id) -- when charge_id
;

-- name: attempts
-- The newest attempts of each of a page's deliveries, oldest first: a range of the primary key for each.
SELECT w.delivery_id, w.attempt, w.started_at, w.duration_ms, w.status, w.outcome, w.answer
FROM unnest(:delivery_ids::uuid[]) AS g (delivery_id)
CROSS JOIN LATERAL (
    SELECT delivery_id, attempt, started_at, duration_ms, status, outcome, answer FROM webhook_attempt
    WHERE delivery_id = g.delivery_id
    ORDER BY attempt DESC
    LIMIT :limit
) w
ORDER BY w.delivery_id, w.attempt;
