-- Read tables against the journal, and the arithmetic of the books. Each row is a count that must be 0.

-- name: differences
-- for each of read_charge, read_payment, read_refund, read_withdrawal, read_event, read_ledger, report_charge,
--   report_wait, report_entry, report_refund, report_integrator
-- Daily totals are folded up to the same journal row on both sides.
SELECT '{each}' AS table, 'missing or stale' AS what, count(*) AS rows FROM (TABLE pg_temp.{each} EXCEPT TABLE {each}) d
UNION ALL
SELECT '{each}', 'not in the journal', count(*) FROM (TABLE {each} EXCEPT TABLE pg_temp.{each}) d;

-- name: differences_in_counts
-- for each of report_cohort, report_due
-- A row that every charge has left stays, with zeros.
SELECT '{each}' AS table, 'missing or stale' AS what, count(*) AS rows
FROM (SELECT * FROM pg_temp.{each} WHERE charges <> 0 EXCEPT SELECT * FROM {each} WHERE charges <> 0) d
UNION ALL
SELECT '{each}', 'not in the journal', count(*)
FROM (SELECT * FROM {each} WHERE charges <> 0 EXCEPT SELECT * FROM pg_temp.{each} WHERE charges <> 0) d;

-- name: broken
SELECT 'books' AS table, 'ledger lines whose balance_after is not the one before plus the amount' AS what, count(*) AS rows
FROM (SELECT balance_after_cents - amount_cents
             - lag(balance_after_cents, 1, 0::bigint) OVER (PARTITION BY account_id, test ORDER BY sequence) AS gap
      FROM read_ledger) l WHERE gap <> 0
UNION ALL
SELECT 'books', 'numbers missing in a ledger', coalesce(sum(c.entry_sequence - coalesce(l.lines, 0)), 0)::bigint
FROM account_clock c LEFT JOIN (
    SELECT account_id, test, count(*) AS lines FROM read_ledger GROUP BY 1, 2) l USING (account_id, test)
UNION ALL
SELECT 'books', 'numbers missing in a feed', coalesce(sum(c.event_sequence - coalesce(e.events, 0) - coalesce(g.events, 0)), 0)::bigint
FROM account_clock c LEFT JOIN (
    SELECT account_id, test, count(*) AS events FROM read_event GROUP BY 1, 2) e USING (account_id, test)
LEFT JOIN (
    -- Of detached months.
    SELECT account_id, test, count(*) AS events FROM journal
    WHERE event_id IS NOT NULL AND recorded_at < (SELECT begins_at FROM feed_begin) GROUP BY 1, 2) g USING (account_id, test)
UNION ALL
SELECT 'books', 'numbers twice in a feed', count(*)
FROM (SELECT FROM read_event GROUP BY account_id, test, sequence HAVING count(*) > 1) d
UNION ALL
SELECT 'books', 'balances that are not the sum of their lines', count(*)
FROM account_clock c LEFT JOIN (
    SELECT account_id, test, sum(amount_cents) AS cents FROM read_ledger GROUP BY 1, 2) l USING (account_id, test)
WHERE c.balance_cents <> coalesce(l.cents, 0)
UNION ALL
SELECT 'books', 'payments not credited once, to the cent', count(*)
FROM payment p LEFT JOIN read_ledger l
     ON l.account_id = p.account_id AND l.test = p.test AND l.payment_id = p.payment_id AND l.type = 'payment'
WHERE l.amount_cents IS DISTINCT FROM p.amount_cents
UNION ALL
SELECT 'books', 'charges whose status is not what their payments say', count(*)
FROM charge c LEFT JOIN payment p ON p.charge_id = c.charge_id AND p.account_id = c.account_id AND p.settles
WHERE (c.status IN ('paid', 'refunded')) <> (p.payment_id IS NOT NULL)
UNION ALL
SELECT 'books', 'charges that look otherwise than they are', count(*)
FROM charge c LEFT JOIN read_charge r ON r.charge_id = c.charge_id AND r.account_id = c.account_id
WHERE (c.status, c.version, c.amount_cents) IS DISTINCT FROM (r.status, r.version, r.amount_cents)
UNION ALL
SELECT 'books', 'payments of which something else is back or on its way than their refunds say', count(*)
FROM payment p LEFT JOIN (
    SELECT account_id, payment_id, sum(amount_cents) FILTER (WHERE status = 'succeeded') AS back,
           sum(amount_cents) FILTER (WHERE status = 'pending') AS going
    FROM refund GROUP BY 1, 2) f ON f.account_id = p.account_id AND f.payment_id = p.payment_id
WHERE (p.refunded_cents, p.refunding_cents) <> (coalesce(f.back, 0), coalesce(f.going, 0))
UNION ALL
SELECT 'books', 'payments of which the bank took back something else than their reversals say', count(*)
FROM payment p LEFT JOIN (
    SELECT account_id, payment_id, sum(amount_cents) AS back FROM payment_reversal GROUP BY 1, 2) v
     ON v.account_id = p.account_id AND v.payment_id = p.payment_id
WHERE p.reversed_cents <> coalesce(v.back, 0)
UNION ALL
SELECT 'books', 'reversals of payments not debited once, to the cent', count(*)
FROM (SELECT account_id, payment_id, sum(amount_cents) AS back, count(*) AS lines FROM payment_reversal GROUP BY 1, 2) v
FULL JOIN (
    SELECT account_id, payment_id, sum(amount_cents) AS debited, count(*) AS lines
    FROM read_ledger WHERE type = 'adjustment' AND payment_id IS NOT NULL GROUP BY 1, 2) l
     ON l.account_id = v.account_id AND l.payment_id = v.payment_id
WHERE (-v.back, v.lines) IS DISTINCT FROM (l.debited, l.lines)
UNION ALL
SELECT 'books', 'money assigned from suspense that is no payment of its charge, to the cent', count(*)
FROM suspense s LEFT JOIN payment p ON p.charge_id = s.charge_id AND p.source = s.source AND NOT p.test
WHERE s.state = 'assigned' AND p.amount_cents IS DISTINCT FROM s.amount_cents
UNION ALL
SELECT 'books', 'money in suspense, or returned from it, that is on the books as well', count(*)
FROM suspense s JOIN payment p ON p.source = s.source AND NOT p.test
WHERE s.state <> 'assigned' OR p.charge_id <> s.charge_id
UNION ALL
SELECT 'books', 'refunds not debited once, or not credited back exactly when they failed, to the cent', count(*)
FROM refund f LEFT JOIN (
    SELECT account_id, refund_id, sum(amount_cents) FILTER (WHERE type = 'refund') AS debited,
           coalesce(sum(amount_cents) FILTER (WHERE type = 'refund_reversal'), 0) AS reversed, count(*) AS lines
    -- A merchant's account may be its own partner's.
    FROM read_ledger WHERE refund_id IS NOT NULL AND type <> 'partner_share' GROUP BY 1, 2) l
     ON l.account_id = f.account_id AND l.refund_id = f.refund_id
WHERE (l.debited, l.reversed, l.lines) IS DISTINCT FROM
      (-f.amount_cents::numeric, CASE WHEN f.status = 'failed' THEN f.amount_cents ELSE 0 END::numeric,
       CASE WHEN f.status = 'failed' THEN 2 ELSE 1 END::bigint)
UNION ALL
SELECT 'books', 'refunds that look otherwise than they are', count(*)
FROM refund f LEFT JOIN read_refund r ON r.refund_id = f.refund_id AND r.account_id = f.account_id
WHERE (f.status, f.charge_id, f.payment_id) IS DISTINCT FROM (r.status, r.charge_id, r.payment_id)
UNION ALL
SELECT 'books', 'withdrawals not debited once, or not credited back exactly when they failed or were cancelled, to the cent', count(*)
FROM withdrawal w LEFT JOIN (
    SELECT account_id, withdrawal_id, sum(amount_cents) FILTER (WHERE type = 'withdrawal') AS debited,
           coalesce(sum(amount_cents) FILTER (WHERE type = 'withdrawal_reversal'), 0) AS reversed, count(*) AS lines
    FROM read_ledger WHERE withdrawal_id IS NOT NULL AND NOT test GROUP BY 1, 2) l
     ON l.account_id = w.account_id AND l.withdrawal_id = w.withdrawal_id
WHERE (l.debited, l.reversed, l.lines) IS DISTINCT FROM
      (-w.amount_cents::numeric, CASE WHEN w.status IN ('failed', 'cancelled') THEN w.amount_cents ELSE 0 END::numeric,
       CASE WHEN w.status IN ('failed', 'cancelled') THEN 2 ELSE 1 END::bigint)
UNION ALL
SELECT 'books', 'withdrawals that look otherwise than they are', count(*)
FROM withdrawal w LEFT JOIN read_withdrawal r ON r.withdrawal_id = w.withdrawal_id AND r.account_id = w.account_id
WHERE (w.status, w.amount_cents, w.version) IS DISTINCT FROM
      (r.status, (r.doc ->> 'amount_cents')::bigint, (r.doc ->> 'version')::integer)
UNION ALL
SELECT 'books', 'charges of which something else is back than of their payments', count(*)
FROM charge c LEFT JOIN (
    SELECT account_id, charge_id, sum(refunded_cents) AS back FROM payment GROUP BY 1, 2) p
     ON p.account_id = c.account_id AND p.charge_id = c.charge_id
WHERE c.refunded_cents <> coalesce(p.back, 0)
UNION ALL
-- Money may still arrive for a refunded charge: then it is the payment that settled it which must be back.
SELECT 'books', 'charges refunded though not all is back, or paid though it is', count(*)
FROM charge c JOIN (
    SELECT account_id, charge_id, sum(amount_cents - refunded_cents) AS outstanding,
           sum(amount_cents - refunded_cents) FILTER (WHERE settles) AS settling
    FROM payment GROUP BY 1, 2) p ON p.account_id = c.account_id AND p.charge_id = c.charge_id
WHERE (c.status = 'refunded' AND p.settling > 0) OR (c.status = 'paid' AND p.outstanding = 0);

-- name: shares_broken
-- Of each payment the partner has its share, rounded down, of what is not back with the payer.
SELECT 'books' AS table, 'partner shares that are not what is left of their payments, to the cent' AS what, count(*) AS rows
FROM (
    SELECT s.account_id, s.payment_id, sum(s.share_cents) AS cents, max(s.amount_cents) FILTER (WHERE s.refund_id IS NULL) AS amount,
           max(s.share_bps) AS bps, count(DISTINCT s.share_bps) AS kinds
    FROM partner_share s GROUP BY 1, 2
) s LEFT JOIN payment p ON p.payment_id = s.payment_id AND p.account_id = s.account_id
WHERE (s.cents, s.amount, s.kinds) IS DISTINCT FROM
      (((p.amount_cents - p.refunded_cents - p.reversed_cents) * s.bps / 10000)::numeric, p.amount_cents, 1::bigint)
UNION ALL
SELECT 'books', 'partner shares not in the partner''s ledger exactly when they were posted, to the cent', count(*)
FROM partner_share s
FULL JOIN (SELECT account_id, test, coalesce(refund_id, payment_id) AS share_id, sum(amount_cents) AS cents
           FROM read_ledger WHERE type = 'partner_share' GROUP BY 1, 2, 3) l
     ON l.account_id = s.partner_id AND l.test = s.test AND l.share_id = s.share_id
WHERE l.cents IS DISTINCT FROM CASE WHEN s.posted_at IS NOT NULL THEN s.share_cents END::numeric;
