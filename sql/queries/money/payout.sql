-- The payout key, to which withdrawals go, and its pending change (commands/merchants/payout_key.py).

-- name: lock
-- Locks the account until the transaction ends and returns the key in force.
SELECT coalesce(p.pix_key, a.pix_key) AS pix_key, coalesce(p.document, a.document) AS document
FROM account a LEFT JOIN LATERAL payout_in_force(a.account_id, :now) p ON true
WHERE a.account_id = :account_id
FOR NO KEY UPDATE OF a;

-- name: latest
-- At most one change is pending: the latest that was not cancelled.
SELECT change_id, account_id, pix_key, document, asked_by, by_staff, asked_at, confirmed_by, effective_at, cancelled_by,
       cancelled_at
FROM payout_change WHERE account_id = :account_id AND cancelled_at IS NULL
ORDER BY asked_at DESC, change_id DESC
LIMIT 1;

-- name: add
INSERT INTO payout_change (change_id, account_id, pix_key, document, asked_by, by_staff, asked_at, effective_at)
VALUES (:change_id, :account_id, :pix_key, :document, :asked_by, :by_staff, :asked_at, :effective_at);

-- name: store
UPDATE payout_change SET confirmed_by = :confirmed_by, effective_at = :effective_at, cancelled_by = :cancelled_by,
       cancelled_at = :cancelled_at
WHERE change_id = :change_id;
