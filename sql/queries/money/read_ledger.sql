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
WHERE partner_id = :account_id AND posted_at IS NULL AND sent_to IS NULL AND NOT test;

-- name: sums
-- Lines and their sum by type, of whole São Paulo days in production: those that are in the daily totals for certain from
-- there (report_entry, a few rows a day), the day the totals have come to and what follows line by line (read_ledger_created).
-- A line of before midnight may be committed after it: in its first minutes the day before is not taken for whole.
WITH kept AS (
    SELECT ((as_of - interval '5 minutes') AT TIME ZONE 'America/Sao_Paulo')::date AS until FROM report_position
)
SELECT type, sum(lines)::bigint AS lines, sum(cents)::bigint AS cents FROM (
    SELECT e.type, e.entries AS lines, e.cents FROM report_entry e
    WHERE e.account_id = :account_id AND e.day >= :first AND e.day < least(:after, (SELECT until FROM kept))
    UNION ALL
    SELECT l.type, 1, l.amount_cents FROM read_ledger l
    WHERE l.account_id = :account_id AND NOT l.test AND l.created_at < :created_to
      AND l.created_at >= greatest(:created_from, (SELECT until::timestamp AT TIME ZONE 'America/Sao_Paulo' FROM kept))
) AS part
GROUP BY type;
