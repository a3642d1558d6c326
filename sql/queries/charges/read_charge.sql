-- Charges as they are seen. Pages go by key (created_at, charge_id): each statement is written for
-- one index, walks one range of it per page, and carries the other filters along as conditions on
-- the rows of that range. Absent bounds are -infinity and infinity, absent lists are NULL.

-- name: find
-- A test charge's status is judged by its account's clock, so that is read in the same moment.
SELECT r.charge_id, r.doc, coalesce(k.ahead_s, 0) AS ahead_s
FROM unnest(:charge_ids::uuid[], :account_ids::uuid[], :tests::boolean[]) AS g (charge_id, account_id, test)
JOIN read_charge r ON r.charge_id = g.charge_id AND r.account_id = g.account_id AND r.test = g.test
LEFT JOIN sandbox_clock k ON g.test AND k.account_id = g.account_id;

-- name: page_desc
-- read_charge_page: every charge of an account and mode, by age.
SELECT charge_id, created_at, doc FROM read_charge
WHERE account_id = :account_id AND test = :test
  AND (created_at, charge_id) < (:at, :id)
  AND created_at >= :created_from
  AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
  AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
ORDER BY created_at DESC, charge_id DESC
LIMIT :most;

-- name: page_asc
-- read_charge_page: every charge of an account and mode, by age.
SELECT charge_id, created_at, doc FROM read_charge
WHERE account_id = :account_id AND test = :test
  AND (created_at, charge_id) > (:at, :id)
  AND created_at >= :created_from
  AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
  AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
ORDER BY created_at ASC, charge_id ASC
LIMIT :most;

-- name: by_reference_desc
-- read_charge_reference: the charges that share an external_id.
SELECT charge_id, created_at, doc FROM read_charge
WHERE account_id = :account_id AND test = :test
  AND external_id = :external_id
  AND (created_at, charge_id) < (:at, :id)
  AND created_at >= :created_from
  AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
  AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
  AND (:payer_document_hash::text IS NULL OR payer_document_hash = :payer_document_hash)
  AND (:nosso_numero::text IS NULL OR nosso_numero = :nosso_numero)
  AND (:txid::text IS NULL OR txid = :txid)
  AND (:integrador_code::text IS NULL OR integrador_code = :integrador_code)
  AND (:charge_id::uuid IS NULL OR charge_id = :charge_id)
  AND (:due_from::date IS NULL OR due_date >= :due_from)
  AND (:due_to::date IS NULL OR due_date <= :due_to)
ORDER BY created_at DESC, charge_id DESC
LIMIT :most;

-- name: by_reference_asc
-- read_charge_reference: the charges that share an external_id.
SELECT charge_id, created_at, doc FROM read_charge
WHERE account_id = :account_id AND test = :test
  AND external_id = :external_id
  AND (created_at, charge_id) > (:at, :id)
  AND created_at >= :created_from
  AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
  AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
  AND (:payer_document_hash::text IS NULL OR payer_document_hash = :payer_document_hash)
  AND (:nosso_numero::text IS NULL OR nosso_numero = :nosso_numero)
  AND (:txid::text IS NULL OR txid = :txid)
  AND (:integrador_code::text IS NULL OR integrador_code = :integrador_code)
  AND (:charge_id::uuid IS NULL OR charge_id = :charge_id)
  AND (:due_from::date IS NULL OR due_date >= :due_from)
  AND (:due_to::date IS NULL OR due_date <= :due_to)
ORDER BY created_at ASC, charge_id ASC
LIMIT :most;

-- name: by_payer_desc
-- read_charge_payer: the charges of one payer's document (its blind fingerprint).
SELECT charge_id, created_at, doc FROM read_charge
WHERE account_id = :account_id AND test = :test
  AND payer_document_hash = :payer_document_hash
  AND (created_at, charge_id) < (:at, :id)
  AND created_at >= :created_from
  AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
  AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
  AND (:nosso_numero::text IS NULL OR nosso_numero = :nosso_numero)
  AND (:txid::text IS NULL OR txid = :txid)
  AND (:integrador_code::text IS NULL OR integrador_code = :integrador_code)
  AND (:charge_id::uuid IS NULL OR charge_id = :charge_id)
  AND (:due_from::date IS NULL OR due_date >= :due_from)
  AND (:due_to::date IS NULL OR due_date <= :due_to)
ORDER BY created_at DESC, charge_id DESC
LIMIT :most;

-- name: by_payer_asc
-- read_charge_payer: the charges of one payer's document (its blind fingerprint).
SELECT charge_id, created_at, doc FROM read_charge
WHERE account_id = :account_id AND test = :test
  AND payer_document_hash = :payer_document_hash
  AND (created_at, charge_id) > (:at, :id)
  AND created_at >= :created_from
  AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
  AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
  AND (:nosso_numero::text IS NULL OR nosso_numero = :nosso_numero)
  AND (:txid::text IS NULL OR txid = :txid)
  AND (:integrador_code::text IS NULL OR integrador_code = :integrador_code)
  AND (:charge_id::uuid IS NULL OR charge_id = :charge_id)
  AND (:due_from::date IS NULL OR due_date >= :due_from)
  AND (:due_to::date IS NULL OR due_date <= :due_to)
ORDER BY created_at ASC, charge_id ASC
LIMIT :most;

-- name: by_nosso_numero_desc
-- read_charge_nosso_numero.
SELECT charge_id, created_at, doc FROM read_charge
WHERE account_id = :account_id AND test = :test
  AND nosso_numero = :nosso_numero
  AND (created_at, charge_id) < (:at, :id)
  AND created_at >= :created_from
  AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
  AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
  AND (:txid::text IS NULL OR txid = :txid)
  AND (:integrador_code::text IS NULL OR integrador_code = :integrador_code)
  AND (:charge_id::uuid IS NULL OR charge_id = :charge_id)
  AND (:due_from::date IS NULL OR due_date >= :due_from)
  AND (:due_to::date IS NULL OR due_date <= :due_to)
ORDER BY created_at DESC, charge_id DESC
LIMIT :most;

-- name: by_nosso_numero_asc
-- read_charge_nosso_numero.
SELECT charge_id, created_at, doc FROM read_charge
WHERE account_id = :account_id AND test = :test
  AND nosso_numero = :nosso_numero
  AND (created_at, charge_id) > (:at, :id)
  AND created_at >= :created_from
  AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
  AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
  AND (:txid::text IS NULL OR txid = :txid)
  AND (:integrador_code::text IS NULL OR integrador_code = :integrador_code)
  AND (:charge_id::uuid IS NULL OR charge_id = :charge_id)
  AND (:due_from::date IS NULL OR due_date >= :due_from)
  AND (:due_to::date IS NULL OR due_date <= :due_to)
ORDER BY created_at ASC, charge_id ASC
LIMIT :most;

-- name: by_txid_desc
-- read_charge_txid: boletos; a PIX charge's txid is its id and goes by_id.
SELECT charge_id, created_at, doc FROM read_charge
WHERE account_id = :account_id AND test = :test
  AND txid = :txid
  AND (created_at, charge_id) < (:at, :id)
  AND created_at >= :created_from
  AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
  AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
  AND (:integrador_code::text IS NULL OR integrador_code = :integrador_code)
  AND (:charge_id::uuid IS NULL OR charge_id = :charge_id)
  AND (:due_from::date IS NULL OR due_date >= :due_from)
  AND (:due_to::date IS NULL OR due_date <= :due_to)
ORDER BY created_at DESC, charge_id DESC
LIMIT :most;

-- name: by_txid_asc
-- read_charge_txid: boletos; a PIX charge's txid is its id and goes by_id.
SELECT charge_id, created_at, doc FROM read_charge
WHERE account_id = :account_id AND test = :test
  AND txid = :txid
  AND (created_at, charge_id) > (:at, :id)
  AND created_at >= :created_from
  AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
  AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
  AND (:integrador_code::text IS NULL OR integrador_code = :integrador_code)
  AND (:charge_id::uuid IS NULL OR charge_id = :charge_id)
  AND (:due_from::date IS NULL OR due_date >= :due_from)
  AND (:due_to::date IS NULL OR due_date <= :due_to)
ORDER BY created_at ASC, charge_id ASC
LIMIT :most;

-- name: by_integrador_desc
-- read_charge_integrador.
SELECT charge_id, created_at, doc FROM read_charge
WHERE account_id = :account_id AND test = :test
  AND integrador_code = :integrador_code
  AND (created_at, charge_id) < (:at, :id)
  AND created_at >= :created_from
  AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
  AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
  AND (:due_from::date IS NULL OR due_date >= :due_from)
  AND (:due_to::date IS NULL OR due_date <= :due_to)
ORDER BY created_at DESC, charge_id DESC
LIMIT :most;

-- name: by_integrador_asc
-- read_charge_integrador.
SELECT charge_id, created_at, doc FROM read_charge
WHERE account_id = :account_id AND test = :test
  AND integrador_code = :integrador_code
  AND (created_at, charge_id) > (:at, :id)
  AND created_at >= :created_from
  AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
  AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
  AND (:due_from::date IS NULL OR due_date >= :due_from)
  AND (:due_to::date IS NULL OR due_date <= :due_to)
ORDER BY created_at ASC, charge_id ASC
LIMIT :most;

-- name: by_id_desc
-- The key itself: what a txid in hex names. It is found before anything is asked of it: planned for all values at
-- once, the range of instants would look just as cheap and is the whole account.
WITH named AS MATERIALIZED (
    SELECT * FROM read_charge WHERE charge_id = :charge_id AND account_id = :account_id
)
SELECT charge_id, created_at, doc FROM named
WHERE test = :test
  AND (created_at, charge_id) < (:at, :id)
  AND created_at >= :created_from
  AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
  AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
  AND (:external_id::text IS NULL OR external_id = :external_id)
  AND (:payer_document_hash::text IS NULL OR payer_document_hash = :payer_document_hash)
  AND (:nosso_numero::text IS NULL OR nosso_numero = :nosso_numero)
  AND (:txid::text IS NULL OR txid = :txid)
  AND (:integrador_code::text IS NULL OR integrador_code = :integrador_code)
  AND (:due_from::date IS NULL OR due_date >= :due_from)
  AND (:due_to::date IS NULL OR due_date <= :due_to)
ORDER BY created_at DESC, charge_id DESC
LIMIT :most;

-- name: by_id_asc
-- The key itself: what a txid in hex names. It is found before anything is asked of it: planned for all values at
-- once, the range of instants would look just as cheap and is the whole account.
WITH named AS MATERIALIZED (
    SELECT * FROM read_charge WHERE charge_id = :charge_id AND account_id = :account_id
)
SELECT charge_id, created_at, doc FROM named
WHERE test = :test
  AND (created_at, charge_id) > (:at, :id)
  AND created_at >= :created_from
  AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
  AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
  AND (:external_id::text IS NULL OR external_id = :external_id)
  AND (:payer_document_hash::text IS NULL OR payer_document_hash = :payer_document_hash)
  AND (:nosso_numero::text IS NULL OR nosso_numero = :nosso_numero)
  AND (:txid::text IS NULL OR txid = :txid)
  AND (:integrador_code::text IS NULL OR integrador_code = :integrador_code)
  AND (:due_from::date IS NULL OR due_date >= :due_from)
  AND (:due_to::date IS NULL OR due_date <= :due_to)
ORDER BY created_at ASC, charge_id ASC
LIMIT :most;

-- name: by_status_desc
-- read_charge_status: one range for each pair of status and method asked for (at most 24), the first page of each merged.
SELECT r.charge_id, r.created_at, r.doc
FROM unnest(:statuses::text[]) AS s (status)
CROSS JOIN unnest(:methods::text[]) AS m (payment_method)
CROSS JOIN LATERAL (
    SELECT charge_id, created_at, doc FROM read_charge
    WHERE account_id = :account_id AND test = :test AND status = s.status AND payment_method = m.payment_method
      AND (created_at, charge_id) < (:at, :id)
      AND created_at >= :created_from AND created_at < :created_to
    ORDER BY created_at DESC, charge_id DESC
    LIMIT :most
) r
ORDER BY r.created_at DESC, r.charge_id DESC
LIMIT :most;

-- name: by_due_desc
-- read_charge_due: hop over the due dates that exist in the range, one range for each, the first page of each merged.
WITH RECURSIVE day AS (
    (SELECT due_date FROM read_charge
     WHERE account_id = :account_id AND test = :test AND due_date >= coalesce(:due_from::date, '-infinity')
     ORDER BY due_date LIMIT 1)
    UNION ALL
    SELECT n.due_date FROM day CROSS JOIN LATERAL (
        SELECT due_date FROM read_charge
        WHERE account_id = :account_id AND test = :test AND due_date > day.due_date
        ORDER BY due_date LIMIT 1
    ) n
    WHERE n.due_date <= coalesce(:due_to::date, 'infinity')
)
SELECT r.charge_id, r.created_at, r.doc
FROM (SELECT due_date FROM day WHERE due_date <= coalesce(:due_to::date, 'infinity') LIMIT 4000) d
CROSS JOIN LATERAL (
    SELECT charge_id, created_at, doc FROM read_charge
    WHERE account_id = :account_id AND test = :test AND due_date = d.due_date
      AND (created_at, charge_id) < (:at, :id)
      AND created_at >= :created_from AND created_at < :created_to
      AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
      AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
    ORDER BY created_at DESC, charge_id DESC
    LIMIT :most
) r
ORDER BY r.created_at DESC, r.charge_id DESC
LIMIT :most;

-- name: by_status_asc
-- read_charge_status: one range for each pair of status and method asked for (at most 24), the first page of each merged.
SELECT r.charge_id, r.created_at, r.doc
FROM unnest(:statuses::text[]) AS s (status)
CROSS JOIN unnest(:methods::text[]) AS m (payment_method)
CROSS JOIN LATERAL (
    SELECT charge_id, created_at, doc FROM read_charge
    WHERE account_id = :account_id AND test = :test AND status = s.status AND payment_method = m.payment_method
      AND (created_at, charge_id) > (:at, :id)
      AND created_at >= :created_from AND created_at < :created_to
    ORDER BY created_at ASC, charge_id ASC
    LIMIT :most
) r
ORDER BY r.created_at ASC, r.charge_id ASC
LIMIT :most;

-- name: by_due_asc
-- read_charge_due: hop over the due dates that exist in the range, one range for each, the first page of each merged.
WITH RECURSIVE day AS (
    (SELECT due_date FROM read_charge
     WHERE account_id = :account_id AND test = :test AND due_date >= coalesce(:due_from::date, '-infinity')
     ORDER BY due_date LIMIT 1)
    UNION ALL
    SELECT n.due_date FROM day CROSS JOIN LATERAL (
        SELECT due_date FROM read_charge
        WHERE account_id = :account_id AND test = :test AND due_date > day.due_date
        ORDER BY due_date LIMIT 1
    ) n
    WHERE n.due_date <= coalesce(:due_to::date, 'infinity')
)
SELECT r.charge_id, r.created_at, r.doc
FROM (SELECT due_date FROM day WHERE due_date <= coalesce(:due_to::date, 'infinity') LIMIT 4000) d
CROSS JOIN LATERAL (
    SELECT charge_id, created_at, doc FROM read_charge
    WHERE account_id = :account_id AND test = :test AND due_date = d.due_date
      AND (created_at, charge_id) > (:at, :id)
      AND created_at >= :created_from AND created_at < :created_to
      AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
      AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
    ORDER BY created_at ASC, charge_id ASC
    LIMIT :most
) r
ORDER BY r.created_at ASC, r.charge_id ASC
LIMIT :most;

-- name: summary
-- Count and amount per status over the same range and conditions as page.
SELECT status, count(*) AS count, sum(amount_cents)::bigint AS amount_cents FROM read_charge
WHERE account_id = :account_id AND test = :test
  AND created_at >= :created_from
  AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
  AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
GROUP BY status;

-- name: summary_by_reference
-- Count and amount per status over the same range and conditions as by_reference.
SELECT status, count(*) AS count, sum(amount_cents)::bigint AS amount_cents FROM read_charge
WHERE account_id = :account_id AND test = :test
  AND external_id = :external_id
  AND created_at >= :created_from
  AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
  AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
  AND (:payer_document_hash::text IS NULL OR payer_document_hash = :payer_document_hash)
  AND (:nosso_numero::text IS NULL OR nosso_numero = :nosso_numero)
  AND (:txid::text IS NULL OR txid = :txid)
  AND (:integrador_code::text IS NULL OR integrador_code = :integrador_code)
  AND (:charge_id::uuid IS NULL OR charge_id = :charge_id)
  AND (:due_from::date IS NULL OR due_date >= :due_from)
  AND (:due_to::date IS NULL OR due_date <= :due_to)
GROUP BY status;

-- name: summary_by_payer
-- Count and amount per status over the same range and conditions as by_payer.
SELECT status, count(*) AS count, sum(amount_cents)::bigint AS amount_cents FROM read_charge
WHERE account_id = :account_id AND test = :test
  AND payer_document_hash = :payer_document_hash
  AND created_at >= :created_from
  AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
  AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
  AND (:nosso_numero::text IS NULL OR nosso_numero = :nosso_numero)
  AND (:txid::text IS NULL OR txid = :txid)
  AND (:integrador_code::text IS NULL OR integrador_code = :integrador_code)
  AND (:charge_id::uuid IS NULL OR charge_id = :charge_id)
  AND (:due_from::date IS NULL OR due_date >= :due_from)
  AND (:due_to::date IS NULL OR due_date <= :due_to)
GROUP BY status;

-- name: summary_by_nosso_numero
-- Count and amount per status over the same range and conditions as by_nosso_numero.
SELECT status, count(*) AS count, sum(amount_cents)::bigint AS amount_cents FROM read_charge
WHERE account_id = :account_id AND test = :test
  AND nosso_numero = :nosso_numero
  AND created_at >= :created_from
  AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
  AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
  AND (:txid::text IS NULL OR txid = :txid)
  AND (:integrador_code::text IS NULL OR integrador_code = :integrador_code)
  AND (:charge_id::uuid IS NULL OR charge_id = :charge_id)
  AND (:due_from::date IS NULL OR due_date >= :due_from)
  AND (:due_to::date IS NULL OR due_date <= :due_to)
GROUP BY status;

-- name: summary_by_txid
-- Count and amount per status over the same range and conditions as by_txid.
SELECT status, count(*) AS count, sum(amount_cents)::bigint AS amount_cents FROM read_charge
WHERE account_id = :account_id AND test = :test
  AND txid = :txid
  AND created_at >= :created_from
  AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
  AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
  AND (:integrador_code::text IS NULL OR integrador_code = :integrador_code)
  AND (:charge_id::uuid IS NULL OR charge_id = :charge_id)
  AND (:due_from::date IS NULL OR due_date >= :due_from)
  AND (:due_to::date IS NULL OR due_date <= :due_to)
GROUP BY status;

-- name: summary_by_integrador
-- Count and amount per status over the same range and conditions as by_integrador.
SELECT status, count(*) AS count, sum(amount_cents)::bigint AS amount_cents FROM read_charge
WHERE account_id = :account_id AND test = :test
  AND integrador_code = :integrador_code
  AND created_at >= :created_from
  AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
  AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
  AND (:due_from::date IS NULL OR due_date >= :due_from)
  AND (:due_to::date IS NULL OR due_date <= :due_to)
GROUP BY status;

-- name: summary_by_id
-- Count and amount per status over the same row and conditions as by_id.
WITH named AS MATERIALIZED (
    SELECT * FROM read_charge WHERE charge_id = :charge_id AND account_id = :account_id
)
SELECT status, count(*) AS count, sum(amount_cents)::bigint AS amount_cents FROM named
WHERE test = :test
  AND created_at >= :created_from
  AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
  AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
  AND (:external_id::text IS NULL OR external_id = :external_id)
  AND (:payer_document_hash::text IS NULL OR payer_document_hash = :payer_document_hash)
  AND (:nosso_numero::text IS NULL OR nosso_numero = :nosso_numero)
  AND (:txid::text IS NULL OR txid = :txid)
  AND (:integrador_code::text IS NULL OR integrador_code = :integrador_code)
  AND (:due_from::date IS NULL OR due_date >= :due_from)
  AND (:due_to::date IS NULL OR due_date <= :due_to)
GROUP BY status;

-- name: summary_by_status
SELECT status, count(*) AS count, sum(amount_cents)::bigint AS amount_cents FROM read_charge
WHERE account_id = :account_id AND test = :test
  AND status = ANY(:statuses::text[]) AND payment_method = ANY(:methods::text[])
  AND created_at >= :created_from AND created_at < :created_to
GROUP BY status;

-- name: summary_by_due
SELECT status, count(*) AS count, sum(amount_cents)::bigint AS amount_cents FROM read_charge
WHERE account_id = :account_id AND test = :test
  AND due_date >= coalesce(:due_from::date, '-infinity') AND due_date <= coalesce(:due_to::date, 'infinity')
  AND created_at >= :created_from AND created_at < :created_to
  AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
  AND (:methods::text[] IS NULL OR payment_method = ANY(:methods::text[]))
GROUP BY status;

-- name: due_days
-- read_charge_due: hop over the due dates that exist in the range, one probe for each.
WITH RECURSIVE day AS (
    (SELECT due_date FROM read_charge
     WHERE account_id = :account_id AND test = :test AND due_date >= coalesce(:due_from::date, '-infinity')
     ORDER BY due_date LIMIT 1)
    UNION ALL
    SELECT n.due_date FROM day CROSS JOIN LATERAL (
        SELECT due_date FROM read_charge
        WHERE account_id = :account_id AND test = :test AND due_date > day.due_date
        ORDER BY due_date LIMIT 1
    ) n
    WHERE n.due_date <= coalesce(:due_to::date, 'infinity')
)
SELECT due_date FROM day WHERE due_date <= coalesce(:due_to::date, 'infinity') LIMIT :most;
