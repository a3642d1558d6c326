-- Statements for the dashboard's first page and the page of a charge, beyond what the API's lists return.

-- name: days
-- For each day of the ledger: opening balance, money in, money out, closing balance, the payments received, and the
-- fees. All are derived from the running balance: a day's movement is the difference of two balances, its number of
-- entries the difference of two sequences. Entries that are neither payment nor fee are few; they are found by type and
-- sequence and summed per type, so that no plan reads the day's payments and discards them. Fees are as many as
-- payments. In production, if the totals are up to date, they come from the kept totals of the day and the journal rows
-- not folded yet; otherwise they are counted. So a page costs two look-ups per day and those few entries, however many
-- payments there were. Refunded fees are subtracted from a day's fees. `edges` are the days' beginnings, and the end of
-- the last day.
WITH edge AS (
    SELECT g.at, coalesce(e.sequence, 0) AS sequence, coalesce(e.balance_after_cents, 0) AS balance_cents
    FROM unnest(:edges::timestamptz[]) AS g(at)
    LEFT JOIN LATERAL (
        SELECT sequence, balance_after_cents FROM read_ledger
        WHERE account_id = :account_id AND test = :test AND created_at < g.at
        ORDER BY created_at DESC, sequence DESC
        LIMIT 1
    ) AS e ON true
), day AS (
    SELECT at, (at AT TIME ZONE 'America/Sao_Paulo')::date AS "on", sequence AS after, lead(sequence) OVER next AS until, balance_cents AS opening_cents,
           lead(balance_cents) OVER next AS closing_cents
    FROM edge WINDOW next AS (ORDER BY at)
), near AS MATERIALIZED (
    SELECT NOT :test::boolean
           AND CASE WHEN s.is_called THEN s.last_value - p.journal_id ELSE 0 END <= :lag_rows_max::bigint AS kept
    FROM report_position p, journal_journal_id_seq s
), behind AS MATERIALIZED (
    SELECT (recorded_at AT TIME ZONE 'America/Sao_Paulo')::date AS "on", count(*) AS lines,
           sum((payload #>> '{entry,amount_cents}')::bigint) AS cents
    FROM journal
    WHERE (SELECT kept FROM near) AND journal_id > (SELECT journal_id FROM report_position) AND account_id = :account_id AND NOT test
      AND payload #>> '{entry,type}' = 'fee'
    GROUP BY 1
)
SELECT d.on,
       (d.until - d.after - coalesce(o.lines, 0) - coalesce(f.lines, 0))::bigint AS payments,
       (d.closing_cents - d.opening_cents - coalesce(o.cents, 0) - coalesce(f.cents, 0))::bigint AS received_cents,
       d.opening_cents::bigint AS opening_cents,
       (d.closing_cents - d.opening_cents + coalesce(o.out_cents, 0) + greatest(-f.cents, 0))::bigint AS in_cents,
       (coalesce(o.out_cents, 0) + greatest(-f.cents, 0))::bigint AS out_cents,
       d.closing_cents::bigint AS closing_cents,
       (d.until - d.after)::bigint AS lines,
       coalesce(-f.cents, 0)::bigint AS fee_cents
FROM day d
LEFT JOIN LATERAL (
    SELECT sum(l.lines) AS lines, sum(l.cents) AS cents, sum(l.out_cents) AS out_cents
    FROM unnest(:other_types::text[]) AS k(type)
    CROSS JOIN LATERAL (
        SELECT count(*) AS lines, sum(amount_cents) AS cents, -sum(amount_cents) FILTER (WHERE amount_cents < 0) AS out_cents
        FROM read_ledger
        WHERE account_id = :account_id AND test = :test AND type = k.type AND sequence > d.after AND sequence <= d.until
    ) AS l
) AS o ON true
LEFT JOIN LATERAL (
    SELECT sum(t.lines) AS lines, sum(t.cents) AS cents
    FROM (
        SELECT entries AS lines, cents FROM span_entry
        WHERE (SELECT kept FROM near) AND account_id = :account_id AND span = 'day' AND starts = d.on AND type = 'fee'
        UNION ALL
        SELECT lines, cents FROM behind b WHERE b.on = d.on
        UNION ALL
        SELECT count(*), sum(amount_cents) FROM read_ledger
        WHERE NOT (SELECT kept FROM near) AND account_id = :account_id AND test = :test AND type = 'fee'
          AND sequence > d.after AND sequence <= d.until
    ) AS t
) AS f ON true
WHERE d.until IS NOT NULL
ORDER BY d.at;

-- name: payer
-- The payer of a charge as the merchant gave it, sealed.
SELECT payer_sealed FROM charge WHERE charge_id = :charge_id AND account_id = :account_id AND test = :test;

-- name: payers
-- The payers of a page of charges: one probe of charge's key for each.
SELECT charge_id, payer_sealed FROM charge
WHERE charge_id = ANY(:charge_ids::uuid[]) AND account_id = :account_id AND test = :test AND payer_sealed IS NOT NULL;

-- name: schedule_payers
-- The same for a page of schedules, which exist in production only. OFFSET 0 forces a look-up by the key: where most
-- accounts have few schedules, reading the account's would look as cheap.
SELECT s.schedule_id, s.payer_sealed
FROM unnest(:schedule_ids::uuid[]) AS g (schedule_id)
CROSS JOIN LATERAL (
    SELECT schedule_id, account_id, payer_sealed FROM schedule WHERE schedule_id = g.schedule_id OFFSET 0
) AS s
WHERE s.account_id = :account_id AND s.payer_sealed IS NOT NULL;

-- name: charges_of_payer
-- Index read_charge_payer, newest first: the payer's data as of the merchant's latest charges to them. One probe of
-- charge's key for each.
SELECT r.charge_id, (
    SELECT c.payer_sealed FROM charge c
    WHERE c.charge_id = r.charge_id AND c.account_id = :account_id AND c.payer_sealed IS NOT NULL
) AS payer_sealed
FROM read_charge r
WHERE r.account_id = :account_id AND r.test = :test AND r.payer_document_hash = :document_hash
ORDER BY r.created_at DESC, r.charge_id DESC
LIMIT :limit;

-- name: life
-- Index journal_of_charge. The latest :limit journal rows of a charge after its creation, oldest first. The caller has
-- checked that the charge belongs to the account; the statement checks it again.
SELECT kind, recorded_at, actor, request_id, version FROM (
    SELECT journal_id, kind, recorded_at, actor, request_id, version FROM journal
    WHERE charge_id = :charge_id AND kind <> 'charge.created' AND account_id = :account_id AND test = :test
    ORDER BY version DESC, journal_id DESC
    LIMIT :limit
) AS latest
ORDER BY version, journal_id;

-- name: mails
-- The mails to the payer about a charge, sent or waiting: the automatic ones (found by the unique index that lets each
-- be written once), and the latest of those that the merchant requested (by an index of their own).
SELECT mail_id, kind, state, to_sealed, created_at, sent_at FROM (
    SELECT mail_id, kind, state, to_sealed, created_at, sent_at FROM mail
    WHERE charge_id = :charge_id AND kind NOT IN ('asked', 'notice', 'access', 'security') AND account_id = :account_id
    UNION ALL
    (SELECT mail_id, kind, state, to_sealed, created_at, sent_at FROM mail
     WHERE charge_id = :charge_id AND kind = 'asked' AND account_id = :account_id
     ORDER BY created_at DESC
     LIMIT :limit)
) AS written
ORDER BY created_at
LIMIT :limit;

-- name: payments
-- The latest :limit payments of one charge; there is more than one only if something went wrong. They are found by
-- read_payment_charge before they are ordered: to a plan made while the table is small, the account's whole range of
-- paid_at would look as cheap.
WITH of_charge AS MATERIALIZED (
    SELECT account_id, test, paid_at, payment_id, doc FROM payment_view WHERE charge_id = :charge_id
)
SELECT doc FROM of_charge
WHERE account_id = :account_id AND test = :test
ORDER BY paid_at DESC, payment_id DESC
LIMIT :limit;
