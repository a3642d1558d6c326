-- E-mail: workers write mails from rows of mail_request, and send them. No transaction is open while a mail server
-- answers.

-- name: due_requests
-- Locks the rows until the transaction ends; other workers skip them.
SELECT charge_id, account_id, begun_at FROM mail_request
WHERE due_at <= :now
ORDER BY due_at
LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- name: requested_charges
-- Everything that decides which mail to write.
SELECT c.charge_id, c.account_id, c.status, c.expires_at, r.due_date, c.payer_sealed
FROM charge c JOIN read_charge r ON r.charge_id = c.charge_id AND r.account_id = c.account_id
WHERE c.charge_id = ANY(:charge_ids::uuid[]);

-- name: set_requests
UPDATE mail_request w SET due_at = g.due_at, begun_at = g.begun_at
FROM unnest(:requests.charge_id::uuid[], :requests.account_id::uuid[], :steps.due_at::timestamptz[],
            :steps.begun_at::timestamptz[])
     AS g (charge_id, account_id, due_at, begun_at)
WHERE w.charge_id = g.charge_id AND w.account_id = g.account_id;

-- name: end_requests
DELETE FROM mail_request w
USING unnest(:requests.charge_id::uuid[], :requests.account_id::uuid[]) AS g (charge_id, account_id)
WHERE w.charge_id = g.charge_id AND w.account_id = g.account_id;

-- name: add
-- An automatic mail is written once: an existing one stays as it is.
INSERT INTO mail (mail_id, account_id, charge_id, kind, about_day, to_sealed, to_hash, attach_pdf, due_at, created_at)
SELECT g.mail_id, g.account_id, g.charge_id, g.kind, g.about_day, g.to_sealed, g.to_hash, g.attach_pdf, :now, :now
FROM unnest(:mails.mail_id::uuid[], :mails.charge.account_id::uuid[], :mails.charge.charge_id::uuid[],
            :mails.kind::text[], :mails.about_day::date[], :to_sealed::bytea[], :to_hashes::text[],
            :mails.attach_pdf::boolean[])
     AS g (mail_id, account_id, charge_id, kind, about_day, to_sealed, to_hash, attach_pdf)
ON CONFLICT DO NOTHING;

-- name: ask
-- Adds a mail that the merchant requests. No row: too many were requested for this charge since :since, or since
-- :since_day to this address or by this account. If the address has unsubscribed or the merchant is blocked, the mail
-- is stored as skipped, and the merchant is told so.
WITH asked AS MATERIALIZED (
    SELECT EXISTS (SELECT FROM mail_stop WHERE account_id = :account_id AND to_hash = :to_hash) AS stopped,
           EXISTS (SELECT FROM account WHERE account_id = :account_id AND kyc = 'blocked') AS blocked,
           (SELECT count(*) FROM (
                SELECT FROM mail WHERE charge_id = :charge_id AND kind = 'asked' AND created_at > :since
                ORDER BY created_at DESC LIMIT :limit) AS asked_of_charge) AS before,
           count(*) AS of_account, count(*) FILTER (WHERE few.to_hash = :to_hash) AS of_address
    -- Both are ordered as their own index is (mail_asked, mail_asked_of): while few mails are requested the other one
    -- would look as cheap, and it has those of all accounts or charges.
    FROM (SELECT to_hash FROM mail WHERE account_id = :account_id AND kind = 'asked' AND created_at > :since_day
          ORDER BY created_at DESC LIMIT :limit_account) AS few
)
INSERT INTO mail (mail_id, account_id, charge_id, kind, to_sealed, to_hash, note_sealed, attach_pdf, state, trouble,
                  due_at, created_at)
SELECT :mail_id, :account_id, :charge_id, 'asked', :to_sealed, :to_hash, :note_sealed, :attach_pdf,
       CASE WHEN stopped OR blocked THEN 'skipped' ELSE 'waiting' END,
       CASE WHEN blocked THEN 'blocked' WHEN stopped THEN 'stopped' END, :now, :now
FROM asked
WHERE before < :limit AND of_address < :limit_to AND of_account < :limit_account
RETURNING state;

-- name: approved
SELECT kyc = 'approved' AS approved FROM account WHERE account_id = :account_id;

-- name: add_notice
-- One mail for each person of the account; a notice is mailed once, however often a worker processes it.
INSERT INTO mail (mail_id, account_id, notice_id, kind, to_sealed, to_hash, due_at, created_at)
SELECT g.mail_id, g.account_id, g.notice_id, 'notice', g.to_sealed, g.to_hash, :now, :now
FROM unnest(:mail_ids::uuid[], :notices.account_id::uuid[], :notices.notice_id::uuid[], :to_sealed::bytea[],
            :to_hashes::text[])
     AS g (mail_id, account_id, notice_id, to_sealed, to_hash)
ON CONFLICT DO NOTHING;

-- name: add_personal
-- To people of the dashboard, of an account or of the platform.
INSERT INTO mail (mail_id, account_id, kind, to_sealed, to_hash, note_sealed, due_at, created_at)
SELECT g.mail_id, :account_id, :kind, g.to_sealed, g.to_hash, g.note_sealed, :now, :now
FROM unnest(:mail_ids::uuid[], :to_sealed::bytea[], :to_hashes::text[], :notes_sealed::bytea[])
     AS g (mail_id, to_sealed, to_hash, note_sealed);

-- name: drop
-- Deletes a mail whose address belongs to nobody, so that the address is not kept.
DELETE FROM mail WHERE mail_id = :mail_id;

-- name: people
SELECT account_id, email, role FROM dashboard_user WHERE account_id = ANY(:account_ids::uuid[]) ORDER BY account_id, email;

-- name: claim
-- Leases due mails and returns everything their text needs, as it is now.
WITH due AS (
    SELECT mail_id, charge_id, account_id, notice_id FROM mail
    WHERE state = 'waiting' AND due_at <= :now
    ORDER BY due_at, mail_id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
)
UPDATE mail m
SET state = 'sending', attempts = m.attempts + 1, lease_until = clock_timestamp() + :lease::interval
FROM due d
LEFT JOIN account a ON a.account_id = d.account_id
LEFT JOIN charge_view r ON r.charge_id = d.charge_id AND r.account_id = d.account_id
LEFT JOIN notice n ON n.notice_id = d.notice_id
WHERE m.mail_id = d.mail_id
RETURNING m.mail_id, m.account_id, m.charge_id, m.kind, m.about_day, m.to_sealed, m.to_hash, m.note_sealed, m.attach_pdf,
          m.attempts, coalesce(a.name, 'Quita') AS merchant, r.doc,
          n.kind AS notice_kind, n.event_type, n.at AS noticed_at, n.facts,
          m.charge_id IS NOT NULL AND EXISTS (
              SELECT FROM mail_stop s WHERE s.account_id = m.account_id AND s.to_hash = m.to_hash) AS stopped,
          m.charge_id IS NOT NULL AND m.kind <> 'receipt' AND coalesce(a.kyc = 'blocked', false) AS blocked;

-- name: settle
-- Stores the outcome, if this lease still holds the mail. A mail is leased while it is being sent; the state is not
-- asked for, because an index holds the mails of that state, with the dead rows of all that were sent since a vacuum.
UPDATE mail
SET state = :state, due_at = :due_at, lease_until = NULL, subject = coalesce(:subject, subject), trouble = :trouble,
    sent_at = :sent_at
WHERE mail_id = :mail_id AND attempts = :attempts AND lease_until IS NOT NULL;

-- name: put_back
-- Puts back a mail that was not attempted, if this lease still holds it; it goes first in the next round.
UPDATE mail SET state = 'waiting', attempts = attempts - 1, lease_until = NULL
WHERE mail_id = :mail_id AND attempts = :attempts AND lease_until IS NOT NULL;

-- name: release
-- Frees the leases of dead workers. Whether the mail was sent is unknown, so it is sent again with the same Message-ID.
UPDATE mail SET state = 'waiting', due_at = :now, lease_until = NULL
WHERE mail_id = ANY(ARRAY(
    SELECT mail_id FROM mail WHERE state = 'sending' AND lease_until <= statement_timestamp()
    ORDER BY lease_until LIMIT :limit FOR UPDATE SKIP LOCKED
));

-- name: forget
-- Deletes mails that ended before :before, a bounded number at a time; never a waiting one or one being sent. due_at of
-- an ended mail is when it ended (index mail_over). This causes no repeated mail: what is still to be written is in
-- mail_request.
WITH ended AS (
    SELECT mail_id FROM mail
    WHERE state IN ('sent', 'failed', 'skipped') AND due_at < :before
    ORDER BY due_at, mail_id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
)
DELETE FROM mail m USING ended WHERE m.mail_id = ended.mail_id;

-- name: stop
INSERT INTO mail_stop (account_id, to_hash, stopped_at) VALUES (:account_id, :to_hash, :now) ON CONFLICT DO NOTHING;

-- name: merchant
-- The name of the merchant whose mails an unsubscribe link stops.
SELECT name FROM account WHERE account_id = :account_id;

-- name: catch
INSERT INTO caught_mail (mail_id, caught_at, message_sealed) VALUES (:mail_id, :now, :message_sealed)
ON CONFLICT (mail_id) DO UPDATE SET caught_at = excluded.caught_at, message_sealed = excluded.message_sealed;

-- name: forget_caught
-- Keeps the newest :kept.
DELETE FROM caught_mail WHERE mail_id IN (SELECT mail_id FROM caught_mail ORDER BY caught_at DESC, mail_id DESC OFFSET :kept);

-- name: caught
SELECT mail_id, caught_at, message_sealed FROM caught_mail ORDER BY caught_at DESC, mail_id DESC LIMIT :limit;

-- name: caught_one
SELECT mail_id, caught_at, message_sealed FROM caught_mail WHERE mail_id = :mail_id;
