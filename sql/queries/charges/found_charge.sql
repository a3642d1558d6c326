-- One charge of an account by what people have of it in hand.

-- name: by_id
SELECT charge_id FROM charge WHERE charge_id = :charge_id AND account_id = :account_id AND test = :test;

-- name: by_payment
-- By the endToEndId of the PIX that paid it: payment's key for what was received.
SELECT charge_id FROM payment WHERE account_id = :account_id AND test = :test AND source = :end_to_end_id;

-- name: by_link
SELECT charge_id FROM read_charge WHERE public_id = :public_id AND account_id = :account_id AND test = :test;
