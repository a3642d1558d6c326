-- Withdrawals as they are seen, by the instant they were asked for: each statement walks one range of one index per page.

-- name: find
SELECT doc FROM read_withdrawal WHERE withdrawal_id = :withdrawal_id AND account_id = :account_id;

-- name: page_desc
-- read_withdrawal_page.
SELECT withdrawal_id, created_at, doc FROM read_withdrawal
WHERE account_id = :account_id
  AND (created_at, withdrawal_id) < (:at, :id)
  AND created_at >= :created_from AND created_at < :created_to
ORDER BY created_at DESC, withdrawal_id DESC
LIMIT :most;

-- name: page_asc
-- read_withdrawal_page.
SELECT withdrawal_id, created_at, doc FROM read_withdrawal
WHERE account_id = :account_id
  AND (created_at, withdrawal_id) > (:at, :id)
  AND created_at >= :created_from AND created_at < :created_to
ORDER BY created_at ASC, withdrawal_id ASC
LIMIT :most;

-- name: by_reference_desc
-- read_withdrawal_reference.
SELECT withdrawal_id, created_at, doc FROM read_withdrawal
WHERE account_id = :account_id
  AND external_id = :external_id
  AND (created_at, withdrawal_id) < (:at, :id)
  AND created_at >= :created_from AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
ORDER BY created_at DESC, withdrawal_id DESC
LIMIT :most;

-- name: by_reference_asc
-- read_withdrawal_reference.
SELECT withdrawal_id, created_at, doc FROM read_withdrawal
WHERE account_id = :account_id
  AND external_id = :external_id
  AND (created_at, withdrawal_id) > (:at, :id)
  AND created_at >= :created_from AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
ORDER BY created_at ASC, withdrawal_id ASC
LIMIT :most;

-- name: by_status_desc
-- read_withdrawal_status: one range for each status asked for, the first page of each merged.
SELECT e.withdrawal_id, e.created_at, e.doc
FROM unnest(:statuses::text[]) AS k (status)
CROSS JOIN LATERAL (
    SELECT withdrawal_id, created_at, doc FROM read_withdrawal
    WHERE account_id = :account_id AND status = k.status
      AND (created_at, withdrawal_id) < (:at, :id)
      AND created_at >= :created_from AND created_at < :created_to
    ORDER BY created_at DESC, withdrawal_id DESC
    LIMIT :most
) e
ORDER BY e.created_at DESC, e.withdrawal_id DESC
LIMIT :most;

-- name: by_status_asc
-- read_withdrawal_status: one range for each status asked for, the first page of each merged.
SELECT e.withdrawal_id, e.created_at, e.doc
FROM unnest(:statuses::text[]) AS k (status)
CROSS JOIN LATERAL (
    SELECT withdrawal_id, created_at, doc FROM read_withdrawal
    WHERE account_id = :account_id AND status = k.status
      AND (created_at, withdrawal_id) > (:at, :id)
      AND created_at >= :created_from AND created_at < :created_to
    ORDER BY created_at ASC, withdrawal_id ASC
    LIMIT :most
) e
ORDER BY e.created_at ASC, e.withdrawal_id ASC
LIMIT :most;

-- name: daily
-- What stays when the account is paid out once a day; no row: nobody asked for that.
SELECT keep_cents FROM auto_withdrawal WHERE account_id = :account_id;

-- name: destination
-- Where its withdrawals go.
SELECT pix_key, kyc = 'approved' AS approved FROM account WHERE account_id = :account_id;
