-- Daily totals, folded from the journal in batches, and views for business intelligence tools. Production only, except
-- span_charge.
--
-- Each journal row is counted twice: under its account and under the nil UUID, which stands for all accounts, so that
-- one index range answers either question. Days are those of Sao Paulo.

-- The position up to which the journal is folded. Everything committed before `as_of` is in the totals.
CREATE TABLE report_position (
    single      boolean PRIMARY KEY DEFAULT true CHECK (single),
    journal_id  bigint NOT NULL,
    as_of       timestamptz NOT NULL
);
INSERT INTO report_position (journal_id, as_of) VALUES (0, '-infinity');

-- Each charge as it was at that position, test charges too. It tells from which totals a change must subtract the
-- charge; read_charge cannot, as it is ahead of the position.
CREATE TABLE report_charge (
    charge_id       uuid PRIMARY KEY,
    account_id      uuid NOT NULL,
    created_at      timestamptz NOT NULL,
    payment_method  text NOT NULL,
    status          text NOT NULL,
    due_date        date,
    amount_cents    bigint NOT NULL
) WITH (
    fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);

-- Charges by the day of issue and their present status.
CREATE TABLE report_cohort (
    account_id      uuid NOT NULL,
    day             date NOT NULL,
    payment_method  text NOT NULL,
    status          text NOT NULL,
    charges         bigint NOT NULL,
    cents           bigint NOT NULL,
    PRIMARY KEY (account_id, day, payment_method, status)
) WITH (fillfactor = 85);

-- Boletos by the day they are due.
CREATE TABLE report_due (
    account_id      uuid NOT NULL,
    status          text NOT NULL,
    due_date        date NOT NULL,
    payment_method  text NOT NULL,
    charges         bigint NOT NULL,
    cents           bigint NOT NULL,
    PRIMARY KEY (account_id, status, due_date, payment_method)
) WITH (fillfactor = 85);

-- The bucket of a time to payment, an eighth of a doubling wide: bucket b holds [2^(b/8), 2^((b+1)/8)) seconds. The clock
-- that gives paid_at may be behind ours, so the time is at least one second.
CREATE FUNCTION wait_bucket(created_at timestamptz, paid_at timestamptz) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT floor(8 * ln(greatest(extract(epoch FROM paid_at - created_at), 1)::double precision)
                 / ln(2::double precision))::integer
$$;

-- How long the charges issued on a day took to be paid.
CREATE TABLE report_wait (
    account_id      uuid NOT NULL,
    day             date NOT NULL,
    payment_method  text NOT NULL,
    bucket          integer NOT NULL,
    charges         bigint NOT NULL,
    PRIMARY KEY (account_id, day, payment_method, bucket)
) WITH (fillfactor = 85);

-- The ledger by day: the sum over all types of an account and day is the change of its balance. `method` is that of the
-- entry's payment, '' if the entry has none.
CREATE TABLE report_entry (
    account_id  uuid NOT NULL,
    day         date NOT NULL,
    type        text NOT NULL,
    method      text NOT NULL,
    entries     bigint NOT NULL,
    cents       bigint NOT NULL,
    -- For payments: how many came after expiry, and how many have an anomaly.
    late        bigint NOT NULL,
    anomalous   bigint NOT NULL,
    PRIMARY KEY (account_id, day, type, method)
) WITH (fillfactor = 85);

CREATE TABLE report_refund (
    account_id  uuid NOT NULL,
    day         date NOT NULL,
    method      text NOT NULL,
    what        text NOT NULL,  -- created | succeeded | failed: a refund is counted on the day of each
    refunds     bigint NOT NULL,
    cents       bigint NOT NULL,
    PRIMARY KEY (account_id, day, method, what)
) WITH (fillfactor = 85);

CREATE TABLE report_integrator (
    account_id       uuid NOT NULL,  -- the merchant's
    day              date NOT NULL,
    integrador_code  text NOT NULL,
    charges          bigint NOT NULL,
    charge_cents     bigint NOT NULL,
    payments         bigint NOT NULL,
    payment_cents    bigint NOT NULL,
    given_cents      bigint NOT NULL,
    taken_back_cents bigint NOT NULL,
    PRIMARY KEY (account_id, day, integrador_code)
) WITH (fillfactor = 85);

-- Verifications and rebuilds go along the days of all accounts, and the keys begin with the account. Rows of one time
-- lie together, so BRIN, with a few bytes for each megabyte, is enough.
CREATE INDEX report_cohort_day ON report_cohort USING brin (day);
CREATE INDEX report_due_day ON report_due USING brin (due_date);
CREATE INDEX report_wait_day ON report_wait USING brin (day);
CREATE INDEX report_entry_day ON report_entry USING brin (day);
CREATE INDEX report_refund_day ON report_refund USING brin (day);
CREATE INDEX report_integrator_day ON report_integrator USING brin (day);

-- Webhook attempts are not in the journal. The statement that stores attempts inserts their counts here, in rows that
-- no other transaction waits for, and a worker adds them up: a row committed late is added late, and none is missed.
CREATE TABLE report_attempt_told (
    account_id   uuid NOT NULL,
    day          date NOT NULL,
    outcome      text NOT NULL,
    attempts     bigint NOT NULL,
    duration_ms  bigint NOT NULL
);

CREATE TABLE report_attempt (
    account_id   uuid NOT NULL,
    day          date NOT NULL,
    outcome      text NOT NULL,
    attempts     bigint NOT NULL,
    duration_ms  bigint NOT NULL,
    PRIMARY KEY (account_id, day, outcome)
) WITH (fillfactor = 85);

-- Totals of spans, for summaries: an account's charges by status, and its ledger entries by type, per day, month, year
-- and decade. Any range of days consists of at most some sixty days, twenty months, twenty years and the decades
-- between (readmodels/spans.py), so a sum over a long history reads as few rows as over a short one. They are folded
-- with the daily totals, in the same transaction, and verified likewise.
CREATE FUNCTION spans_of(day date) RETURNS TABLE (span text, starts date) LANGUAGE sql IMMUTABLE AS $$
    SELECT 'day', day
    UNION ALL
    SELECT span, date_trunc(span, day::timestamp)::date FROM (VALUES ('month'), ('year'), ('decade')) AS s (span)
$$;

-- Charges by day of issue, and those with a due date also by due date; in both modes. A sandbox's days are those of its
-- clock.
CREATE TABLE span_charge (
    account_id      uuid NOT NULL,
    test            boolean NOT NULL,
    dated           text NOT NULL CHECK (dated IN ('issued', 'due')),
    span            text NOT NULL,
    starts          date NOT NULL,
    payment_method  text NOT NULL,
    status          text NOT NULL,
    charges         bigint NOT NULL,
    cents           bigint NOT NULL,
    PRIMARY KEY (account_id, test, dated, span, starts, payment_method, status)
) WITH (fillfactor = 85);

-- The corrections to span_charge for charges that changed after report_position: -1 for the row that counts the charge,
-- +1 for the row of its present state. Read in one statement with span_charge, and so in one snapshot.
CREATE FUNCTION behind_spans(account_id uuid, test boolean, dated text)
RETURNS TABLE (day date, payment_method text, status text, charges bigint, cents bigint) LANGUAGE sql STABLE AS $$
    WITH changed AS MATERIALIZED (
        -- The planner does not know how few rows lie after the position and would prepare a hash table for a third of the
        -- journal, which costs more than everything else here. An array has the size of its contents.
        SELECT unnest(array_agg(DISTINCT charge_id)) AS charge_id FROM journal j
        WHERE j.journal_id > (SELECT journal_id FROM report_position) AND j.account_id = $1 AND j.test = $2
          AND j.payload ? 'charge'
    )
    SELECT CASE $3 WHEN 'due' THEN m.due_date ELSE (m.created_at AT TIME ZONE 'America/Sao_Paulo')::date END,
           m.payment_method, m.status, m.charges, m.charges * m.amount_cents
    FROM changed CROSS JOIN LATERAL (
        -- A look-up for each charge: a join might read all charges.
        (SELECT created_at, due_date, payment_method, status, amount_cents, 1::bigint AS charges FROM read_charge r
         WHERE r.charge_id = changed.charge_id AND r.account_id = $1 LIMIT 1)
        UNION ALL
        (SELECT created_at, due_date, payment_method, status, amount_cents, -1::bigint FROM report_charge w
         WHERE w.charge_id = changed.charge_id LIMIT 1)
    ) m
    WHERE $3 <> 'due' OR m.due_date IS NOT NULL
$$;

-- Production ledger entries by the day they were written; `method` as in report_entry.
CREATE TABLE span_entry (
    account_id  uuid NOT NULL,
    span        text NOT NULL,
    starts      date NOT NULL,
    type        text NOT NULL,
    method      text NOT NULL,
    entries     bigint NOT NULL,
    cents       bigint NOT NULL,
    PRIMARY KEY (account_id, span, starts, type, method)
) WITH (fillfactor = 85);
-- The days of all accounts, as of report_entry.
CREATE INDEX span_entry_day ON span_entry USING brin (starts) WHERE span = 'day';
-- For finding the accounts that were charged fees, over all accounts.
CREATE INDEX span_entry_fees ON span_entry (span, starts, account_id) WHERE type = 'fee';

-- The only views that business intelligence tools may read: production only, nothing sealed or personal. Days are
-- America/Sao_Paulo days, instants are UTC, amounts are in reais.

CREATE VIEW reporting_freshness AS
SELECT as_of, extract(epoch FROM now() - as_of)::numeric(20, 3) AS lag_seconds FROM report_position;
COMMENT ON VIEW reporting_freshness IS 'How current the daily totals are: receipts_by_day, ledger_by_day, charges_by_day, boletos_by_due_date, time_to_pay, refunds_by_day, integrators_by_day.';
COMMENT ON COLUMN reporting_freshness.as_of IS 'Everything that happened before this instant is counted.';
COMMENT ON COLUMN reporting_freshness.lag_seconds IS 'How long ago that is.';

CREATE VIEW reporting_accounts AS
SELECT account_id, name, kyc, created_at FROM account;
COMMENT ON VIEW reporting_accounts IS 'Merchants, and partners who have an account.';
COMMENT ON COLUMN reporting_accounts.account_id IS 'Names the account in every other view.';
COMMENT ON COLUMN reporting_accounts.name IS 'The company''s name.';
COMMENT ON COLUMN reporting_accounts.kyc IS 'pending, approved, rejected, blocked.';
COMMENT ON COLUMN reporting_accounts.created_at IS 'When it was opened.';

CREATE VIEW reporting_charges AS
SELECT charge_id, account_id, created_at, payment_method, status, (amount_cents / 100.0)::numeric(14, 2) AS amount,
       due_date, integrador_code, (changes ->> 'paid_at')::timestamptz AS paid_at
FROM read_charge WHERE NOT test;
COMMENT ON VIEW reporting_charges IS 'Every charge, as it is now.';
COMMENT ON COLUMN reporting_charges.charge_id IS 'The charge.';
COMMENT ON COLUMN reporting_charges.account_id IS 'Whose charge it is.';
COMMENT ON COLUMN reporting_charges.created_at IS 'When it was issued.';
COMMENT ON COLUMN reporting_charges.payment_method IS 'pix, boleto, boleto_hibrido, boleto_pix.';
COMMENT ON COLUMN reporting_charges.status IS 'pending, paid, expired, cancelled, refunded, failed.';
COMMENT ON COLUMN reporting_charges.amount IS 'What was asked for.';
COMMENT ON COLUMN reporting_charges.due_date IS 'Of boletos.';
COMMENT ON COLUMN reporting_charges.integrador_code IS 'The partner who brought it.';
COMMENT ON COLUMN reporting_charges.paid_at IS 'When the payment that settled it was made.';

CREATE VIEW reporting_payments AS
SELECT payment_id, charge_id, account_id, method, (amount_cents / 100.0)::numeric(14, 2) AS amount,
       (fee_cents / 100.0)::numeric(14, 2) AS fee, ((amount_cents - fee_cents) / 100.0)::numeric(14, 2) AS net_amount,
       (refunded_cents / 100.0)::numeric(14, 2) AS refunded, anomaly, settles, paid_at, credited_at
FROM payment WHERE NOT test;
COMMENT ON VIEW reporting_payments IS 'Every payment received.';
COMMENT ON COLUMN reporting_payments.payment_id IS 'The payment.';
COMMENT ON COLUMN reporting_payments.charge_id IS 'The charge it was made for.';
COMMENT ON COLUMN reporting_payments.account_id IS 'Who was credited.';
COMMENT ON COLUMN reporting_payments.method IS 'pix or boleto: how it was really paid.';
COMMENT ON COLUMN reporting_payments.amount IS 'What arrived.';
COMMENT ON COLUMN reporting_payments.fee IS 'What the platform keeps of it.';
COMMENT ON COLUMN reporting_payments.net_amount IS 'The rest.';
COMMENT ON COLUMN reporting_payments.refunded IS 'What of it is back with the payer.';
COMMENT ON COLUMN reporting_payments.anomaly IS 'NULL, duplicate, paid_after_cancel, amount_mismatch.';
COMMENT ON COLUMN reporting_payments.settles IS 'Whether it made its charge paid.';
COMMENT ON COLUMN reporting_payments.paid_at IS 'When the payer paid.';
COMMENT ON COLUMN reporting_payments.credited_at IS 'When it was credited.';

CREATE VIEW reporting_ledger AS
SELECT account_id, sequence, entry_id, created_at, type, (amount_cents / 100.0)::numeric(20, 2) AS amount,
       (balance_after_cents / 100.0)::numeric(20, 2) AS balance_after
FROM read_ledger WHERE NOT test;
COMMENT ON VIEW reporting_ledger IS 'Every line of every wallet: numbers are dense, the running balance is exact.';
COMMENT ON COLUMN reporting_ledger.account_id IS 'Whose wallet.';
COMMENT ON COLUMN reporting_ledger.sequence IS '1, 2, 3 ... along one account.';
COMMENT ON COLUMN reporting_ledger.entry_id IS 'The line.';
COMMENT ON COLUMN reporting_ledger.created_at IS 'When it was written.';
COMMENT ON COLUMN reporting_ledger.type IS 'payment, refund, refund_reversal, withdrawal, withdrawal_reversal, fee, partner_share, adjustment.';
COMMENT ON COLUMN reporting_ledger.amount IS 'Credits are positive.';
COMMENT ON COLUMN reporting_ledger.balance_after IS 'The balance with this line.';

CREATE VIEW reporting_receipts_by_day AS
SELECT account_id, day, method, entries AS payments, (cents / 100.0)::numeric(20, 2) AS amount, late, anomalous
FROM report_entry WHERE type = 'payment' AND account_id <> '00000000-0000-0000-0000-000000000000';
COMMENT ON VIEW reporting_receipts_by_day IS 'Payments by the day on which they were credited.';
COMMENT ON COLUMN reporting_receipts_by_day.account_id IS 'Who was credited.';
COMMENT ON COLUMN reporting_receipts_by_day.day IS 'The day of the credit.';
COMMENT ON COLUMN reporting_receipts_by_day.method IS 'pix or boleto.';
COMMENT ON COLUMN reporting_receipts_by_day.payments IS 'How many.';
COMMENT ON COLUMN reporting_receipts_by_day.amount IS 'Their sum.';
COMMENT ON COLUMN reporting_receipts_by_day.late IS 'How many of them came after the charge had expired.';
COMMENT ON COLUMN reporting_receipts_by_day.anomalous IS 'How many of them came otherwise than asked for.';

CREATE VIEW reporting_ledger_by_day AS
SELECT account_id, day, type, method, entries, (cents / 100.0)::numeric(20, 2) AS amount
FROM report_entry WHERE account_id <> '00000000-0000-0000-0000-000000000000';
COMMENT ON VIEW reporting_ledger_by_day IS 'What moved each wallet on each day. The sum over types is the movement of its balance.';
COMMENT ON COLUMN reporting_ledger_by_day.account_id IS 'Whose wallet.';
COMMENT ON COLUMN reporting_ledger_by_day.day IS 'The day of the lines.';
COMMENT ON COLUMN reporting_ledger_by_day.type IS 'As in ledger.';
COMMENT ON COLUMN reporting_ledger_by_day.method IS 'Of the payment the lines are about; empty when they are about none.';
COMMENT ON COLUMN reporting_ledger_by_day.entries IS 'How many lines.';
COMMENT ON COLUMN reporting_ledger_by_day.amount IS 'Their sum; credits are positive.';

CREATE VIEW reporting_charges_by_day AS
SELECT account_id, day, payment_method, status, charges, (cents / 100.0)::numeric(20, 2) AS amount
FROM report_cohort WHERE charges <> 0 AND account_id <> '00000000-0000-0000-0000-000000000000';
COMMENT ON VIEW reporting_charges_by_day IS 'What became of the charges issued on a day.';
COMMENT ON COLUMN reporting_charges_by_day.account_id IS 'Whose charges.';
COMMENT ON COLUMN reporting_charges_by_day.day IS 'The day they were issued on.';
COMMENT ON COLUMN reporting_charges_by_day.payment_method IS 'As in charges.';
COMMENT ON COLUMN reporting_charges_by_day.status IS 'As in charges; how they stand now.';
COMMENT ON COLUMN reporting_charges_by_day.charges IS 'How many.';
COMMENT ON COLUMN reporting_charges_by_day.amount IS 'Their sum.';

CREATE VIEW reporting_boletos_by_due_date AS
SELECT account_id, status, due_date, payment_method, charges, (cents / 100.0)::numeric(20, 2) AS amount
FROM report_due WHERE charges <> 0 AND account_id <> '00000000-0000-0000-0000-000000000000';
COMMENT ON VIEW reporting_boletos_by_due_date IS 'Boletos by the day they are due and how they stand now.';
COMMENT ON COLUMN reporting_boletos_by_due_date.account_id IS 'Whose boletos.';
COMMENT ON COLUMN reporting_boletos_by_due_date.status IS 'As in charges.';
COMMENT ON COLUMN reporting_boletos_by_due_date.due_date IS 'As printed on the boleto.';
COMMENT ON COLUMN reporting_boletos_by_due_date.payment_method IS 'boleto, boleto_hibrido, boleto_pix.';
COMMENT ON COLUMN reporting_boletos_by_due_date.charges IS 'How many.';
COMMENT ON COLUMN reporting_boletos_by_due_date.amount IS 'Their sum.';

CREATE VIEW reporting_time_to_pay AS
SELECT account_id, day, payment_method, power(2, bucket / 8.0)::numeric(20, 1) AS from_seconds,
       power(2, (bucket + 1) / 8.0)::numeric(20, 1) AS below_seconds, charges
FROM report_wait WHERE account_id <> '00000000-0000-0000-0000-000000000000';
COMMENT ON VIEW reporting_time_to_pay IS 'A histogram: how long the charges issued on a day took to be paid.';
COMMENT ON COLUMN reporting_time_to_pay.account_id IS 'Whose charges.';
COMMENT ON COLUMN reporting_time_to_pay.day IS 'The day they were issued on.';
COMMENT ON COLUMN reporting_time_to_pay.payment_method IS 'As in charges.';
COMMENT ON COLUMN reporting_time_to_pay.from_seconds IS 'The bucket begins here ...';
COMMENT ON COLUMN reporting_time_to_pay.below_seconds IS '... and ends before this.';
COMMENT ON COLUMN reporting_time_to_pay.charges IS 'How many were paid after such a time.';

CREATE VIEW reporting_refunds_by_day AS
SELECT account_id, day, method, what, refunds, (cents / 100.0)::numeric(20, 2) AS amount
FROM report_refund WHERE account_id <> '00000000-0000-0000-0000-000000000000';
COMMENT ON VIEW reporting_refunds_by_day IS 'Refunds by the day on which they were asked for, succeeded or failed.';
COMMENT ON COLUMN reporting_refunds_by_day.account_id IS 'Who refunded.';
COMMENT ON COLUMN reporting_refunds_by_day.day IS 'The day of it.';
COMMENT ON COLUMN reporting_refunds_by_day.method IS 'How the payment was made.';
COMMENT ON COLUMN reporting_refunds_by_day.what IS 'created, succeeded, failed.';
COMMENT ON COLUMN reporting_refunds_by_day.refunds IS 'How many.';
COMMENT ON COLUMN reporting_refunds_by_day.amount IS 'Their sum.';

CREATE VIEW reporting_integrators AS
SELECT i.integrador_code, i.name, i.account_id, i.active, i.created_at,
       coalesce((SELECT s.share_bps / 100.0 FROM integrator_share s WHERE s.integrador_code = i.integrador_code
                 ORDER BY s.since DESC LIMIT 1), 0)::numeric(5, 2) AS share_percent
FROM integrator i;
COMMENT ON VIEW reporting_integrators IS 'Partners.';
COMMENT ON COLUMN reporting_integrators.integrador_code IS 'The code that stands on their charges.';
COMMENT ON COLUMN reporting_integrators.name IS 'The partner''s name.';
COMMENT ON COLUMN reporting_integrators.account_id IS 'The partner''s own account, if any.';
COMMENT ON COLUMN reporting_integrators.active IS 'Whether new boletos may carry the code.';
COMMENT ON COLUMN reporting_integrators.created_at IS 'When the partner was registered.';
COMMENT ON COLUMN reporting_integrators.share_percent IS 'Of payments of charges issued from now on.';

CREATE VIEW reporting_integrators_by_day AS
SELECT account_id, day, integrador_code, charges, (charge_cents / 100.0)::numeric(20, 2) AS charge_amount,
       payments, (payment_cents / 100.0)::numeric(20, 2) AS payment_amount,
       (given_cents / 100.0)::numeric(20, 2) AS share_given, (taken_back_cents / 100.0)::numeric(20, 2) AS share_taken_back
FROM report_integrator WHERE account_id <> '00000000-0000-0000-0000-000000000000';
COMMENT ON VIEW reporting_integrators_by_day IS 'What partners brought and were given.';
COMMENT ON COLUMN reporting_integrators_by_day.account_id IS 'The merchant whose charges they are.';
COMMENT ON COLUMN reporting_integrators_by_day.day IS 'The day of the charge, the payment, the posting of the share.';
COMMENT ON COLUMN reporting_integrators_by_day.integrador_code IS 'The partner.';
COMMENT ON COLUMN reporting_integrators_by_day.charges IS 'Charges issued with the code.';
COMMENT ON COLUMN reporting_integrators_by_day.charge_amount IS 'Their sum.';
COMMENT ON COLUMN reporting_integrators_by_day.payments IS 'Payments of such charges.';
COMMENT ON COLUMN reporting_integrators_by_day.payment_amount IS 'Their sum.';
COMMENT ON COLUMN reporting_integrators_by_day.share_given IS 'Credited to the partner.';
COMMENT ON COLUMN reporting_integrators_by_day.share_taken_back IS 'Debited again because payments were refunded.';

CREATE VIEW reporting_webhooks_by_day AS
SELECT account_id, day, outcome, attempts, duration_ms
FROM report_attempt WHERE account_id <> '00000000-0000-0000-0000-000000000000';
COMMENT ON VIEW reporting_webhooks_by_day IS 'Attempts to deliver events to merchants.';
COMMENT ON COLUMN reporting_webhooks_by_day.account_id IS 'Whose endpoint.';
COMMENT ON COLUMN reporting_webhooks_by_day.day IS 'The day of the attempts.';
COMMENT ON COLUMN reporting_webhooks_by_day.outcome IS 'delivered, rejected, timeout, connection_refused, connection_reset, dns_error, tls_error, blocked_address, worker_lost, network_error.';
COMMENT ON COLUMN reporting_webhooks_by_day.attempts IS 'How many.';
COMMENT ON COLUMN reporting_webhooks_by_day.duration_ms IS 'How long they took together, in milliseconds.';

-- Lets a role read these views and nothing else. Must be called again when views were added.
CREATE FUNCTION reporting_grant(reader name) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    view regclass;
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), reader);
    FOR view IN SELECT oid FROM pg_class
                WHERE relnamespace = current_schema()::regnamespace AND relkind = 'v' AND starts_with(relname, 'reporting_') LOOP
        EXECUTE format('GRANT SELECT ON %s TO %I', view, reader);
    END LOOP;
END $$;
REVOKE EXECUTE ON FUNCTION reporting_grant(name) FROM PUBLIC;
