-- name: of_owner
-- Everything printed on a boleto, in one row by the charge's key: the charge's document, the payer (sealed, stored
-- nowhere else) and the beneficiary as registered now. No row for a charge that is no boleto, of another account or of
-- the other mode: the caller cannot tell the three apart. Every boleto has a nosso_numero, and no other charge has one.
SELECT charge_view.doc, charge.bank, charge.payer_sealed, account.name, account.document, account.address,
       coalesce(sandbox_clock.ahead_s, 0) AS ahead_s,
       merchant_logo.image AS logo, coalesce(merchant_logo.width, 0) AS logo_width,
       coalesce(merchant_logo.height, 0) AS logo_height
FROM charge_view
JOIN charge ON charge.charge_id = charge_view.charge_id AND charge.account_id = charge_view.account_id
JOIN account ON account.account_id = charge_view.account_id
LEFT JOIN merchant_logo ON merchant_logo.account_id = charge_view.account_id AND account.kyc <> 'blocked'
LEFT JOIN sandbox_clock ON charge_view.test AND sandbox_clock.account_id = charge_view.account_id
WHERE charge_view.charge_id = :charge_id AND charge_view.account_id = :account_id AND charge_view.test = :test
  AND charge_view.nosso_numero IS NOT NULL;

-- name: by_public_id
-- The same row for the payer, who has only the link (unique index on public_id). No row if the merchant is blocked: the
-- boleto must not be paid now.
SELECT charge_view.doc, charge.bank, charge.payer_sealed, account.name, account.document, account.address,
       coalesce(sandbox_clock.ahead_s, 0) AS ahead_s,
       merchant_logo.image AS logo, coalesce(merchant_logo.width, 0) AS logo_width,
       coalesce(merchant_logo.height, 0) AS logo_height
FROM charge_view
JOIN charge ON charge.charge_id = charge_view.charge_id AND charge.account_id = charge_view.account_id
JOIN account ON account.account_id = charge_view.account_id
LEFT JOIN merchant_logo ON merchant_logo.account_id = charge_view.account_id AND account.kyc <> 'blocked'
LEFT JOIN sandbox_clock ON charge_view.test AND sandbox_clock.account_id = charge_view.account_id
WHERE charge_view.public_id = :public_id AND (charge_view.test OR account.kyc <> 'blocked')
  AND charge_view.nosso_numero IS NOT NULL;
