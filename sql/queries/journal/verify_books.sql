-- The arithmetic of the books, slice by slice (readmodels/verify.py). Each row is a count that must be 0.
--
-- For a slice's charges, temporary tables hold the read rows projected from the journal. Payments and refunds are
-- looked up by the ids in those; `payments` and `refunds` below walk their own tables to show that the journal knows
-- all of them.

-- name: charges
WITH c AS MATERIALIZED (
    SELECT * FROM charge WHERE charge_id BETWEEN :first AND :last AND account_id BETWEEN :low AND :high
), p AS MATERIALIZED (
    SELECT p.*, r.journal_id FROM pg_temp.read_payment r
    JOIN payment p ON p.payment_id = r.payment_id AND p.account_id = r.account_id
), f AS MATERIALIZED (
    SELECT f.* FROM pg_temp.read_refund r JOIN refund f ON f.refund_id = r.refund_id AND f.account_id = r.account_id
), v AS MATERIALIZED (
    SELECT v.* FROM p JOIN payment_reversal v ON v.payment_id = p.payment_id AND v.account_id = p.account_id
), l AS MATERIALIZED (TABLE pg_temp.read_ledger)
SELECT 'books' AS table, 'charges whose status is not what their payments say' AS what, count(*) AS rows
FROM c LEFT JOIN payment s ON s.charge_id = c.charge_id AND s.account_id = c.account_id AND s.settles
WHERE (c.status IN ('paid', 'refunded')) <> (s.payment_id IS NOT NULL)
UNION ALL
SELECT 'books', 'charges that look otherwise than they are', count(*)
FROM c LEFT JOIN read_charge r ON r.charge_id = c.charge_id AND r.account_id = c.account_id
WHERE (c.status, c.version, c.amount_cents) IS DISTINCT FROM (r.status, r.version, r.amount_cents)
UNION ALL
SELECT 'books', 'payments not credited once, to the cent', count(*)
FROM p LEFT JOIN l ON l.account_id = p.account_id AND l.test = p.test AND l.payment_id = p.payment_id AND l.type = 'payment'
WHERE l.amount_cents IS DISTINCT FROM p.amount_cents
UNION ALL
SELECT 'books', 'fees of payments not debited once, to the cent, or told otherwise', count(*)
FROM p LEFT JOIN (
    SELECT account_id, test, payment_id, -sum(amount_cents) AS cents, count(*) AS lines
    FROM l WHERE type = 'fee' AND payment_id IS NOT NULL GROUP BY 1, 2, 3) d
     ON d.account_id = p.account_id AND d.test = p.test AND d.payment_id = p.payment_id
JOIN journal j ON j.journal_id = p.journal_id
WHERE (coalesce(d.cents, 0), coalesce(d.lines, 0), coalesce((j.payload #>> '{payment,fee_cents}')::bigint, 0))
      IS DISTINCT FROM (p.fee_cents::numeric, CASE WHEN p.fee_cents > 0 THEN 1 ELSE 0 END::bigint, p.fee_cents)
UNION ALL
SELECT 'books', 'payments in the journal that were not booked', count(*)
FROM pg_temp.read_payment r LEFT JOIN p USING (account_id, payment_id) WHERE p.payment_id IS NULL
UNION ALL
SELECT 'books', 'payments of which something else is back or on its way than their refunds say', count(*)
FROM p LEFT JOIN (
    SELECT account_id, payment_id, sum(amount_cents) FILTER (WHERE status = 'succeeded') AS back,
           sum(amount_cents) FILTER (WHERE status = 'pending') AS going
    FROM f GROUP BY 1, 2) g ON g.account_id = p.account_id AND g.payment_id = p.payment_id
WHERE (p.refunded_cents, p.refunding_cents) <> (coalesce(g.back, 0), coalesce(g.going, 0))
UNION ALL
SELECT 'books', 'payments of which the bank took back something else than their reversals say', count(*)
FROM p LEFT JOIN (
    SELECT account_id, payment_id, sum(amount_cents) AS back FROM v GROUP BY 1, 2) g
     ON g.account_id = p.account_id AND g.payment_id = p.payment_id
WHERE p.reversed_cents <> coalesce(g.back, 0)
UNION ALL
SELECT 'books', 'reversals of payments not debited once, to the cent', count(*)
FROM (SELECT account_id, payment_id, sum(amount_cents) AS back, count(*) AS lines FROM v GROUP BY 1, 2) g
FULL JOIN (
    SELECT account_id, payment_id, sum(amount_cents) AS debited, count(*) AS lines
    FROM l WHERE type = 'adjustment' AND payment_id IS NOT NULL GROUP BY 1, 2) d
     ON d.account_id = g.account_id AND d.payment_id = g.payment_id
WHERE (-g.back, g.lines) IS DISTINCT FROM (d.debited, d.lines)
UNION ALL
SELECT 'books', 'refunds not debited once, or not credited back exactly when they failed, to the cent', count(*)
FROM f LEFT JOIN (
    SELECT account_id, refund_id, sum(amount_cents) FILTER (WHERE type = 'refund') AS debited,
           coalesce(sum(amount_cents) FILTER (WHERE type = 'refund_reversal'), 0) AS reversed, count(*) AS lines
    FROM l WHERE refund_id IS NOT NULL GROUP BY 1, 2) d
     ON d.account_id = f.account_id AND d.refund_id = f.refund_id
WHERE (d.debited, d.reversed, d.lines) IS DISTINCT FROM
      (-f.amount_cents::numeric, CASE WHEN f.status = 'failed' THEN f.amount_cents ELSE 0 END::numeric,
       CASE WHEN f.status = 'failed' THEN 2 ELSE 1 END::bigint)
UNION ALL
SELECT 'books', 'charges of which something else is back than of their payments', count(*)
FROM c LEFT JOIN (
    SELECT account_id, charge_id, sum(refunded_cents) AS back FROM p GROUP BY 1, 2) g
     ON g.account_id = c.account_id AND g.charge_id = c.charge_id
WHERE c.refunded_cents <> coalesce(g.back, 0)
UNION ALL
-- Money may still arrive for a refunded charge; then the payment that settled the charge must be fully refunded.
SELECT 'books', 'charges refunded though not all is back, or paid though it is', count(*)
FROM c JOIN (
    SELECT account_id, charge_id, sum(amount_cents - refunded_cents) AS outstanding,
           sum(amount_cents - refunded_cents) FILTER (WHERE settles) AS settling
    FROM p GROUP BY 1, 2) g ON g.account_id = c.account_id AND g.charge_id = c.charge_id
WHERE (c.status = 'refunded' AND g.settling > 0) OR (c.status = 'paid' AND g.outstanding = 0)
UNION ALL
-- The partner's share of a payment is rounded down, of the amount not returned to the payer. A row of partner_share has
-- the id of its cause: the payment, a refund, or a reversal.
SELECT 'books', 'partner shares that are not what is left of their payments, to the cent', count(*)
FROM (
    SELECT p.payment_id, sum(s.share_cents) AS cents, max(s.amount_cents) FILTER (WHERE s.refund_id IS NULL) AS amount,
           count(DISTINCT s.share_bps) AS kinds,
           greatest(p.amount_cents - p.refunded_cents - p.reversed_cents, 0) * max(s.share_bps) / 10000 AS due, p.amount_cents AS paid
    FROM p CROSS JOIN LATERAL (
        SELECT p.payment_id AS share_id
        UNION ALL
        SELECT f.refund_id FROM f WHERE f.payment_id = p.payment_id AND f.account_id = p.account_id
        UNION ALL
        SELECT v.reversal_id FROM v WHERE v.payment_id = p.payment_id AND v.account_id = p.account_id
    ) g JOIN partner_share s ON s.share_id = g.share_id AND s.account_id = p.account_id
    GROUP BY p.payment_id, p.amount_cents, p.refunded_cents, p.reversed_cents
) s
WHERE (s.cents, s.amount, s.kinds) IS DISTINCT FROM (s.due::numeric, s.paid, 1::bigint);

-- name: payments
-- Walks the payments. Each must be in read_payment, whose rows are compared with the journal elsewhere. If its money
-- was in suspense, the suspense row must be assigned to the payment's charge.
WITH p AS MATERIALIZED (
    SELECT * FROM payment WHERE payment_id BETWEEN :first AND :last AND account_id BETWEEN :low AND :high
)
SELECT 'books' AS table, 'payments that cannot be seen' AS what, count(*) AS rows
FROM p LEFT JOIN read_payment r
     ON r.account_id = p.account_id AND r.test = p.test AND r.paid_at = p.paid_at AND r.payment_id = p.payment_id
WHERE r.charge_id IS DISTINCT FROM p.charge_id
UNION ALL
SELECT 'books', 'money in suspense, or returned from it, that is on the books as well', count(*)
FROM p JOIN suspense s ON s.source = p.source
WHERE NOT p.test AND (s.state <> 'assigned' OR s.charge_id <> p.charge_id);

-- name: refunds
SELECT 'books' AS table, 'refunds that look otherwise than they are' AS what, count(*) AS rows
FROM refund f LEFT JOIN read_refund r ON r.refund_id = f.refund_id AND r.account_id = f.account_id
WHERE f.refund_id BETWEEN :first AND :last AND f.account_id BETWEEN :low AND :high
  AND (f.status, f.charge_id, f.payment_id) IS DISTINCT FROM (r.status, r.charge_id, r.payment_id);

-- name: reversals
SELECT 'books' AS table, 'reversals of payments not debited once, to the cent' AS what, count(*) AS rows
FROM payment_reversal v LEFT JOIN payment p ON p.payment_id = v.payment_id AND p.account_id = v.account_id
WHERE v.reversal_id BETWEEN :first AND :last AND v.account_id BETWEEN :low AND :high AND p.payment_id IS NULL;

-- name: suspense
-- A suspense row has no account, so :low and :high apply to the account of its charge.
SELECT 'books' AS table, 'money assigned from suspense that is no payment of its charge, to the cent' AS what, count(*) AS rows
FROM suspense s
WHERE s.suspense_id BETWEEN :first AND :last AND s.state = 'assigned'
  AND NOT EXISTS (SELECT FROM read_payment r
                  JOIN payment p ON p.payment_id = r.payment_id AND p.account_id = r.account_id
                  WHERE r.charge_id = s.charge_id AND NOT r.test AND p.source = s.source
                    AND (p.amount_cents = s.amount_cents OR p.account_id NOT BETWEEN :low AND :high));

-- name: others
-- Withdrawals and partner shares; the temporary tables hold their rows projected from the journal.
WITH w AS MATERIALIZED (
    SELECT * FROM withdrawal WHERE withdrawal_id BETWEEN :first AND :last AND account_id BETWEEN :low AND :high
), s AS MATERIALIZED (
    SELECT * FROM partner_share WHERE share_id BETWEEN :first AND :last AND partner_id BETWEEN :low AND :high
), l AS MATERIALIZED (TABLE pg_temp.read_ledger)
SELECT 'books' AS table, 'withdrawals not debited once, or not credited back exactly when they failed or were cancelled, to the cent' AS what,
       count(*) AS rows
FROM w LEFT JOIN (
    SELECT account_id, withdrawal_id, sum(amount_cents) FILTER (WHERE type = 'withdrawal') AS debited,
           coalesce(sum(amount_cents) FILTER (WHERE type = 'withdrawal_reversal'), 0) AS reversed,
           coalesce(-sum(amount_cents) FILTER (WHERE type = 'fee' AND amount_cents < 0), 0) AS fee,
           coalesce(sum(amount_cents) FILTER (WHERE type = 'fee' AND amount_cents > 0), 0) AS fee_back, count(*) AS lines
    FROM l WHERE withdrawal_id IS NOT NULL AND NOT test GROUP BY 1, 2) d
     ON d.account_id = w.account_id AND d.withdrawal_id = w.withdrawal_id
CROSS JOIN LATERAL (
    -- A withdrawal that failed here but was sent by the bank after all is credited back and debited again.
    SELECT CASE WHEN w.status = 'succeeded' AND d.reversed > 0 THEN 2 ELSE 1 END AS out,
           CASE WHEN w.status IN ('failed', 'cancelled') OR (w.status = 'succeeded' AND d.reversed > 0) THEN 1 ELSE 0 END AS back,
           CASE WHEN w.fee_cents > 0 THEN 2 ELSE 1 END AS parts) e
WHERE (d.debited, d.reversed, d.fee, d.fee_back, d.lines) IS DISTINCT FROM
      (-(e.out * w.amount_cents)::numeric, (e.back * w.amount_cents)::numeric, (e.out * w.fee_cents)::numeric,
       (e.back * w.fee_cents)::numeric, ((e.out + e.back) * e.parts)::bigint)
UNION ALL
SELECT 'books', 'withdrawals that look otherwise than they are', count(*)
FROM w LEFT JOIN read_withdrawal r ON r.withdrawal_id = w.withdrawal_id AND r.account_id = w.account_id
WHERE (w.status, w.amount_cents, w.version) IS DISTINCT FROM
      (r.status, (r.doc ->> 'amount_cents')::bigint, (r.doc ->> 'version')::integer)
UNION ALL
SELECT 'books', 'partner shares not in the partner''s ledger exactly when they were posted, to the cent', count(*)
FROM (SELECT * FROM s WHERE sent_to IS NULL) s FULL JOIN (
    SELECT account_id, test, coalesce(refund_id, payment_id) AS share_id, sum(amount_cents) AS cents
    FROM l WHERE type = 'partner_share' GROUP BY 1, 2, 3) d
     ON d.account_id = s.partner_id AND d.test = s.test AND d.share_id = s.share_id
WHERE d.cents IS DISTINCT FROM CASE WHEN s.posted_at IS NOT NULL THEN s.share_cents END::numeric
UNION ALL
-- A row that takes a share back needs the row that gave the share; without that, `charges` above does not find it. If
-- another cell sent the share, the payment is in that cell.
SELECT 'books', 'partner shares that are not what is left of their payments, to the cent', count(*)
FROM s LEFT JOIN payment p ON p.payment_id = s.payment_id AND p.account_id = s.account_id
LEFT JOIN partner_share g ON g.share_id = s.payment_id AND g.account_id = s.account_id
LEFT JOIN refund f ON f.refund_id = s.refund_id AND f.account_id = s.account_id
LEFT JOIN payment_reversal v ON v.reversal_id = s.refund_id AND v.account_id = s.account_id
WHERE g.share_id IS NULL
   OR (s.received_from IS NULL AND p.payment_id IS NULL)
   OR (s.received_from IS NULL AND s.refund_id IS NOT NULL
       AND coalesce(f.payment_id, v.payment_id) IS DISTINCT FROM s.payment_id);

-- name: clocks
-- The next account clocks, compared with the last ledger entry and the last event of each. Detached months may have
-- removed all events of a feed; left_feed is how many are gone, judging by the sequences.
SELECT c.account_id, c.test, c.entry_sequence - coalesce(l.sequence, 0) AS lines,
       CASE WHEN e.sequence IS NULL AND f.begins_at > '-infinity' THEN 0 ELSE c.event_sequence - coalesce(e.sequence, 0) END AS events,
       c.balance_cents <> coalesce(l.balance_after_cents, 0) AS otherwise,
       CASE WHEN f.begins_at > '-infinity' THEN coalesce(b.sequence - 1, c.event_sequence) ELSE 0 END AS left_feed
FROM (
    SELECT * FROM account_clock WHERE (account_id, test) > (:account_id, :test) AND account_id <= :high
    ORDER BY account_id, test LIMIT :limit
) c CROSS JOIN feed_begin f
LEFT JOIN LATERAL (
    SELECT sequence, balance_after_cents FROM read_ledger r
    WHERE r.account_id = c.account_id AND r.test = c.test ORDER BY sequence DESC LIMIT 1
) l ON true
LEFT JOIN LATERAL (
    SELECT sequence FROM read_event r
    WHERE r.account_id = c.account_id AND r.test = c.test ORDER BY sequence DESC LIMIT 1
) e ON true
LEFT JOIN LATERAL (
    SELECT sequence FROM read_event r
    WHERE r.account_id = c.account_id AND r.test = c.test ORDER BY sequence LIMIT 1
) b ON true
ORDER BY c.account_id, c.test;
