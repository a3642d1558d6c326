-- Payments that came otherwise than asked for, while something is to be done about them: not refunded whole, and nobody
-- said that it is settled. They are few, and payment_odd holds them alone.

-- name: count
-- No further than :limit.
SELECT count(*) FROM (
    SELECT FROM payment p
    WHERE p.account_id = :account_id AND p.test = :test AND p.anomaly IS NOT NULL
      AND p.refunded_cents + p.refunding_cents < p.amount_cents
      AND NOT EXISTS (SELECT FROM odd_payment_settled s WHERE s.payment_id = p.payment_id)
    LIMIT :limit) AS odd;

-- name: newest
WITH odd AS MATERIALIZED (
    SELECT p.payment_id, p.charge_id FROM payment p
    WHERE p.account_id = :account_id AND p.test = :test AND p.anomaly IS NOT NULL
      AND p.refunded_cents + p.refunding_cents < p.amount_cents
      AND NOT EXISTS (SELECT FROM odd_payment_settled s WHERE s.payment_id = p.payment_id)
    ORDER BY p.payment_id DESC
    LIMIT :limit
)
SELECT v.doc FROM odd
CROSS JOIN LATERAL (
    SELECT doc FROM payment_view WHERE charge_id = odd.charge_id AND payment_id = odd.payment_id
) AS v
ORDER BY odd.payment_id DESC;

-- name: find
-- One, also when nothing is left to do about it.
SELECT v.doc, s.settled_at, s.settled_by, s.note
FROM payment p
CROSS JOIN LATERAL (SELECT doc FROM payment_view WHERE charge_id = p.charge_id AND payment_id = p.payment_id) AS v
LEFT JOIN odd_payment_settled s ON s.payment_id = p.payment_id
WHERE p.payment_id = :payment_id AND p.account_id = :account_id AND p.test = :test AND p.anomaly IS NOT NULL;

-- name: settle
-- The first to say so is kept. No row: it is no odd payment of this account.
WITH odd AS MATERIALIZED (
    SELECT payment_id, account_id FROM payment
    WHERE payment_id = :payment_id AND account_id = :account_id AND test = :test AND anomaly IS NOT NULL
)
INSERT INTO odd_payment_settled (payment_id, account_id, settled_at, settled_by, note)
SELECT payment_id, account_id, :now::timestamptz, :by::text, :note::text FROM odd
ON CONFLICT (payment_id) DO UPDATE SET payment_id = excluded.payment_id
RETURNING payment_id;
