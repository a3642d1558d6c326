-- The write side of refunds. A refund changes only while its charge is locked.

-- name: take_keys
-- Takes the idempotency keys of requested refunds, before any charge is locked. All batches insert in byte order
-- (COLLATE "C"), as the program sorts, whatever the database's collation. No row: the key was used before.
INSERT INTO idempotency (account_id, test, key, fingerprint, resource_type, resource_id, first_used_at)
SELECT g.account_id, g.test, g.key, g.fingerprint, 'refund', g.refund_id, :now
FROM unnest(:asked.owner.account_id::uuid[], :asked.owner.test::boolean[], :asked.key::text[],
            :asked.fingerprint::bytea[], :asked.refund_id::uuid[]) AS g (account_id, test, key, fingerprint, refund_id)
ORDER BY g.account_id, g.test, g.key COLLATE "C"
ON CONFLICT DO NOTHING
RETURNING resource_id;

-- name: give_keys_back
-- Gives back the keys of refused refunds, in the transaction that took them: only a successful creation keeps its key.
DELETE FROM idempotency i
USING unnest(:refused.owner.account_id::uuid[], :refused.owner.test::boolean[], :refused.key::text[],
             :refused.refund_id::uuid[]) AS g (account_id, test, key, refund_id)
WHERE i.account_id = g.account_id AND i.test = g.test AND i.key = g.key AND i.resource_id = g.refund_id;

-- name: funds
-- For each charge the payment that settled it, and the payments named. Found through read_payment's index: about one
-- payment in a thousand is refunded, and an index of payment's own would slow down every payment.
SELECT p.account_id, p.payment_id, p.charge_id, p.amount_cents, p.refunded_cents, p.refunding_cents, p.settles,
       p.paid_at, r.doc ->> 'end_to_end_id' AS end_to_end_id, p.reversed_cents
FROM payment_view r
JOIN payment p ON p.payment_id = r.payment_id AND p.account_id = r.account_id
WHERE r.charge_id = ANY(:charge_ids::uuid[]) AND (p.settles OR p.payment_id = ANY(:payment_ids::uuid[]));

-- name: hold_accounts
-- Locks the accounts of production refunds by transfer, in order and before any charge. Transfers of one account are
-- thus decided one after the other, so together they keep the daily bound, and no decision on its registration comes in
-- between.
SELECT account_id, kyc = 'approved' AS approved FROM account
WHERE account_id = ANY(:account_ids::uuid[])
ORDER BY account_id
FOR NO KEY UPDATE;

-- name: transferred
-- The day's transfers by account; read while the accounts are locked.
SELECT account_id, sum(amount_cents)::bigint AS cents FROM refund
WHERE account_id = ANY(:account_ids::uuid[]) AND transfer_day = :day AND status <> 'failed'
GROUP BY account_id;

-- name: payers
-- For charges whose refund names a destination: the hash of the payer's document, and whether staff exempted the
-- account from comparing it with the destination's document.
SELECT r.charge_id, r.payer_document_hash AS document_hash, a.refunds_to_others IS NOT NULL AS freed
FROM read_charge r JOIN account a ON a.account_id = r.account_id
WHERE r.charge_id = ANY(:charge_ids::uuid[]);

-- name: standing
-- Refunds about to end, with their payments and the amount of all the charge's payments that is not refunded yet.
-- OFFSET 0 forces a key look-up for each refund. A plan made while the tables are small would join whole tables, and
-- would be kept when they are large.
SELECT f.account_id, f.refund_id, f.test, f.charge_id, f.payment_id, f.amount_cents, f.status, f.created_at,
       p.amount_cents AS paid_cents, p.refunded_cents, p.refunding_cents, p.reversed_cents, p.settles, p.paid_at,
       r.doc AS refund_doc,
       (SELECT sum(a.amount_cents - a.refunded_cents)
        FROM read_payment b JOIN payment a ON a.payment_id = b.payment_id AND a.account_id = b.account_id
        WHERE b.charge_id = f.charge_id)::bigint AS outstanding_cents
FROM refund f
CROSS JOIN LATERAL (SELECT * FROM payment WHERE payment_id = f.payment_id AND account_id = f.account_id OFFSET 0) p
CROSS JOIN LATERAL (SELECT doc FROM read_refund WHERE refund_id = f.refund_id AND account_id = f.account_id OFFSET 0) r
WHERE f.refund_id = ANY(:refund_ids::uuid[]);

-- name: insert
INSERT INTO refund (account_id, refund_id, test, charge_id, payment_id, amount_cents, status, created_at, transfer_day)
SELECT g.account_id, g.refund_id, g.test, g.charge_id, g.payment_id, g.amount_cents, g.status, g.created_at, g.transfer_day
FROM unnest(:items::jsonb[]) AS i (item)
CROSS JOIN LATERAL jsonb_to_record(i.item) AS g (
    account_id uuid, refund_id uuid, test boolean, charge_id uuid, payment_id uuid, amount_cents bigint, status text,
    created_at timestamptz, transfer_day date);

-- name: end
UPDATE refund f SET status = g.status
FROM unnest(:ended.refund_id::uuid[], :ended.account_id::uuid[], :ended.status::text[])
     AS g (refund_id, account_id, status)
WHERE f.refund_id = g.refund_id AND f.account_id = g.account_id;

-- name: store_funds
UPDATE payment p SET refunded_cents = g.refunded_cents, refunding_cents = g.refunding_cents
FROM unnest(:funds.payment_id::uuid[], :funds.account_id::uuid[], :funds.refunded_cents::bigint[],
            :funds.refunding_cents::bigint[])
     AS g (payment_id, account_id, refunded_cents, refunding_cents)
WHERE p.payment_id = g.payment_id AND p.account_id = g.account_id;

-- name: store_refunded
UPDATE charge c SET refunded_cents = g.refunded_cents
FROM unnest(:charges.charge_id::uuid[], :charges.account_id::uuid[], :charges.refunded_cents::bigint[])
     AS g (charge_id, account_id, refunded_cents)
WHERE c.charge_id = g.charge_id AND c.account_id = g.account_id;
