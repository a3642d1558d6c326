-- Exports one account to a file, row by row, and imports it (commands/merchants/account_export.py, account_import.py).
-- Runs as the owner of the tables.

-- name: found
SELECT name, kyc FROM account WHERE account_id = :account_id;

-- name: under_way
-- Unfinished work, which both cells would do if the account were moved now.
SELECT (SELECT count(*) FROM bank_order WHERE account_id = :account_id) AS bank_orders,
       (SELECT count(*) FROM withdrawal WHERE account_id = :account_id AND status IN ('pending', 'processing')) AS withdrawals,
       (SELECT count(*) FROM refund WHERE account_id = :account_id AND status = 'pending') AS refunds,
       (SELECT count(*) FROM partner_share WHERE (account_id = :account_id OR partner_id = :account_id) AND posted_at IS NULL)
           AS partner_shares;

-- name: schema
SELECT name FROM migration ORDER BY name DESC LIMIT 1;

-- name: rows
-- for each of account, account_clock, account_note, anomaly_resolved, audit, auto_withdrawal, bank_order_done, boleto, charge,
--  credential, dashboard_user, held_refund, idempotency, integrator, invitation, mail_stop, merchant_logo, notice, partner_share,
--  payer_kept, payment, payment_reversal, payout_change, program_payout, refund, registration_check, sandbox_clock, schedule, second_copy_request,
--  schedule_charge, webhook_delivery, webhook_endpoint, webhook_old_secret, withdrawal
SELECT to_jsonb(t)::text AS row FROM {each} t WHERE account_id = :account_id;

-- name: rows_of_journal
-- In the order of writing: later rows change what earlier rows created.
SELECT (to_jsonb(t) - 'journal_id')::text AS row FROM journal t WHERE account_id = :account_id ORDER BY journal_id;

-- name: rows_of_people
SELECT to_jsonb(t)::text AS row FROM recovery_code t
WHERE email IN (SELECT email FROM dashboard_user WHERE account_id = :account_id);

-- name: rows_of_credentials
SELECT to_jsonb(t)::text AS row FROM access_token t
WHERE client_id IN (SELECT client_id FROM credential WHERE account_id = :account_id);

-- name: rows_of_integrators
SELECT to_jsonb(t)::text AS row FROM integrator_share t
WHERE integrador_code IN (SELECT integrador_code FROM integrator WHERE account_id = :account_id);

-- name: rows_of_lanes
SELECT to_jsonb(t)::text AS row FROM webhook_lane t
WHERE endpoint_id IN (SELECT endpoint_id FROM webhook_endpoint WHERE account_id = :account_id);

-- name: rows_of_attempts
SELECT to_jsonb(t)::text AS row FROM webhook_attempt t
WHERE delivery_id IN (SELECT delivery_id FROM webhook_delivery WHERE account_id = :account_id);

-- name: read
-- for each of read_charge, read_payment, read_refund, read_withdrawal, read_ledger
-- The read tables, in an order that is the same in every cell. Journal ids are left out because they differ between
-- cells. The feed is not compared, because each cell's begins with its own oldest month; the journal has every event.
SELECT (to_jsonb(t) - 'journal_id' - 'paid_journal_id')::text AS row FROM {each} t
WHERE account_id = :account_id ORDER BY (to_jsonb(t) - 'journal_id' - 'paid_journal_id')::text COLLATE "C";

-- name: sums
SELECT m.test, (SELECT count(*) FROM charge c WHERE c.account_id = :account_id AND c.test = m.test) AS charges,
       (SELECT coalesce(sum(amount_cents), 0)::bigint FROM charge c WHERE c.account_id = :account_id AND c.test = m.test)
           AS charged_cents,
       (SELECT coalesce(sum(amount_cents), 0)::bigint FROM payment p WHERE p.account_id = :account_id AND p.test = m.test)
           AS paid_cents,
       (SELECT coalesce(sum(amount_cents), 0)::bigint FROM refund f
        WHERE f.account_id = :account_id AND f.test = m.test AND f.status = 'succeeded') AS refunded_cents,
       (SELECT coalesce(sum(amount_cents), 0)::bigint FROM read_ledger l WHERE l.account_id = :account_id AND l.test = m.test)
           AS ledger_cents,
       coalesce(k.balance_cents, 0) AS balance_cents, coalesce(k.entry_sequence, 0) AS entries,
       coalesce(k.event_sequence, 0) AS events
FROM (VALUES (false), (true)) AS m (test)
LEFT JOIN account_clock k ON k.account_id = :account_id AND k.test = m.test
ORDER BY m.test;

-- name: add
-- for each of account, account_clock, account_note, anomaly_resolved, audit, auto_withdrawal, bank_order_done, boleto, charge,
--  credential, dashboard_user, held_refund, idempotency, integrator, invitation, mail_stop, merchant_logo, notice, partner_share,
--  payer_kept, payment, payment_reversal, payout_change, program_payout, refund, registration_check, sandbox_clock, schedule, second_copy_request,
--  schedule_charge, webhook_delivery, webhook_endpoint, webhook_old_secret, withdrawal, recovery_code, access_token,
--  integrator_share, webhook_lane, webhook_attempt
-- Identity columns get new values here.
WITH given AS MATERIALIZED (
    SELECT * FROM jsonb_populate_recordset(NULL::{each}, :rows::jsonb)
)
INSERT INTO {each} OVERRIDING USER VALUE SELECT * FROM given;

-- name: make_months
-- Makes the months of 400 days, but none that has rows in the default partition: no row is moved.
SELECT make_months(:parent, ((now() - interval '400 days') AT TIME ZONE 'UTC')::date, (now() AT TIME ZONE 'UTC')::date, 0) AS months;

-- name: begin_feed
-- Events older than 400 days do not enter the feed (contract section 8): in a younger cell their months would not be
-- there, and the default partition would keep those of more events than a worker moves.
UPDATE feed_begin SET begins_at = date_trunc('month', now() - interval '400 days', 'UTC')
WHERE begins_at < date_trunc('month', now() - interval '400 days', 'UTC');

-- name: add_journal
-- Inserts journal rows in order, with new ids, and projects them with the same function as at any other time.
WITH given AS MATERIALIZED (
    SELECT r.*, i.place
    FROM jsonb_array_elements(:rows::jsonb) WITH ORDINALITY AS i (item, place)
    CROSS JOIN LATERAL jsonb_populate_record(NULL::journal, i.item) r
), added AS (
    INSERT INTO journal (account_id, test, charge_id, version, kind, recorded_at, actor, request_id, payload, event_id,
                         event_sequence, event_body)
    SELECT account_id, test, charge_id, version, kind, recorded_at, actor, request_id, payload, event_id, event_sequence,
           event_body
    FROM given ORDER BY place
    RETURNING journal_id
), ids AS MATERIALIZED (
    SELECT array_agg(journal_id) AS journal_ids, count(*) AS rows FROM added
)
SELECT ids.rows AS added FROM ids, LATERAL (SELECT project(ids.journal_ids, :which::text[])) AS p;

-- name: journal_since
-- The journal rows that this transaction added, to be compared with the file.
SELECT (to_jsonb(t) - 'journal_id')::text AS row FROM journal t
WHERE account_id = :account_id AND journal_id > :after ORDER BY journal_id;

-- name: last_of_journal
SELECT coalesce(max(journal_id), 0) AS last FROM journal;

-- name: raise_numbers
-- Raises the sequence of boleto numbers above those imported with the account, by whole blocks of 50.
WITH came AS MATERIALIZED (
    SELECT max(right(number, 10)::bigint) AS last FROM boleto
    WHERE account_id = :account_id AND number ~ '^[0-9]{20}$'
), stands AS MATERIALIZED (
    SELECT last_value FROM boleto_control
)
SELECT setval('boleto_control', s.last_value + ((c.last - s.last_value) / 50 + 1) * 50) AS number
FROM came c, stands s WHERE c.last >= s.last_value;
