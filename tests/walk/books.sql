-- An auditor's queries on the books when nothing is under way: each must return no rows. $1: accounts.
-- They hold in every state of the service and do not know what was done. Read by tests/walk/books.py.

-- Our books alone.

-- wrong: a ledger with a number missing or twice, or a balance that is not the sum before
SELECT * FROM (
    SELECT account_id, test, sequence, amount_cents, balance_after_cents,
           row_number() OVER w AS dense, sum(amount_cents) OVER w AS total
    FROM read_ledger WHERE account_id = ANY($1::uuid[])
    WINDOW w AS (PARTITION BY account_id, test ORDER BY sequence)) l
WHERE sequence <> dense OR balance_after_cents <> total;

-- wrong: a balance below zero, other than by a share taken back from a partner who had withdrawn it
SELECT l.account_id, l.test, l.sequence, l.type, l.amount_cents, l.balance_after_cents FROM read_ledger l
WHERE l.account_id = ANY($1::uuid[]) AND l.balance_after_cents < 0
  AND (l.type IN ('refund', 'withdrawal') OR NOT EXISTS (SELECT FROM integrator i WHERE i.account_id = l.account_id));

-- wrong: a partner without his share, rounded down, of what the merchant keeps
-- The share in force is the one agreed when the charge was issued. Sandboxes whose clock was advanced are left out.
SELECT p.payment_id, p.amount_cents, p.refunded_cents, i.share_bps, s.* FROM payment p
JOIN charge c USING (charge_id, account_id) JOIN charge_view r USING (charge_id, account_id)
LEFT JOIN LATERAL (
    SELECT coalesce((SELECT a.share_bps FROM integrator_share a
                     WHERE a.integrador_code = n.integrador_code AND a.since <= c.created_at
                     ORDER BY a.since DESC LIMIT 1), 0) AS share_bps
    FROM integrator n WHERE n.integrador_code = r.integrador_code AND n.account_id IS NOT NULL) i ON true
CROSS JOIN LATERAL (SELECT coalesce(sum(share_cents), 0) AS cents FROM partner_share s
                    WHERE s.account_id = p.account_id AND s.payment_id = p.payment_id AND s.test = p.test) s
WHERE p.account_id = ANY($1::uuid[])
  AND NOT (c.test AND EXISTS (SELECT FROM sandbox_clock k WHERE k.account_id = c.account_id))
  AND s.cents <> (p.amount_cents - p.refunded_cents) * coalesce(i.share_bps, 0) / 10000;

-- wrong: a partner's ledger without a share that is due, or with one that is not
SELECT s.share_id, s.partner_id, s.test, s.share_cents, s.posted_at, l.* FROM partner_share s
FULL JOIN (SELECT account_id, test, payment_id, refund_id, sum(amount_cents) AS cents, count(*) AS lines
           FROM read_ledger WHERE type = 'partner_share' AND account_id = ANY($1::uuid[]) GROUP BY 1, 2, 3, 4) l
    ON l.account_id = s.partner_id AND l.test = s.test AND coalesce(l.refund_id, l.payment_id) = s.share_id
   AND l.payment_id = s.payment_id
WHERE coalesce(s.partner_id, l.account_id) = ANY($1::uuid[])
  AND (s.posted_at IS NULL OR l.lines IS DISTINCT FROM 1 OR l.cents IS DISTINCT FROM s.share_cents);

-- wrong: an account_clock whose balance or sequences differ from the ends of ledger and feed
SELECT k.account_id, k.test, k.balance_cents, k.entry_sequence, k.event_sequence, l.*, e.*
FROM account_clock k
CROSS JOIN LATERAL (SELECT coalesce(sum(amount_cents), 0) AS cents, count(*) AS lines FROM read_ledger r
                    WHERE r.account_id = k.account_id AND r.test = k.test) l
CROSS JOIN LATERAL (SELECT count(*) AS events, coalesce(max(sequence), 0) AS last FROM read_event r
                    WHERE r.account_id = k.account_id AND r.test = k.test) e
WHERE k.account_id = ANY($1::uuid[])
  AND (k.balance_cents <> l.cents OR k.entry_sequence <> l.lines OR k.event_sequence <> e.events OR k.event_sequence <> e.last);

-- wrong: a payment that was not credited once, to the cent
SELECT p.payment_id, p.amount_cents, array_agg(l.amount_cents) FROM payment p
LEFT JOIN read_ledger l ON l.account_id = p.account_id AND l.test = p.test AND l.payment_id = p.payment_id AND l.type = 'payment'
WHERE p.account_id = ANY($1::uuid[]) GROUP BY 1, 2
HAVING array_agg(l.amount_cents) IS DISTINCT FROM ARRAY[p.amount_cents];

-- wrong: a payment whose credited_at differs from its ledger entry
SELECT p.payment_id, p.credited_at, r.doc ->> 'credited_at', l.created_at FROM payment p
JOIN payment_view r USING (account_id, test, paid_at, payment_id)
JOIN read_ledger l ON l.account_id = p.account_id AND l.test = p.test AND l.payment_id = p.payment_id AND l.type = 'payment'
WHERE p.account_id = ANY($1::uuid[])
  AND (p.credited_at <> l.created_at OR (r.doc ->> 'credited_at')::timestamptz <> l.created_at);

-- wrong: a payment whose fee was not debited once, to the cent, right after the payment
SELECT p.payment_id, p.amount_cents, p.fee_cents, array_agg(f.amount_cents) FROM payment p
JOIN read_ledger l ON l.account_id = p.account_id AND l.test = p.test AND l.payment_id = p.payment_id AND l.type = 'payment'
LEFT JOIN read_ledger f ON f.account_id = p.account_id AND f.test = p.test AND f.payment_id = p.payment_id AND f.type = 'fee'
WHERE p.account_id = ANY($1::uuid[]) GROUP BY 1, 2, 3, l.sequence
HAVING array_agg(f.amount_cents) FILTER (WHERE f.sequence = l.sequence + 1) IS DISTINCT FROM
       CASE WHEN p.fee_cents > 0 THEN ARRAY[-p.fee_cents] END OR count(f.sequence) > 1;

-- wrong: a fee without the payment or withdrawal it is for
SELECT l.* FROM read_ledger l
LEFT JOIN payment p ON p.account_id = l.account_id AND p.payment_id = l.payment_id AND p.fee_cents = -l.amount_cents
LEFT JOIN withdrawal w ON w.account_id = l.account_id AND w.withdrawal_id = l.withdrawal_id AND w.fee_cents = abs(l.amount_cents)
WHERE l.account_id = ANY($1::uuid[]) AND l.type = 'fee' AND num_nonnulls(p.payment_id, w.withdrawal_id) <> 1;

-- wrong: a credit without its payment
SELECT l.* FROM read_ledger l LEFT JOIN payment p USING (account_id, payment_id)
WHERE l.account_id = ANY($1::uuid[]) AND l.type = 'payment' AND p.amount_cents IS DISTINCT FROM l.amount_cents;

-- wrong: a payment with more refunded or refunding than arrived, or other sums than its refunds
SELECT p.payment_id, p.amount_cents, p.refunded_cents, p.refunding_cents, f.* FROM payment p
CROSS JOIN LATERAL (SELECT coalesce(sum(amount_cents) FILTER (WHERE status = 'succeeded'), 0) AS back,
                           coalesce(sum(amount_cents) FILTER (WHERE status = 'pending'), 0) AS going
                    FROM refund r WHERE r.account_id = p.account_id AND r.payment_id = p.payment_id) f
WHERE p.account_id = ANY($1::uuid[])
  AND (f.back + f.going > p.amount_cents OR (f.back, f.going) <> (p.refunded_cents, p.refunding_cents));

-- wrong: a refund that was not debited once, or not credited back exactly when it failed
SELECT f.refund_id, f.status, f.amount_cents, array_agg(l.amount_cents ORDER BY l.sequence) FROM refund f
LEFT JOIN read_ledger l ON l.account_id = f.account_id AND l.test = f.test AND l.refund_id = f.refund_id
WHERE f.account_id = ANY($1::uuid[]) GROUP BY 1, 2, 3
HAVING array_agg(l.amount_cents ORDER BY l.sequence) IS DISTINCT FROM
       CASE WHEN f.status = 'failed' THEN ARRAY[-f.amount_cents, f.amount_cents] ELSE ARRAY[-f.amount_cents] END;

-- wrong: a charge whose refunds exceed its payments
SELECT c.charge_id FROM charge c WHERE c.account_id = ANY($1::uuid[]) AND
    (SELECT coalesce(sum(amount_cents), 0) FROM refund r WHERE r.charge_id = c.charge_id AND r.status <> 'failed')
  > (SELECT coalesce(sum(amount_cents), 0) FROM payment p WHERE p.charge_id = c.charge_id);

-- wrong: a paid charge without exactly one settling payment, or an unpaid charge with one
SELECT c.charge_id, c.status FROM charge c WHERE c.account_id = ANY($1::uuid[]) AND
    (SELECT count(*) FROM payment p WHERE p.charge_id = c.charge_id AND p.settles AND p.amount_cents >= c.amount_cents)
 <> (c.status IN ('paid', 'refunded'))::integer;

-- wrong: a refunded charge whose settling payment is not fully refunded
SELECT c.charge_id FROM charge c JOIN payment p ON p.charge_id = c.charge_id AND p.settles
WHERE c.account_id = ANY($1::uuid[]) AND c.status = 'refunded' AND p.refunded_cents < p.amount_cents;

-- wrong: an event without exactly one webhook delivery
SELECT j.event_id, j.kind FROM journal j
JOIN webhook_endpoint w ON w.account_id = j.account_id AND j.kind = ANY(w.kinds) AND w.created_at <= j.recorded_at
LEFT JOIN webhook_delivery d ON d.event_id = j.event_id AND d.endpoint_id = w.endpoint_id
WHERE j.account_id = ANY($1::uuid[]) AND j.event_id IS NOT NULL
GROUP BY 1, 2 HAVING count(d.delivery_id) <> 1;

-- wrong: a delivery that matches no journal row
SELECT d.delivery_id FROM webhook_delivery d LEFT JOIN journal j ON j.event_id = d.event_id AND j.account_id = d.account_id
WHERE d.account_id = ANY($1::uuid[]) AND (j.test, j.event_sequence, j.kind) IS DISTINCT FROM (d.test, d.sequence, d.type);

-- wrong: an event that the feed has not, or has otherwise than the journal
SELECT j.event_id FROM journal j LEFT JOIN read_event e ON e.account_id = j.account_id AND e.test = j.test AND e.sequence = j.event_sequence
WHERE j.account_id = ANY($1::uuid[]) AND j.event_id IS NOT NULL
  AND (e.event_id, e.type, e.charge_id, e.created_at, e.journal_id) IS DISTINCT FROM (j.event_id, j.kind, j.charge_id, j.recorded_at, j.journal_id);

-- wrong: a bank order that is left
SELECT kind, state, attempts, due_at, outcome FROM bank_order WHERE account_id = ANY($1::uuid[]);

-- wrong: a withdrawal not debited once with its fee, or not credited back exactly when it failed or was cancelled
SELECT w.withdrawal_id, w.status, w.amount_cents, w.fee_cents, array_agg(l.amount_cents ORDER BY l.sequence) FROM withdrawal w
LEFT JOIN read_ledger l ON l.account_id = w.account_id AND NOT l.test AND l.withdrawal_id = w.withdrawal_id
WHERE w.account_id = ANY($1::uuid[]) GROUP BY 1, 2, 3, 4
HAVING array_agg(l.amount_cents ORDER BY l.sequence) IS DISTINCT FROM array_remove(
       CASE WHEN w.status IN ('failed', 'cancelled') THEN ARRAY[-w.amount_cents, -w.fee_cents, w.amount_cents, w.fee_cents]
            ELSE ARRAY[-w.amount_cents, -w.fee_cents] END, 0);

-- wrong: a withdrawal that has not ended
SELECT withdrawal_id, status FROM withdrawal WHERE account_id = ANY($1::uuid[]) AND status IN ('pending', 'processing');

-- wrong: a refund that has not ended
SELECT refund_id FROM refund WHERE account_id = ANY($1::uuid[]) AND status = 'pending';

-- Our books beside the bank's, to the cent.

-- wrong: a charge's boleto that the bank has not, or with another amount or due date
SELECT c.charge_id, s.number, b.number, b.amount_cents, b.due_on, s.due_on FROM charge c JOIN boleto s USING (charge_id, account_id)
LEFT JOIN simulated_boleto b ON b.world = CASE WHEN c.test THEN 'sandbox' ELSE 'production' END AND b.number = s.number
WHERE c.account_id = ANY($1::uuid[]) AND (b.number IS NULL OR b.amount_cents <> c.amount_cents
   OR (c.status = 'pending' AND b.due_on <> s.due_on));

-- wrong: a pending boleto that is written off at the bank
SELECT c.charge_id FROM charge c JOIN boleto s USING (charge_id, account_id)
JOIN simulated_boleto b ON b.world = CASE WHEN c.test THEN 'sandbox' ELSE 'production' END AND b.number = s.number
WHERE c.account_id = ANY($1::uuid[]) AND c.status = 'pending' AND b.written_off_at IS NOT NULL;

-- wrong: a boleto that can be paid at the bank though its charge was cancelled, failed, or paid by the other leg
SELECT c.charge_id, c.status FROM charge c JOIN boleto s USING (charge_id, account_id)
JOIN simulated_boleto b ON b.world = CASE WHEN c.test THEN 'sandbox' ELSE 'production' END AND b.number = s.number
WHERE c.account_id = ANY($1::uuid[]) AND b.written_off_at IS NULL AND b.payments = 0
  AND c.status IN ('cancelled', 'failed', 'paid', 'refunded');

-- wrong: a boleto open at the bank that belongs to no charge
SELECT b.number FROM simulated_boleto b WHERE b.written_off_at IS NULL AND b.payments = 0
  AND NOT EXISTS (SELECT FROM boleto s JOIN charge c USING (charge_id, account_id)
                  WHERE s.number = b.number AND c.test = (b.world = 'sandbox'));

-- wrong: a pending charge whose cob cannot be paid
SELECT c.charge_id, b.status FROM charge c LEFT JOIN simulated_cob b
    ON b.world = CASE WHEN c.test THEN 'sandbox' ELSE 'production' END AND b.txid = replace(c.charge_id::text, '-', '')
WHERE c.account_id = ANY($1::uuid[]) AND c.status = 'pending' AND c.payment_method IN ('pix', 'boleto_pix')
  AND (b.txid IS NULL OR b.amount_cents <> c.amount_cents OR b.status LIKE 'REMOVIDA%' OR (b.status <> 'ATIVA'
       AND NOT EXISTS (SELECT FROM payment p WHERE p.charge_id = c.charge_id AND p.method = 'pix')));

-- wrong: a cob that expires at another time than its charge
-- The bank counts whole seconds from the cob's registration: it expires some seconds early, or late when the bank was
-- slow to register it. A payment in these seconds makes an expired charge paid, late.
SELECT c.charge_id, b.created_at, b.expires_in_s, c.expires_at, r.doc ->> 'pix_expires_at' FROM charge c
JOIN charge_view r USING (charge_id, account_id)
JOIN simulated_cob b ON b.world = CASE WHEN c.test THEN 'sandbox' ELSE 'production' END AND b.txid = replace(c.charge_id::text, '-', '') AND b.status = 'ATIVA'
WHERE c.account_id = ANY($1::uuid[]) AND c.status = 'pending'
  AND extract(epoch FROM least(c.expires_at, (r.doc ->> 'pix_expires_at')::timestamptz)
              - (b.created_at + b.expires_in_s * interval '1 second')) NOT BETWEEN -30 AND 10;

-- wrong: a cob that can be paid though its charge was cancelled, failed, or paid
SELECT c.charge_id, c.status FROM charge c JOIN simulated_cob b
    ON b.world = CASE WHEN c.test THEN 'sandbox' ELSE 'production' END AND b.txid = replace(c.charge_id::text, '-', '') AND b.status = 'ATIVA'
WHERE c.account_id = ANY($1::uuid[]) AND c.status IN ('cancelled', 'failed', 'paid', 'refunded');

-- wrong: money that the bank received and we did not credit, or that we credited and the bank never received
SELECT * FROM (
    SELECT c.charge_id, c.status,
           (SELECT coalesce(sum(p.amount_cents), 0) FROM payment p WHERE p.charge_id = c.charge_id) AS credited,
           (SELECT coalesce(sum(x.amount_cents), 0) FROM simulated_pix x
            WHERE x.world = CASE WHEN c.test THEN 'sandbox' ELSE 'production' END AND x.txid = replace(c.charge_id::text, '-', ''))
         + (SELECT coalesce(sum(x.amount_cents), 0) FROM boleto s JOIN simulated_boleto_payment x
                ON x.world = CASE WHEN c.test THEN 'sandbox' ELSE 'production' END AND x.number = s.number AND NOT x.called_off
            WHERE s.charge_id = c.charge_id AND s.account_id = c.account_id) AS received
    FROM charge c WHERE c.account_id = ANY($1::uuid[])) m
WHERE credited <> received;

-- wrong: a refund that differs from the bank's, or failed and was made by the bank
SELECT f.refund_id, f.status, f.amount_cents, b.* FROM refund f LEFT JOIN (
    SELECT world, id, amount_cents, fails FROM simulated_devolucao
    UNION ALL SELECT world, id, amount_cents, fails FROM simulated_transfer) b
    ON b.world = CASE WHEN f.test THEN 'sandbox' ELSE 'production' END AND b.id = replace(f.refund_id::text, '-', '')
WHERE f.account_id = ANY($1::uuid[])
  AND NOT CASE WHEN f.status = 'failed' THEN b.id IS NULL OR b.fails
               ELSE b.id IS NOT NULL AND NOT b.fails AND b.amount_cents = f.amount_cents END;

-- wrong: a return or transfer of the bank that no refund or withdrawal ordered
SELECT b.id FROM (SELECT id, fails FROM simulated_devolucao UNION ALL SELECT id, fails FROM simulated_transfer) b
WHERE NOT b.fails
  AND NOT EXISTS (SELECT FROM refund f WHERE replace(f.refund_id::text, '-', '') = b.id AND f.status <> 'failed')
  AND NOT EXISTS (SELECT FROM withdrawal w WHERE replace(w.withdrawal_id::text, '-', '') = b.id AND w.status <> 'failed');

-- wrong: a withdrawal that differs from the bank's, or failed or was cancelled and was made by the bank
SELECT w.withdrawal_id, w.status, w.amount_cents, b.amount_cents, b.fails FROM withdrawal w
LEFT JOIN simulated_transfer b ON b.world = 'production' AND b.id = replace(w.withdrawal_id::text, '-', '')
WHERE w.account_id = ANY($1::uuid[])
  AND NOT CASE w.status WHEN 'failed' THEN b.id IS NULL OR b.fails WHEN 'cancelled' THEN b.id IS NULL
                        ELSE b.id IS NOT NULL AND NOT b.fails AND b.amount_cents = w.amount_cents END;
