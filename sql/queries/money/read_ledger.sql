-- The statement of an account: numbers dense, balance_after running; the newest row's is the balance.

-- name: balance
SELECT coalesce((SELECT balance_after_cents FROM read_ledger WHERE account_id = :account_id AND test = :test
                 ORDER BY sequence DESC LIMIT 1), 0)::bigint AS balance_cents;

-- name: bounds
SELECT (SELECT sequence FROM read_ledger WHERE account_id = :account_id AND test = :test AND created_at >= :created_from
        ORDER BY created_at, sequence LIMIT 1) AS first,
       (SELECT sequence FROM read_ledger WHERE account_id = :account_id AND test = :test AND created_at >= :created_to
        ORDER BY created_at, sequence LIMIT 1) AS beyond;

-- name: page
-- both ways
-- read_ledger's key, or read_ledger_type.
SELECT sequence, entry_id, type, amount_cents, balance_after_cents, charge_id, payment_id, refund_id, withdrawal_id, external_id,
       created_at
FROM read_ledger
WHERE account_id = :account_id AND test = :test
  AND type = :type -- when type
  AND sequence > :above AND sequence < :below
ORDER BY sequence {DESC}
LIMIT :limit;

-- name: held_shares
-- Of production: what is in no balance yet (partner_share_held, of which only the index is read).
SELECT coalesce(sum(share_cents), 0)::bigint AS cents, min(earned_at) AS earliest FROM partner_share
WHERE partner_id = :account_id AND posted_at IS NULL AND NOT test;
