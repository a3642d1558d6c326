-- The clock of an account and mode: hands out the dense numbers of feed and ledger and the running balance.

-- name: advance
-- Lock each clock (in key order, made at its first use), move it on by what this transaction needs, and answer where
-- it stands now; the caller counts back to its first number. Nothing is waited for between this and the commit.
INSERT INTO account_clock AS c (account_id, test, event_sequence, entry_sequence, balance_cents, latest_at)
SELECT * FROM unnest(:owners.account_id::uuid[], :owners.test::boolean[], :counts.event::bigint[],
                     :counts.entry::bigint[], :counts.cents::bigint[], :counts.at::timestamptz[])
ON CONFLICT (account_id, test) DO UPDATE
SET event_sequence = c.event_sequence + excluded.event_sequence,
    entry_sequence = c.entry_sequence + excluded.entry_sequence,
    balance_cents  = c.balance_cents + excluded.balance_cents,
    latest_at      = greatest(c.latest_at, excluded.latest_at)
RETURNING account_id, test, event_sequence, entry_sequence, balance_cents, latest_at;
