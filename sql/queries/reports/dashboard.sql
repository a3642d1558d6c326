-- What the dashboard's first page and the page of one charge show beside what the API's lists show.

-- name: days
-- What each day of the statement began with, what came in, what went out, what it ended with, and of that what was
-- received, and what of fees. All from the running balance: a day's movement is the difference of two balances, its number of
-- lines the difference of two numbers; what of it was neither payment nor fee is few lines, found by their types and numbers,
-- each summed up where it is found, so that no plan reads the day and discards its payments. Fees are as many as payments:
-- of production, where the totals are near, they are what is kept of the day and the rows of the journal that are not in it
-- yet; else they are counted. So a page costs two looks a day and those few lines, however many payments there were.
-- Of a day's fees what was given back is taken off. `edges` are the days' beginnings, and the end of the last.
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
-- The payer of a charge as the merchant named it; sealed.
SELECT payer_sealed FROM charge WHERE charge_id = :charge_id AND account_id = :account_id AND test = :test;

-- name: payers
-- The payers of a page of charges: one probe of charge's key for each.
SELECT charge_id, payer_sealed FROM charge
WHERE charge_id = ANY(:charge_ids::uuid[]) AND account_id = :account_id AND test = :test AND payer_sealed IS NOT NULL;

-- name: schedule_payers
-- The same of a page of schedules, which are of production alone.
SELECT schedule_id, payer_sealed FROM schedule
WHERE schedule_id = ANY(:schedule_ids::uuid[]) AND account_id = :account_id AND payer_sealed IS NOT NULL;

-- name: charges_of_payer
-- read_charge_payer, the newest first: what the merchant knew of this payer when he charged him last. One probe of charge's
-- key for each.
SELECT r.charge_id, (
    SELECT c.payer_sealed FROM charge c
    WHERE c.charge_id = r.charge_id AND c.account_id = :account_id AND c.payer_sealed IS NOT NULL
) AS payer_sealed
FROM read_charge r
WHERE r.account_id = :account_id AND r.test = :test AND r.payer_document_hash = :document_hash
ORDER BY r.created_at DESC, r.charge_id DESC
LIMIT :limit;

-- name: newest_payers
-- read_charge_page: whom the newest :looked charges were made to, each payer once by his newest, the newest first. What is
-- looked at is bounded whether charges name their payers or not. One probe of charge's key for each payer.
SELECT p.charge_id, c.payer_sealed
FROM (
    SELECT DISTINCT ON (newest.payer_document_hash) newest.charge_id, newest.created_at
    FROM (
        SELECT charge_id, created_at, payer_document_hash FROM read_charge
        WHERE account_id = :account_id AND test = :test
        ORDER BY created_at DESC, charge_id DESC
        LIMIT :looked
    ) AS newest
    WHERE newest.payer_document_hash IS NOT NULL
    ORDER BY newest.payer_document_hash, newest.created_at DESC, newest.charge_id DESC
) AS p
JOIN charge c ON c.charge_id = p.charge_id AND c.account_id = :account_id AND c.payer_sealed IS NOT NULL
ORDER BY p.created_at DESC, p.charge_id DESC;

-- name: life
-- journal_of_charge. What happened to a charge after its creation, the latest :limit of it, oldest first. The caller has
-- checked that the charge is the account's; the statement checks it again.
SELECT journal_id, kind, recorded_at, actor, request_id, version FROM (
    SELECT journal_id, kind, recorded_at, actor, request_id, version FROM journal
    WHERE charge_id = :charge_id AND kind <> 'charge.created' AND account_id = :account_id AND test = :test
    ORDER BY version DESC, journal_id DESC
    LIMIT :limit
) AS latest
ORDER BY version, journal_id;

-- name: mails
-- What was sent to the payer about a charge, and what is to be: those of their own accord by the index that lets each be
-- written once, then the latest of those asked for by theirs.
SELECT mail_id, kind, state, trouble, to_sealed, created_at, sent_at FROM (
    SELECT mail_id, kind, state, trouble, to_sealed, created_at, sent_at FROM mail
    WHERE charge_id = :charge_id AND kind NOT IN ('asked', 'notice', 'access', 'security') AND account_id = :account_id
    UNION ALL
    (SELECT mail_id, kind, state, trouble, to_sealed, created_at, sent_at FROM mail
     WHERE charge_id = :charge_id AND kind = 'asked' AND account_id = :account_id
     ORDER BY created_at DESC
     LIMIT :limit)
) AS written
ORDER BY created_at
LIMIT :limit;

-- name: payments
-- Every payment of one charge, the latest :limit of them; there is more than one only when something went wrong. They are
-- found (read_payment_charge) before they are ordered: planned while the table is small, the account's whole range of
-- instants would look as cheap.
WITH of_charge AS MATERIALIZED (
    SELECT account_id, test, paid_at, payment_id, doc FROM payment_view WHERE charge_id = :charge_id
)
SELECT doc FROM of_charge
WHERE account_id = :account_id AND test = :test
ORDER BY paid_at DESC, payment_id DESC
LIMIT :limit;
