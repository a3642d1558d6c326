-- Finds a charge of an account by whatever identifier a person has at hand.

-- name: by_id
-- By the id of the charge, or of one of its payments or refunds, as found in events and files.
SELECT charge_id FROM charge WHERE charge_id = :id AND account_id = :account_id AND test = :test
UNION ALL
SELECT charge_id FROM payment WHERE payment_id = :id AND account_id = :account_id AND test = :test
UNION ALL
SELECT charge_id FROM refund WHERE refund_id = :id AND account_id = :account_id AND test = :test;

-- name: by_payment
-- By the endToEndId of the PIX that paid it (unique index of payment on source).
SELECT charge_id FROM payment WHERE account_id = :account_id AND test = :test AND source = :end_to_end_id;

-- name: by_refund
-- By the id with which money was returned: of a devolucao, or of a transfer. No index has this id, so the newest
-- :looked refunds are searched (index read_refund_page).
SELECT charge_id FROM (
    SELECT charge_id, doc FROM read_refund WHERE account_id = :account_id AND test = :test
    ORDER BY created_at DESC, refund_id DESC LIMIT :looked
) AS n
WHERE :end_to_end_id IN (doc ->> 'return_id', doc ->> 'end_to_end_id')
LIMIT 1;

-- name: by_link
SELECT charge_id FROM read_charge WHERE public_id = :public_id AND account_id = :account_id AND test = :test;

-- name: newest_of_amount
-- Index read_charge_page: among the newest :looked charges, those of this amount and those settled by a payment of this
-- amount (a boleto paid with its fine), newest first. One probe of payment_settling for each charge searched.
SELECT n.charge_id
FROM (
    SELECT charge_id, created_at, amount_cents FROM read_charge
    WHERE account_id = :account_id AND test = :test
    ORDER BY created_at DESC, charge_id DESC
    LIMIT :looked
) AS n
LEFT JOIN LATERAL (
    SELECT amount_cents FROM payment WHERE charge_id = n.charge_id AND account_id = :account_id AND settles OFFSET 0
) AS p ON true
WHERE n.amount_cents = :amount_cents OR p.amount_cents = :amount_cents
ORDER BY n.created_at DESC, n.charge_id DESC
LIMIT :limit;

-- name: newest_with_payer
-- Index read_charge_page: among the newest :looked charges, those whose payer is known, newest first. One probe of
-- charge's key for each charge searched.
SELECT n.charge_id, c.payer_sealed
FROM (
    SELECT charge_id, created_at FROM read_charge
    WHERE account_id = :account_id AND test = :test
    ORDER BY created_at DESC, charge_id DESC
    LIMIT :looked
) AS n
CROSS JOIN LATERAL (
    SELECT payer_sealed FROM charge
    WHERE charge_id = n.charge_id AND account_id = :account_id AND payer_sealed IS NOT NULL OFFSET 0
) AS c
ORDER BY n.created_at DESC, n.charge_id DESC;
