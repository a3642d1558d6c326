-- Payments as they are seen, by the day the money was paid: each statement walks one range of one index per page.

-- name: page
-- both ways
-- read_payment's key, or the index of the most selective filter: read_payment_charge, _reference, _anomaly, _method.
SELECT paid_at AS at, payment_id AS id, doc FROM payment_view
WHERE account_id = :account_id AND test = :test
  AND charge_id = :charge_id -- when charge_id
  AND external_id = :external_id -- when external_id
  AND anomaly = :anomaly -- when anomaly
  AND method = :method -- when method
  AND (paid_at, payment_id) {<} (:at, :id)
  AND paid_at >= :paid_from AND paid_at < :paid_to
ORDER BY paid_at {DESC}, payment_id {DESC}
LIMIT :limit;
