-- Statements for the staff's pages: merchants, and the state of queues and workers.

-- name: merchants
-- both ways
-- Index account_created, or account_kyc.
SELECT created_at AS at, account_id AS id, name, document, kyc, address FROM account
WHERE (created_at, account_id) {<} (:at, :id)
  AND kyc = :kyc -- when kyc
ORDER BY created_at {DESC}, account_id {DESC} LIMIT :limit;

-- name: merchants_named
-- Index account_name: names with this prefix, ignoring case and accents. The bounds are computed because LIKE with a
-- parameter as its pattern cannot use the index.
SELECT created_at AS at, account_id AS id, name, document, kyc, address FROM account
WHERE folded(name) ~>=~ folded(:prefix) AND folded(name) ~<~ (folded(:prefix) || chr(1114111))
ORDER BY folded(name) USING ~<~, account_id LIMIT :limit;

-- name: merchants_of_document
-- Index account_document.
SELECT created_at AS at, account_id AS id, name, document, kyc, address FROM account
WHERE document = :document ORDER BY account_id LIMIT :limit;

-- name: merchants_of_person
SELECT a.created_at AS at, a.account_id AS id, a.name, a.document, a.kyc, a.address FROM dashboard_user u JOIN account a USING (account_id)
WHERE u.email = :email;

-- name: merchants_of_id
SELECT created_at AS at, account_id AS id, name, document, kyc, address FROM account WHERE account_id = :account_id;

-- name: merchant_names
-- Names to choose from, in the order of the index account_name.
SELECT name FROM account ORDER BY folded(name) USING ~<~, account_id LIMIT :limit;

-- name: merchant
-- One merchant, with the production balance.
SELECT a.account_id, a.name, a.document, a.address, a.kyc, a.kyc_reason, a.kyc_at,
       coalesce(a.receiving_key, (SELECT pix_key FROM receiving_key)) AS receiving_key, a.refunds_to_others, a.created_at,
       coalesce((SELECT c.balance_cents FROM account_clock c WHERE c.account_id = a.account_id AND NOT c.test), 0) AS balance_cents,
       (SELECT e.url FROM webhook_endpoint e WHERE e.account_id = a.account_id) AS webhook_url
FROM account a WHERE a.account_id = :account_id;

-- name: kyc_counts
-- Counts up to :limit; a page that reaches it shows "more than".
SELECT k.kyc, (SELECT count(*) FROM (SELECT FROM account a WHERE a.kyc = k.kyc LIMIT :limit) AS few) AS merchants
FROM unnest(:states::text[]) WITH ORDINALITY AS k (kyc, place) ORDER BY k.place;

-- name: suspension
SELECT suspended_at FROM pix_suspension;

-- name: queues
-- The length of each queue, read along its index and counted up to a bound; the oldest due_at shows by how much the
-- workers lag. Due deliveries are backlog.deliveries.
WITH paused AS MATERIALIZED (
    SELECT endpoint_id FROM webhook_lane WHERE (state = 'paused' OR releasing_since IS NOT NULL) AND NOT test
), counted (name, waiting, due_at) AS (
    SELECT l.name, sum(q.waiting)::bigint AS waiting, min(q.due_at) AS due_at
    FROM (VALUES ('bank_pix', 'pix'), ('bank_pix', 'pix_change'), ('bank_boletos', 'boleto'), ('bank_boletos', 'boleto_change'),
                 ('bank_boletos', 'reconciliation'), ('bank_refunds', 'refund'), ('bank_refunds', 'transfer')) AS l (name, lane)
    CROSS JOIN LATERAL (
        SELECT count(*) AS waiting, min(d.due_at) AS due_at FROM (
            SELECT due_at FROM bank_order WHERE lane = l.lane AND NOT test AND state = 'waiting'
            ORDER BY due_at, order_id LIMIT :limit) AS d
    ) AS q
    GROUP BY l.name
    UNION ALL
    SELECT 'bank_withdrawals', count(*), min(due_at) FROM (
        -- The condition of bank_order.claim_money: withdrawals of unapproved accounts wait for a person and are no lag.
        SELECT o.due_at FROM bank_order o
        WHERE o.lane = 'withdrawal' AND NOT o.test AND o.state = 'waiting'
            AND (SELECT w.status <> 'pending' OR a.kyc = 'approved'
                 FROM withdrawal w JOIN account a ON a.account_id = w.account_id
                 WHERE w.withdrawal_id = o.order_id AND w.account_id = o.account_id)
        ORDER BY o.due_at, o.order_id LIMIT :limit) AS q
    UNION ALL
    SELECT 'bank_hints', sum(q.waiting)::bigint, min(q.due_at)
    FROM (VALUES (true), (false)) AS k (of_boleto)
    CROSS JOIN LATERAL (
        SELECT count(*) AS waiting, min(d.due_at) AS due_at FROM (
            SELECT due_at FROM bank_hint WHERE of_boleto = k.of_boleto ORDER BY due_at LIMIT :limit) AS d
    ) AS q
    UNION ALL
    -- By lane: sandboxes' deliveries, which abandoned endpoints hold by the thousand, are not read.
    SELECT 'webhooks_held',
           (SELECT count(*) FROM (
               SELECT FROM paused l CROSS JOIN LATERAL (
                   SELECT FROM webhook_delivery d WHERE d.endpoint_id = l.endpoint_id AND NOT d.test AND d.state = 'held' LIMIT :limit
               ) AS of_lane LIMIT :limit) AS few),
           (SELECT min(first.due_at) FROM paused l CROSS JOIN LATERAL (
               SELECT due_at FROM webhook_delivery d WHERE d.endpoint_id = l.endpoint_id AND NOT d.test AND d.state = 'held'
               ORDER BY d.sequence LIMIT 1) AS first)
    UNION ALL
    SELECT 'mails', count(*), min(due_at) FROM (
        SELECT due_at FROM mail WHERE state = 'waiting' ORDER BY due_at, mail_id LIMIT :limit) AS q
)
SELECT name, waiting, due_at, waiting >= :limit AS more FROM counted;

-- name: bank
-- Production: how far the PIX reconciler has come, how many locations are ready, and how many orders workers hold.
-- Locations are counted whole: a bound on blocks would show a full reserve as a smaller one.
SELECT (SELECT min(until) FROM bank_reconciled WHERE method = 'pix' AND pass = 'new') AS reconciled_until,
       (SELECT coalesce(sum(count), 0)::bigint FROM pix_location WHERE NOT test) AS locations,
       (SELECT count(*) FROM (SELECT FROM bank_order WHERE state = 'working' AND NOT test LIMIT :limit) AS few) AS working;

-- name: lanes_in_trouble
-- Production. Reads the whole table, one or two rows per endpoint: only staff open this page.
SELECT state, count(*) AS lanes FROM webhook_lane WHERE state <> 'open' AND NOT test GROUP BY state ORDER BY state;
