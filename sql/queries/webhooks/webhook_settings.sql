-- An account's one endpoint, for its settings page.

-- name: of_account
SELECT endpoint_id, url, kinds,
       ARRAY(SELECT o.until FROM webhook_old_secret o WHERE o.endpoint_id = e.endpoint_id ORDER BY o.until DESC) AS old_until
FROM webhook_endpoint e WHERE account_id = :account_id;

-- name: lanes
-- Health of the lanes, production first. Deliveries are counted up to :limit; the latest success is looked for among
-- the newest 100 deliveries only.
SELECT l.test, l.state, l.consecutive_failures AS failures, l.failing_since, l.blocked_until, l.paused_at, l.paused_reason,
       (SELECT count(*) FROM (SELECT FROM webhook_delivery d
                              WHERE d.endpoint_id = e.endpoint_id AND d.test = l.test AND d.state IN ('pending', 'sending')
                              LIMIT :limit) w) AS waiting,
       (SELECT count(*) FROM (SELECT FROM webhook_delivery d
                              WHERE d.endpoint_id = e.endpoint_id AND d.test = l.test AND d.state = 'held'
                              LIMIT :limit) h) AS held,
       (SELECT count(*) FROM (SELECT FROM webhook_delivery d
                              WHERE d.endpoint_id = e.endpoint_id AND d.test = l.test AND d.state IN ('exhausted', 'stuck')
                              LIMIT :limit) g) AS given_up,
       (SELECT max(n.delivered_at) FROM (SELECT d.delivered_at FROM webhook_delivery d
                                         WHERE d.endpoint_id = e.endpoint_id AND d.test = l.test
                                         ORDER BY d.sequence DESC LIMIT 100) n) AS delivered_at
FROM webhook_endpoint e
JOIN webhook_lane l ON l.endpoint_id = e.endpoint_id
WHERE e.account_id = :account_id
ORDER BY l.test;

-- name: notices
-- Index notice_of_account. The notices about webhooks that were mailed to the account's people.
SELECT test, kind, event_type, at FROM notice
WHERE account_id = :account_id AND kind <> 'second_copy_asked'
ORDER BY at DESC, notice_id DESC LIMIT :limit;
