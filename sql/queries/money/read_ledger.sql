-- The ledger of an account: sequences are dense, balance_after is the running balance, and the newest row's is the
-- balance.

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
-- Index: read_ledger's key, or read_ledger_type.
SELECT sequence, entry_id, type, amount_cents, balance_after_cents, charge_id, payment_id, refund_id, withdrawal_id, external_id,
       created_at
FROM read_ledger
WHERE account_id = :account_id AND test = :test
  AND type = :type -- when type
  AND sequence > :above AND sequence < :below
ORDER BY sequence {DESC}
LIMIT :limit;

-- name: held_shares
-- Production: partner shares that are in no balance yet (an index-only scan of partner_share_held).
SELECT coalesce(sum(share_cents), 0)::bigint AS cents, min(earned_at) AS earliest FROM partner_share
WHERE partner_id = :account_id AND posted_at IS NULL AND sent_to IS NULL AND NOT test;

-- name: sums
-- Count and sum of entries by type, for whole São Paulo days in production. Adds the kept totals (span_entry) and the
-- journal rows not folded into them yet; one snapshot sees the position, the totals and the journal after the position.
SELECT type, sum(lines)::bigint AS lines, sum(cents)::bigint AS cents FROM (
    SELECT t.type, t.lines, t.cents
    FROM unnest(:ranges.span::text[], :ranges.first::date[], :ranges.after::date[]) AS g (span, first, after)
    CROSS JOIN LATERAL (
        SELECT type, sum(entries) AS lines, sum(cents) AS cents FROM span_entry
        WHERE account_id = :account_id AND span = g.span AND starts >= g.first AND starts < g.after
        GROUP BY type
    ) t
    UNION ALL
    SELECT e.type, 1, e.amount_cents
    FROM journal j CROSS JOIN LATERAL jsonb_to_record(j.payload -> 'entry') AS e (type text, amount_cents bigint)
    WHERE j.journal_id > (SELECT journal_id FROM report_position) AND j.account_id = :account_id AND NOT j.test
      AND j.payload ? 'entry'
      AND (j.recorded_at AT TIME ZONE 'America/Sao_Paulo')::date >= :first
      AND (j.recorded_at AT TIME ZONE 'America/Sao_Paulo')::date < :after
) AS part
GROUP BY type;

-- name: sums_counted
-- The same counted from the entries (index read_ledger_created), for when the totals are far behind.
SELECT type, count(*) AS lines, sum(amount_cents)::bigint AS cents FROM read_ledger
WHERE account_id = :account_id AND NOT test AND created_at >= :created_from AND created_at < :created_to
GROUP BY type;
