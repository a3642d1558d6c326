-- One-time links by which people choose a password, and invitations to an account.

-- name: person
-- Whoever has this e-mail, with the account's name; 'Quita' of staff.
SELECT u.email, u.name, u.role, u.account_id, u.password_hash IS NULL AS fresh, u.totp_sealed IS NOT NULL AS second_factor,
       coalesce(a.name, 'Quita') AS account
FROM dashboard_user u LEFT JOIN account a ON a.account_id = u.account_id
WHERE u.email = :email;

-- name: invitation
SELECT i.account_id, i.email, i.name, i.role, i.invited_by, i.invited_at, a.name AS account
FROM invitation i JOIN account a ON a.account_id = i.account_id
WHERE i.account_id = :account_id AND i.email = :email AND i.invited_at > :since;

-- name: latest_invitation
-- invitation_of_email.
SELECT i.account_id, i.email, i.name, i.role, i.invited_by, i.invited_at, a.name AS account
FROM invitation i JOIN account a ON a.account_id = i.account_id
WHERE i.email = :email AND i.invited_at > :since
ORDER BY i.invited_at DESC LIMIT 1;

-- name: invitations
SELECT i.account_id, i.email, i.name, i.role, i.invited_by, i.invited_at, a.name AS account
FROM invitation i JOIN account a ON a.account_id = i.account_id
WHERE i.account_id = :account_id AND i.invited_at > :since
ORDER BY i.email LIMIT :limit;

-- name: invite
-- Invited again: with what is said now.
INSERT INTO invitation (account_id, email, name, role, invited_by, invited_at)
VALUES (:account_id, :email, :name, :role, :by, :now)
ON CONFLICT (account_id, email) DO UPDATE
    SET name = excluded.name, role = excluded.role, invited_by = excluded.invited_by, invited_at = excluded.invited_at;

-- name: withdraw
DELETE FROM invitation WHERE account_id = :account_id AND email = :email RETURNING email;

-- name: withdraw_of
-- Of whoever leaves, or is no owner any more: who invites himself under another e-mail would be back.
DELETE FROM invitation WHERE account_id = :account_id AND invited_by = :email;

-- name: forget_invitations
-- Those of this account that ran out.
DELETE FROM invitation WHERE account_id = :account_id AND invited_at <= :before;

-- name: store
-- The mail is sent again after its outcome was not known: its link lasts from then on. It is the same one, unless
-- SECRET_KEY was changed meanwhile. No row: it was used.
INSERT INTO access_link AS l (link_id, token_hash, email, account_id, expires_at)
VALUES (:link_id, :token_hash, :email, :account_id, :expires_at)
ON CONFLICT (link_id) DO UPDATE SET expires_at = excluded.expires_at, token_hash = excluded.token_hash
    WHERE l.used_at IS NULL
RETURNING link_id;

-- name: forget
-- A few of those that ran out long ago: each link made deletes more than one.
DELETE FROM access_link WHERE link_id = ANY(ARRAY(
    SELECT link_id FROM access_link WHERE expires_at < :before ORDER BY expires_at LIMIT 20 FOR UPDATE SKIP LOCKED));

-- name: find
SELECT email, account_id FROM access_link WHERE token_hash = :token_hash AND used_at IS NULL AND expires_at > :now;

-- name: use
-- Once, also when it is sent twice at the same moment.
UPDATE access_link SET used_at = :now
WHERE token_hash = :token_hash AND used_at IS NULL AND expires_at > :now
RETURNING email, account_id;

-- name: end_links
-- All of this e-mail's: a password was chosen.
UPDATE access_link SET used_at = :now WHERE email = :email AND used_at IS NULL;

-- name: owners
SELECT email FROM dashboard_user WHERE account_id = :account_id AND role = 'owner' ORDER BY email LIMIT :limit;

-- name: admins
-- Of the platform. As people.lock_staff: no index.
SELECT email FROM dashboard_user WHERE account_id IS NULL AND role = 'admin' ORDER BY email LIMIT :limit;
