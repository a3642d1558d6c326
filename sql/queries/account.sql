-- Merchants and the people behind them.

-- name: insert
INSERT INTO account (account_id, name, document, city, address, kyc, pix_key, created_at)
VALUES (:account_id, :name, :document, :city, :address, :kyc, :pix_key, :created_at);

-- name: insert_credential
INSERT INTO credential (client_id, account_id, test, secret_hash, scopes, created_at)
VALUES (:client_id, :account_id, :test, :secret_hash, :scopes, :created_at);

-- name: insert_integrator
-- No row when the code is taken: it was chosen by chance, and another is chosen.
INSERT INTO integrator (integrador_code, name, account_id, active, created_at)
VALUES (:integrador_code, :name, :account_id, true, :created_at)
ON CONFLICT (integrador_code) DO NOTHING
RETURNING integrador_code;

-- name: insert_user
INSERT INTO dashboard_user (email, account_id, role, password_hash, created_at)
VALUES (:email, :account_id, 'owner', :password_hash, :created_at);

-- name: approve
UPDATE account SET kyc = 'approved' WHERE account_id = :account_id RETURNING account_id;

-- name: set_address
UPDATE account SET address = :address, city = :city WHERE account_id = :account_id RETURNING account_id;

-- name: suspend_pix
INSERT INTO pix_suspension (suspended_at) VALUES (:now) ON CONFLICT DO NOTHING;

-- name: resume_pix
DELETE FROM pix_suspension;

-- name: pix_suspended
SELECT EXISTS (SELECT FROM pix_suspension) AS suspended;
