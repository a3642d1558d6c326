-- Bank orders: waiting -> working (leased) -> ended, or waiting again when the bank's answer is unknown. Commands write
-- them (order.sql, charge.sql). An order that ends (done, refused, abandoned) moves from bank_order to bank_order_done.
--
-- Leases begin and end by this server's clock: by the workers' clocks, a worker whose clock is ahead would take orders
-- another is still working on. (statement_timestamp() can use an index; clock_timestamp() cannot.)
--
-- A statement that is given ids must read by the primary key, even with a plan made while the queue was empty, when
-- other indexes looked as good. So none of them has a condition that implies the predicate of a partial index, such as
-- state = 'working'.

-- name: claim_pix
-- Leases the due orders of one lane and mode and, if these are too few, untried orders beyond their account's share, whose due_at
-- gives the order of fair queueing. :since skips index entries of orders that are gone but that an old snapshot still
-- keeps (workers/orders/queue_head.py). SKIP LOCKED: workers skip each other's rows. Also returns what decides whether
-- the order still makes sense: the charge's status, its sandbox clock, whether its registration is still open, and the
-- callback address; for a dual charge with terms, whose PIX leg is a cobv, also the terms and the due date.
WITH due AS (
    SELECT order_id, charge_id, account_id FROM bank_order
    WHERE lane = :lane AND test = :test AND state = 'waiting'
      AND due_at >= coalesce(:since::timestamptz, '-infinity') AND due_at <= :now
    ORDER BY due_at, order_id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
), early AS (
    SELECT order_id, charge_id, account_id FROM bank_order
    WHERE lane = :lane AND test = :test AND state = 'waiting' AND due_at > :now
      AND attempts = 0 AND due_at > created_at
    ORDER BY due_at, order_id
    LIMIT (SELECT :limit - count(*) FROM due)
    FOR UPDATE SKIP LOCKED
), taken AS (
    TABLE due UNION ALL TABLE early
)
UPDATE bank_order o
SET state = 'working', attempts = o.attempts + 1, lease_until = clock_timestamp() + :lease::interval
FROM taken d
LEFT JOIN charge c ON c.charge_id = d.charge_id
LEFT JOIN LATERAL (
    SELECT due_on, terms FROM boleto
    WHERE c.payment_method = 'boleto_pix' AND charge_id = c.charge_id AND account_id = c.account_id
    OFFSET 0 -- else a plan made while there was no boleto may read all boletos for each order
) s ON true
WHERE o.order_id = d.order_id
RETURNING o.order_id, o.test, o.bank, o.kind, o.request, o.attempts, o.created_at, o.deadline, o.reply_to, o.due_at, o.charge_id,
          c.status, c.expires_at, c.payer_sealed, s.due_on, s.terms,
          o.kind IN ('cob_remove', 'cob_revise') AND EXISTS (
              SELECT FROM bank_order r WHERE r.charge_id = o.charge_id AND r.kind = 'cob_register'
              OFFSET 0 -- else a plan may hash all registrations once, instead of looking one up for each order
          ) AS registering,
          CASE WHEN o.kind = 'cob_register' AND NOT o.test
               THEN (SELECT url FROM bank_callback b WHERE b.bank = o.bank AND b.pix_key = o.request ->> 'pix_key') END AS callback_url,
          -- A subquery, not a join: with a plan made while many orders waited, each claim would read the clocks of all
          -- accounts.
          CASE WHEN o.test THEN coalesce((SELECT ahead_s FROM sandbox_clock k WHERE k.account_id = d.account_id), 0) ELSE 0 END AS ahead_s;

-- name: claim_boletos
-- As above, with the charge and its boleto as they are now.
WITH due AS (
    SELECT order_id, charge_id, account_id FROM bank_order
    WHERE lane = :lane AND test = :test AND state = 'waiting'
      AND due_at >= coalesce(:since::timestamptz, '-infinity') AND due_at <= :now
    ORDER BY due_at, order_id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
), early AS (
    SELECT order_id, charge_id, account_id FROM bank_order
    WHERE lane = :lane AND test = :test AND state = 'waiting' AND due_at > :now
      AND attempts = 0 AND due_at > created_at
    ORDER BY due_at, order_id
    LIMIT (SELECT :limit - count(*) FROM due)
    FOR UPDATE SKIP LOCKED
), taken AS (
    TABLE due UNION ALL TABLE early
)
UPDATE bank_order o
SET state = 'working', attempts = o.attempts + 1, lease_until = clock_timestamp() + :lease::interval
FROM taken d
LEFT JOIN charge c ON c.charge_id = d.charge_id
LEFT JOIN LATERAL (
    SELECT number, due_on, registered_at FROM boleto WHERE charge_id = d.charge_id
    OFFSET 0 -- as above
) s ON true
LEFT JOIN charge_view r ON r.charge_id = d.charge_id
WHERE o.order_id = d.order_id
RETURNING o.order_id, o.test, o.bank, o.kind, o.request, o.attempts, o.created_at, o.deadline, o.reply_to, o.due_at, o.account_id,
          o.charge_id, c.payment_method, c.status, s.number, s.due_on, s.registered_at, r.doc,
          CASE WHEN o.test THEN coalesce((SELECT ahead_s FROM sandbox_clock k WHERE k.account_id = d.account_id), 0) ELSE 0 END AS ahead_s;

-- name: claim_money
-- Leases orders of refunds or of withdrawals, with the outcome that the previous attempt stored. A withdrawal that was
-- never sent to the bank is skipped while the account is not approved: its money stays, and no attempt is counted. The
-- subquery looks this up for each order; a join might read every withdrawal ever made. :since as above: 5,000 skipped
-- withdrawals cost 40,000 blocks. After a restore no transfer is sent until an operator has compared the books with the
-- bank and released payouts.
WITH due AS (
    SELECT o.order_id FROM bank_order o
    WHERE o.lane = :lane AND o.test = :test AND o.state = 'waiting'
      AND o.due_at >= coalesce(:since::timestamptz, '-infinity') AND o.due_at <= :now
      AND (o.kind <> 'withdrawal_send' OR (
          SELECT w.status <> 'pending' OR a.kyc = 'approved'
          FROM withdrawal w JOIN account a ON a.account_id = w.account_id
          WHERE w.withdrawal_id = o.order_id AND w.account_id = o.account_id))
      AND (o.test OR o.kind NOT IN ('withdrawal_send', 'refund_transfer') OR NOT (SELECT payouts_held()))
    ORDER BY o.due_at, o.order_id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
)
UPDATE bank_order o
SET state = 'working', attempts = o.attempts + 1, lease_until = clock_timestamp() + :lease::interval
FROM due d
WHERE o.order_id = d.order_id
RETURNING o.order_id, o.test, o.bank, o.kind, o.request, o.attempts, o.created_at, o.deadline, o.reply_to, o.due_at, o.account_id,
          o.charge_id, o.outcome;

-- name: ends
-- The present due date and expiry of a dual charge, for a worker that has just changed it at the bank.
SELECT c.expires_at, s.due_on FROM charge c JOIN boleto s ON s.charge_id = c.charge_id AND s.account_id = c.account_id
WHERE c.charge_id = :charge_id;

-- name: settle
-- Ends orders that this lease still holds: the number of attempts identifies the lease.
WITH given AS MATERIALIZED (
    SELECT g.order_id, g.attempts, g.state, g.outcome
    FROM unnest(:order_ids::uuid[], :attempts::integer[], :states::text[], :outcomes::jsonb[])
         AS g (order_id, attempts, state, outcome)
), ended AS (
    DELETE FROM bank_order o USING given g
    WHERE o.order_id = ANY(:order_ids::uuid[]) AND o.order_id = g.order_id AND o.attempts = g.attempts
    RETURNING o.order_id, o.account_id, o.charge_id, o.test, o.bank, o.kind, g.state, o.attempts, o.created_at, g.outcome
)
INSERT INTO bank_order_done (order_id, account_id, charge_id, test, bank, kind, state, attempts, created_at, ended_at, outcome)
SELECT order_id, account_id, charge_id, test, bank, kind, state, attempts, created_at, :now, outcome FROM ended
RETURNING order_id;

-- name: put_off
-- Puts an order back to wait for its next attempt, if this lease still holds it.
UPDATE bank_order SET state = 'waiting', due_at = :due_at, lease_until = NULL, outcome = :outcome
WHERE order_id = :order_id AND attempts = :attempts
RETURNING order_id;

-- name: release
-- Frees the leases of dead workers: the orders wait again, with the same identifiers at the bank.
UPDATE bank_order SET state = 'waiting', due_at = :now, lease_until = NULL
WHERE order_id = ANY(ARRAY(
    SELECT order_id FROM bank_order WHERE state = 'working' AND lease_until <= statement_timestamp()
    ORDER BY lease_until LIMIT :limit FOR UPDATE SKIP LOCKED
))
RETURNING test, lane;

-- name: callback_registered
INSERT INTO bank_callback (bank, pix_key, url, registered_at) VALUES (:bank, :pix_key, :url, :now)
ON CONFLICT (bank, pix_key) DO UPDATE SET url = excluded.url, registered_at = excluded.registered_at;

-- name: callback_refused
DELETE FROM bank_callback WHERE bank = :bank AND pix_key = :pix_key;

-- name: callbacks_elsewhere
-- PIX keys for which the bank still has an old callback address.
SELECT pix_key FROM bank_callback WHERE bank = :bank AND url <> :url ORDER BY pix_key LIMIT :limit;

-- name: retry
-- Makes an order due now, unless a worker is working on it or its first attempt is scheduled for later.
UPDATE bank_order SET due_at = least(due_at, :now)
WHERE order_id = :order_id AND NOT test AND state <> 'working' AND (attempts > 0 OR due_at <= :now)
RETURNING lane;
