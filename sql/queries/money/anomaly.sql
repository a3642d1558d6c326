-- Payments with an anomaly. An anomaly is open until staff resolve it or the whole amount is returned or being
-- returned, by refunds or by the bank. Open anomalies are few; the index payment_anomaly_open holds nothing else.

-- name: count
-- Counts up to :limit.
SELECT count(*) FROM (
    SELECT FROM payment p
    WHERE p.account_id = :account_id AND p.test = :test AND p.anomaly IS NOT NULL
      AND p.refunded_cents + p.refunding_cents + p.reversed_cents < p.amount_cents
      AND NOT EXISTS (SELECT FROM anomaly_resolved r WHERE r.payment_id = p.payment_id)
    LIMIT :limit) AS anomalous;

-- name: newest
WITH anomalous AS MATERIALIZED (
    SELECT p.payment_id, p.charge_id FROM payment p
    WHERE p.account_id = :account_id AND p.test = :test AND p.anomaly IS NOT NULL
      AND p.refunded_cents + p.refunding_cents + p.reversed_cents < p.amount_cents
      AND NOT EXISTS (SELECT FROM anomaly_resolved r WHERE r.payment_id = p.payment_id)
    ORDER BY p.payment_id DESC
    LIMIT :limit
)
SELECT v.doc FROM anomalous AS a
CROSS JOIN LATERAL (SELECT doc FROM payment_view WHERE charge_id = a.charge_id AND payment_id = a.payment_id) AS v
ORDER BY a.payment_id DESC;

-- name: open_among
-- The open anomalies among :payment_ids, each with the amounts returned of its charge's other payments: those of all,
-- added up once for each charge, however many of its payments are anomalous, less its own.
WITH anomalous AS MATERIALIZED (
    SELECT p.payment_id, p.charge_id, p.refunded_cents + p.reversed_cents AS returned_cents, p.refunding_cents
    FROM payment p
    WHERE p.payment_id = ANY(:payment_ids::uuid[]) AND p.account_id = :account_id AND p.test = :test
      AND p.anomaly IS NOT NULL AND p.refunded_cents + p.refunding_cents + p.reversed_cents < p.amount_cents
      AND NOT EXISTS (SELECT FROM anomaly_resolved a WHERE a.payment_id = p.payment_id)
)
SELECT a.payment_id, sums.returned_cents - a.returned_cents AS returned_cents,
       sums.returning_cents - a.refunding_cents AS returning_cents
FROM (SELECT DISTINCT charge_id FROM anomalous) AS c
CROSS JOIN LATERAL ( -- index read_payment_charge
    SELECT sum(o.refunded_cents + o.reversed_cents)::bigint AS returned_cents, sum(o.refunding_cents)::bigint AS returning_cents
    FROM read_payment r JOIN payment o ON o.payment_id = r.payment_id
    WHERE r.charge_id = c.charge_id) AS sums
JOIN anomalous a USING (charge_id);

-- name: count_everywhere
-- Production, all accounts; counts up to :limit.
SELECT count(*) FROM (
    SELECT FROM payment p
    WHERE NOT p.test AND p.anomaly IS NOT NULL AND p.refunded_cents + p.refunding_cents + p.reversed_cents < p.amount_cents
      AND NOT EXISTS (SELECT FROM anomaly_resolved r WHERE r.payment_id = p.payment_id)
    LIMIT :limit) AS anomalous;

-- name: everywhere
-- both ways
-- Index payment_anomaly_everywhere. Production, all accounts; payers are not read.
SELECT p.credited_at AS at, p.payment_id AS id, p.account_id, a.name AS merchant, p.charge_id, p.amount_cents,
       p.refunded_cents, p.method, p.anomaly
FROM payment p JOIN account a ON a.account_id = p.account_id
WHERE NOT p.test AND p.anomaly IS NOT NULL AND p.refunded_cents + p.refunding_cents + p.reversed_cents < p.amount_cents
  AND NOT EXISTS (SELECT FROM anomaly_resolved r WHERE r.payment_id = p.payment_id)
  AND (p.credited_at, p.payment_id) {<} (:at, :id)
ORDER BY p.credited_at {DESC}, p.payment_id {DESC}
LIMIT :limit;

-- name: find
-- One anomaly, open or not.
SELECT v.doc, r.resolved_at, r.resolved_by, r.note
FROM payment p
CROSS JOIN LATERAL (SELECT doc FROM payment_view WHERE charge_id = p.charge_id AND payment_id = p.payment_id) AS v
LEFT JOIN anomaly_resolved r ON r.payment_id = p.payment_id
WHERE p.payment_id = :payment_id AND p.account_id = :account_id AND p.test = :test AND p.anomaly IS NOT NULL;

-- name: resolve
-- Resolving it again keeps the first note. No row: the account has no anomalous payment with this id.
WITH anomalous AS MATERIALIZED (
    SELECT payment_id, account_id FROM payment
    WHERE payment_id = :payment_id AND account_id = :account_id AND test = :test AND anomaly IS NOT NULL
), written AS (
    INSERT INTO anomaly_resolved (payment_id, account_id, resolved_at, resolved_by, note)
    SELECT payment_id, account_id, :now::timestamptz, :by::text, :note::text FROM anomalous
    ON CONFLICT (payment_id) DO NOTHING
)
SELECT payment_id FROM anomalous;
