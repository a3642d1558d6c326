-- Partner shares: a partner's part of each payment, and the part taken back when the payment is refunded. Rows are
-- written in the transaction of the payment or refund; a worker posts them to the partner's ledger. If the partner's
-- account is in another cell, a worker first sends them to that cell.

-- name: accrue
-- For payments of charges with a partner's code. The rate is the one in force when the charge was issued; the share is
-- rounded down to the cent. Nothing is owed to a partner without an account or a rate, or when the share is under one
-- cent.
WITH owed AS MATERIALIZED (
    SELECT g.payment_id, g.account_id, g.test, g.payment_id, i.integrador_code, i.account_id, g.amount_cents, s.share_bps,
           g.amount_cents * s.share_bps / 10000, :now::timestamptz,
           nullif(cell_of(i.account_id), (SELECT number FROM this_cell))
    FROM unnest(:payments.payment_id::uuid[], :payments.account_id::uuid[], :payments.test::boolean[],
                :payments.integrador_code::text[], :payments.amount_cents::bigint[], :payments.issued_at::timestamptz[])
         AS g (payment_id, account_id, test, integrador_code, amount_cents, issued_at)
    JOIN integrator i ON i.integrador_code = g.integrador_code AND i.account_id IS NOT NULL
    CROSS JOIN LATERAL (
        SELECT share_bps FROM integrator_share
        WHERE integrador_code = g.integrador_code AND since <= g.issued_at
        ORDER BY since DESC LIMIT 1
    ) s
    WHERE g.amount_cents * s.share_bps >= 10000
)
INSERT INTO partner_share (share_id, account_id, test, payment_id, integrador_code, partner_id, amount_cents, share_bps,
                           share_cents, earned_at, sent_to)
TABLE owed;

-- name: take_back
-- The partner keeps the share, rounded down, of what the merchant keeps. This takes back the difference before and
-- after the refund, so that several refunds add up to the cent, and a full refund takes back the whole share. More than
-- the payment goes back when a refund that failed here was sent after all; no more than the share is taken back for it.
WITH returned AS MATERIALIZED (
    SELECT g.refund_id, p.account_id, p.test, p.payment_id, g.refund_id, p.integrador_code, p.partner_id, g.amount_cents,
           p.share_bps, k.after_cents - k.before_cents, p.earned_at, p.sent_to
    FROM unnest(:refunds.refund_id::uuid[], :refunds.payment_id::uuid[], :refunds.account_id::uuid[],
                :refunds.amount_cents::bigint[], :refunds.refunded_cents::bigint[])
         AS g (refund_id, payment_id, account_id, amount_cents, refunded_cents)
    JOIN partner_share p ON p.share_id = g.payment_id AND p.account_id = g.account_id
    CROSS JOIN LATERAL (
        SELECT greatest(p.amount_cents - g.refunded_cents + g.amount_cents, 0) * p.share_bps / 10000 AS before_cents,
               greatest(p.amount_cents - g.refunded_cents, 0) * p.share_bps / 10000 AS after_cents
    ) k
    WHERE k.after_cents < k.before_cents
)
INSERT INTO partner_share (share_id, account_id, test, payment_id, refund_id, integrador_code, partner_id, amount_cents,
                           share_bps, share_cents, earned_at, sent_to)
TABLE returned;

-- name: take_partners
-- Partners with unposted shares, each locked against other workers until the transaction ends: a second worker takes
-- other partners and so waits for none of their account clocks. Candidates come from both the oldest and the newest due
-- rows: a backlog of one partner can hide the others at one end only.
WITH candidate AS MATERIALIZED (
    SELECT partner_id, min(n) AS n
    FROM (
        (SELECT partner_id, row_number() OVER (ORDER BY earned_at, number) AS n FROM partner_share
         WHERE posted_at IS NULL AND sent_to IS NULL AND test = :test AND earned_at <= :earned_until
         ORDER BY earned_at, number LIMIT :window)
        UNION ALL
        (SELECT partner_id, :window + row_number() OVER (ORDER BY earned_at DESC, number DESC) FROM partner_share
         WHERE posted_at IS NULL AND sent_to IS NULL AND test = :test AND earned_at <= :earned_until
         ORDER BY earned_at DESC, number DESC LIMIT :window)
    ) AS due
    GROUP BY partner_id
    ORDER BY n
)
SELECT partner_id FROM candidate
WHERE pg_try_advisory_xact_lock(hashtextextended('partner_share' || partner_id::text, :test::integer))
LIMIT :limit;

-- name: claim
-- The rows to post to these partners in one mode, earned until :earned_until, oldest first. A row that takes a share
-- back has the partner and earned_at of that share and a higher number. So the share is posted before it is taken back,
-- and a part taken back while the share was held is posted together with it. This is a separate statement from
-- take_partners because its snapshot must be younger than the locks.
SELECT s.share_id, s.account_id, s.test, s.payment_id, s.refund_id, s.integrador_code, s.partner_id, s.amount_cents,
       s.share_bps, s.share_cents, coalesce(k.ahead_s, 0) AS ahead_s
FROM unnest(:partner_ids::uuid[]) AS g (partner_id)
CROSS JOIN LATERAL (
    SELECT share_id, number, account_id, test, payment_id, refund_id, integrador_code, partner_id, amount_cents, share_bps,
           share_cents, earned_at
    FROM partner_share
    WHERE posted_at IS NULL AND sent_to IS NULL AND test = :test AND partner_id = g.partner_id
      AND earned_at <= :earned_until
    ORDER BY earned_at, number
    LIMIT :limit
) AS s
LEFT JOIN sandbox_clock k ON :test::boolean AND k.account_id = s.partner_id
ORDER BY s.earned_at, s.number
LIMIT :limit;

-- name: posted
UPDATE partner_share SET posted_at = :now WHERE share_id = ANY(:dues.share_id::uuid[]);

-- name: any_away
-- Whether any row waits to be sent to another cell.
SELECT EXISTS (SELECT FROM partner_share WHERE posted_at IS NULL AND sent_to IS NOT NULL) AS waiting;

-- name: away
-- The rows to send to a cell, in the order they were written (index partner_share_away).
SELECT share_id, account_id, test, payment_id, refund_id, integrador_code, partner_id, amount_cents, share_bps, share_cents,
       earned_at
FROM partner_share WHERE posted_at IS NULL AND sent_to = :cell
ORDER BY number LIMIT :limit;

-- name: receive
-- Stores rows from another cell, in the order they were written there. A row that exists here was sent before and is
-- skipped. Nothing is stored if this is not the cell the sender meant.
WITH sent AS MATERIALIZED (
    SELECT g.share_id, g.account_id, g.test, g.payment_id, g.refund_id, g.integrador_code, g.partner_id, g.amount_cents,
           g.share_bps, g.share_cents, g.earned_at, :sender::integer
    FROM unnest(:shares.share_id::uuid[], :shares.account_id::uuid[], :shares.test::boolean[], :shares.payment_id::uuid[],
                :shares.refund_id::uuid[], :shares.integrador_code::text[], :shares.partner_id::uuid[],
                :shares.amount_cents::bigint[], :shares.share_bps::integer[], :shares.share_cents::bigint[],
                :shares.earned_at::timestamptz[])
         WITH ORDINALITY AS g (share_id, account_id, test, payment_id, refund_id, integrador_code, partner_id, amount_cents,
                               share_bps, share_cents, earned_at, n)
    JOIN account a ON a.account_id = g.partner_id
    WHERE (SELECT number FROM this_cell) = :cell::integer
    ORDER BY g.n
)
INSERT INTO partner_share (share_id, account_id, test, payment_id, refund_id, integrador_code, partner_id, amount_cents,
                           share_bps, share_cents, earned_at, received_from)
TABLE sent ON CONFLICT (share_id, account_id) DO NOTHING;

-- name: received
-- Which of these rows the sending cell has delivered here.
SELECT p.share_id
FROM unnest(:shares.share_id::uuid[], :shares.account_id::uuid[]) AS g (share_id, account_id)
JOIN partner_share p ON p.share_id = g.share_id AND p.account_id = g.account_id
WHERE p.received_from = :sender;

-- name: sent
UPDATE partner_share SET posted_at = :now WHERE share_id = ANY(:share_ids::uuid[]) AND sent_to IS NOT NULL;

-- name: crossed_sent
-- Per receiving cell: the rows known to have arrived, and all rows sent. Amounts are summed without sign, so that the
-- sums only grow.
SELECT sent_to AS other, count(*) FILTER (WHERE posted_at IS NOT NULL) AS arrived,
       coalesce(sum(abs(share_cents)) FILTER (WHERE posted_at IS NOT NULL), 0)::bigint AS arrived_cents,
       count(*) AS shares, sum(abs(share_cents))::bigint AS cents
FROM partner_share WHERE sent_to IS NOT NULL GROUP BY 1;

-- name: crossed_received
SELECT received_from AS other, count(*) AS shares, sum(abs(share_cents))::bigint AS cents
FROM partner_share WHERE received_from IS NOT NULL GROUP BY 1;
