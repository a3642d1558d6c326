-- Requests of payers for a second copy of a boleto that can no longer be paid.

-- name: ask
-- Allowed once a day and :times_max times in all. A dismissed request is reopened, an answered one is not. No row:
-- today's request exists, the charge is paid or can still be paid, or its merchant is blocked. `expires_at` and :today
-- are on the account's clock.
WITH asked AS (
    SELECT r.charge_id, r.account_id, r.test, r.external_id, r.amount_cents, r.due_date
    FROM charge_view r
    JOIN account a ON a.account_id = r.account_id
    WHERE r.public_id = :public_id AND r.nosso_numero IS NOT NULL AND (r.test OR a.kyc <> 'blocked')
      AND (r.status = 'expired' OR r.status = 'pending' AND (r.doc ->> 'expires_at')::timestamptz <= :account_now)
), written AS (
    INSERT INTO second_copy_request AS s (account_id, charge_id, test, asked_at, asked_on)
    SELECT account_id, charge_id, test, :account_now, :today FROM asked
    ON CONFLICT (charge_id) DO UPDATE
    SET asked_at = excluded.asked_at, asked_on = excluded.asked_on, times = s.times + 1, closed_at = NULL
    WHERE s.asked_on < excluded.asked_on AND s.times < :times_max AND s.answered_by IS NULL
    RETURNING charge_id
)
SELECT charge_id, account_id, test, external_id, amount_cents, due_date FROM asked JOIN written USING (charge_id);

-- name: told_since
-- Index notice_of_account. How many mails of this kind the account was sent since then.
SELECT count(*) FROM notice WHERE account_id = :account_id AND at >= :since AND kind = :kind;

-- name: answer
-- Answers the request with another charge, which must be of the same account and payer, since anyone with the old link
-- will see it. No row: the charge is not, the request was answered before, or there is none.
UPDATE second_copy_request s SET answered_by = :answered_by, closed_at = :now
FROM charge old, charge new
WHERE s.charge_id = :charge_id AND s.account_id = :account_id AND s.test = :test AND s.answered_by IS NULL
  AND old.charge_id = s.charge_id AND old.account_id = s.account_id
  AND new.charge_id = :answered_by AND new.account_id = s.account_id AND new.test = s.test
  AND new.payer_document_hash = old.payer_document_hash
RETURNING s.charge_id;

-- name: dismiss
UPDATE second_copy_request SET closed_at = :now
WHERE charge_id = :charge_id AND account_id = :account_id AND test = :test AND closed_at IS NULL
RETURNING charge_id;

-- name: of_charge
SELECT asked_at, times, closed_at, answered_by FROM second_copy_request
WHERE charge_id = :charge_id AND account_id = :account_id AND test = :test;

-- name: open
-- Index second_copy_request_open, newest first. A boleto whose payment the bank reported late needs no answer any more.
SELECT s.asked_at, r.doc
FROM second_copy_request s
JOIN charge_view r ON r.charge_id = s.charge_id AND r.account_id = s.account_id
WHERE s.account_id = :account_id AND s.test = :test AND s.closed_at IS NULL AND r.status = 'expired'
ORDER BY s.asked_at DESC, s.charge_id DESC
LIMIT :limit;

-- name: count_open
SELECT count(*) FROM (
    SELECT FROM second_copy_request s
    JOIN charge_view r ON r.charge_id = s.charge_id AND r.account_id = s.account_id
    WHERE s.account_id = :account_id AND s.test = :test AND s.closed_at IS NULL AND r.status = 'expired'
    LIMIT :limit
) AS found;
