-- The length of each queue and the instant of its oldest item (workers/housekeeping/backlog.py). Each statement reads
-- ranges of the indexes by which its queue is claimed, at most :counted_max rows of each, so its cost does not grow
-- with the queue. `mode` is 'all' for a queue without modes.

-- name: bank_orders
-- Withdrawals of accounts that are not approved wait for a person and are no lag (bank_order.claim_money).
SELECT 'bank_orders_' || l.name AS queue, m.mode, sum(q.waiting)::bigint AS waiting, min(q.oldest) AS oldest
FROM (VALUES ('pix', 'pix'), ('pix', 'pix_change'), ('boleto', 'boleto'), ('boleto', 'boleto_change'), ('boleto', 'reconciliation'),
             ('refund', 'refund'), ('refund', 'transfer'), ('withdrawal', 'withdrawal')) AS l (name, lane)
CROSS JOIN (VALUES ('test', true), ('production', false)) AS m (mode, test)
CROSS JOIN LATERAL (
    SELECT count(*) AS waiting, min(d.due_at) AS oldest FROM (
        SELECT o.due_at FROM bank_order o
        WHERE o.lane = l.lane AND o.test = m.test AND o.state = 'waiting' AND o.due_at <= :now
          AND (o.kind <> 'withdrawal_send' OR (
              SELECT w.status <> 'pending' OR a.kyc = 'approved'
              FROM withdrawal w JOIN account a ON a.account_id = w.account_id
              WHERE w.withdrawal_id = o.order_id AND w.account_id = o.account_id))
        ORDER BY o.due_at, o.order_id LIMIT :counted_max) d
) q
GROUP BY l.name, m.mode;

-- name: bank_hints
SELECT 'bank_hints' AS queue, 'all' AS mode, sum(q.waiting)::bigint AS waiting, min(q.oldest) AS oldest
FROM (VALUES (true), (false)) AS k (of_boleto)
CROSS JOIN LATERAL (
    SELECT count(*) AS waiting, min(d.due_at) AS oldest FROM (
        SELECT due_at FROM bank_hint
        WHERE of_boleto = k.of_boleto AND due_at <= :now ORDER BY due_at LIMIT :counted_max) d
) q;

-- name: deliveries
-- Deliveries to failing receivers are a queue of their own: the workers cannot shorten it. Receivers are found through
-- the :counted_max longest due deliveries. Only if there are as many can those of a failing receiver hide the others;
-- then a loose index scan also visits :lanes_max lanes, and counts a few deliveries of each that was hidden.
WITH RECURSIVE due AS MATERIALIZED (
    SELECT endpoint_id, test, due_at FROM webhook_delivery
    WHERE state = 'pending' AND due_at <= :now ORDER BY due_at LIMIT :counted_max
), counted AS MATERIALIZED (
    SELECT endpoint_id, test, count(*) AS waiting, min(due_at) AS oldest FROM due GROUP BY endpoint_id, test
), scanned AS (
    (SELECT endpoint_id, test, due_at, 1 AS n FROM webhook_delivery
     WHERE state = 'pending' AND (SELECT count(*) FROM due) = :counted_max
     ORDER BY endpoint_id, test, due_at LIMIT 1)
    UNION ALL
    SELECT next.endpoint_id, next.test, next.due_at, lane.n + 1
    FROM scanned lane
    CROSS JOIN LATERAL (
        SELECT d.endpoint_id, d.test, d.due_at FROM webhook_delivery d
        WHERE d.state = 'pending' AND (d.endpoint_id, d.test) > (lane.endpoint_id, lane.test)
        ORDER BY d.endpoint_id, d.test, d.due_at LIMIT 1
    ) AS next
    WHERE lane.n < :lanes_max
), lane AS MATERIALIZED (
    SELECT endpoint_id, test, waiting, oldest FROM counted
    UNION ALL
    SELECT s.endpoint_id, s.test, (
        SELECT count(*) FROM (
            SELECT FROM webhook_delivery d
            WHERE d.endpoint_id = s.endpoint_id AND d.test = s.test AND d.state = 'pending' AND d.due_at <= :now
            LIMIT 10) AS few), s.due_at
    FROM scanned s
    WHERE s.due_at <= :now AND (s.endpoint_id, s.test) NOT IN (SELECT endpoint_id, test FROM counted)
), looked_at AS (
    SELECT d.test, d.waiting, d.oldest, l.state <> 'open' OR coalesce(l.blocked_until > :now, false) AS failing
    FROM lane d
    -- OFFSET 0 forces a look-up for each of these lanes, instead of a join with all lanes.
    CROSS JOIN LATERAL (
        SELECT state, blocked_until FROM webhook_lane WHERE endpoint_id = d.endpoint_id AND test = d.test OFFSET 0
    ) AS l
)
SELECT q.queue, m.mode, coalesce(sum(l.waiting), 0)::bigint AS waiting, min(l.oldest) AS oldest
FROM (VALUES ('webhooks', false), ('webhooks_of_failing_receivers', true)) AS q (queue, failing)
CROSS JOIN (VALUES ('test', true), ('production', false)) AS m (mode, test)
LEFT JOIN looked_at l ON l.failing = q.failing AND l.test = m.test
GROUP BY q.queue, m.mode;

-- name: mails
-- Charges whose mails are to be written, and mails to be sent.
SELECT 'mail_writing' AS queue, 'all' AS mode, count(*) AS waiting, min(d.due_at) AS oldest
FROM (SELECT due_at FROM mail_request WHERE due_at <= :now ORDER BY due_at LIMIT :counted_max) d
UNION ALL
SELECT 'mail', 'all', count(*), min(d.due_at)
FROM (SELECT due_at FROM mail WHERE state = 'waiting' AND due_at <= :now ORDER BY due_at, mail_id LIMIT :counted_max) d;

-- name: schedules
SELECT 'schedules' AS queue, 'all' AS mode, count(*) AS waiting, min(d.look_at) AS oldest
FROM (SELECT look_at FROM schedule WHERE status = 'active' AND NOT ordered AND look_at <= :now
      ORDER BY look_at LIMIT :counted_max) d;

-- name: shares
-- Partner shares whose holding period is over: in production, those earned until :earned_until.
SELECT 'partner_shares' AS queue, m.mode, q.waiting, q.oldest
FROM (VALUES ('test', true, :now::timestamptz, interval '0'), ('production', false, :earned_until::timestamptz, :now - :earned_until::timestamptz))
     AS m (mode, test, earned_until, held)
CROSS JOIN LATERAL (
    SELECT count(*) AS waiting, min(d.earned_at) + m.held AS oldest FROM (
        SELECT earned_at FROM partner_share WHERE posted_at IS NULL AND sent_to IS NULL AND test = m.test
          AND earned_at <= m.earned_until
        ORDER BY earned_at, number LIMIT :counted_max) d
) q
UNION ALL
-- Shares of partners in other cells, which wait only to be sent.
SELECT 'partner_shares_away', 'all', count(*), min(d.earned_at)
FROM (SELECT earned_at FROM partner_share WHERE posted_at IS NULL AND sent_to IS NOT NULL
      ORDER BY sent_to, number LIMIT :counted_max) d;

-- name: overdue
SELECT 'expiry' AS queue, 'all' AS mode, count(*) AS waiting, min(d.expires_at) AS oldest
FROM (SELECT expires_at FROM charge WHERE status = 'pending' AND expires_at <= :now
      ORDER BY expires_at LIMIT :counted_max) d;

-- name: journal
-- Rows not sealed in a hash chain yet, and rows not folded into the daily totals yet.
SELECT 'journal_seal' AS queue, 'all' AS mode, count(*) AS waiting, min(d.recorded_at) AS oldest
FROM (SELECT recorded_at FROM journal
      WHERE journal_id > coalesce((SELECT last_id FROM seal WHERE chain = 'journal' ORDER BY last_id DESC LIMIT 1), 0)
      ORDER BY journal_id LIMIT :counted_max) d
UNION ALL
SELECT 'reports', 'all', count(*), min(d.recorded_at)
FROM (SELECT recorded_at FROM journal
      WHERE journal_id > (SELECT journal_id FROM report_position WHERE single) ORDER BY journal_id LIMIT :counted_max) d
UNION ALL
SELECT 'audit_seal', 'all', count(*), min(d.at)
FROM (SELECT at FROM audit
      WHERE number > coalesce((SELECT last_id FROM seal WHERE chain = 'audit' ORDER BY last_id DESC LIMIT 1), 0)
      ORDER BY number LIMIT :counted_max) d;

-- name: suspense
SELECT count(*) AS waiting, coalesce(sum(d.amount_cents), 0)::bigint AS cents, min(d.received_at) AS oldest
FROM (SELECT amount_cents, received_at FROM suspense WHERE state = 'open'
      ORDER BY received_at, suspense_id LIMIT :counted_max) d;

-- name: verified
-- The latest finished verification of everything, and when the journal was last sealed.
SELECT v.verification_id, v.ended_at, coalesce((
           SELECT sum(d.rows) FROM verification_difference d WHERE d.verification_id = v.verification_id), 0)::bigint AS differences,
       (SELECT sealed_at FROM seal WHERE chain = 'journal' ORDER BY last_id DESC LIMIT 1) AS sealed_at
FROM (SELECT) AS always
LEFT JOIN LATERAL (
    SELECT verification_id, ended_at FROM verification
    WHERE ended_at IS NOT NULL AND NOT scope ?| ARRAY['account_id', 'since', 'until']
    ORDER BY verification_id DESC LIMIT 1
) v ON true;
