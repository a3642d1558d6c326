-- Deliveries to merchants: one row per event and endpoint, and the attempts made.
--
-- States: pending (due_at says when), sending (leased to a worker), delivered, held (the lane is paused), exhausted
-- (the schedule is used up, or it was held too long), stuck (five workers died while sending it). Open deliveries lie
-- in the partition webhook_delivery_open and ended ones in monthly partitions, so a statement that names open states
-- reads the queue only. A statement that is given ids names two open states: with one, a plan made while the queue was
-- short might walk all deliveries in that state.

-- name: relax
-- The commit of this transaction does not wait for the disk. A crash of PostgreSQL can lose a lease or a result, so a
-- delivery may be sent twice, but none is lost.
SELECT set_config('synchronous_commit', 'off', true);

-- name: take_lanes
-- Lanes with due deliveries that may have another request in flight, each locked against other workers until the
-- transaction ends, so that the next statement can count requests in flight and keep the cap exactly.
--
-- Lanes are found through due deliveries, so an idle system costs nothing: the lanes of the :window longest due
-- deliveries and of the :window that became due last. Only if more are due can a backlog hide other lanes between the
-- two. Then a loose index scan also visits :scan_max lanes with pending deliveries, beginning after the lane where the
-- last scan ended, so that all lanes are served in rotation; every other round serves these first. The cost is bounded,
-- however many lanes wait for a retry.
--
-- A lane whose circuit breaker is open may send one probe when it is due; in a paused lane a pending delivery is its
-- probe. At least one row is returned, with the position of the scan, even if there is no lane. Sets synchronous_commit
-- as `relax` does, without another round trip.
WITH RECURSIVE relaxed AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
), oldest AS MATERIALIZED (
    SELECT endpoint_id, test FROM webhook_delivery
    WHERE state = 'pending' AND due_at <= :now ORDER BY due_at LIMIT :window
), newest AS MATERIALIZED (
    SELECT endpoint_id, test FROM webhook_delivery
    WHERE state = 'pending' AND due_at <= :now ORDER BY due_at DESC LIMIT :window
), scanned AS (
    (SELECT endpoint_id, test, due_at, 1 AS n FROM webhook_delivery
     WHERE state = 'pending' AND (endpoint_id, test) > (:after_endpoint::uuid, :after_test::boolean) AND :scan_max > 0
     ORDER BY endpoint_id, test, due_at LIMIT 1)
    UNION ALL
    SELECT next.endpoint_id, next.test, next.due_at, lane.n + 1
    FROM scanned lane
    CROSS JOIN LATERAL (
        SELECT d.endpoint_id, d.test, d.due_at FROM webhook_delivery d
        WHERE d.state = 'pending' AND (d.endpoint_id, d.test) > (lane.endpoint_id, lane.test)
        ORDER BY d.endpoint_id, d.test, d.due_at LIMIT 1
    ) AS next
    WHERE lane.n < :scan_max
), candidate AS (
    SELECT endpoint_id, test, min(n) AS n
    FROM (
        SELECT endpoint_id, test, n FROM scanned WHERE due_at <= :now
        UNION ALL SELECT endpoint_id, test, NULL FROM oldest
        UNION ALL SELECT endpoint_id, test, NULL FROM newest
    ) AS any_of
    GROUP BY endpoint_id, test
), due AS MATERIALIZED (
    SELECT lane.endpoint_id, lane.test, lane.n, l.state <> 'open' AS probe, coalesce(l.probes, 0) AS failed_probes,
           CASE WHEN l.state <> 'open' THEN 1
                ELSE least(CASE WHEN lane.test THEN :cap_test::integer ELSE :cap::integer END, l.concurrency)
           END AS concurrency
    FROM candidate lane
    JOIN webhook_lane l ON l.endpoint_id = lane.endpoint_id AND l.test = lane.test -- a removed endpoint has none
    WHERE l.blocked_until IS NULL OR l.blocked_until <= :now OR l.state = 'paused'
), free AS MATERIALIZED (
    SELECT * FROM due
    WHERE (SELECT count(*) FROM webhook_delivery f
           WHERE f.endpoint_id = due.endpoint_id AND f.test = due.test AND f.state = 'sending') < due.concurrency
    ORDER BY (n IS NULL) = :scanned_first::boolean, n
    LIMIT :limit
)
SELECT coalesce(f.endpoint_id, '00000000-0000-0000-0000-000000000000') AS endpoint_id, coalesce(f.test, false) AS test,
       coalesce(f.probe, false) AS probe, coalesce(f.failed_probes, 0) AS failed_probes,
       coalesce(f.concurrency, 0) AS concurrency,
       coalesce(pg_try_advisory_xact_lock(hashtextextended(f.endpoint_id::text, f.test::integer)), false) AS ours, f.n,
       f.endpoint_id IS NOT NULL AS found,
       how_far.due_rows, how_far.scanned, how_far.last_endpoint, how_far.last_test
FROM relaxed
CROSS JOIN (
    SELECT (SELECT count(*)::integer FROM oldest) AS due_rows, (SELECT count(*)::integer FROM scanned) AS scanned,
           (SELECT endpoint_id FROM scanned ORDER BY n DESC LIMIT 1) AS last_endpoint,
           (SELECT test FROM scanned ORDER BY n DESC LIMIT 1) AS last_test
) AS how_far
LEFT JOIN free f ON true;

-- name: claim
-- Leases due deliveries of these lanes: at most :claim_maxes of each, and never more than its concurrency leaves. It is
-- a separate statement from take_lanes because its snapshot must be younger than the locks. A lane that is not open
-- gets one delivery, rotating over the ten oldest and the newest, so that one bad event cannot keep a healthy
-- endpoint's lane closed. The newest event is the one with the highest sequence of the twenty that became due last,
-- since these include retries of older events.
WITH lane AS (
    SELECT g.endpoint_id, g.test, g.probe, g.failed_probes,
           greatest(0, least(g.claim_max, g.concurrency - in_flight.n)) AS claimable
    FROM unnest(:lanes.endpoint_id::uuid[], :lanes.test::boolean[], :lanes.probe::boolean[],
                :lanes.failed_probes::integer[], :lanes.concurrency::integer[], :claim_maxes::integer[])
         AS g(endpoint_id, test, probe, failed_probes, concurrency, claim_max)
    CROSS JOIN LATERAL (
        SELECT count(*)::integer AS n FROM webhook_delivery f
        WHERE f.endpoint_id = g.endpoint_id AND f.test = g.test AND f.state = 'sending'
    ) AS in_flight
), picked AS (
    SELECT d.delivery_id, false AS probe
    FROM lane
    CROSS JOIN LATERAL (
        SELECT delivery_id FROM webhook_delivery
        WHERE endpoint_id = lane.endpoint_id AND test = lane.test AND state = 'pending' AND due_at <= :now
        ORDER BY due_at, sequence
        LIMIT lane.claimable
        FOR UPDATE SKIP LOCKED
    ) AS d
    WHERE NOT lane.probe
    UNION ALL
    SELECT d.delivery_id, true
    FROM lane
    CROSS JOIN LATERAL (
        SELECT among.delivery_id, row_number() OVER (ORDER BY among.newest, among.due_at, among.sequence) AS n,
               count(*) OVER () AS several
        FROM (
            (SELECT delivery_id, due_at, sequence, false AS newest FROM webhook_delivery
             WHERE endpoint_id = lane.endpoint_id AND test = lane.test AND state = 'pending' AND due_at <= :now
             ORDER BY due_at, sequence LIMIT 10)
            UNION ALL
            (SELECT delivery_id, due_at, sequence, true FROM (
                 SELECT delivery_id, due_at, sequence FROM webhook_delivery
                 WHERE endpoint_id = lane.endpoint_id AND test = lane.test AND state = 'pending' AND due_at <= :now
                 ORDER BY due_at DESC, sequence DESC LIMIT 20
             ) AS late
             ORDER BY sequence DESC LIMIT 1)
        ) AS among
    ) AS d
    WHERE lane.probe AND lane.claimable > 0 AND d.n = 1 + lane.failed_probes % d.several
), claimed AS (
    UPDATE webhook_delivery AS d
    SET state = 'sending', attempt = d.attempt + 1, lease_until = clock_timestamp() + :lease::interval
    FROM picked
    WHERE d.delivery_id = ANY(ARRAY(SELECT delivery_id FROM picked)) AND d.delivery_id = picked.delivery_id
      AND d.state IN ('pending', 'held') AND d.state <> 'held'
    RETURNING d.*, picked.probe
)
SELECT c.delivery_id, c.endpoint_id, c.account_id, c.test, c.event_id, c.type, c.step, c.attempt, c.due_at, c.probe,
       e.url, e.secret_sealed,
       ARRAY(SELECT o.secret_sealed FROM webhook_old_secret o
             WHERE o.endpoint_id = c.endpoint_id AND o.until > :now ORDER BY o.until DESC) AS old_secrets_sealed,
       j.event_body AS body, j.request_id
FROM claimed c
JOIN webhook_endpoint e ON e.endpoint_id = c.endpoint_id
JOIN read_event r ON r.account_id = c.account_id AND r.test = c.test AND r.sequence = c.sequence
                 AND r.created_at = c.created_at
-- OFFSET 0 forces a key look-up for each delivery, whenever the plan was made.
CROSS JOIN LATERAL (SELECT event_body, request_id FROM journal WHERE journal_id = r.journal_id OFFSET 0) AS j
ORDER BY c.due_at, c.sequence;

-- name: store_results
-- Stores a batch of finished attempts. The attempt's number guards the row: a late answer under a lost lease never
-- undoes a newer attempt. Success is the exception: the receiver has the event, so it ends any state. An attempt
-- recorded as worker_lost that did finish gets its true outcome. Sets synchronous_commit as `relax` does, without
-- another round trip. Returns the given lanes that a success changes: those that are not healthy.
WITH relaxed AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
), given AS (
    SELECT g.*
    FROM unnest(
        :attempts.due.delivery_id::uuid[], :attempts.due.account_id::uuid[], :attempts.due.test::boolean[],
        :attempts.due.attempt::integer[], :outcomes.state::text[],
        :outcomes.step::integer[], :outcomes.due_at::timestamptz[], :attempts.started_at::timestamptz[],
        :attempts.duration_ms::integer[], :attempts.answer.status::integer[], :attempts.answer.outcome::text[],
        :attempts.answer.kept::bytea[]
    ) AS g(delivery_id, account_id, test, attempt, state, step, due_at, started_at, duration_ms, status, outcome, answer)
    CROSS JOIN relaxed
), noted AS (
    INSERT INTO webhook_attempt (delivery_id, attempt, started_at, duration_ms, status, outcome, answer)
    SELECT delivery_id, attempt, started_at, duration_ms, status, outcome, answer FROM given
    ON CONFLICT (delivery_id, attempt) DO NOTHING
    RETURNING delivery_id, attempt, started_at, outcome, duration_ms
), lost AS (
    SELECT g.*, a.started_at AS lost_at
    FROM given g
    -- OFFSET 0: by key, and only for an attempt that another statement has recorded.
    CROSS JOIN LATERAL (SELECT started_at, outcome FROM webhook_attempt
                        WHERE delivery_id = g.delivery_id AND attempt = g.attempt FOR UPDATE OFFSET 0) AS a
    WHERE a.outcome = 'worker_lost'
      AND NOT EXISTS (SELECT FROM noted n WHERE n.delivery_id = g.delivery_id AND n.attempt = g.attempt)
), replaced AS (
    UPDATE webhook_attempt AS a
    SET started_at = l.started_at, duration_ms = l.duration_ms, status = l.status, outcome = l.outcome, answer = l.answer
    FROM lost l
    WHERE a.delivery_id = ANY(ARRAY(SELECT delivery_id FROM lost))
      AND a.delivery_id = l.delivery_id AND a.attempt = l.attempt
), counts AS MATERIALIZED (
    SELECT g.account_id, (c.started_at AT TIME ZONE 'America/Sao_Paulo')::date, c.outcome, sum(c.attempts), sum(c.duration_ms)
    FROM (
        SELECT delivery_id, attempt, started_at, outcome, 1 AS attempts, duration_ms FROM noted
        UNION ALL
        SELECT delivery_id, attempt, started_at, outcome, 1, duration_ms FROM lost
        UNION ALL
        -- A lost attempt lasted 0 ms.
        SELECT delivery_id, attempt, lost_at, 'worker_lost', -1, 0 FROM lost
    ) c
    JOIN given g ON g.delivery_id = c.delivery_id AND g.attempt = c.attempt AND NOT g.test
    GROUP BY 1, 2, 3
), counted AS (
    -- For the webhook report (migration 0012_reports). Each batch inserts rows of its own, so batches do not wait for
    -- one another.
    INSERT INTO report_attempt_told (account_id, day, outcome, attempts, duration_ms) TABLE counts
), stored AS (
    UPDATE webhook_delivery AS d
    SET state = g.state, step = g.step, due_at = g.due_at, lease_until = NULL,
        delivered_at = CASE WHEN g.state = 'delivered' THEN :now::timestamptz END
    FROM given g
    WHERE d.delivery_id = g.delivery_id
      AND ((d.state = 'sending' AND d.attempt = g.attempt) OR (g.state = 'delivered' AND d.state <> 'delivered'))
)
SELECT l.endpoint_id, l.test
FROM unnest(:lanes.endpoint_id::uuid[], :lanes.mode.test::boolean[]) AS g(endpoint_id, test)
JOIN webhook_lane l ON l.endpoint_id = g.endpoint_id AND l.test = g.test
WHERE l.state <> 'open' OR l.consecutive_failures > 0
   OR l.concurrency < CASE WHEN g.test THEN :cap_test::integer ELSE :cap::integer END;

-- name: release
-- Frees leases that have run out, by this server's clock: their worker died. The attempt counts but the step does not
-- advance, because our crash must not use up the merchant's retry schedule. A delivery whose workers died five times
-- becomes stuck, because it may have killed them.
WITH lost AS (
    SELECT delivery_id, lease_until FROM webhook_delivery
    WHERE state = 'sending' AND lease_until <= statement_timestamp()
    ORDER BY lease_until
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
), freed AS (
    UPDATE webhook_delivery AS d
    SET state = CASE WHEN d.losses + 1 >= :losses_max::integer THEN 'stuck' ELSE 'pending' END,
        losses = d.losses + 1, due_at = :now::timestamptz, lease_until = NULL
    FROM lost
    WHERE d.delivery_id = ANY(ARRAY(SELECT delivery_id FROM lost)) AND d.delivery_id = lost.delivery_id
      AND d.state IN ('sending', 'held')
    RETURNING d.delivery_id, d.account_id, d.test, d.attempt, d.state, lost.lease_until
), noted AS (
    INSERT INTO webhook_attempt (delivery_id, attempt, started_at, duration_ms, outcome)
    SELECT delivery_id, attempt, lease_until - :lease::interval, 0, 'worker_lost' FROM freed
    ON CONFLICT (delivery_id, attempt) DO NOTHING
    RETURNING delivery_id, started_at, outcome
), counts AS MATERIALIZED (
    SELECT d.account_id, (n.started_at AT TIME ZONE 'America/Sao_Paulo')::date, n.outcome, count(*), 0
    FROM noted n JOIN freed d ON d.delivery_id = n.delivery_id AND NOT d.test
    GROUP BY 1, 2, 3
), counted AS (
    INSERT INTO report_attempt_told (account_id, day, outcome, attempts, duration_ms) TABLE counts
)
SELECT delivery_id, attempt, state FROM freed;
