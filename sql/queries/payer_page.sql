-- name: by_public_id
-- Everything the page of a payer shows, in one row. The public_id alone leads here (its unique index): a payer has no
-- account. What decides is taken from columns, what is only told from the document; the payer's own data is not asked
-- for, since whoever has the link reads the page.
SELECT account.name, account.document, read_charge.test, read_charge.status, read_charge.payment_method,
       read_charge.amount_cents, read_charge.due_date, read_charge.version, read_charge.doc
FROM read_charge
JOIN account ON account.account_id = read_charge.account_id
WHERE read_charge.public_id = :public_id;
