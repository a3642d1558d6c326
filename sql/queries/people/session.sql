-- Sessions of the dashboard, and the throttle of sign-in attempts.

-- name: take_attempt
-- Counts an attempt before the password is checked, in one statement: fifty concurrent attempts count as fifty. After
-- the end of the window the count starts again.
INSERT INTO sign_in_attempt AS a (subject, attempts, until) VALUES (:subject, 1, :until)
ON CONFLICT (subject) DO UPDATE
    SET attempts = CASE WHEN a.until <= :now THEN 1 ELSE a.attempts + 1 END,
        until = CASE WHEN a.until <= :now THEN excluded.until ELSE a.until END
RETURNING attempts, until;

-- name: take_attempts
-- The same for several subjects, given in one order to avoid deadlocks.
INSERT INTO sign_in_attempt AS a (subject, attempts, until) SELECT unnest(:subjects::text[]), 1, :until
ON CONFLICT (subject) DO UPDATE
    SET attempts = CASE WHEN a.until <= :now THEN 1 ELSE a.attempts + 1 END,
        until = CASE WHEN a.until <= :now THEN excluded.until ELSE a.until END
RETURNING subject, attempts;

-- name: take_turn
-- Counts an e-mail's attempts from all addresses: the first :free are allowed at once, then each doubles the wait
-- before the next, up to :gap_max_s. The window slides: it ends after that long without an attempt. No row: the attempt
-- came too early. It changes nothing then, so that nobody can prolong the wait by repeated attempts.
INSERT INTO sign_in_attempt AS a (subject, attempts, until, next_at) VALUES (:subject, 1, :until, :now)
ON CONFLICT (subject) DO UPDATE
    SET attempts = CASE WHEN a.until <= :now THEN 1 ELSE a.attempts + 1 END,
        until = excluded.until,
        next_at = excluded.next_at + CASE
            WHEN a.until <= :now OR a.attempts + 1 < :free::integer THEN interval '0'
            ELSE make_interval(secs => least(power(2, least(a.attempts + 1 - :free::integer, 20)), :gap_max_s::float8))
        END
    WHERE a.until <= :now OR a.next_at <= :now
RETURNING attempts;

-- name: next_turn
SELECT next_at FROM sign_in_attempt WHERE subject = :subject;

-- name: give_back
UPDATE sign_in_attempt SET attempts = attempts - 1 WHERE subject = ANY(:subjects::text[]) AND attempts > 0;

-- name: reset_attempts
-- After a correct password: deletes the e-mail's counts and takes one off the address's.
WITH email AS (
    DELETE FROM sign_in_attempt WHERE subject = ANY(:email_subjects::text[])
)
UPDATE sign_in_attempt SET attempts = attempts - 1 WHERE subject = :address_subject AND attempts > 0;

-- name: forget_attempts
-- Each attempt deletes more rows than it adds, so the table stays as small as one window's attempts.
DELETE FROM sign_in_attempt WHERE subject = ANY(ARRAY(
    SELECT subject FROM sign_in_attempt WHERE until <= :now ORDER BY until LIMIT 50 FOR UPDATE SKIP LOCKED));

-- name: take_place
-- Remembers the network from which a person signs in. `fresh`: it is new; a person's first network is not.
WITH known AS (
    SELECT count(*) AS places, coalesce(bool_or(place_hash = :place_hash), false) AS here
    FROM sign_in_place WHERE email = :email AND seen_at > :since
), surplus AS (
    SELECT place_hash FROM sign_in_place WHERE email = :email AND place_hash <> :place_hash
    ORDER BY seen_at DESC OFFSET :limit::integer - 1
), forgotten AS (
    DELETE FROM sign_in_place
    WHERE email = :email AND place_hash <> :place_hash AND (seen_at <= :since OR place_hash IN (SELECT place_hash FROM surplus))
), kept AS (
    INSERT INTO sign_in_place (email, place_hash, seen_at) VALUES (:email, :place_hash, :now)
    ON CONFLICT (email, place_hash) DO UPDATE SET seen_at = excluded.seen_at
)
SELECT places > 0 AND NOT here AS fresh FROM known;

-- name: person
-- A merchant's person or a member of staff. Staff have no account; their audit entries have the nil UUID.
SELECT email, coalesce(account_id, '00000000-0000-0000-0000-000000000000') AS account_id, password_hash, totp_sealed
FROM dashboard_user WHERE email = :email AND (account_id IS NULL) = :staff;

-- name: open
-- Also deletes this person's oldest sessions beyond the limit, and a few sessions of any person that have ended.
WITH surplus AS (
    SELECT session_hash FROM dashboard_session WHERE email = :email ORDER BY created_at DESC OFFSET :limit::integer - 1
), over AS (
    SELECT session_hash FROM dashboard_session WHERE created_at <= :born_before ORDER BY created_at LIMIT 50
), ended AS (
    DELETE FROM dashboard_session
    WHERE session_hash IN (SELECT session_hash FROM surplus UNION SELECT session_hash FROM over)
)
INSERT INTO dashboard_session (session_hash, email, created_at, seen_at, proved_at)
VALUES (:session_hash, :email, :now, :now, :now);

-- name: find
-- The role is read with every page, so a revoked role is gone with the next page. Staff have no account to join. The
-- sandbox clock is for the pages of the test section.
SELECT s.seen_at, s.proved_at, u.email, u.role, u.role_given_at, coalesce(u.account_id, '00000000-0000-0000-0000-000000000000') AS account_id,
       coalesce(a.name, 'Plataforma') AS name, coalesce(a.kyc, 'approved') AS kyc,
       u.totp_sealed IS NOT NULL AS second_factor, coalesce(k.ahead_s, 0) AS ahead_s
FROM dashboard_session s
JOIN dashboard_user u USING (email)
LEFT JOIN account a ON a.account_id = u.account_id
LEFT JOIN sandbox_clock k ON k.account_id = u.account_id
WHERE s.session_hash = :session_hash AND s.seen_at > :seen_after AND s.created_at > :born_after
  AND (u.account_id IS NULL) = :staff;

-- name: person_of
-- The person of a session, however long ago it was used: ended sessions are kept for a while. Not for staff.
SELECT u.email FROM dashboard_session s JOIN dashboard_user u USING (email)
WHERE s.session_hash = :session_hash AND u.account_id IS NOT NULL;

-- name: touch
UPDATE dashboard_session SET seen_at = :now WHERE session_hash = :session_hash;

-- name: prove
UPDATE dashboard_session SET proved_at = :now WHERE session_hash = :session_hash;

-- name: count
-- Counts this person's valid sessions.
SELECT count(*) AS sessions FROM dashboard_session
WHERE email = :email AND seen_at > :seen_after AND created_at > :born_after;

-- name: end
DELETE FROM dashboard_session WHERE session_hash = :session_hash;

-- name: end_all
DELETE FROM dashboard_session WHERE email = :email;

-- name: end_others
-- Ends all sessions of a person except the current one.
DELETE FROM dashboard_session WHERE email = :email AND session_hash <> :kept;
