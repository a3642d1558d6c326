-- Reports, read from the daily totals (migration 0012_reports). The nil UUID stands for all accounts, so each report is
-- one range of a primary key, however many charges and accounts there are. Sums over days are made while reading: a year
-- has some thousand rows.

-- name: freshness
-- Uses the server's clock, which also wrote `as_of`, so that the difference is of one clock.
SELECT as_of, greatest(0, ceil(extract(epoch FROM statement_timestamp() - as_of)))::bigint AS lag_seconds
FROM report_position WHERE as_of > '-infinity';

-- name: grant
-- Lets a role, made by the database's administrator, read the views and nothing else (migration 0012_reports).
SELECT reporting_grant(:role);

-- name: receipts
SELECT CASE :by WHEN 'day' THEN day WHEN 'month' THEN date_trunc('month', day)::date ELSE :first::date END AS day,
       method, sum(entries)::bigint AS payments, sum(cents)::bigint AS amount, sum(late)::bigint AS late,
       sum(anomalous)::bigint AS anomalous
FROM report_entry
WHERE account_id = :account_id AND day BETWEEN :first AND :last AND type = 'payment'
GROUP BY 1, 2
ORDER BY 1, 2;

-- name: aging
-- A range of the key for each bucket.
SELECT coalesce(d.boletos, 0)::bigint AS boletos, coalesce(d.amount, 0)::bigint AS amount
FROM unnest(:statuses::text[], :firsts::date[], :lasts::date[]) WITH ORDINALITY AS b (status, first, last, position)
LEFT JOIN LATERAL (
    SELECT sum(charges) AS boletos, sum(cents) AS amount FROM report_due
    WHERE account_id = :account_id AND status = b.status AND due_date BETWEEN b.first AND b.last
) d ON true
ORDER BY b.position;

-- name: conversion
-- Percentiles by nearest rank over the histogram: a bucket is 9 % wide, so its middle is at most 4.5 % off. `took` is
-- MATERIALIZED: a plan for all values expects one row, and would rank the whole period again for each row it is joined
-- to.
WITH issued AS (
    SELECT CASE :by WHEN 'day' THEN day WHEN 'month' THEN date_trunc('month', day)::date ELSE :first::date END AS day,
           payment_method, sum(charges) AS charges, sum(cents) AS cents,
           coalesce(sum(charges) FILTER (WHERE status IN ('paid', 'refunded')), 0) AS paid,
           coalesce(sum(cents) FILTER (WHERE status IN ('paid', 'refunded')), 0) AS paid_cents
    FROM report_cohort
    WHERE account_id = :account_id AND day BETWEEN :first AND :last
    GROUP BY 1, 2
    HAVING sum(charges) > 0
), waited AS (
    SELECT CASE :by WHEN 'day' THEN day WHEN 'month' THEN date_trunc('month', day)::date ELSE :first::date END AS day,
           payment_method, bucket, sum(charges) AS charges
    FROM report_wait
    WHERE account_id = :account_id AND day BETWEEN :first AND :last
    GROUP BY 1, 2, 3
), ranked AS (
    SELECT day, payment_method, bucket, sum(charges) OVER (PARTITION BY day, payment_method ORDER BY bucket) AS up_to,
           sum(charges) OVER (PARTITION BY day, payment_method) AS of
    FROM waited
), took AS MATERIALIZED (
    SELECT day, payment_method, min(bucket) FILTER (WHERE up_to * 2 >= of) AS median,
           min(bucket) FILTER (WHERE up_to * 10 >= of * 9) AS p90
    FROM ranked GROUP BY 1, 2
)
SELECT i.day, i.payment_method AS method, i.charges::bigint, i.cents::bigint AS amount, i.paid::bigint,
       i.paid_cents::bigint AS paid_amount, round(10000 * i.paid / i.charges)::bigint AS conversion,
       round(power(2, (t.median + 0.5) / 8))::bigint AS median_seconds, round(power(2, (t.p90 + 0.5) / 8))::bigint AS p90_seconds
FROM issued i LEFT JOIN took t USING (day, payment_method)
ORDER BY 1, 2;

-- name: waited
-- The histogram behind `conversion`: the percentiles over several cells are computed from the sum of their histograms.
SELECT CASE :by WHEN 'day' THEN day WHEN 'month' THEN date_trunc('month', day)::date ELSE :first::date END AS day,
       payment_method AS method, bucket::bigint, sum(charges)::bigint AS charges
FROM report_wait
WHERE account_id = :account_id AND day BETWEEN :first AND :last
GROUP BY 1, 2, 3;

-- name: expiry
SELECT CASE :by WHEN 'day' THEN day WHEN 'month' THEN date_trunc('month', day)::date ELSE :first::date END AS day,
       payment_method AS method, sum(charges)::bigint AS charges,
       coalesce(sum(charges) FILTER (WHERE status = 'pending'), 0)::bigint AS open,
       coalesce(sum(charges) FILTER (WHERE status = 'expired'), 0)::bigint AS expired,
       coalesce(sum(cents) FILTER (WHERE status = 'expired'), 0)::bigint AS expired_amount,
       coalesce(sum(charges) FILTER (WHERE status = 'cancelled'), 0)::bigint AS cancelled,
       coalesce(sum(cents) FILTER (WHERE status = 'cancelled'), 0)::bigint AS cancelled_amount,
       coalesce(sum(charges) FILTER (WHERE status = 'failed'), 0)::bigint AS failed,
       round(10000 * coalesce(sum(charges) FILTER (WHERE status = 'expired'), 0) / sum(charges))::bigint AS expiry,
       round(10000 * coalesce(sum(charges) FILTER (WHERE status = 'cancelled'), 0) / sum(charges))::bigint AS cancellation
FROM report_cohort
WHERE account_id = :account_id AND day BETWEEN :first AND :last
GROUP BY 1, 2
HAVING sum(charges) > 0
ORDER BY 1, 2;

-- name: refunds
SELECT CASE :by WHEN 'day' THEN day WHEN 'month' THEN date_trunc('month', day)::date ELSE :first::date END AS day, method,
       coalesce(sum(refunds) FILTER (WHERE what = 'created'), 0)::bigint AS asked,
       coalesce(sum(cents) FILTER (WHERE what = 'created'), 0)::bigint AS asked_amount,
       coalesce(sum(refunds) FILTER (WHERE what = 'succeeded'), 0)::bigint AS succeeded,
       coalesce(sum(cents) FILTER (WHERE what = 'succeeded'), 0)::bigint AS succeeded_amount,
       coalesce(sum(refunds) FILTER (WHERE what = 'failed'), 0)::bigint AS failed,
       coalesce(sum(cents) FILTER (WHERE what = 'failed'), 0)::bigint AS failed_amount
FROM report_refund
WHERE account_id = :account_id AND day BETWEEN :first AND :last
GROUP BY 1, 2
ORDER BY 1, 2;

-- name: integrators
-- A subquery looks up the name of each partner shown; a join might read all partners.
SELECT r.integrador_code, (SELECT i.name FROM integrator i WHERE i.integrador_code = r.integrador_code) AS name,
       r.charges, r.charge_amount, r.payments, r.payment_amount, r.given, r.taken_back, r.given - r.taken_back AS net
FROM (
    SELECT integrador_code, sum(charges)::bigint AS charges, sum(charge_cents)::bigint AS charge_amount,
           sum(payments)::bigint AS payments, sum(payment_cents)::bigint AS payment_amount,
           sum(given_cents)::bigint AS given, sum(taken_back_cents)::bigint AS taken_back
    FROM report_integrator
    WHERE account_id = :account_id AND day BETWEEN :first AND :last
    GROUP BY integrador_code
) r
ORDER BY r.integrador_code;

-- name: charged
-- Accounts that were charged any fee (index span_entry_fees).
SELECT DISTINCT t.account_id
FROM unnest(:ranges.span::text[], :ranges.first::date[], :ranges.after::date[]) AS g (span, first, after)
CROSS JOIN LATERAL (
    SELECT account_id FROM span_entry WHERE type = 'fee' AND span = g.span AND starts >= g.first AND starts < g.after
) t;

-- name: fees
-- A row for each day, month or total (`by`) and each of these accounts; of an account that was asked for, only if it was
-- charged a fee at all. Reads ranges of span_entry's key, of spans no longer than `by`.
WITH summed AS (
    SELECT e.day, c.account_id, coalesce(sum(e.entries) FILTER (WHERE e.type = 'payment'), 0) AS payments,
           coalesce(sum(e.cents) FILTER (WHERE e.type = 'payment'), 0) AS amount,
           coalesce(-sum(e.cents) FILTER (WHERE e.type = 'fee' AND e.method = 'pix'), 0) AS pix,
           coalesce(-sum(e.cents) FILTER (WHERE e.type = 'fee' AND e.method = 'boleto'), 0) AS boleto,
           coalesce(-sum(e.cents) FILTER (WHERE e.type = 'fee' AND e.method = ''), 0) AS withdrawal,
           sum(count(*) FILTER (WHERE e.type = 'fee')) OVER (PARTITION BY c.account_id) AS charged
    FROM unnest(:account_ids::uuid[]) AS c (account_id)
    CROSS JOIN unnest(:ranges.span::text[], :ranges.first::date[], :ranges.after::date[]) AS g (span, first, after)
    CROSS JOIN LATERAL (
        SELECT CASE :by WHEN 'day' THEN starts WHEN 'month' THEN date_trunc('month', starts)::date ELSE :first::date END AS day,
               type, method, sum(entries) AS entries, sum(cents) AS cents
        FROM span_entry
        WHERE account_id = c.account_id AND span = g.span AND starts >= g.first AND starts < g.after
          AND type IN ('payment', 'fee')
        GROUP BY 1, 2, 3
    ) e
    GROUP BY 1, 2
)
SELECT s.day, a.name AS account, s.payments::bigint, s.amount::bigint, s.pix::bigint, s.boleto::bigint, s.withdrawal::bigint,
       (s.pix + s.boleto + s.withdrawal)::bigint AS fees,
       round(10000 * (s.pix + s.boleto + s.withdrawal) / nullif(s.amount, 0))::bigint AS rate, s.account_id::text
FROM summed s CROSS JOIN LATERAL (SELECT name FROM account WHERE account_id = s.account_id) a
WHERE s.charged > 0 -- when asked_for
ORDER BY s.day, a.name COLLATE "C", s.account_id;

-- name: webhooks
SELECT CASE :by WHEN 'day' THEN day WHEN 'month' THEN date_trunc('month', day)::date ELSE :first::date END AS day,
       sum(attempts)::bigint AS attempts,
       coalesce(sum(attempts) FILTER (WHERE outcome = 'delivered'), 0)::bigint AS delivered,
       coalesce(sum(attempts) FILTER (WHERE outcome = 'rejected'), 0)::bigint AS rejected,
       coalesce(sum(attempts) FILTER (WHERE outcome = 'timeout'), 0)::bigint AS timed_out,
       coalesce(sum(attempts) FILTER (WHERE outcome NOT IN ('delivered', 'rejected', 'timeout', 'worker_lost')), 0)::bigint
           AS unreachable,
       coalesce(sum(attempts) FILTER (WHERE outcome = 'worker_lost'), 0)::bigint AS lost,
       round(10000 * coalesce(sum(attempts) FILTER (WHERE outcome = 'delivered'), 0) / sum(attempts))::bigint AS success,
       round(sum(duration_ms) / sum(attempts))::bigint AS mean_ms
FROM report_attempt
WHERE account_id = :account_id AND day BETWEEN :first AND :last
GROUP BY 1
HAVING sum(attempts) > 0
ORDER BY 1;

-- name: took_ms
-- The sums behind the mean of `webhooks`, from which the mean over several cells is computed.
SELECT CASE :by WHEN 'day' THEN day WHEN 'month' THEN date_trunc('month', day)::date ELSE :first::date END AS day,
       sum(attempts)::bigint AS attempts, sum(duration_ms)::bigint AS duration_ms
FROM report_attempt
WHERE account_id = :account_id AND day BETWEEN :first AND :last
GROUP BY 1;

-- name: webhook_lanes
-- The lanes as they are now: a page of the accounts with an endpoint. Deliveries are counted along the index of their
-- queue, up to :limit, so that a receiver that was down for a week does not make this a long read. An open lane is
-- shown as strained after a failure and as idle if nothing was delivered, as on the merchant's page
-- (webhook_settings.lanes).
SELECT e.account_id, a.name,
       CASE WHEN l.state <> 'open' THEN l.state WHEN l.consecutive_failures > 0 THEN 'strained'
            WHEN (SELECT max(n.delivered_at) FROM (SELECT d.delivered_at FROM webhook_delivery d
                                                   WHERE d.endpoint_id = e.endpoint_id AND NOT d.test
                                                   ORDER BY d.sequence DESC LIMIT 100) n) IS NULL THEN 'idle'
            ELSE 'open' END AS state, coalesce(l.paused_at, l.failing_since) AS since,
       (SELECT count(*) FROM (
           SELECT FROM webhook_delivery d WHERE d.endpoint_id = e.endpoint_id AND NOT d.test AND d.state = 'pending'
           LIMIT :limit) AS few) AS pending,
       (SELECT count(*) FROM (
           SELECT FROM webhook_delivery d WHERE d.endpoint_id = e.endpoint_id AND NOT d.test AND d.state = 'held'
           LIMIT :limit) AS few) AS held,
       (SELECT count(*) FROM (
           SELECT FROM webhook_delivery d WHERE d.endpoint_id = e.endpoint_id AND NOT d.test AND d.state = 'exhausted'
           LIMIT :limit) AS few) AS exhausted
FROM webhook_endpoint e
JOIN account a ON a.account_id = e.account_id
JOIN webhook_lane l ON l.endpoint_id = e.endpoint_id AND NOT l.test
WHERE e.account_id > :after AND e.account_id <= :last
ORDER BY e.account_id
LIMIT :page;

-- name: settled_before
-- The balance and sequence with which a day begins.
SELECT sequence, balance_after_cents FROM read_ledger
WHERE account_id = :account_id AND NOT test AND created_at < :at
ORDER BY created_at DESC, sequence DESC LIMIT 1;

-- name: settlement
-- A page of the ledger, along read_ledger_created: within an account created_at and sequence grow together.
SELECT sequence, entry_id, type, amount_cents, balance_after_cents, charge_id, payment_id, refund_id, withdrawal_id, external_id,
       created_at
FROM read_ledger
WHERE account_id = :account_id AND NOT test AND (created_at, sequence) >= (:from_at, :from_sequence) AND created_at < :before
ORDER BY created_at, sequence
LIMIT :limit;

-- name: settled_at
-- The balance and sequence before each of these instants: one look-up in read_ledger_created for each.
SELECT coalesce(e.sequence, 0) AS sequence, coalesce(e.balance_after_cents, 0)::bigint AS balance_cents
FROM unnest(:edges::timestamptz[]) WITH ORDINALITY AS g (at, place)
LEFT JOIN LATERAL (
    SELECT sequence, balance_after_cents FROM read_ledger
    WHERE account_id = :account_id AND NOT test AND created_at < g.at
    ORDER BY created_at DESC, sequence DESC LIMIT 1
) AS e ON true
ORDER BY g.place;
