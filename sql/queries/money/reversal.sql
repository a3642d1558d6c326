-- Devolucoes of received PIX that the bank began (commands/money/reversals.py).

-- name: unbooked
-- The devolucoes that are not booked yet, with their payments: not booked before, and not a refund of ours (except one
-- that failed here, whose money is back in the wallet). The charge is found by the txid, by the paid boleto, or by the
-- charge to which staff assigned the money; the payment by its EndToEndId. A payment has no EndToEndId if it was booked
-- before the bank named the boleto's PIX, or if staff assigned it from an unknown boleto. Then it is a payment of this
-- boleto without an EndToEndId, credited after the PIX was paid. Staff may have assigned several payments of one
-- boleto; each devolucao takes one.
SELECT DISTINCT ON (g.position) g.position, c.charge_id, p.account_id, p.payment_id, p.amount_cents AS cents_max,
       p.paid_at, p.refunded_cents, p.reversed_cents
FROM unnest(:returns.charge_id::uuid[], :returns.boleto_number::text[], :returns.end_to_end_id::text[],
            :returns.refund_id::uuid[], :returns.bank_id::text[], :returns.amount_cents::bigint[],
            :returns.paid_at::timestamptz[], :returns.position::integer[])
     AS g (charge_id, boleto_number, end_to_end_id, refund_id, bank_id, amount_cents, paid_at, position)
CROSS JOIN LATERAL (
    SELECT a.charge_id, NULL AS source FROM charge a WHERE a.charge_id = g.charge_id AND NOT a.test
    UNION ALL
    SELECT b.charge_id, NULL FROM boleto b WHERE b.bank = :bank AND b.number = g.boleto_number
    UNION ALL
    SELECT s.charge_id, s.source FROM suspense s WHERE s.bank = :bank AND s.source = g.end_to_end_id AND s.state = 'assigned'
    UNION ALL
    SELECT s.charge_id, s.source FROM suspense s
    WHERE s.bank = :bank AND s.reference = g.boleto_number AND s.kind = 'boleto_unknown' AND s.state = 'assigned'
) c
CROSS JOIN LATERAL (
    SELECT p.account_id, p.payment_id, p.amount_cents, p.paid_at, p.refunded_cents, p.reversed_cents,
           r.doc ->> 'end_to_end_id' AS named
    FROM payment_view r JOIN payment p ON p.payment_id = r.payment_id AND p.account_id = r.account_id
    WHERE r.charge_id = c.charge_id
      AND (r.doc ->> 'end_to_end_id' = g.end_to_end_id
           OR (r.doc ->> 'end_to_end_id' IS NULL AND r.doc ->> 'nosso_numero' = g.boleto_number
               AND (p.method = 'pix' OR p.source = c.source)
               AND g.paid_at <= p.credited_at AND g.amount_cents <= p.amount_cents - p.reversed_cents))
    ORDER BY r.doc ->> 'end_to_end_id' NULLS LAST, p.payment_id
    LIMIT 1
) p
WHERE NOT EXISTS (SELECT FROM refund f
                  WHERE f.refund_id = g.refund_id AND f.account_id = p.account_id AND f.status <> 'failed')
  AND NOT EXISTS (SELECT FROM payment_reversal v WHERE v.end_to_end_id = g.end_to_end_id AND v.bank_id = g.bank_id)
ORDER BY g.position, p.named NULLS LAST, p.payment_id;

-- name: unbooked_transfers
-- Refunds by transfer that failed here but that the bank lists as sent, and that are not booked yet: their money is
-- back in the wallet and must be debited again. Several may be of one payment, and together exceed it.
SELECT g.position, f.charge_id, f.account_id, f.payment_id, NULL::bigint AS cents_max, p.paid_at, p.refunded_cents,
       p.reversed_cents
FROM unnest(:returns.refund_id::uuid[], :returns.bank_id::text[], :returns.position::integer[]) AS g (refund_id, bank_id, position)
JOIN refund f ON f.refund_id = g.refund_id AND f.status = 'failed' AND NOT f.test
JOIN payment p ON p.payment_id = f.payment_id AND p.account_id = f.account_id
WHERE NOT EXISTS (SELECT FROM payment_reversal v
                  WHERE v.payment_id = f.payment_id AND v.account_id = f.account_id AND v.bank_id = g.bank_id)
ORDER BY g.position;

-- name: add
INSERT INTO payment_reversal (account_id, reversal_id, payment_id, charge_id, end_to_end_id, bank_id, return_id,
                              amount_cents, booked_at)
SELECT g.account_id, g.reversal_id, g.payment_id, g.charge_id, g.end_to_end_id, g.bank_id, g.return_id, g.amount_cents,
       :now
FROM unnest(:booked.account_id::uuid[], :booked.reversal_id::uuid[], :booked.payment_id::uuid[],
            :booked.charge_id::uuid[], :booked.end_to_end_id::text[], :booked.bank_id::text[],
            :booked.return_id::text[], :booked.amount_cents::bigint[])
     AS g (account_id, reversal_id, payment_id, charge_id, end_to_end_id, bank_id, return_id, amount_cents);

-- name: store
UPDATE payment p SET reversed_cents = g.reversed_cents
FROM unnest(:payment_ids::uuid[], :account_ids::uuid[], :reversed_cents::bigint[])
     AS g (payment_id, account_id, reversed_cents)
WHERE p.payment_id = g.payment_id AND p.account_id = g.account_id;
