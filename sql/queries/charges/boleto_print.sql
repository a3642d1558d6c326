-- name: of_owner
-- All that is printed of a boleto, in one row by the charge's key: what was agreed (the document), who is to pay (sealed,
-- and nowhere else) and its beneficiary, as registered now. A charge that is no boleto, of another account or of the other
-- mode is no row: the caller cannot tell the three apart. nosso_numero is what every boleto has and nothing else.
SELECT read_charge.doc, charge.bank, charge.payer_sealed, account.name, account.document, account.address,
       coalesce(sandbox_clock.ahead_s, 0) AS ahead_s
FROM read_charge
JOIN charge ON charge.charge_id = read_charge.charge_id AND charge.account_id = read_charge.account_id
JOIN account ON account.account_id = read_charge.account_id
LEFT JOIN sandbox_clock ON read_charge.test AND sandbox_clock.account_id = read_charge.account_id
WHERE read_charge.charge_id = :charge_id AND read_charge.account_id = :account_id AND read_charge.test = :test
  AND read_charge.nosso_numero IS NOT NULL;

-- name: by_public_id
-- The same row for the payer, who knows the link and nothing more (unique index on public_id).
SELECT read_charge.doc, charge.bank, charge.payer_sealed, account.name, account.document, account.address,
       coalesce(sandbox_clock.ahead_s, 0) AS ahead_s
FROM read_charge
JOIN charge ON charge.charge_id = read_charge.charge_id AND charge.account_id = read_charge.account_id
JOIN account ON account.account_id = read_charge.account_id
LEFT JOIN sandbox_clock ON read_charge.test AND sandbox_clock.account_id = read_charge.account_id
WHERE read_charge.public_id = :public_id
  AND read_charge.nosso_numero IS NOT NULL;
