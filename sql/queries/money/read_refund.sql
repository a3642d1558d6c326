-- Refunds as they are seen, by the instant they were asked for: each statement walks one range of one index per page, and
-- then looks each refund's payment up, where the totals stand.

-- name: find
SELECT r.doc, (p.doc ->> 'amount_cents')::bigint AS paid_cents,
       coalesce((p.doc ->> 'refunded_cents')::bigint, 0) AS refunded_cents,
       coalesce((p.doc ->> 'refunding_cents')::bigint, 0) AS refunding_cents
FROM read_refund r
JOIN read_payment p ON p.account_id = r.account_id AND p.test = r.test AND p.paid_at = r.paid_at
                   AND p.payment_id = r.payment_id
WHERE r.refund_id = :refund_id AND r.account_id = :account_id AND r.test = :test;

-- name: page_desc
-- read_refund_page.
SELECT r.refund_id, r.created_at, r.doc, (p.doc ->> 'amount_cents')::bigint AS paid_cents,
       coalesce((p.doc ->> 'refunded_cents')::bigint, 0) AS refunded_cents,
       coalesce((p.doc ->> 'refunding_cents')::bigint, 0) AS refunding_cents
FROM (
    SELECT refund_id, created_at, paid_at, payment_id, doc FROM read_refund
    WHERE account_id = :account_id AND test = :test
      AND (created_at, refund_id) < (:at, :id)
      AND created_at >= :created_from AND created_at < :created_to
    ORDER BY created_at DESC, refund_id DESC
    LIMIT :most
) r
JOIN read_payment p ON p.account_id = :account_id AND p.test = :test AND p.paid_at = r.paid_at
                   AND p.payment_id = r.payment_id
ORDER BY r.created_at DESC, r.refund_id DESC;

-- name: page_asc
-- read_refund_page.
SELECT r.refund_id, r.created_at, r.doc, (p.doc ->> 'amount_cents')::bigint AS paid_cents,
       coalesce((p.doc ->> 'refunded_cents')::bigint, 0) AS refunded_cents,
       coalesce((p.doc ->> 'refunding_cents')::bigint, 0) AS refunding_cents
FROM (
    SELECT refund_id, created_at, paid_at, payment_id, doc FROM read_refund
    WHERE account_id = :account_id AND test = :test
      AND (created_at, refund_id) > (:at, :id)
      AND created_at >= :created_from AND created_at < :created_to
    ORDER BY created_at ASC, refund_id ASC
    LIMIT :most
) r
JOIN read_payment p ON p.account_id = :account_id AND p.test = :test AND p.paid_at = r.paid_at
                   AND p.payment_id = r.payment_id
ORDER BY r.created_at ASC, r.refund_id ASC;

-- name: by_charge_desc
-- read_refund_charge.
SELECT r.refund_id, r.created_at, r.doc, (p.doc ->> 'amount_cents')::bigint AS paid_cents,
       coalesce((p.doc ->> 'refunded_cents')::bigint, 0) AS refunded_cents,
       coalesce((p.doc ->> 'refunding_cents')::bigint, 0) AS refunding_cents
FROM (
    SELECT refund_id, created_at, paid_at, payment_id, doc FROM read_refund
    WHERE account_id = :account_id AND test = :test
      AND charge_id = :charge_id
      AND (created_at, refund_id) < (:at, :id)
      AND created_at >= :created_from AND created_at < :created_to
      AND (:external_id::text IS NULL OR external_id = :external_id)
      AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
    ORDER BY created_at DESC, refund_id DESC
    LIMIT :most
) r
JOIN read_payment p ON p.account_id = :account_id AND p.test = :test AND p.paid_at = r.paid_at
                   AND p.payment_id = r.payment_id
ORDER BY r.created_at DESC, r.refund_id DESC;

-- name: by_charge_asc
-- read_refund_charge.
SELECT r.refund_id, r.created_at, r.doc, (p.doc ->> 'amount_cents')::bigint AS paid_cents,
       coalesce((p.doc ->> 'refunded_cents')::bigint, 0) AS refunded_cents,
       coalesce((p.doc ->> 'refunding_cents')::bigint, 0) AS refunding_cents
FROM (
    SELECT refund_id, created_at, paid_at, payment_id, doc FROM read_refund
    WHERE account_id = :account_id AND test = :test
      AND charge_id = :charge_id
      AND (created_at, refund_id) > (:at, :id)
      AND created_at >= :created_from AND created_at < :created_to
      AND (:external_id::text IS NULL OR external_id = :external_id)
      AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
    ORDER BY created_at ASC, refund_id ASC
    LIMIT :most
) r
JOIN read_payment p ON p.account_id = :account_id AND p.test = :test AND p.paid_at = r.paid_at
                   AND p.payment_id = r.payment_id
ORDER BY r.created_at ASC, r.refund_id ASC;

-- name: by_payment_desc
-- read_refund_payment.
SELECT r.refund_id, r.created_at, r.doc, (p.doc ->> 'amount_cents')::bigint AS paid_cents,
       coalesce((p.doc ->> 'refunded_cents')::bigint, 0) AS refunded_cents,
       coalesce((p.doc ->> 'refunding_cents')::bigint, 0) AS refunding_cents
FROM (
    SELECT refund_id, created_at, paid_at, payment_id, doc FROM read_refund
    WHERE account_id = :account_id AND test = :test
      AND payment_id = :payment_id
      AND (:charge_id::uuid IS NULL OR charge_id = :charge_id)
      AND (created_at, refund_id) < (:at, :id)
      AND created_at >= :created_from AND created_at < :created_to
      AND (:external_id::text IS NULL OR external_id = :external_id)
      AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
    ORDER BY created_at DESC, refund_id DESC
    LIMIT :most
) r
JOIN read_payment p ON p.account_id = :account_id AND p.test = :test AND p.paid_at = r.paid_at
                   AND p.payment_id = r.payment_id
ORDER BY r.created_at DESC, r.refund_id DESC;

-- name: by_payment_asc
-- read_refund_payment.
SELECT r.refund_id, r.created_at, r.doc, (p.doc ->> 'amount_cents')::bigint AS paid_cents,
       coalesce((p.doc ->> 'refunded_cents')::bigint, 0) AS refunded_cents,
       coalesce((p.doc ->> 'refunding_cents')::bigint, 0) AS refunding_cents
FROM (
    SELECT refund_id, created_at, paid_at, payment_id, doc FROM read_refund
    WHERE account_id = :account_id AND test = :test
      AND payment_id = :payment_id
      AND (:charge_id::uuid IS NULL OR charge_id = :charge_id)
      AND (created_at, refund_id) > (:at, :id)
      AND created_at >= :created_from AND created_at < :created_to
      AND (:external_id::text IS NULL OR external_id = :external_id)
      AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
    ORDER BY created_at ASC, refund_id ASC
    LIMIT :most
) r
JOIN read_payment p ON p.account_id = :account_id AND p.test = :test AND p.paid_at = r.paid_at
                   AND p.payment_id = r.payment_id
ORDER BY r.created_at ASC, r.refund_id ASC;

-- name: by_reference_desc
-- read_refund_reference.
SELECT r.refund_id, r.created_at, r.doc, (p.doc ->> 'amount_cents')::bigint AS paid_cents,
       coalesce((p.doc ->> 'refunded_cents')::bigint, 0) AS refunded_cents,
       coalesce((p.doc ->> 'refunding_cents')::bigint, 0) AS refunding_cents
FROM (
    SELECT refund_id, created_at, paid_at, payment_id, doc FROM read_refund
    WHERE account_id = :account_id AND test = :test
      AND external_id = :external_id
      AND (created_at, refund_id) < (:at, :id)
      AND created_at >= :created_from AND created_at < :created_to
      AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
    ORDER BY created_at DESC, refund_id DESC
    LIMIT :most
) r
JOIN read_payment p ON p.account_id = :account_id AND p.test = :test AND p.paid_at = r.paid_at
                   AND p.payment_id = r.payment_id
ORDER BY r.created_at DESC, r.refund_id DESC;

-- name: by_reference_asc
-- read_refund_reference.
SELECT r.refund_id, r.created_at, r.doc, (p.doc ->> 'amount_cents')::bigint AS paid_cents,
       coalesce((p.doc ->> 'refunded_cents')::bigint, 0) AS refunded_cents,
       coalesce((p.doc ->> 'refunding_cents')::bigint, 0) AS refunding_cents
FROM (
    SELECT refund_id, created_at, paid_at, payment_id, doc FROM read_refund
    WHERE account_id = :account_id AND test = :test
      AND external_id = :external_id
      AND (created_at, refund_id) > (:at, :id)
      AND created_at >= :created_from AND created_at < :created_to
      AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
    ORDER BY created_at ASC, refund_id ASC
    LIMIT :most
) r
JOIN read_payment p ON p.account_id = :account_id AND p.test = :test AND p.paid_at = r.paid_at
                   AND p.payment_id = r.payment_id
ORDER BY r.created_at ASC, r.refund_id ASC;

-- name: by_status_desc
-- read_refund_status: one range for each status asked for, the first page of each merged.
SELECT r.refund_id, r.created_at, r.doc, (p.doc ->> 'amount_cents')::bigint AS paid_cents,
       coalesce((p.doc ->> 'refunded_cents')::bigint, 0) AS refunded_cents,
       coalesce((p.doc ->> 'refunding_cents')::bigint, 0) AS refunding_cents
FROM (
    SELECT e.refund_id, e.created_at, e.paid_at, e.payment_id, e.doc
    FROM unnest(:statuses::text[]) AS k (status)
    CROSS JOIN LATERAL (
        SELECT refund_id, created_at, paid_at, payment_id, doc FROM read_refund
        WHERE account_id = :account_id AND test = :test AND status = k.status
          AND (created_at, refund_id) < (:at, :id)
          AND created_at >= :created_from AND created_at < :created_to
        ORDER BY created_at DESC, refund_id DESC
        LIMIT :most
    ) e
    ORDER BY e.created_at DESC, e.refund_id DESC
    LIMIT :most
) r
JOIN read_payment p ON p.account_id = :account_id AND p.test = :test AND p.paid_at = r.paid_at
                   AND p.payment_id = r.payment_id
ORDER BY r.created_at DESC, r.refund_id DESC;

-- name: by_status_asc
-- read_refund_status: one range for each status asked for, the first page of each merged.
SELECT r.refund_id, r.created_at, r.doc, (p.doc ->> 'amount_cents')::bigint AS paid_cents,
       coalesce((p.doc ->> 'refunded_cents')::bigint, 0) AS refunded_cents,
       coalesce((p.doc ->> 'refunding_cents')::bigint, 0) AS refunding_cents
FROM (
    SELECT e.refund_id, e.created_at, e.paid_at, e.payment_id, e.doc
    FROM unnest(:statuses::text[]) AS k (status)
    CROSS JOIN LATERAL (
        SELECT refund_id, created_at, paid_at, payment_id, doc FROM read_refund
        WHERE account_id = :account_id AND test = :test AND status = k.status
          AND (created_at, refund_id) > (:at, :id)
          AND created_at >= :created_from AND created_at < :created_to
        ORDER BY created_at ASC, refund_id ASC
        LIMIT :most
    ) e
    ORDER BY e.created_at ASC, e.refund_id ASC
    LIMIT :most
) r
JOIN read_payment p ON p.account_id = :account_id AND p.test = :test AND p.paid_at = r.paid_at
                   AND p.payment_id = r.payment_id
ORDER BY r.created_at ASC, r.refund_id ASC;
