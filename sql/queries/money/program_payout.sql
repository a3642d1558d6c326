-- Payouts made over the API, for the notices to the account's owners (commands/money/program_payouts.py).

-- name: note
-- The first payout is notified at once; later ones wait until an hour after the previous notice, the instant that `take`
-- has set. Rows are written in key order, as in every batch, to avoid deadlocks.
INSERT INTO program_payout AS p (account_id, kind, payouts, amount_cents, since, client_ids, due_at)
SELECT g.account_id, :kind, count(*), sum(g.amount_cents), :now, array_agg(DISTINCT g.client_id), :now
FROM unnest(:paid.account_id::uuid[], :paid.amount_cents::bigint[], :paid.client_id::text[])
     AS g (account_id, amount_cents, client_id)
GROUP BY g.account_id
ORDER BY g.account_id
ON CONFLICT (account_id, kind) DO UPDATE
SET payouts = p.payouts + excluded.payouts, amount_cents = p.amount_cents + excluded.amount_cents,
    since = CASE WHEN p.payouts = 0 THEN excluded.since ELSE p.since END,
    client_ids = ARRAY(SELECT DISTINCT unnest(p.client_ids || excluded.client_ids) ORDER BY 1);

-- name: take
-- Takes the notices that are due and empties them; rows locked by another worker are skipped.
WITH due AS MATERIALIZED (
    SELECT account_id, kind, payouts, amount_cents, since, client_ids FROM program_payout
    WHERE due_at <= :now AND payouts > 0
    ORDER BY due_at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
)
UPDATE program_payout p SET payouts = 0, amount_cents = 0, client_ids = '{}', due_at = :again_at
FROM due d
WHERE p.account_id = d.account_id AND p.kind = d.kind
RETURNING d.account_id, d.kind, d.payouts, d.amount_cents, d.since, d.client_ids;
