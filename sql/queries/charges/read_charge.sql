-- Lists of charges, with the keyset (created_at, charge_id). Each statement walks one range of an index per page, from
-- where time_page begins (readmodels/page.py) to the far end of the requested days; the other filters are conditions on
-- the rows of that range. Absent bounds are given as -infinity and infinity, absent statuses and methods as all of
-- them. by_key compares due dates by an expression: in a generic plan read_charge_due would look as cheap as the key's
-- index.

-- name: find
-- A test charge expires by its account's clock, so the clock is read in the same statement.
SELECT r.charge_id, r.doc, coalesce(k.ahead_s, 0) AS ahead_s
FROM unnest(:charge_ids::uuid[], :account_ids::uuid[], :tests::boolean[]) AS g (charge_id, account_id, test)
JOIN charge_view r ON r.charge_id = g.charge_id AND r.account_id = g.account_id AND r.test = g.test
LEFT JOIN sandbox_clock k ON g.test AND k.account_id = g.account_id;

-- name: page
-- both ways
-- Index read_charge_page: every charge of an account and mode, by age.
SELECT created_at AS at, charge_id AS id, doc FROM charge_view
WHERE account_id = :account_id AND test = :test
  AND (created_at, charge_id) {<} (:at, :id)
  AND created_at {>=} :until
ORDER BY created_at {DESC}, charge_id {DESC}
LIMIT :limit;

-- name: by_key
-- both ways
-- The index of the most selective key: read_charge_reference, _payer (a document's blind fingerprint), _nosso_numero,
-- _txid (boletos; a PIX charge's txid is its id and goes by_id), _integrador.
SELECT created_at AS at, charge_id AS id, doc FROM charge_view
WHERE account_id = :account_id AND test = :test
  AND external_id = :external_id -- when external_id
  AND payer_document_hash = :payer_document_hash -- when payer_document_hash
  AND nosso_numero = :nosso_numero -- when nosso_numero
  AND txid = :txid -- when txid
  AND integrador_code = :integrador_code -- when integrador_code
  AND coalesce(due_date, 'infinity') BETWEEN :due_from AND :due_to
  AND status = ANY(:statuses::text[]) AND payment_method = ANY(:methods::text[])
  AND (created_at, charge_id) {<} (:at, :id)
  AND created_at {>=} :until
ORDER BY created_at {DESC}, charge_id {DESC}
LIMIT :limit;

-- name: by_id
-- The primary key, at most one row. The row is found first and filtered afterwards: in a generic plan the range of
-- created_at would look as cheap, and it is the whole account. Boletos are excluded because their id is no txid.
WITH named AS MATERIALIZED (
    SELECT created_at, charge_id, doc, status, payment_method, amount_cents, external_id, payer_document_hash,
           nosso_numero, integrador_code, due_date
    FROM charge_view WHERE charge_id = :charge_id AND account_id = :account_id AND test = :test
      AND payment_method IN ('pix', 'boleto_pix')
)
SELECT created_at AS at, charge_id AS id, doc, status, amount_cents FROM named
WHERE status = ANY(:statuses::text[]) AND payment_method = ANY(:methods::text[])
  AND external_id = :external_id -- when external_id
  AND payer_document_hash = :payer_document_hash -- when payer_document_hash
  AND nosso_numero = :nosso_numero -- when nosso_numero
  AND integrador_code = :integrador_code -- when integrador_code
  AND coalesce(due_date, 'infinity') BETWEEN :due_from AND :due_to
  AND created_at >= :created_from AND created_at < :created_to;

-- name: by_status
-- both ways
-- Index read_charge_status: one range for each requested pair of status and method (at most 24); the first page of each
-- is merged. Documents are looked up for the rows of the page only.
SELECT r.at, r.id, (SELECT doc FROM charge_view WHERE charge_id = r.id AND account_id = :account_id) AS doc
FROM unnest(:statuses::text[]) AS s (status)
CROSS JOIN unnest(:methods::text[]) AS m (payment_method)
CROSS JOIN LATERAL (
    SELECT created_at AS at, charge_id AS id FROM read_charge
    WHERE account_id = :account_id AND test = :test AND status = s.status AND payment_method = m.payment_method
      AND (created_at, charge_id) {<} (:at, :id)
      AND created_at {>=} :until
    ORDER BY created_at {DESC}, charge_id {DESC}
    LIMIT :limit
) r
ORDER BY r.at {DESC}, r.id {DESC}
LIMIT :limit;

-- name: by_due
-- both ways
-- Index read_charge_due: a loose index scan over the due dates that exist in the range, one range for each date; the
-- first page of each is merged. There are at most 9,000 dates, as many as a barcode can express
-- (domain/boleto/codes.py).
WITH RECURSIVE day AS (
    (SELECT due_date FROM read_charge
     WHERE account_id = :account_id AND test = :test AND due_date >= :due_from
     ORDER BY due_date LIMIT 1)
    UNION ALL
    SELECT n.due_date FROM day CROSS JOIN LATERAL (
        SELECT due_date FROM read_charge
        WHERE account_id = :account_id AND test = :test AND due_date > day.due_date
        ORDER BY due_date LIMIT 1
    ) n
    WHERE n.due_date <= :due_to
)
SELECT r.at, r.id, (SELECT doc FROM charge_view WHERE charge_id = r.id AND account_id = :account_id) AS doc
FROM (SELECT due_date FROM day WHERE due_date <= :due_to LIMIT 9000) d
CROSS JOIN LATERAL (
    SELECT created_at AS at, charge_id AS id FROM read_charge
    WHERE account_id = :account_id AND test = :test AND due_date = d.due_date
      AND status = ANY(:statuses::text[]) AND payment_method = ANY(:methods::text[])
      AND (created_at, charge_id) {<} (:at, :id)
      AND created_at {>=} :until
    ORDER BY created_at {DESC}, charge_id {DESC}
    LIMIT :limit
) r
ORDER BY r.at {DESC}, r.id {DESC}
LIMIT :limit;

-- name: due_days
-- Index read_charge_due: a loose index scan over the due dates that exist in the range, one probe for each.
WITH RECURSIVE day AS (
    (SELECT due_date FROM read_charge
     WHERE account_id = :account_id AND test = :test AND due_date >= :due_from
     ORDER BY due_date LIMIT 1)
    UNION ALL
    SELECT n.due_date FROM day CROSS JOIN LATERAL (
        SELECT due_date FROM read_charge
        WHERE account_id = :account_id AND test = :test AND due_date > day.due_date
        ORDER BY due_date LIMIT 1
    ) n
    WHERE n.due_date <= :due_to
)
SELECT due_date FROM day WHERE due_date <= :due_to LIMIT :limit;

-- name: summary
-- Count and amount per status, over the range and conditions of the pages.
SELECT status, count(*) AS count, sum(amount_cents)::bigint AS amount_cents FROM read_charge
WHERE account_id = :account_id AND test = :test
  AND external_id = :external_id -- when external_id
  AND payer_document_hash = :payer_document_hash -- when payer_document_hash
  AND nosso_numero = :nosso_numero -- when nosso_numero
  AND txid = :txid -- when txid
  AND integrador_code = :integrador_code -- when integrador_code
  AND coalesce(due_date, 'infinity') BETWEEN :due_from AND :due_to
  AND status = ANY(:statuses::text[]) AND payment_method = ANY(:methods::text[])
  AND created_at >= :created_from AND created_at < :created_to
GROUP BY status;

-- name: first_overdue
-- A pending charge that has expired by its account's clock, if there is one.
SELECT charge_id FROM charge
WHERE account_id = :account_id AND test = :test AND status = 'pending' AND expires_at <= :now
ORDER BY expires_at
LIMIT 1;

-- name: overdue_sum
-- Count and amount of all pending charges that have expired, with the filters of the pages except the status: one range
-- of charge_overdue.
SELECT count(*) AS count, coalesce(sum(r.amount_cents), 0)::bigint AS amount_cents
FROM charge c
-- OFFSET 0 forces a look-up by the key for each, whatever index the filters would suggest.
CROSS JOIN LATERAL (SELECT * FROM read_charge WHERE charge_id = c.charge_id OFFSET 0) AS r
WHERE c.account_id = :account_id AND c.test = :test AND c.status = 'pending' AND c.expires_at <= :now
  AND r.status = 'pending' AND r.account_id = :account_id AND r.test = :test
  AND r.charge_id = :charge_id AND r.payment_method IN ('pix', 'boleto_pix') -- when charge_id
  AND r.external_id = :external_id -- when external_id
  AND r.payer_document_hash = :payer_document_hash -- when payer_document_hash
  AND r.nosso_numero = :nosso_numero -- when nosso_numero
  AND r.txid = :txid -- when txid
  AND r.integrador_code = :integrador_code -- when integrador_code
  AND coalesce(r.due_date, 'infinity') BETWEEN :due_from AND :due_to
  AND r.payment_method = ANY(:methods::text[])
  AND r.created_at >= :created_from AND r.created_at < :created_to;

-- name: summary_by_due
-- The same by due date (index read_charge_due).
SELECT status, count(*) AS count, sum(amount_cents)::bigint AS amount_cents FROM read_charge
WHERE account_id = :account_id AND test = :test AND due_date BETWEEN :due_from AND :due_to
  AND status = ANY(:statuses::text[]) AND payment_method = ANY(:methods::text[])
  AND created_at >= :created_from AND created_at < :created_to
GROUP BY status;

-- name: summary_by_totals
-- The same for whole days of issue, or of due dates, from the kept totals (span_charge): the ranges of spans that make
-- up the days (readmodels/spans.py), a row for each span, method and status. For charges that changed since the totals
-- were folded, behind_spans subtracts them from the row that counts them and adds them to the row of their present
-- status. One snapshot sees the position, the totals and the journal after the position, so no charge is counted twice
-- or missed.
SELECT status, sum(charges)::bigint AS count, sum(cents)::bigint AS amount_cents FROM (
    SELECT t.status, t.charges, t.cents
    FROM unnest(:ranges.span::text[], :ranges.first::date[], :ranges.after::date[]) AS g (span, first, after)
    CROSS JOIN LATERAL (
        -- Summed per range: a join might read the totals of all accounts.
        SELECT status, sum(charges) AS charges, sum(cents) AS cents FROM span_charge
        WHERE account_id = :account_id AND test = :test AND dated = :dated AND span = g.span
          AND starts >= g.first AND starts < g.after
          AND status = ANY(:statuses::text[]) AND payment_method = ANY(:methods::text[])
        GROUP BY status
    ) t
    UNION ALL
    SELECT status, charges, cents FROM behind_spans(:account_id, :test, :dated)
    WHERE day >= :first AND day < :after AND status = ANY(:statuses::text[]) AND payment_method = ANY(:methods::text[])
) AS part
GROUP BY status HAVING sum(charges) <> 0;
