-- Compares the read tables with the journal, slice by slice (readmodels/verify.py). Each slice is one snapshot and
-- depends on no other: whatever is written meanwhile, it sees journal and read tables as of one instant. Every
-- statement covers the accounts from :low to :high.

-- name: begin
WITH begun AS MATERIALIZED (SELECT :scope::jsonb, :nightly::boolean, begins_at FROM feed_begin)
INSERT INTO verification (scope, nightly, feed_begins_at) TABLE begun RETURNING verification_id, scope, begun_at;

-- name: unfinished
-- The unfinished verification to resume: of the nightly ones, or of those that an operator started; the two never mix.
SELECT verification_id, scope, begun_at FROM verification WHERE ended_at IS NULL AND nightly = :nightly
ORDER BY verification_id DESC LIMIT 1;

-- name: nightly_begun
SELECT begun_at, ended_at FROM verification WHERE nightly ORDER BY verification_id DESC LIMIT 1;

-- name: forget
-- Keeps the latest :kept verifications for operators to read.
DELETE FROM verification WHERE verification_id <= (
    SELECT verification_id FROM verification ORDER BY verification_id DESC OFFSET :kept LIMIT 1);

-- name: parts
SELECT part, next FROM verification_part WHERE verification_id = :verification_id;

-- name: store_slice
-- Returns no row if another process has done this slice meanwhile: two may resume the same verification by mistake.
INSERT INTO verification_part AS p (verification_id, part, next, slices, rows, left_feed)
VALUES (:verification_id, :part, :next, 1, :rows, :left_feed)
ON CONFLICT (verification_id, part) DO UPDATE
SET next = excluded.next, slices = p.slices + 1, rows = p.rows + excluded.rows, left_feed = p.left_feed + excluded.left_feed
WHERE p.next = :began
RETURNING slices;

-- name: store_differences
INSERT INTO verification_difference (verification_id, part, slice, began, next, "table", what, rows)
SELECT :verification_id, :part, :slice, :began, :next, * FROM unnest(
    :found.table::text[], :found.what::text[], :found.rows::bigint[]);

-- name: end
UPDATE verification SET ended_at = clock_timestamp() WHERE verification_id = :verification_id;

-- name: left_feed
-- How many of the events that left the feed with detached months are missing in the journal.
SELECT abs(sum(p.left_feed))::bigint AS rows
FROM verification v JOIN verification_part p USING (verification_id) JOIN feed_begin f ON f.begins_at = v.feed_begins_at
WHERE verification_id = :verification_id HAVING sum(p.left_feed) <> 0;

-- name: left_in_journal
SELECT count(*) AS rows FROM journal_order o JOIN journal j ON j.journal_id = o.journal_id
WHERE j.event_id IS NOT NULL AND j.recorded_at < (SELECT begins_at FROM feed_begin);

-- name: found
SELECT "table", what, sum(rows)::bigint AS rows FROM verification_difference
WHERE verification_id = :verification_id GROUP BY 1, 2 ORDER BY 1, 2;

-- name: plan_for_this
-- A slice takes seconds, so planning it anew for its parameters is worth the cost; no sequential scans, even if the
-- statistics still describe a small table.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_seqscan', 'off', true);

-- name: charge_after
-- The charge :count charges further on, counted in charge or in read_charge, whichever is lower; NULL if there are
-- fewer.
SELECT least((SELECT charge_id FROM charge WHERE charge_id >= :first AND charge_id <= :last ORDER BY charge_id OFFSET :count LIMIT 1),
             (SELECT charge_id FROM read_charge WHERE charge_id >= :first AND charge_id <= :last ORDER BY charge_id OFFSET :count LIMIT 1))
       AS key;

-- name: other_after
SELECT least((SELECT journal_subject(payload) FROM journal
              WHERE charge_id IS NULL AND journal_subject(payload) >= :first AND journal_subject(payload) <= :last
              ORDER BY journal_subject(payload) OFFSET :count LIMIT 1),
             (SELECT share_id FROM partner_share WHERE share_id >= :first AND share_id <= :last ORDER BY share_id OFFSET :count LIMIT 1))
       AS key;

-- name: payment_after
SELECT payment_id AS key FROM payment WHERE payment_id >= :first AND payment_id <= :last ORDER BY payment_id OFFSET :count LIMIT 1;

-- name: refund_after
SELECT refund_id AS key FROM refund WHERE refund_id >= :first AND refund_id <= :last ORDER BY refund_id OFFSET :count LIMIT 1;

-- name: reversal_after
SELECT reversal_id AS key FROM payment_reversal WHERE reversal_id >= :first AND reversal_id <= :last
ORDER BY reversal_id OFFSET :count LIMIT 1;

-- name: suspense_after
SELECT suspense_id AS key FROM suspense WHERE suspense_id >= :first AND suspense_id <= :last
ORDER BY suspense_id OFFSET :count LIMIT 1;

-- name: fill_charges
-- All journal rows of these charges, ordered by version.
WITH journaled AS MATERIALIZED (
    SELECT journal_id, version FROM journal
    WHERE kind = 'charge.created' AND charge_id BETWEEN :first AND :last AND account_id BETWEEN :low AND :high
    UNION ALL
    SELECT journal_id, version FROM journal
    WHERE kind <> 'charge.created' AND charge_id BETWEEN :first AND :last AND account_id BETWEEN :low AND :high
)
INSERT INTO journal_order (journal_id) SELECT journal_id FROM journaled ORDER BY version, journal_id;

-- name: fill_others
WITH journaled AS MATERIALIZED (
    SELECT journal_id, version FROM journal
    WHERE charge_id IS NULL AND journal_subject(payload) BETWEEN :first AND :last AND account_id BETWEEN :low AND :high
)
INSERT INTO journal_order (journal_id) SELECT journal_id FROM journaled ORDER BY version, journal_id;

-- name: differences_of_charges
-- for each of read_charge, read_payment, read_refund, read_event, report_charge
WITH kept AS MATERIALIZED (
    SELECT * FROM {each} WHERE charge_id BETWEEN :first AND :last AND account_id BETWEEN :low AND :high
)
SELECT '{each}' AS table, 'missing or stale' AS what, count(*) AS rows FROM (TABLE pg_temp.{each} EXCEPT TABLE kept) d
UNION ALL
SELECT '{each}', 'not in the journal', count(*) FROM (TABLE kept EXCEPT TABLE pg_temp.{each}) d;

-- name: differences_of_withdrawals
WITH kept AS MATERIALIZED (
    SELECT * FROM read_withdrawal WHERE withdrawal_id BETWEEN :first AND :last AND account_id BETWEEN :low AND :high
)
SELECT 'read_withdrawal' AS table, 'missing or stale' AS what, count(*) AS rows FROM (TABLE pg_temp.read_withdrawal EXCEPT TABLE kept) d
UNION ALL
SELECT 'read_withdrawal', 'not in the journal', count(*) FROM (TABLE kept EXCEPT TABLE pg_temp.read_withdrawal) d;

-- name: lines_missing
-- Looks up ledger entries by their sequence. Entries that are not in the journal are found by walking the ledger
-- (lines_unknown).
SELECT 'read_ledger' AS table, 'missing or stale' AS what, count(*) AS rows
FROM pg_temp.read_ledger m LEFT JOIN read_ledger l USING (account_id, test, sequence)
WHERE ROW(m.*) IS DISTINCT FROM ROW(l.*);

-- name: events_missing
-- Events about no charge. Events about a charge are compared both ways (differences_of_charges).
SELECT 'read_event' AS table, 'missing or stale' AS what, count(*) AS rows
FROM pg_temp.read_event m LEFT JOIN read_event e USING (account_id, test, sequence, created_at)
WHERE ROW(m.*) IS DISTINCT FROM ROW(e.*);

-- name: lines
-- The next ledger entries, each checked against the entry before it.
SELECT l.account_id, l.test, l.sequence, l.charge_id, coalesce(l.withdrawal_id, l.refund_id, l.payment_id, l.entry_id) AS subject,
       l.sequence - coalesce(b.sequence, 0) - 1 AS missing,
       l.balance_after_cents - l.amount_cents <> coalesce(b.balance_after_cents, 0) AS broken
FROM (
    SELECT * FROM read_ledger
    WHERE (account_id, test, sequence) > (:account_id, :test, :sequence) AND account_id <= :high
      AND created_at >= :since AND created_at < :until AND (entry_id < :live_first OR entry_id >= :live_after)
    ORDER BY account_id, test, sequence LIMIT :limit
) l LEFT JOIN LATERAL (
    SELECT sequence, balance_after_cents FROM read_ledger b
    WHERE b.account_id = l.account_id AND b.test = l.test AND b.sequence < l.sequence
    ORDER BY b.sequence DESC LIMIT 1
) b ON true
ORDER BY l.account_id, l.test, l.sequence;

-- name: fill_lines
-- The journal rows with an entry for the charges, payments, refunds and withdrawals of these ledger entries.
WITH journaled AS MATERIALIZED (
    SELECT journal_id, version FROM journal
    WHERE kind <> 'charge.created' AND charge_id = ANY(:charge_ids::uuid[]) AND payload ? 'entry'
    UNION ALL
    SELECT journal_id, version FROM journal
    WHERE charge_id IS NULL AND journal_subject(payload) = ANY(:subjects::uuid[]) AND payload ? 'entry'
)
INSERT INTO journal_order (journal_id) SELECT journal_id FROM journaled ORDER BY version, journal_id;

-- name: lines_unknown
SELECT 'read_ledger' AS table, 'not in the journal' AS what, count(*) AS rows
FROM unnest(:lines.account_id::uuid[], :lines.test::boolean[], :lines.sequence::bigint[]) AS g (account_id, test, sequence)
JOIN read_ledger l USING (account_id, test, sequence)
LEFT JOIN pg_temp.read_ledger m USING (account_id, test, sequence)
WHERE ROW(m.*) IS DISTINCT FROM ROW(l.*);

-- name: events
-- The next events of the feeds. journal_id is given for events about no charge, which are then looked up in the
-- journal.
SELECT e.account_id, e.test, e.sequence, e.created_at, e.sequence - b.sequence AS step,
       CASE WHEN e.charge_id IS NULL THEN e.journal_id END AS journal_id
FROM (
    SELECT * FROM read_event
    WHERE (account_id, test, sequence, created_at) > (:account_id, :test, :sequence, :created_at) AND account_id <= :high
      AND created_at >= :since AND created_at < :until AND (event_id < :live_first OR event_id >= :live_after)
    ORDER BY account_id, test, sequence, created_at LIMIT :limit
) e LEFT JOIN LATERAL (
    SELECT sequence FROM read_event b
    WHERE b.account_id = e.account_id AND b.test = e.test AND (b.sequence, b.created_at) < (e.sequence, e.created_at)
    ORDER BY b.sequence DESC, b.created_at DESC LIMIT 1
) b ON true
ORDER BY e.account_id, e.test, e.sequence, e.created_at;

-- name: fill_events
WITH journaled AS MATERIALIZED (
    SELECT journal_id, version FROM journal
    WHERE journal_id = ANY(:journal_ids::bigint[]) AND event_id IS NOT NULL
)
INSERT INTO journal_order (journal_id) SELECT journal_id FROM journaled ORDER BY version, journal_id;

-- name: events_unknown
SELECT 'read_event' AS table, 'not in the journal' AS what, count(*) AS rows
FROM unnest(:events.account_id::uuid[], :events.test::boolean[], :events.sequence::bigint[], :events.created_at::timestamptz[])
     AS g (account_id, test, sequence, created_at)
JOIN read_event e USING (account_id, test, sequence, created_at)
LEFT JOIN pg_temp.read_event m USING (account_id, test, sequence, created_at)
WHERE ROW(m.*) IS DISTINCT FROM ROW(e.*);
