-- Lists of withdrawals by created_at. Each statement walks one range of one index per page.

-- name: find
SELECT doc FROM read_withdrawal WHERE withdrawal_id = :withdrawal_id AND account_id = :account_id;

-- name: page
-- both ways
-- Index: read_withdrawal_page, or read_withdrawal_reference.
SELECT created_at AS at, withdrawal_id AS id, doc FROM read_withdrawal
WHERE account_id = :account_id
  AND external_id = :external_id -- when external_id
  AND status = ANY(:statuses::text[]) -- when statuses
  AND (created_at, withdrawal_id) {<} (:at, :id)
  AND created_at {>=} :until
ORDER BY created_at {DESC}, withdrawal_id {DESC}
LIMIT :limit;

-- name: by_status
-- both ways
-- Index read_withdrawal_status: one range for each requested status; the first page of each is merged.
SELECT e.at, e.id, e.doc
FROM unnest(:statuses::text[]) AS k (status)
CROSS JOIN LATERAL (
    SELECT created_at AS at, withdrawal_id AS id, doc FROM read_withdrawal
    WHERE account_id = :account_id AND status = k.status
      AND (created_at, withdrawal_id) {<} (:at, :id)
      AND created_at {>=} :until
    ORDER BY created_at {DESC}, withdrawal_id {DESC}
    LIMIT :limit
) e
ORDER BY e.at {DESC}, e.id {DESC}
LIMIT :limit;

-- name: daily
-- The amount that daily withdrawals leave in the wallet. No row: the account has no daily withdrawal.
SELECT keep_cents FROM auto_withdrawal WHERE account_id = :account_id;

-- name: destination
-- The key and document to which the account's withdrawals go.
SELECT coalesce(p.pix_key, a.pix_key) AS pix_key, coalesce(p.document, a.document) AS document,
       a.name AS merchant, a.document AS merchant_document,
       a.kyc = 'approved' AS approved
FROM account a LEFT JOIN LATERAL payout_in_force(a.account_id, :now) p ON true
WHERE a.account_id = :account_id;
