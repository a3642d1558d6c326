-- The walks that erase payers after their retention period, and their positions. One worker at a time runs each walk.
-- Retention goes by real time, also in a sandbox whose clock was advanced: its charges expired here that much earlier
-- than their expires_at says.

-- name: begin
INSERT INTO payer_retention (test, charge_id) VALUES (:test, '00000000-0000-0000-0000-000000000000') ON CONFLICT DO NOTHING;

-- name: place
SELECT charge_id FROM payer_retention WHERE test = :test FOR UPDATE SKIP LOCKED;

-- name: passed
-- A range of charge's key, in both modes; the walk skips charges of the other mode.
SELECT charge_id, account_id, test, status, expires_at - interval '1 second' * CASE WHEN test THEN coalesce((
           SELECT ahead_s FROM sandbox_clock k WHERE k.account_id = c.account_id), 0) ELSE 0 END AS expired_at
FROM charge c
WHERE charge_id > :after AND charge_id < :until
ORDER BY charge_id
LIMIT :limit;

-- name: due
-- Index payer_kept_due, then charge's key.
WITH due AS MATERIALIZED (
    SELECT charge_id, account_id FROM payer_kept WHERE test = :test AND look_at <= :now ORDER BY look_at LIMIT :limit
)
SELECT c.charge_id, c.account_id, c.test, c.status, c.expires_at - interval '1 second' * CASE WHEN c.test THEN coalesce((
           SELECT ahead_s FROM sandbox_clock k WHERE k.account_id = c.account_id), 0) ELSE 0 END AS expired_at
FROM due d JOIN charge c ON c.charge_id = d.charge_id AND c.account_id = d.account_id;

-- name: keep
INSERT INTO payer_kept AS k (charge_id, account_id, test, look_at)
SELECT g.charge_id, g.account_id, :test, g.look_at
FROM unnest(:kept.charge_id::uuid[], :kept.account_id::uuid[], :kept.look_at::timestamptz[])
     AS g (charge_id, account_id, look_at)
ON CONFLICT (charge_id) DO UPDATE SET look_at = excluded.look_at;

-- name: ended_schedules
-- Index schedule_ended: ended schedules whose look_at lies before :before. A schedule's payer is erased once none of
-- its charges names the payer; otherwise the schedule is checked again a day later (look_at has no other use once it
-- has ended).
WITH ended AS MATERIALIZED (
    SELECT schedule_id, account_id FROM schedule
    WHERE status IN ('finished', 'cancelled') AND NOT ordered AND payer_sealed IS NOT NULL AND look_at <= :before
    ORDER BY look_at LIMIT :limit
    FOR UPDATE SKIP LOCKED
), judged AS MATERIALIZED (
    SELECT e.schedule_id, e.account_id, EXISTS (
        SELECT FROM schedule_charge n JOIN charge c ON c.charge_id = n.charge_id AND c.account_id = n.account_id
        WHERE n.schedule_id = e.schedule_id AND n.account_id = e.account_id AND c.payer_sealed IS NOT NULL) AS named
    FROM ended e
)
UPDATE schedule s
SET payer_sealed = CASE WHEN j.named THEN s.payer_sealed END, payer_document_hash = CASE WHEN j.named THEN s.payer_document_hash END,
    look_at = CASE WHEN j.named THEN :before::timestamptz + interval '1 day' ELSE s.look_at END
FROM judged j WHERE s.schedule_id = j.schedule_id AND s.account_id = j.account_id;

-- name: returned_money
-- Index suspense_returned: erases the senders of suspense money that was returned at :before or earlier.
WITH gone AS MATERIALIZED (
    SELECT suspense_id FROM suspense WHERE state = 'returned' AND payer_sealed IS NOT NULL AND settled_at <= :before
    ORDER BY settled_at LIMIT :limit
)
UPDATE suspense s SET payer_sealed = NULL FROM gone g WHERE s.suspense_id = g.suspense_id;

-- name: done
DELETE FROM payer_kept WHERE charge_id = ANY(:charge_ids::uuid[]);

-- name: move
UPDATE payer_retention SET charge_id = :charge_id WHERE test = :test;

-- name: look_at_passed
-- For an imported account: schedules its charges that the walks have passed already for a check in the next round. The
-- lock stops the walks until the transaction ends (place skips locked rows), so none passes a charge it cannot see yet.
WITH places AS MATERIALIZED (
    SELECT test, charge_id FROM payer_retention FOR UPDATE
), passed AS MATERIALIZED (
    SELECT c.charge_id, c.account_id, c.test, timestamptz '-infinity'
    FROM places p JOIN charge c ON c.test = p.test AND c.charge_id <= p.charge_id
    WHERE c.account_id = :account_id
)
INSERT INTO payer_kept (charge_id, account_id, test, look_at)
TABLE passed
ON CONFLICT DO NOTHING;
