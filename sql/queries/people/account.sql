-- Merchants and their people.

-- name: insert
INSERT INTO account (account_id, name, document, city, address, kyc, pix_key, created_at)
VALUES (:account_id, :name, :document, :city, :address, :kyc, :pix_key, :created_at);

-- name: insert_integrator
-- No row if the random code is taken; the caller then draws another.
INSERT INTO integrator (integrador_code, name, account_id, active, created_at)
VALUES (:integrador_code, :name, :account_id, true, :created_at)
ON CONFLICT (integrador_code) DO NOTHING
RETURNING integrador_code;

-- name: lock_kyc
SELECT kyc FROM account WHERE account_id = :account_id FOR NO KEY UPDATE;

-- name: set_kyc
UPDATE account SET kyc = :kyc, kyc_reason = :reason, kyc_at = :now WHERE account_id = :account_id;

-- name: set_address
UPDATE account SET address = :address, city = :city WHERE account_id = :account_id RETURNING account_id;

-- name: set_contact
UPDATE account SET contact_phone = :contact_phone, contact_whatsapp = :contact_whatsapp, contact_email = :contact_email
WHERE account_id = :account_id;

-- name: set_logo
INSERT INTO merchant_logo (account_id, digest, width, height, image, preview, set_at)
VALUES (:account_id, :digest, :width, :height, :image, :preview, :now)
ON CONFLICT (account_id) DO UPDATE SET digest = excluded.digest, width = excluded.width, height = excluded.height,
    image = excluded.image, preview = excluded.preview, set_at = excluded.set_at;

-- name: remove_logo
DELETE FROM merchant_logo WHERE account_id = :account_id RETURNING account_id;

-- name: logo
SELECT width, height, image FROM merchant_logo WHERE account_id = :account_id;

-- name: logo_shown
-- The logo for payers; none if the merchant is blocked.
SELECT l.width, l.height, l.image
FROM merchant_logo l JOIN account a ON a.account_id = l.account_id
WHERE l.account_id = :account_id AND a.kyc <> 'blocked';

-- name: logo_file
-- Index merchant_logo_digest. A blocked merchant's logo is not served, even to someone who kept its address.
SELECT CASE WHEN :preview::boolean THEN l.preview ELSE l.image END AS content
FROM merchant_logo l JOIN account a ON a.account_id = l.account_id
WHERE l.digest = :digest AND a.kyc <> 'blocked' LIMIT 1;

-- name: company
-- The account's registration, and the number of its owners who have chosen a password.
SELECT a.account_id, a.name, a.document, a.address, a.kyc, a.kyc_reason, a.kyc_at,
       coalesce(p.pix_key, a.pix_key) AS pix_key, a.rate_per_s, a.rate_burst,
       a.contact_phone, a.contact_whatsapp, a.contact_email, a.created_at,
       (SELECT count(*) FROM dashboard_user u
        WHERE u.account_id = a.account_id AND u.role = 'owner' AND u.password_hash IS NOT NULL) AS owners
FROM account a LEFT JOIN LATERAL payout_in_force(a.account_id, :now) p ON true
WHERE a.account_id = :account_id;

-- name: correct
-- No row: the account was approved (and may be blocked since), or does not exist.
UPDATE account SET name = :name, document = :document, address = :address, city = :city
WHERE account_id = :account_id AND kyc IN ('pending', 'rejected')
RETURNING account_id;

-- name: lock_pix_key
SELECT coalesce(a.receiving_key, (SELECT pix_key FROM receiving_key), a.account_id::text) AS pix_key
FROM account a WHERE a.account_id = :account_id FOR NO KEY UPDATE;

-- name: set_pix_key
UPDATE account SET receiving_key = :pix_key WHERE account_id = :account_id;

-- name: set_receiving_key
-- Sets the platform's own key.
INSERT INTO receiving_key (pix_key, set_at) VALUES (:pix_key, :now)
ON CONFLICT (single) DO UPDATE SET pix_key = excluded.pix_key, set_at = excluded.set_at;

-- name: set_refunds_to_others
-- NULL: refunds by transfer may go to the charge's payer only.
UPDATE account SET refunds_to_others = :reason WHERE account_id = :account_id RETURNING account_id;

-- name: set_rate
-- NULL, NULL: the platform's default.
UPDATE account SET rate_per_s = :rate_per_s, rate_burst = :rate_burst WHERE account_id = :account_id RETURNING account_id;

-- name: fees
-- No row: the account has no fees of its own, or does not exist.
SELECT fees FROM account WHERE account_id = :account_id AND fees IS NOT NULL;

-- name: set_fees
-- NULL: the platform's default.
UPDATE account SET fees = :fees WHERE account_id = :account_id RETURNING account_id;

-- name: suspend_pix
INSERT INTO pix_suspension (suspended_at) VALUES (:now) ON CONFLICT DO NOTHING;

-- name: resume_pix
DELETE FROM pix_suspension;

-- name: pix_suspended
SELECT EXISTS (SELECT FROM pix_suspension) AS suspended;

-- name: registered
-- The account's data for a charge issued from the dashboard; the API gets the same with the token. The sandbox clock is
-- read for test charges only.
SELECT a.name, a.city,
       coalesce(a.receiving_key, (SELECT pix_key FROM receiving_key), a.account_id::text) AS pix_key,
       coalesce(k.ahead_s, 0) AS ahead_s
FROM account a LEFT JOIN sandbox_clock k ON :test::boolean AND k.account_id = a.account_id
WHERE a.account_id = :account_id;
