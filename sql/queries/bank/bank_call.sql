-- Calls to banks, counted per hour by workers (banks/measured.py) and kept for some weeks.

-- name: add
-- Adds what one worker counted in a minute. In key order, so that two workers writing the same hours cannot deadlock.
WITH counted AS MATERIALIZED (
    SELECT g.hour, g.bank, g.operation, g.calls, g.rejected, g.unanswered, g.duration_ms, g.slowest_ms
    FROM unnest(:counted.hour::timestamptz[], :counted.bank::text[], :counted.operation::text[], :counted.calls::bigint[],
                :counted.rejected::bigint[], :counted.unanswered::bigint[], :counted.duration_ms::bigint[],
                :counted.slowest_ms::bigint[])
         AS g (hour, bank, operation, calls, rejected, unanswered, duration_ms, slowest_ms)
    ORDER BY g.hour, g.bank, g.operation
)
INSERT INTO bank_call_hour AS h (hour, bank, operation, calls, rejected, unanswered, duration_ms, slowest_ms)
SELECT hour, bank, operation, calls, rejected, unanswered, duration_ms, slowest_ms FROM counted
ON CONFLICT (hour, bank, operation) DO UPDATE
SET calls = h.calls + excluded.calls, rejected = h.rejected + excluded.rejected,
    unanswered = h.unanswered + excluded.unanswered, duration_ms = h.duration_ms + excluded.duration_ms,
    slowest_ms = greatest(h.slowest_ms, excluded.slowest_ms);

-- name: forget
DELETE FROM bank_call_hour WHERE hour < :before;

-- name: by_time
-- By hour or by day, of America/Sao_Paulo.
SELECT sum(calls)::bigint AS calls, sum(rejected)::bigint AS rejected, sum(unanswered)::bigint AS unanswered,
       sum(duration_ms)::bigint AS duration_ms, max(slowest_ms) AS slowest_ms, date_trunc(:by, hour, 'America/Sao_Paulo') AS at
FROM bank_call_hour WHERE hour >= :since
GROUP BY at ORDER BY at;

-- name: by_operation
SELECT sum(calls)::bigint AS calls, sum(rejected)::bigint AS rejected, sum(unanswered)::bigint AS unanswered,
       sum(duration_ms)::bigint AS duration_ms, max(slowest_ms) AS slowest_ms, bank, operation
FROM bank_call_hour WHERE hour >= :since
GROUP BY bank, operation ORDER BY bank, operation;
