-- Reports of one account for its own people, in both modes. They add the kept totals of days and longer spans and the
-- journal rows not folded into them yet (migration 0012_reports), so they are exact at any moment.

-- name: begins
-- The first day with anything to report: the account's first day, or that of an earlier ledger entry imported with it.
SELECT (least(a.created_at, (
    SELECT l.created_at FROM read_ledger l WHERE l.account_id = :account_id AND l.test = :test ORDER BY l.sequence LIMIT 1
)) AT TIME ZONE 'America/Sao_Paulo')::date AS day
FROM account a WHERE a.account_id = :account_id;

-- name: outcomes
-- Sums the kept totals of these days by status; behind_spans corrects them for charges that changed since the totals
-- were folded.
SELECT CASE :by WHEN 'month' THEN date_trunc('month', day)::date ELSE day END AS day,
       sum(charges)::bigint AS issued, sum(cents)::bigint AS issued_cents,
       coalesce(sum(charges) FILTER (WHERE status IN ('paid', 'refunded')), 0)::bigint AS paid,
       coalesce(sum(cents) FILTER (WHERE status IN ('paid', 'refunded')), 0)::bigint AS paid_cents,
       coalesce(sum(charges) FILTER (WHERE status = 'pending'), 0)::bigint AS open,
       coalesce(sum(charges) FILTER (WHERE status = 'expired'), 0)::bigint AS expired,
       coalesce(sum(charges) FILTER (WHERE status = 'cancelled'), 0)::bigint AS cancelled,
       coalesce(sum(charges) FILTER (WHERE status = 'failed'), 0)::bigint AS failed
FROM (
    SELECT starts AS day, status, charges, cents FROM span_charge
    WHERE account_id = :account_id AND test = :test AND dated = 'issued' AND span = 'day' AND starts BETWEEN :first AND :last
    UNION ALL
    SELECT day, status, charges, cents FROM behind_spans(:account_id, :test, 'issued') WHERE day BETWEEN :first AND :last
) AS part
GROUP BY 1
HAVING sum(charges) > 0
ORDER BY 1 DESC;

-- name: outcomes_counted
-- The same, counted from the charges of these days (index read_charge_page) while the totals are far behind.
SELECT CASE :by WHEN 'month' THEN date_trunc('month', created_at AT TIME ZONE 'America/Sao_Paulo')::date
                ELSE (created_at AT TIME ZONE 'America/Sao_Paulo')::date END AS day,
       count(*) AS issued, sum(amount_cents)::bigint AS issued_cents,
       count(*) FILTER (WHERE status IN ('paid', 'refunded')) AS paid,
       coalesce(sum(amount_cents) FILTER (WHERE status IN ('paid', 'refunded')), 0)::bigint AS paid_cents,
       count(*) FILTER (WHERE status = 'pending') AS open,
       count(*) FILTER (WHERE status = 'expired') AS expired,
       count(*) FILTER (WHERE status = 'cancelled') AS cancelled,
       count(*) FILTER (WHERE status = 'failed') AS failed
FROM read_charge
WHERE account_id = :account_id AND test = :test AND created_at >= :created_from AND created_at < :created_to
GROUP BY 1
ORDER BY 1 DESC;

-- name: aging
-- A few ranges of spans for each bucket, and the changes since the totals were folded.
WITH behind AS MATERIALIZED (
    SELECT day, status, charges, cents FROM behind_spans(:account_id, :test, 'due')
), kept AS (
    SELECT g.bucket, sum(t.charges) AS charges, sum(t.cents) AS cents
    FROM unnest(:ranges.bucket::integer[], :ranges.status::text[], :ranges.span::text[], :ranges.first::date[],
                :ranges.after::date[]) AS g (bucket, status, span, first, after)
    CROSS JOIN LATERAL (
        SELECT sum(charges) AS charges, sum(cents) AS cents FROM span_charge
        WHERE account_id = :account_id AND test = :test AND dated = 'due' AND span = g.span
          AND starts >= g.first AND starts < g.after AND status = g.status
    ) t
    GROUP BY g.bucket
)
SELECT (coalesce((SELECT charges FROM kept WHERE bucket = b.place), 0) + coalesce(d.charges, 0))::bigint AS boletos,
       (coalesce((SELECT cents FROM kept WHERE bucket = b.place), 0) + coalesce(d.cents, 0))::bigint AS amount
FROM unnest(:statuses::text[], :firsts::date[], :lasts::date[]) WITH ORDINALITY AS b (status, first, last, place)
LEFT JOIN LATERAL (
    SELECT sum(charges) AS charges, sum(cents) AS cents FROM behind
    WHERE status = b.status AND day BETWEEN b.first AND b.last
) d ON true
ORDER BY b.place;

-- name: aging_counted
-- The same while the totals are far behind; index read_charge_due, one range for each bucket.
SELECT coalesce(d.boletos, 0)::bigint AS boletos, coalesce(d.amount, 0)::bigint AS amount
FROM unnest(:statuses::text[], :firsts::date[], :lasts::date[]) WITH ORDINALITY AS b (status, first, last, position)
LEFT JOIN LATERAL (
    SELECT count(*) AS boletos, sum(amount_cents) AS amount FROM read_charge
    WHERE account_id = :account_id AND test = :test AND due_date BETWEEN b.first AND b.last AND status = b.status
) d ON true
ORDER BY b.position;

-- name: months
-- For each month the sum of entries by type, and the ledger's balance at its beginning and end. The two come from
-- different tables and must agree. Sums come from the kept months (span_entry) and the journal rows not folded yet, as
-- in read_ledger.sums. `edges` are the months' beginnings, and the end of the last month.
WITH edge AS (
    SELECT g.at, coalesce(e.balance_after_cents, 0) AS balance_cents
    FROM unnest(:edges::timestamptz[]) AS g(at)
    LEFT JOIN LATERAL (
        SELECT balance_after_cents FROM read_ledger
        WHERE account_id = :account_id AND NOT test AND created_at < g.at
        ORDER BY created_at DESC, sequence DESC
        LIMIT 1
    ) AS e ON true
), month AS (
    SELECT (at AT TIME ZONE 'America/Sao_Paulo')::date AS month, balance_cents AS opening_cents,
           lead(balance_cents) OVER next AS closing_cents, lead(at) OVER next AS until
    FROM edge WINDOW next AS (ORDER BY at)
), moved AS (
    SELECT starts AS month, type, entries AS lines, cents FROM span_entry
    WHERE account_id = :account_id AND span = 'month' AND starts >= (SELECT min(month) FROM month)
    UNION ALL
    SELECT date_trunc('month', j.recorded_at AT TIME ZONE 'America/Sao_Paulo')::date, e.type, 1, e.amount_cents
    FROM journal j CROSS JOIN LATERAL jsonb_to_record(j.payload -> 'entry') AS e (type text, amount_cents bigint)
    WHERE j.journal_id > (SELECT journal_id FROM report_position) AND j.account_id = :account_id AND NOT j.test
      AND j.payload ? 'entry'
), kind AS (
    SELECT month, type, sum(lines)::bigint AS lines, sum(cents)::bigint AS cents FROM moved GROUP BY 1, 2
)
SELECT m.month, m.opening_cents::bigint AS opening_cents, m.closing_cents::bigint AS closing_cents, k.type,
       coalesce(k.lines, 0)::bigint AS lines, coalesce(k.cents, 0)::bigint AS cents
FROM month m LEFT JOIN kind k ON k.month = m.month
WHERE m.until IS NOT NULL;
