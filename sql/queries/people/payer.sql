-- Finds and erases a payer's data at one merchant. Ledger, journal and feed hold none of it.

-- name: charges
-- Index read_charge_payer. Erased charges leave this range, so each slice begins where the previous one ended.
SELECT charge_id FROM read_charge
WHERE account_id = :account_id AND test = :test AND payer_document_hash = :document_hash
ORDER BY created_at, charge_id
LIMIT :limit;

-- name: pending_charges
SELECT charge_id FROM read_charge
WHERE account_id = :account_id AND test = :test AND payer_document_hash = :document_hash AND status = 'pending'
ORDER BY created_at, charge_id
LIMIT :limit;

-- name: pending_refunds
-- The payer's payments with a refund under way: two index look-ups for each charge.
SELECT count(*) AS refunds
FROM read_charge r
JOIN read_payment q ON q.charge_id = r.charge_id AND q.account_id = r.account_id
JOIN payment p ON p.payment_id = q.payment_id AND p.account_id = q.account_id AND p.refunding_cents > 0
WHERE r.account_id = :account_id AND r.test = :test AND r.payer_document_hash = :document_hash;

-- name: running_schedules
SELECT count(*) AS schedules FROM schedule
WHERE account_id = :account_id AND NOT :test::boolean AND payer_document_hash = :document_hash
  AND (status IN ('active', 'paused') OR ordered);

-- name: erase
-- The caller has locked these charges. A charge that is pending or has a refund under way keeps its payer.
WITH held AS MATERIALIZED (
    SELECT c.charge_id, c.account_id FROM charge c
    WHERE c.charge_id = ANY(:charge_ids::uuid[]) AND c.account_id = :account_id AND c.status <> 'pending'
      AND NOT EXISTS (
          SELECT FROM read_payment q
          JOIN payment p ON p.payment_id = q.payment_id AND p.account_id = q.account_id AND p.refunding_cents > 0
          WHERE q.charge_id = c.charge_id AND q.account_id = c.account_id)
), charges AS (
    UPDATE charge c SET payer_sealed = NULL, payer_document_hash = NULL, payer_erased_at = :now
    FROM held h WHERE c.charge_id = h.charge_id AND c.account_id = h.account_id
    RETURNING c.charge_id
), listed AS (
    UPDATE read_charge r SET payer_document_hash = NULL
    FROM held h WHERE r.charge_id = h.charge_id AND r.account_id = h.account_id AND r.payer_document_hash IS NOT NULL
), payments AS (
    UPDATE payment p SET payer_sealed = NULL
    FROM held h JOIN read_payment q ON q.charge_id = h.charge_id AND q.account_id = h.account_id
    WHERE p.payment_id = q.payment_id AND p.account_id = q.account_id AND p.payer_sealed IS NOT NULL
), refunds AS (
    -- The destination of transfers that staff released or refused.
    UPDATE held_refund f SET request = f.request - 'destination_sealed'
    FROM held h JOIN read_refund q ON q.charge_id = h.charge_id AND q.account_id = h.account_id
    WHERE f.refund_id = q.refund_id AND f.account_id = q.account_id
), mails AS (
    DELETE FROM mail m USING held h
    WHERE m.charge_id = h.charge_id AND m.account_id = h.account_id
      AND m.kind NOT IN ('asked', 'notice', 'access', 'security')
    RETURNING m.mail_id
), asked AS (
    DELETE FROM mail m USING held h
    WHERE m.charge_id = h.charge_id AND m.account_id = h.account_id AND m.kind = 'asked'
    RETURNING m.mail_id
)
SELECT (SELECT array_agg(charge_id) FROM charges) AS charge_ids,
       (SELECT array_agg(mail_id) FROM (SELECT mail_id FROM mails UNION ALL SELECT mail_id FROM asked) m) AS mail_ids;

-- name: erase_suspended
-- The senders of money that staff assigned to these charges.
UPDATE suspense SET payer_sealed = NULL WHERE charge_id = ANY(:charge_ids::uuid[]) AND charge_id IS NOT NULL;

-- name: erase_caught
DELETE FROM caught_mail WHERE mail_id = ANY(:mail_ids::uuid[]);

-- name: erase_schedules
UPDATE schedule SET payer_sealed = NULL, payer_document_hash = NULL
WHERE account_id = :account_id AND NOT :test::boolean AND payer_document_hash = :document_hash
  AND status IN ('finished', 'cancelled') AND NOT ordered
RETURNING schedule_id;

-- name: told_charges
-- What the merchant gave us about the payer with each charge; pages in the order of read_charge_payer.
SELECT c.created_at, c.charge_id, c.payment_method, c.status, c.amount_cents, c.external_id, c.payer_sealed
FROM read_charge r
JOIN charge c ON c.charge_id = r.charge_id AND c.account_id = r.account_id
WHERE r.account_id = :account_id AND r.test = :test AND r.payer_document_hash = :document_hash
  AND (r.created_at, r.charge_id) > (:at, :id)
ORDER BY r.created_at, r.charge_id
LIMIT :limit;

-- name: told_payments
SELECT q.charge_id, p.payment_id, p.amount_cents, p.paid_at, p.payer_sealed
FROM read_payment q
JOIN payment p ON p.payment_id = q.payment_id AND p.account_id = q.account_id
WHERE q.charge_id = ANY(:charge_ids::uuid[]) AND q.account_id = :account_id
ORDER BY q.paid_at;

-- name: told_mails
SELECT mail_id, charge_id, kind, state, to_sealed, created_at FROM mail
WHERE charge_id = ANY(:charge_ids::uuid[]) AND account_id = :account_id
  AND kind NOT IN ('asked', 'notice', 'access', 'security')
UNION ALL
SELECT mail_id, charge_id, kind, state, to_sealed, created_at FROM mail
WHERE charge_id = ANY(:charge_ids::uuid[]) AND account_id = :account_id AND kind = 'asked';

-- name: told_refunds
-- Held transfers that still name their destination. OFFSET 0 forces a look-up for each charge, instead of reading all
-- refunds of the account.
SELECT q.charge_id, f.refund_id, f.amount_cents, f.request ->> 'destination_sealed' AS destination_sealed
FROM unnest(:charge_ids::uuid[]) AS g (charge_id)
CROSS JOIN LATERAL (
    SELECT refund_id, account_id, charge_id FROM read_refund WHERE charge_id = g.charge_id OFFSET 0
) AS q
JOIN held_refund f ON f.refund_id = q.refund_id AND f.account_id = q.account_id
WHERE q.account_id = :account_id AND f.request ? 'destination_sealed';

-- name: told_schedules
SELECT schedule_id, status, created_at, payer_sealed FROM schedule
WHERE account_id = :account_id AND NOT :test::boolean AND payer_document_hash = :document_hash AND payer_sealed IS NOT NULL
ORDER BY created_at, schedule_id;
