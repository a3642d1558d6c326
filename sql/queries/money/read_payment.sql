-- Payments as they are seen, by the day the money was paid: each statement walks one range of one index per page.

-- name: page_desc
-- read_payment's key.
SELECT payment_id, paid_at, doc FROM read_payment
WHERE account_id = :account_id AND test = :test
  AND (paid_at, payment_id) < (:at, :id)
  AND paid_at >= :paid_from AND paid_at < :paid_to
ORDER BY paid_at DESC, payment_id DESC
LIMIT :most;

-- name: page_asc
-- read_payment's key.
SELECT payment_id, paid_at, doc FROM read_payment
WHERE account_id = :account_id AND test = :test
  AND (paid_at, payment_id) > (:at, :id)
  AND paid_at >= :paid_from AND paid_at < :paid_to
ORDER BY paid_at ASC, payment_id ASC
LIMIT :most;

-- name: by_charge_desc
-- read_payment_charge.
SELECT payment_id, paid_at, doc FROM read_payment
WHERE account_id = :account_id AND test = :test
  AND charge_id = :charge_id
  AND (paid_at, payment_id) < (:at, :id)
  AND paid_at >= :paid_from AND paid_at < :paid_to
  AND (:external_id::text IS NULL OR external_id = :external_id)
  AND (:anomaly::text IS NULL OR anomaly = :anomaly)
  AND (:method::text IS NULL OR method = :method)
ORDER BY paid_at DESC, payment_id DESC
LIMIT :most;

-- name: by_charge_asc
-- read_payment_charge.
SELECT payment_id, paid_at, doc FROM read_payment
WHERE account_id = :account_id AND test = :test
  AND charge_id = :charge_id
  AND (paid_at, payment_id) > (:at, :id)
  AND paid_at >= :paid_from AND paid_at < :paid_to
  AND (:external_id::text IS NULL OR external_id = :external_id)
  AND (:anomaly::text IS NULL OR anomaly = :anomaly)
  AND (:method::text IS NULL OR method = :method)
ORDER BY paid_at ASC, payment_id ASC
LIMIT :most;

-- name: by_reference_desc
-- read_payment_reference.
SELECT payment_id, paid_at, doc FROM read_payment
WHERE account_id = :account_id AND test = :test
  AND external_id = :external_id
  AND (paid_at, payment_id) < (:at, :id)
  AND paid_at >= :paid_from AND paid_at < :paid_to
  AND (:anomaly::text IS NULL OR anomaly = :anomaly)
  AND (:method::text IS NULL OR method = :method)
ORDER BY paid_at DESC, payment_id DESC
LIMIT :most;

-- name: by_reference_asc
-- read_payment_reference.
SELECT payment_id, paid_at, doc FROM read_payment
WHERE account_id = :account_id AND test = :test
  AND external_id = :external_id
  AND (paid_at, payment_id) > (:at, :id)
  AND paid_at >= :paid_from AND paid_at < :paid_to
  AND (:anomaly::text IS NULL OR anomaly = :anomaly)
  AND (:method::text IS NULL OR method = :method)
ORDER BY paid_at ASC, payment_id ASC
LIMIT :most;

-- name: by_method_desc
-- read_payment_method.
SELECT payment_id, paid_at, doc FROM read_payment
WHERE account_id = :account_id AND test = :test
  AND method = :method
  AND (paid_at, payment_id) < (:at, :id)
  AND paid_at >= :paid_from AND paid_at < :paid_to
ORDER BY paid_at DESC, payment_id DESC
LIMIT :most;

-- name: by_method_asc
-- read_payment_method.
SELECT payment_id, paid_at, doc FROM read_payment
WHERE account_id = :account_id AND test = :test
  AND method = :method
  AND (paid_at, payment_id) > (:at, :id)
  AND paid_at >= :paid_from AND paid_at < :paid_to
ORDER BY paid_at ASC, payment_id ASC
LIMIT :most;

-- name: by_anomaly_desc
-- read_payment_anomaly.
SELECT payment_id, paid_at, doc FROM read_payment
WHERE account_id = :account_id AND test = :test
  AND anomaly = :anomaly
  AND (paid_at, payment_id) < (:at, :id)
  AND paid_at >= :paid_from AND paid_at < :paid_to
  AND (:method::text IS NULL OR method = :method)
ORDER BY paid_at DESC, payment_id DESC
LIMIT :most;

-- name: by_anomaly_asc
-- read_payment_anomaly.
SELECT payment_id, paid_at, doc FROM read_payment
WHERE account_id = :account_id AND test = :test
  AND anomaly = :anomaly
  AND (paid_at, payment_id) > (:at, :id)
  AND paid_at >= :paid_from AND paid_at < :paid_to
  AND (:method::text IS NULL OR method = :method)
ORDER BY paid_at ASC, payment_id ASC
LIMIT :most;
