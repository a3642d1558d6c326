-- Lists of refunds by created_at. Each statement walks one range of one index per page, then looks up each refund's
-- payment for the totals.

-- name: find
SELECT r.created_at AS at, r.refund_id AS id, r.doc, (p.doc ->> 'amount_cents')::bigint AS paid_cents,
       coalesce((p.doc ->> 'refunded_cents')::bigint, 0) AS refunded_cents,
       coalesce((p.doc ->> 'refunding_cents')::bigint, 0) AS refunding_cents,
       coalesce((p.doc ->> 'reversed_cents')::bigint, 0) AS reversed_cents
FROM read_refund r
CROSS JOIN LATERAL (
    SELECT doc FROM payment_view
    WHERE account_id = r.account_id AND test = r.test AND paid_at = r.paid_at AND payment_id = r.payment_id
    OFFSET 0 -- else the document would be looked up for each of its fields
) p
WHERE r.refund_id = :refund_id AND r.account_id = :account_id AND r.test = :test;

-- name: page
-- both ways
-- Index: read_refund_page, or that of the most selective filter: read_refund_charge, _payment, _reference.
SELECT r.at, r.id, r.doc, (p.doc ->> 'amount_cents')::bigint AS paid_cents,
       coalesce((p.doc ->> 'refunded_cents')::bigint, 0) AS refunded_cents,
       coalesce((p.doc ->> 'refunding_cents')::bigint, 0) AS refunding_cents,
       coalesce((p.doc ->> 'reversed_cents')::bigint, 0) AS reversed_cents
FROM (
    SELECT created_at AS at, refund_id AS id, paid_at, payment_id, doc FROM read_refund
    WHERE account_id = :account_id AND test = :test
      AND charge_id = :charge_id -- when charge_id
      AND payment_id = :payment_id -- when payment_id
      AND external_id = :external_id -- when external_id
      AND status = ANY(:statuses::text[]) -- when statuses
      AND (created_at, refund_id) {<} (:at, :id)
      AND created_at {>=} :until
    ORDER BY created_at {DESC}, refund_id {DESC}
    LIMIT :limit
) r
CROSS JOIN LATERAL (
    SELECT doc FROM payment_view
    WHERE account_id = :account_id AND test = :test AND paid_at = r.paid_at AND payment_id = r.payment_id
    OFFSET 0 -- else the document would be looked up for each of its fields
) p
ORDER BY r.at {DESC}, r.id {DESC};

-- name: by_status
-- both ways
-- Index read_refund_status: one range for each requested status; the first page of each is merged.
SELECT r.at, r.id, r.doc, (p.doc ->> 'amount_cents')::bigint AS paid_cents,
       coalesce((p.doc ->> 'refunded_cents')::bigint, 0) AS refunded_cents,
       coalesce((p.doc ->> 'refunding_cents')::bigint, 0) AS refunding_cents,
       coalesce((p.doc ->> 'reversed_cents')::bigint, 0) AS reversed_cents
FROM (
    SELECT e.at, e.id, e.paid_at, e.payment_id, e.doc
    FROM unnest(:statuses::text[]) AS k (status)
    CROSS JOIN LATERAL (
        SELECT created_at AS at, refund_id AS id, paid_at, payment_id, doc FROM read_refund
        WHERE account_id = :account_id AND test = :test AND status = k.status
          AND (created_at, refund_id) {<} (:at, :id)
          AND created_at {>=} :until
        ORDER BY created_at {DESC}, refund_id {DESC}
        LIMIT :limit
    ) e
    ORDER BY e.at {DESC}, e.id {DESC}
    LIMIT :limit
) r
CROSS JOIN LATERAL (
    SELECT doc FROM payment_view
    WHERE account_id = :account_id AND test = :test AND paid_at = r.paid_at AND payment_id = r.payment_id
    OFFSET 0 -- else the document would be looked up for each of its fields
) p
ORDER BY r.at {DESC}, r.id {DESC};
