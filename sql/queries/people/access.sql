-- One-time links for choosing a password, and invitations to an account.

-- name: person
-- The person with this e-mail, and the account's name ('Quita' for staff).
SELECT u.email, u.name, u.role, u.account_id, u.password_hash IS NULL AS fresh, coalesce(a.name, 'Quita') AS account
FROM dashboard_user u LEFT JOIN account a ON a.account_id = u.account_id
WHERE u.email = :email;

-- name: invitation
SELECT i.account_id, i.email, i.name, i.role, i.invited_by, i.invited_at, a.name AS account
FROM invitation i JOIN account a ON a.account_id = i.account_id
WHERE i.account_id = :account_id AND i.email = :email AND i.invited_at > :since;

-- name: latest_invitation
-- Index invitation_of_email.
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
-- A repeated invitation replaces the earlier one.
INSERT INTO invitation (account_id, email, name, role, invited_by, invited_at)
VALUES (:account_id, :email, :name, :role, :by, :now)
ON CONFLICT (account_id, email) DO UPDATE
    SET name = excluded.name, role = excluded.role, invited_by = excluded.invited_by, invited_at = excluded.invited_at;

-- name: withdraw
DELETE FROM invitation WHERE account_id = :account_id AND email = :email RETURNING email;

-- name: withdraw_of
-- Withdraws the invitations made by a person who leaves or is no longer an owner: they might have invited themselves
-- under another e-mail.
DELETE FROM invitation WHERE account_id = :account_id AND invited_by = :email;

-- name: forget_invitations
-- Deletes this account's invitations that have expired.
DELETE FROM invitation WHERE account_id = :account_id AND invited_at <= :before;

-- name: store
-- When the mail is sent again because its outcome was unknown, the link's lifetime starts again. The token stays the
-- same, unless SECRET_KEY has changed. No row: the link was used.
INSERT INTO access_link AS l (link_id, token_hash, email, account_id, expires_at)
VALUES (:link_id, :token_hash, :email, :account_id, :expires_at)
ON CONFLICT (link_id) DO UPDATE SET expires_at = excluded.expires_at, token_hash = excluded.token_hash
    WHERE l.used_at IS NULL
RETURNING link_id;

-- name: forget
-- Deletes up to 20 links that expired long ago. This runs for each new link, so the table does not grow.
DELETE FROM access_link WHERE link_id = ANY(ARRAY(
    SELECT link_id FROM access_link WHERE expires_at < :before ORDER BY expires_at LIMIT 20 FOR UPDATE SKIP LOCKED));

-- name: find
SELECT email, account_id FROM access_link WHERE token_hash = :token_hash AND used_at IS NULL AND expires_at > :now;

-- name: use
-- Succeeds once, even if the form is submitted twice at the same moment.
UPDATE access_link SET used_at = :now
WHERE token_hash = :token_hash AND used_at IS NULL AND expires_at > :now
RETURNING email, account_id;

-- name: end_links
-- Ends all links of this e-mail, after a password was chosen.
UPDATE access_link SET used_at = :now WHERE email = :email AND used_at IS NULL;

-- name: owners
SELECT email FROM dashboard_user WHERE account_id = :account_id AND role = 'owner' ORDER BY email LIMIT :limit;

-- name: admins
-- The platform's admins. No index, as in people.lock_staff.
SELECT email FROM dashboard_user WHERE account_id IS NULL AND role = 'admin' ORDER BY email LIMIT :limit;
