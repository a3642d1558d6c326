-- The write side of withdrawals, which exist in production only: no statement here has a mode. A withdrawal changes
-- only while its row is locked; the wallet changes afterwards, under the account's clock.

-- name: terms
-- Read fresh from the account: a cached copy could send money to an old key.
SELECT a.account_id, a.kyc = 'approved' AS approved, coalesce(p.pix_key, a.pix_key) AS pix_key,
       coalesce(p.document, a.document) AS document, a.fees
FROM account a LEFT JOIN LATERAL payout_in_force(a.account_id, :now) p ON true
WHERE a.account_id = :account_id;

-- name: insert_asked
-- Inserts the idempotency key, the withdrawal, and the order that sends it. The order has the withdrawal's id, so that
-- a cancellation finds it. If another transaction is inserting the same key, this waits for it while holding no other
-- lock. No row: the key was used before.
WITH claimed AS (
    INSERT INTO idempotency (account_id, test, key, fingerprint, resource_type, resource_id, first_used_at)
    VALUES (:account_id, false, :key, :fingerprint, 'withdrawal', :withdrawal_id, :now)
    ON CONFLICT DO NOTHING
    RETURNING resource_id
), made AS (
    INSERT INTO withdrawal (account_id, withdrawal_id, status, version, amount_cents, fee_cents, created_at)
    SELECT :account_id, resource_id, 'pending', 1, :amount_cents, :fee_cents, :now FROM claimed
    RETURNING withdrawal_id
)
INSERT INTO bank_order (order_id, account_id, test, bank, kind, request, due_at, created_at)
SELECT withdrawal_id, :account_id, false, :bank, 'withdrawal_send', :request, :send_at, :now FROM made
RETURNING order_id;

-- name: insert_daily
-- As above for the daily withdrawal; the day serves as the key (unique index withdrawal_automatic).
WITH made AS (
    INSERT INTO withdrawal (account_id, withdrawal_id, status, version, amount_cents, fee_cents, automatic_on, created_at)
    VALUES (:account_id, :withdrawal_id, 'pending', 1, :amount_cents, :fee_cents, :day, :now)
    ON CONFLICT (account_id, automatic_on) WHERE automatic_on IS NOT NULL DO NOTHING
    RETURNING withdrawal_id
)
INSERT INTO bank_order (order_id, account_id, test, bank, kind, request, due_at, created_at)
SELECT withdrawal_id, :account_id, false, :bank, 'withdrawal_send', :request, :send_at, :now FROM made
RETURNING order_id;

-- name: lock
SELECT account_id, withdrawal_id, status, version, amount_cents, created_at, fee_cents
FROM withdrawal WHERE withdrawal_id = :withdrawal_id AND account_id = :account_id
FOR UPDATE;

-- name: failed
-- Which of these withdrawals failed here.
SELECT withdrawal_id, account_id, amount_cents FROM withdrawal
WHERE withdrawal_id = ANY(:withdrawal_ids::uuid[]) AND status = 'failed';

-- name: store
UPDATE withdrawal SET status = :status, version = :version
WHERE withdrawal_id = :withdrawal_id AND account_id = :account_id;

-- name: abandon_order
-- Ends the order of a cancelled withdrawal. A worker that has claimed the order meanwhile finds the withdrawal
-- cancelled.
WITH ended AS (
    DELETE FROM bank_order WHERE order_id = :withdrawal_id
    RETURNING order_id, account_id, charge_id, test, bank, kind, attempts, created_at
)
INSERT INTO bank_order_done (order_id, account_id, charge_id, test, bank, kind, state, attempts, created_at, ended_at)
SELECT order_id, account_id, charge_id, test, bank, kind, 'abandoned', attempts, created_at, :now FROM ended;

-- name: approved
-- Whether the account's registration is approved. The lock keeps it so until this transaction ends: blocking an account
-- waits for withdrawals about to be sent, so that none is sent afterwards.
SELECT kyc = 'approved' AS approved FROM account WHERE account_id = :account_id FOR SHARE;

-- name: set_automatic
-- A change of the amount keeps the day that was processed last.
WITH owner AS MATERIALIZED (SELECT account_id FROM account WHERE account_id = :account_id)
INSERT INTO auto_withdrawal (account_id, keep_cents)
SELECT account_id, :keep_cents FROM owner
ON CONFLICT (account_id) DO UPDATE SET keep_cents = excluded.keep_cents
RETURNING account_id;

-- name: end_automatic
-- No row: there is no such account. An account without a daily withdrawal is returned too.
WITH ended AS (DELETE FROM auto_withdrawal WHERE account_id = :account_id)
SELECT account_id FROM account WHERE account_id = :account_id;

-- name: take_daily
-- Locks one account whose day has not been processed, until the transaction ends; rows locked by other workers are
-- skipped. Returns what decides the withdrawal: the account as it is now, and its balance. The latest looked at comes
-- first: accounts that are not approved keep their last day, and in the order of days each look would walk all of them.
-- OFFSET 0 looks up the account of each, where a plan made for few accounts would read all that are approved.
SELECT s.account_id, s.keep_cents, coalesce(p.pix_key, a.pix_key) AS pix_key, coalesce(p.document, a.document) AS document,
       coalesce(c.balance_cents, 0)::bigint AS balance_cents, a.fees
FROM auto_withdrawal s
CROSS JOIN LATERAL (
    SELECT account_id, pix_key, document, fees FROM account WHERE account_id = s.account_id AND kyc = 'approved' OFFSET 0
) a
LEFT JOIN LATERAL payout_in_force(a.account_id, :now) p ON true
LEFT JOIN account_clock c ON c.account_id = s.account_id AND NOT c.test
WHERE s.looked_on < :day
ORDER BY s.looked_on DESC, s.account_id DESC
LIMIT 1
FOR UPDATE OF s SKIP LOCKED;

-- name: looked
UPDATE auto_withdrawal SET looked_on = :day WHERE account_id = :account_id;
