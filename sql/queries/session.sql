-- Who is signed in to the dashboard, and who may try.

-- name: take_attempt
-- Counted before the password is looked at, in one statement: fifty guesses at once are fifty. A window that is over
-- begins anew with this one.
INSERT INTO sign_in_attempt AS a (subject, attempts, until) VALUES (:subject, 1, :until)
ON CONFLICT (subject) DO UPDATE
    SET attempts = CASE WHEN a.until <= :now THEN 1 ELSE a.attempts + 1 END,
        until = CASE WHEN a.until <= :now THEN excluded.until ELSE a.until END
RETURNING attempts, until;

-- name: forgive
-- The password was right: it was no guess. The e-mail's count is gone, the address has this one back.
WITH email AS (
    DELETE FROM sign_in_attempt WHERE subject = :email_subject
)
UPDATE sign_in_attempt SET attempts = attempts - 1 WHERE subject = :address_subject AND attempts > 0;

-- name: forget_attempts
-- Whoever tries sweeps up more than he leaves behind, so the table stays as small as one window's attempts.
DELETE FROM sign_in_attempt WHERE subject IN (
    SELECT subject FROM sign_in_attempt WHERE until <= :now ORDER BY until LIMIT 50 FOR UPDATE SKIP LOCKED);

-- name: person
SELECT email, account_id, password_hash FROM dashboard_user WHERE email = :email;

-- name: open
-- With it go the sessions that make one too many of this person, and some of anybody's that are over.
WITH surplus AS (
    SELECT session_hash FROM dashboard_session WHERE email = :email ORDER BY created_at DESC OFFSET :most::integer - 1
), over AS (
    SELECT session_hash FROM dashboard_session WHERE created_at <= :born_before ORDER BY created_at LIMIT 50
), ended AS (
    DELETE FROM dashboard_session
    WHERE session_hash IN (SELECT session_hash FROM surplus UNION SELECT session_hash FROM over)
)
INSERT INTO dashboard_session (session_hash, email, created_at, seen_at) VALUES (:session_hash, :email, :now, :now);

-- name: find
-- The person as he is this moment: a role that was taken away is gone with the next page.
SELECT s.seen_at, u.email, u.role, u.account_id, a.name, a.kyc
FROM dashboard_session s
JOIN dashboard_user u USING (email)
JOIN account a USING (account_id)
WHERE s.session_hash = :session_hash AND s.seen_at > :seen_after AND s.created_at > :born_after;

-- name: touch
UPDATE dashboard_session SET seen_at = :now WHERE session_hash = :session_hash;

-- name: count
-- Of this person's sessions, those that still work.
SELECT count(*) AS sessions FROM dashboard_session
WHERE email = :email AND seen_at > :seen_after AND created_at > :born_after;

-- name: end
DELETE FROM dashboard_session WHERE session_hash = :session_hash;

-- name: end_all
DELETE FROM dashboard_session WHERE email = :email;
