-- Notices to a merchant's people.

-- name: add
-- The caller chooses the ids.
INSERT INTO notice (notice_id, account_id, test, kind, event_type, endpoint_id, at, facts, mail_after)
SELECT g.notice_id, g.account_id, g.test, g.kind, g.event_type, g.endpoint_id, :now, g.facts, :now
FROM unnest(:notices.notice_id::uuid[], :notices.account_id::uuid[], :notices.test::boolean[], :notices.kind::text[],
            :event_types::text[], :notices.endpoint_id::uuid[], :facts::jsonb[])
     AS g(notice_id, account_id, test, kind, event_type, endpoint_id, facts);

-- name: given_since
-- Index notice_of_account. Counts the notices of these kinds by endpoint, mode and kind.
SELECT n.endpoint_id, n.test, n.kind, count(*) AS notices
FROM unnest(:account_ids::uuid[]) AS g (account_id)
JOIN notice n ON n.account_id = g.account_id AND n.at > :since AND n.kind = ANY(:kinds::text[])
GROUP BY n.endpoint_id, n.test, n.kind;

-- name: claim_unmailed
-- Takes a lease, not a lock: no transaction is open while a mail server answers. If a worker dies, its lease runs out.
WITH due AS (
    SELECT notice_id FROM notice
    WHERE mailed_at IS NULL AND mail_after <= :now
    ORDER BY mail_after
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
)
UPDATE notice AS n
SET mail_after = :lease_until::timestamptz
FROM due
WHERE n.notice_id = due.notice_id
RETURNING n.notice_id, n.account_id, n.test, n.kind, n.event_type, n.endpoint_id, n.at, n.facts;

-- name: mark_mailed
UPDATE notice SET mailed_at = :now WHERE notice_id = ANY(:notice_ids::uuid[]) AND mailed_at IS NULL;

-- name: forget
-- Deletes notices from before :before (their ids are UUIDv7) that were mailed, a bounded number at a time. A mail that
-- still waits takes its text from the notice, so a notice stays for as long as any mail of it; OFFSET 0 looks up the
-- mails of each, instead of a join with the mails of all notices.
DELETE FROM notice WHERE notice_id = ANY(ARRAY(
    SELECT n.notice_id FROM notice n
    WHERE n.notice_id < :before AND n.mailed_at IS NOT NULL
      AND NOT EXISTS (SELECT FROM mail m WHERE m.notice_id = n.notice_id AND m.kind = 'notice' OFFSET 0)
    ORDER BY n.notice_id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
));
