-- Compares the bank's lists with our books (workers/incoming/statement.py). `here_cents` is NULL for an item that is
-- not booked. Items that are not listed are found by NOT IN, which hashes the list once; <> ALL of an array compares
-- each item with a list of up to 100,000.

-- name: pix
-- Received PIX: the amount booked to the charge, or held in suspense.
SELECT g.end_to_end_id AS reference, coalesce(p.amount_cents, s.amount_cents) AS here_cents, p.account_id
FROM unnest(:charge_ids::uuid[], :end_to_end_ids::text[]) AS g (charge_id, end_to_end_id)
LEFT JOIN charge c ON c.charge_id = g.charge_id
LEFT JOIN payment p ON p.account_id = c.account_id AND NOT p.test AND p.source = g.end_to_end_id
LEFT JOIN suspense s ON s.bank = :bank AND s.source = g.end_to_end_id;

-- name: plan
-- The application's role has no bitmap scans, and nothing else reads a BRIN index. A list that is expected to take more than
-- twice work_mem is not hashed: with 4 MB one of 150,000 numbers.
SELECT set_config('enable_bitmapscan', 'on', true), set_config('work_mem', '64MB', true);

-- name: pix_not_listed
-- PIX payments of this period that the bank did not list: index payment_paid, after `plan`. A payment may be booked
-- long after it was made, so its id (UUIDv7) does not bound the period. MATERIALIZED: else the order by id might read
-- all payments there are. A slash in `source` marks a payment of a boleto, whose source begins with the boleto's number.
WITH paid AS MATERIALIZED (
    SELECT payment_id, source, amount_cents, account_id, charge_id FROM payment
    WHERE paid_at >= :since AND paid_at < :until AND NOT test
      AND position('/' in source) = 0 AND source NOT IN (SELECT unnest(:listed::text[]))
)
SELECT p.source AS reference, p.amount_cents AS here_cents, p.account_id, p.charge_id
FROM paid p
JOIN charge c ON c.charge_id = p.charge_id
WHERE c.bank = :bank
ORDER BY p.payment_id LIMIT :limit;

-- name: boletos
-- Totals of boletos: the amount booked or, for a boleto unknown here, held in suspense.
SELECT g.number AS reference, CASE WHEN b.number IS NULL THEN s.cents ELSE b.booked_cents END AS here_cents, b.account_id
FROM unnest(:numbers::text[]) AS g (number)
LEFT JOIN boleto b ON b.bank = :bank AND b.number = g.number
LEFT JOIN LATERAL (
    SELECT sum(s.amount_cents)::bigint AS cents FROM suspense s
    WHERE s.bank = :bank AND s.reference = g.number AND s.kind = 'boleto_unknown'
) s ON true;

-- name: boletos_not_listed
-- Boletos paid in this period that the bank did not list; as `pix_not_listed`.
WITH paid AS MATERIALIZED (
    SELECT DISTINCT charge_id FROM payment
    WHERE paid_at >= :since AND paid_at < :until AND NOT test AND position('/' in source) > 0
)
SELECT b.number AS reference, b.booked_cents AS here_cents, b.account_id, b.charge_id
FROM paid p
JOIN boleto b ON b.charge_id = p.charge_id AND b.bank = :bank
WHERE b.number NOT IN (SELECT unnest(:listed::text[]))
ORDER BY b.number LIMIT :limit;

-- name: returns
-- Devolucoes, each named by its PIX and its id: a refund of ours, a booked reversal by the bank, or a return of money in
-- suspense. No row here has the amount of each part of suspended money that was returned in parts, nor of each PIX of an
-- unknown boleto that was returned in full, so the bank's amount is taken.
SELECT g.end_to_end_id || '/' || g.id AS reference,
       coalesce(f.amount_cents, v.amount_cents, CASE WHEN g.pix_cents = s.amount_cents THEN g.cents ELSE s.amount_cents END,
                b.amount_cents) AS here_cents,
       coalesce(f.account_id, v.account_id) AS account_id
FROM (
    SELECT u.*, sum(u.cents) OVER (PARTITION BY u.end_to_end_id) AS pix_cents
    FROM unnest(:ids::text[], :refund_ids::uuid[], :end_to_end_ids::text[], :boleto_numbers::text[], :cents::bigint[])
         AS u (id, refund_id, end_to_end_id, boleto_number, cents)
) g
LEFT JOIN refund f ON f.refund_id = g.refund_id AND f.status <> 'failed'
LEFT JOIN payment_reversal v ON v.bank_id = g.id AND v.end_to_end_id = g.end_to_end_id
LEFT JOIN suspense s ON s.bank = :bank AND s.source = g.end_to_end_id AND s.state = 'returned'
LEFT JOIN LATERAL (
    SELECT g.cents AS amount_cents FROM suspense t
    WHERE t.bank = :bank AND t.reference = g.boleto_number AND t.kind = 'boleto_unknown' AND t.state = 'returned' LIMIT 1
) b ON true;

-- name: refunds_not_listed
-- Succeeded refunds requested in this period that the bank did not list. `transfers`: those sent to a key; a transfer
-- that was held and released by staff has no transfer_day, so held_refund is checked too.
SELECT f.refund_id AS id, f.amount_cents AS here_cents, f.account_id
FROM refund f
JOIN charge c ON c.charge_id = f.charge_id
WHERE f.refund_id >= :first_id AND f.refund_id < :last_id AND f.status = 'succeeded' AND NOT f.test AND c.bank = :bank
  AND (f.transfer_day IS NOT NULL OR EXISTS (
          SELECT FROM held_refund h WHERE h.refund_id = f.refund_id AND h.account_id = f.account_id)) = :transfers
  AND f.refund_id NOT IN (SELECT unnest(:listed::uuid[]))
ORDER BY f.refund_id LIMIT :limit;

-- name: transfers
-- PIX sent: for a withdrawal or refund that has not failed here, or for a failed refund whose sending was booked since
-- (sent_transfers.py).
SELECT g.id, coalesce(w.amount_cents, v.amount_cents, CASE WHEN f.status <> 'failed' THEN f.amount_cents END) AS here_cents,
       coalesce(w.account_id, f.account_id) AS account_id
FROM unnest(:ids::uuid[]) AS g (id)
LEFT JOIN withdrawal w ON w.withdrawal_id = g.id AND w.status NOT IN ('failed', 'cancelled')
LEFT JOIN refund f ON f.refund_id = g.id
LEFT JOIN payment_reversal v ON f.status = 'failed' AND v.payment_id = f.payment_id AND v.account_id = f.account_id
    AND lower(v.bank_id) = replace(g.id::text, '-', '');

-- name: withdrawals_not_listed
-- As `refunds_not_listed`.
SELECT w.withdrawal_id AS id, w.amount_cents AS here_cents, w.account_id
FROM withdrawal w
WHERE w.withdrawal_id >= :first_id AND w.withdrawal_id < :last_id AND w.status = 'succeeded'
  AND w.withdrawal_id NOT IN (SELECT unnest(:listed::uuid[]))
ORDER BY w.withdrawal_id LIMIT :limit;

-- name: accounts_of_keys
-- The accounts that have or had these payout keys: the receivers of sent PIX that are unknown here.
SELECT pix_key, account_id FROM account WHERE pix_key = ANY(:keys::text[])
UNION
SELECT pix_key, account_id FROM payout_change WHERE pix_key = ANY(:keys::text[]);
