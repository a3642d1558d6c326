-- Payments, refunds, withdrawals, partner shares, the ledger, and their read tables.

CREATE TABLE payment (
    amount_cents     bigint NOT NULL CHECK (amount_cents > 0),
    -- The platform's fee, booked as a second ledger entry. Refunds do not change it.
    fee_cents        bigint NOT NULL DEFAULT 0 CHECK (fee_cents BETWEEN 0 AND amount_cents),
    paid_at          timestamptz NOT NULL,
    credited_at      timestamptz NOT NULL,
    -- Refunded, and being refunded; neither part can be refunded again.
    refunded_cents   bigint NOT NULL DEFAULT 0 CHECK (refunded_cents BETWEEN 0 AND amount_cents),
    refunding_cents  bigint NOT NULL DEFAULT 0 CHECK (refunding_cents >= 0),
    -- Taken back by the bank. A refund under way at that moment is refused by the bank.
    reversed_cents   bigint NOT NULL DEFAULT 0 CHECK (reversed_cents >= 0),
    account_id       uuid NOT NULL,
    payment_id       uuid NOT NULL,
    test             boolean NOT NULL,
    settles          boolean NOT NULL,
    charge_id        uuid NOT NULL,
    -- The receipt, booked once: the endToEndId, or the boleto's number and its total with this payment.
    source           text NOT NULL,
    method           text NOT NULL CHECK (method IN ('pix', 'boleto')),
    anomaly          text CHECK (anomaly IN ('duplicate', 'paid_after_cancel', 'amount_mismatch')),
    -- Name and masked document of the payer as the bank reported them, sealed. NULL if the bank named nobody, and after
    -- erasure.
    payer_sealed     bytea,
    PRIMARY KEY (payment_id),
    UNIQUE (account_id, test, source),
    -- Holds even if a command failed to lock the charge.
    CONSTRAINT payment_refunds CHECK (refunded_cents + refunding_cents <= amount_cents)
) WITH (
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
-- At most one payment settles a charge, even if a command failed to lock the charge.
CREATE UNIQUE INDEX payment_settling ON payment (charge_id) WHERE settles;
-- Production payments of a period, over all accounts: compared with a bank's list after a restore. Payments are booked
-- soon after they were made, so those of a period lie together, and BRIN, which costs a payment nothing, is enough.
CREATE INDEX payment_paid ON payment USING brin (paid_at) WHERE NOT test;
-- Anomalous payments not fully refunded or taken back: few rows, whatever the account's size.
CREATE INDEX payment_anomaly_open ON payment (account_id, test, payment_id)
    WHERE anomaly IS NOT NULL AND refunded_cents + refunding_cents + reversed_cents < amount_cents;
-- The same in production over all accounts, for staff.
CREATE INDEX payment_anomaly_everywhere ON payment (credited_at, payment_id)
    WHERE NOT test AND anomaly IS NOT NULL AND refunded_cents + refunding_cents + reversed_cents < amount_cents;

-- Anomalies that the merchant marked as resolved, with a note.
CREATE TABLE anomaly_resolved (
    payment_id   uuid PRIMARY KEY,
    account_id   uuid NOT NULL,
    resolved_at  timestamptz NOT NULL,
    resolved_by  text NOT NULL,
    note         text NOT NULL
);

-- Devolucoes that the bank began itself (MED), each booked once. Each debits the wallet.
CREATE TABLE payment_reversal (
    account_id     uuid NOT NULL,
    reversal_id    uuid NOT NULL,
    payment_id     uuid NOT NULL,
    charge_id      uuid NOT NULL,
    end_to_end_id  text NOT NULL,
    -- The bank's id of the devolucao, and the payment system's (rtrId).
    bank_id        text NOT NULL,
    return_id      text,
    amount_cents   bigint NOT NULL CHECK (amount_cents > 0),
    booked_at      timestamptz NOT NULL,
    PRIMARY KEY (reversal_id, account_id),
    -- A devolucao's id is unique within its PIX only, and one payment may comprise several PIX that the bank did not
    -- name.
    UNIQUE (payment_id, account_id, end_to_end_id, bank_id)
) WITH (
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
-- To see whether a devolucao that the bank lists again was booked.
CREATE INDEX payment_reversal_of_pix ON payment_reversal (end_to_end_id);

CREATE TABLE read_payment (
    paid_at      timestamptz NOT NULL,
    -- The journal row that booked it, which has its document (payment_view).
    journal_id   bigint NOT NULL,
    account_id   uuid NOT NULL,
    test         boolean NOT NULL,
    payment_id   uuid NOT NULL,
    charge_id    uuid NOT NULL,
    method       text NOT NULL,
    anomaly      text,
    external_id  text,
    -- Its totals after refunds and reversals; NULL while there are none.
    changes      jsonb,
    PRIMARY KEY (account_id, test, paid_at, payment_id)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
CREATE INDEX read_payment_charge ON read_payment (charge_id, paid_at, payment_id);
CREATE INDEX read_payment_method ON read_payment (account_id, test, method, paid_at, payment_id);
CREATE INDEX read_payment_reference ON read_payment (account_id, test, external_id, paid_at, payment_id)
    WHERE external_id IS NOT NULL;
CREATE INDEX read_payment_anomaly ON read_payment (account_id, test, anomaly, paid_at, payment_id)
    WHERE anomaly IS NOT NULL;

-- Charges with their documents. `doc` is an expression, so it is computed after a LIMIT and only in statements that
-- select it; it looks up the journal by key, and no join can scan the whole journal. The payer of a payment is stored
-- in the payment's own row only, where it can be erased. The payment's totals after refunds are among the changes.
CREATE VIEW charge_view AS
SELECT r.*, (
    SELECT CASE
        WHEN r.changes IS NULL THEN j.payload -> 'charge'
        WHEN r.paid_journal_id IS NULL THEN (j.payload -> 'charge') || r.changes
        ELSE (j.payload -> 'charge') || r.changes || jsonb_build_object('payment', (
            SELECT (p.payload -> 'payment') || coalesce(r.changes -> 'payment', '{}') || jsonb_build_object('payer_sealed', (
                SELECT encode(s.payer_sealed, 'base64') FROM payment s
                WHERE s.charge_id = r.charge_id AND s.account_id = r.account_id AND s.settles))
            FROM journal p WHERE p.journal_id = r.paid_journal_id)) END
    FROM journal j WHERE j.journal_id = r.journal_id) AS doc
FROM read_charge r;

-- Payments with their documents.
CREATE VIEW payment_view AS
SELECT r.*, (
    SELECT (j.payload -> 'payment') || jsonb_build_object('payer_sealed', (
        SELECT encode(p.payer_sealed, 'base64') FROM payment p
        WHERE p.payment_id = r.payment_id AND p.account_id = r.account_id)) || coalesce(r.changes, '{}')
    FROM journal j WHERE j.journal_id = r.journal_id) AS doc
FROM read_payment r;

CREATE TABLE refund (
    account_id    uuid NOT NULL,
    -- Its hex digits are its identifier at the bank: chosen and committed before the bank is asked.
    refund_id     uuid NOT NULL,
    test          boolean NOT NULL,
    charge_id     uuid NOT NULL,
    payment_id    uuid NOT NULL,
    amount_cents  bigint NOT NULL CHECK (amount_cents > 0),
    status        text NOT NULL CHECK (status IN ('pending', 'succeeded', 'failed')),
    created_at    timestamptz NOT NULL,
    -- The Sao Paulo day on which it counts towards the account's bound on transfers; NULL for devolucoes, for held
    -- refunds and in the sandbox.
    transfer_day  date,
    PRIMARY KEY (refund_id, account_id)
) WITH (
    fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
CREATE INDEX refund_transfers_of_day ON refund (account_id, transfer_day) INCLUDE (amount_cents, status)
    WHERE transfer_day IS NOT NULL;

-- Refunds by transfer that are held until staff decide; the bank knows nothing of them yet. The wallet is debited
-- already.
CREATE TABLE held_refund (
    account_id    uuid NOT NULL,
    refund_id     uuid NOT NULL,
    charge_id     uuid NOT NULL,
    amount_cents  bigint NOT NULL CHECK (amount_cents > 0),
    -- The names in domain/refund.py.
    why           text NOT NULL CHECK (why IN ('not_approved', 'over_bound')),
    -- The request of the bank order that a release writes; its destination is sealed.
    request       jsonb NOT NULL,
    state         text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'released', 'refused')),
    held_at       timestamptz NOT NULL,
    decided_by    text,
    decided_at    timestamptz,
    reason        text CHECK (length(reason) BETWEEN 1 AND 500),
    PRIMARY KEY (refund_id, account_id),
    CHECK ((state = 'open') = (decided_by IS NULL) AND (state = 'open') = (decided_at IS NULL)),
    CHECK (state <> 'refused' OR reason IS NOT NULL)
);
CREATE INDEX held_refund_page ON held_refund (state, held_at, refund_id);

CREATE TABLE read_refund (
    account_id   uuid NOT NULL,
    refund_id    uuid NOT NULL,
    test         boolean NOT NULL,
    created_at   timestamptz NOT NULL,
    status       text NOT NULL,
    charge_id    uuid NOT NULL,
    payment_id   uuid NOT NULL,
    -- With payment_id, the key of its payment in read_payment, which has the totals.
    paid_at      timestamptz NOT NULL,
    external_id  text,
    doc          jsonb NOT NULL,
    PRIMARY KEY (refund_id, account_id)
) WITH (
    fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
CREATE INDEX read_refund_page ON read_refund (account_id, test, created_at, refund_id);
CREATE INDEX read_refund_status ON read_refund (account_id, test, status, created_at, refund_id);
CREATE INDEX read_refund_charge ON read_refund (charge_id, created_at, refund_id);
CREATE INDEX read_refund_payment ON read_refund (payment_id, created_at, refund_id);
CREATE INDEX read_refund_reference ON read_refund (account_id, test, external_id, created_at, refund_id)
    WHERE external_id IS NOT NULL;

-- A merchant's balance sent to its own PIX key, on request or once a day. Production only.
CREATE TABLE withdrawal (
    account_id     uuid NOT NULL REFERENCES account,
    -- Its hex digits are its identifier at the bank: chosen and committed before the bank is asked.
    withdrawal_id  uuid NOT NULL,
    status         text NOT NULL CHECK (status IN ('pending', 'processing', 'succeeded', 'failed', 'cancelled')),
    version        integer NOT NULL,
    amount_cents   bigint NOT NULL CHECK (amount_cents > 0),
    -- Debited along with the amount, and credited back with it.
    fee_cents      bigint NOT NULL DEFAULT 0 CHECK (fee_cents >= 0),
    -- The Sao Paulo day whose daily withdrawal this is; NULL when it was requested.
    automatic_on   date,
    created_at     timestamptz NOT NULL,
    PRIMARY KEY (withdrawal_id, account_id)
) WITH (
    fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
-- One for each account and day, even if two workers try or a worker restarts.
CREATE UNIQUE INDEX withdrawal_automatic ON withdrawal (account_id, automatic_on) WHERE automatic_on IS NOT NULL;

-- Changes of the payout key. Each takes effect by itself some time after it was requested.
CREATE TABLE payout_change (
    change_id     uuid PRIMARY KEY,
    account_id    uuid NOT NULL REFERENCES account,
    pix_key       text NOT NULL,
    -- The document of the key's owner.
    document      text NOT NULL,
    asked_by      text NOT NULL,
    by_staff      boolean NOT NULL,
    asked_at      timestamptz NOT NULL,
    confirmed_by  text,
    -- NULL while a change that staff requested waits for a second member of staff.
    effective_at  timestamptz,
    cancelled_by  text,
    cancelled_at  timestamptz,
    CHECK (confirmed_by <> asked_by),
    CHECK (effective_at IS NOT NULL OR by_staff),
    CHECK ((confirmed_by IS NULL) OR effective_at IS NOT NULL),
    CHECK (NOT by_staff OR effective_at IS NULL OR confirmed_by IS NOT NULL),
    CHECK ((cancelled_by IS NULL) = (cancelled_at IS NULL))
);
CREATE INDEX payout_change_of_account ON payout_change (account_id, asked_at) WHERE cancelled_at IS NULL;

-- The payout key in force. No row: the key with which the account was registered. A function of a single query is
-- inlined into the calling statement.
CREATE FUNCTION payout_in_force(of_account uuid, at timestamptz)
RETURNS TABLE (pix_key text, document text) LANGUAGE sql STABLE AS $$
    SELECT c.pix_key, c.document FROM payout_change c
    WHERE c.account_id = of_account AND c.cancelled_at IS NULL AND c.effective_at <= at
    ORDER BY c.asked_at DESC, c.change_id DESC
    LIMIT 1
$$;

-- Accounts whose balance above `keep_cents` is sent once a day.
CREATE TABLE auto_withdrawal (
    account_id  uuid PRIMARY KEY REFERENCES account,
    keep_cents  bigint NOT NULL CHECK (keep_cents >= 0),
    -- The last day on which the balance was checked, whether or not there was something to send.
    looked_on   date NOT NULL DEFAULT '-infinity'
);
CREATE INDEX auto_withdrawal_due ON auto_withdrawal (looked_on, account_id);

CREATE TABLE read_withdrawal (
    account_id     uuid NOT NULL,
    withdrawal_id  uuid NOT NULL,
    created_at     timestamptz NOT NULL,
    status         text NOT NULL,
    external_id    text,
    doc            jsonb NOT NULL,
    PRIMARY KEY (withdrawal_id, account_id)
) WITH (
    fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
CREATE INDEX read_withdrawal_page ON read_withdrawal (account_id, created_at, withdrawal_id);
CREATE INDEX read_withdrawal_status ON read_withdrawal (account_id, status, created_at, withdrawal_id);
CREATE INDEX read_withdrawal_reference ON read_withdrawal (account_id, external_id, created_at, withdrawal_id)
    WHERE external_id IS NOT NULL;

-- Partner shares, written with the payment or refund that causes them and posted to the partner's ledger afterwards, so
-- that a payment never waits for another account's clock. A share for a partner in another cell is sent to that cell
-- first, which holds and posts it.
CREATE TABLE partner_share (
    -- The id of its cause: the payment for which it is given, or the refund (or reversal) for which it is taken back.
    share_id         uuid NOT NULL,
    -- A refund follows the commit of its payment, so for one payment the numbers are in the order of the movements.
    number           bigint GENERATED ALWAYS AS IDENTITY,
    -- The account that received the payment.
    account_id       uuid NOT NULL,
    test             boolean NOT NULL,
    payment_id       uuid NOT NULL,
    refund_id        uuid,
    integrador_code  text NOT NULL,
    -- The partner's own account.
    partner_id       uuid NOT NULL,
    -- The amount of the payment or refund.
    amount_cents     bigint NOT NULL CHECK (amount_cents > 0),
    share_bps        integer NOT NULL CHECK (share_bps BETWEEN 1 AND 10000),
    -- Given when positive, taken back when negative.
    share_cents      bigint NOT NULL CHECK (CASE WHEN refund_id IS NULL THEN share_cents > 0 ELSE share_cents < 0 END),
    -- When the payment was booked, also in a row that takes a share back: the holding period begins here.
    earned_at        timestamptz NOT NULL,
    -- When it was posted to the partner's ledger, or delivered to the partner's cell.
    posted_at        timestamptz,
    -- The partner's cell, or the merchant's cell, if it is another cell.
    sent_to          integer CHECK (sent_to = cell_of(partner_id)),
    received_from    integer CHECK (received_from = cell_of(account_id)),
    PRIMARY KEY (share_id, account_id),
    CHECK (share_id = coalesce(refund_id, payment_id)),
    CHECK (sent_to IS NULL OR received_from IS NULL)
) WITH (
    fillfactor = 90, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
-- Shares to be posted: in the sandbox at once, in production after the holding period.
CREATE INDEX partner_share_due ON partner_share (test, earned_at, number) INCLUDE (partner_id)
    WHERE posted_at IS NULL AND sent_to IS NULL;
-- A partner's unposted shares, in the order of posting.
CREATE INDEX partner_share_held ON partner_share (partner_id, test, earned_at, number) INCLUDE (share_cents)
    WHERE posted_at IS NULL AND sent_to IS NULL;
-- Shares to be sent to other cells.
CREATE INDEX partner_share_away ON partner_share (sent_to, number) WHERE posted_at IS NULL AND sent_to IS NOT NULL;

CREATE TABLE read_ledger (
    sequence             bigint NOT NULL,
    -- Signed: credits are positive. Always balance_after = balance_after of the row before + amount.
    amount_cents         bigint NOT NULL CHECK (amount_cents <> 0),
    balance_after_cents  bigint NOT NULL,
    created_at           timestamptz NOT NULL,
    account_id           uuid NOT NULL,
    test                 boolean NOT NULL,
    entry_id             uuid NOT NULL,
    type                 text NOT NULL,
    charge_id            uuid,
    payment_id           uuid,
    refund_id            uuid,
    withdrawal_id        uuid,
    external_id          text,
    PRIMARY KEY (account_id, test, sequence)
) WITH (
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
CREATE INDEX read_ledger_type ON read_ledger (account_id, test, type, sequence);
CREATE INDEX read_ledger_created ON read_ledger (account_id, test, created_at, sequence);

-- After a restore to an earlier instant, the bank may have sent transfers that are no longer known here. One row for
-- each restore; until it is released, nothing is sent by transfer.
CREATE TABLE recovery (
    began_at      timestamptz NOT NULL,
    released_at   timestamptz,
    -- The last boleto number known after the restore, and the number after which the sequence continues.
    boletos_from  bigint NOT NULL,
    boletos_to    bigint NOT NULL CHECK (boletos_to > boletos_from),
    -- The name of the restore, from the restored server (quita.restored_to) or the operator.
    restored_to   text PRIMARY KEY CHECK (restored_to <> ''),
    began_by      text NOT NULL,
    released_by   text,
    -- The latest comparison with the banks' lists, and the number of differences left, which the operator must state to
    -- release.
    compared_at   timestamptz,
    compared_by   text,
    compared_from timestamptz,
    booked        bigint,
    differences   integer
);

-- A restored server holds payouts from its first moment, by its own configuration, because workers may start before an
-- operator has checked anything.
CREATE FUNCTION payouts_held() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM recovery WHERE released_at IS NULL)
        OR (coalesce(current_setting('quita.restored_to', true), '') <> ''
            AND NOT EXISTS (SELECT FROM recovery r WHERE r.restored_to = current_setting('quita.restored_to', true)));
$$;
