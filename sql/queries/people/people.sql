-- The people of an account, the platform's staff, and second factors.

-- name: lock
-- Locks all people of an account, in one order: adding, changing or removing a person depends on all of them.
SELECT email, role FROM dashboard_user WHERE account_id = :account_id ORDER BY email FOR UPDATE;

-- name: add
-- No row: the e-mail is in use, in this account or another.
INSERT INTO dashboard_user (email, account_id, role, name, password_hash, created_at)
VALUES (:email, :account_id, :role, :name, :password_hash, :now)
ON CONFLICT (email) DO NOTHING
RETURNING email;

-- name: lock_staff
-- As lock, for staff, who have no account. They are few, so there is no index.
SELECT email, role, password_hash IS NULL AS fresh FROM dashboard_user WHERE account_id IS NULL ORDER BY email FOR UPDATE;

-- name: add_staff
INSERT INTO dashboard_user (email, role, name, password_hash, created_at, role_given_at)
VALUES (:email, :role, :name, :password_hash, :now, :given_at)
ON CONFLICT (email) DO NOTHING
RETURNING email;

-- name: set_staff_role
UPDATE dashboard_user SET role = :role, role_given_at = :given_at WHERE email = :email AND account_id IS NULL;

-- name: set_role
UPDATE dashboard_user SET role = :role WHERE email = :email;

-- name: renew_password
-- Stores the same password hashed with the present parameters, unless the password was changed meanwhile.
UPDATE dashboard_user SET password_hash = :password_hash WHERE email = :email AND password_hash = :was;

-- name: set_password
UPDATE dashboard_user SET password_hash = :password_hash WHERE email = :email;

-- name: set_name
UPDATE dashboard_user SET name = :name WHERE email = :email;

-- name: remove
-- Sessions and recovery codes are deleted with the person; the audit log keeps what they did.
DELETE FROM dashboard_user WHERE email = :email;

-- name: lock_person
-- Locks the person's row, so that a code submitted twice at once is accepted once.
SELECT totp_sealed, totp_step FROM dashboard_user WHERE email = :email FOR UPDATE;

-- name: set_second_factor
UPDATE dashboard_user SET totp_sealed = :sealed, totp_since = :now, totp_step = :step WHERE email = :email;

-- name: clear_second_factor
WITH codes AS (
    DELETE FROM recovery_code WHERE email = :email
)
UPDATE dashboard_user SET totp_sealed = NULL, totp_since = NULL WHERE email = :email;

-- name: take_step
UPDATE dashboard_user SET totp_step = :step WHERE email = :email;

-- name: forget_recovery_codes
DELETE FROM recovery_code WHERE email = :email;

-- name: add_recovery_codes
INSERT INTO recovery_code (email, code_hash) SELECT :email, unnest(:code_hashes::text[]);

-- name: take_recovery_code
-- No row: the code is not this person's, or was used.
DELETE FROM recovery_code WHERE email = :email AND code_hash = :code_hash RETURNING code_hash;

-- name: of_account
SELECT u.email, u.role, u.name, u.password_hash IS NULL AS fresh, u.created_at, u.totp_since,
       (SELECT max(s.seen_at) FROM dashboard_session s WHERE s.email = u.email) AS seen_at
FROM dashboard_user u WHERE u.account_id = :account_id ORDER BY u.email LIMIT :limit;

-- name: staff
-- Without an index, as lock_staff.
SELECT u.email, u.role, u.name, u.password_hash IS NULL AS fresh, u.created_at, u.totp_since,
       (SELECT max(s.seen_at) FROM dashboard_session s WHERE s.email = u.email) AS seen_at
FROM dashboard_user u WHERE u.account_id IS NULL ORDER BY u.email LIMIT :limit;

-- name: own
-- The person's second factor, and how many recovery codes are left.
SELECT u.totp_since, (SELECT count(*) FROM recovery_code c WHERE c.email = u.email) AS recovery_codes
FROM dashboard_user u WHERE u.email = :email;
