-- E-mail: requests for mails about charges, notices to merchants, mails to send, and addresses that have unsubscribed.

-- A production charge whose payer is to be mailed. Written by the statement that creates the charge, and only if
-- requested.
CREATE TABLE mail_request (
    charge_id   uuid NOT NULL,
    account_id  uuid NOT NULL,
    -- When to check next: at once after the creation, then at the next reminder, or when the charge is paid or
    -- re-dated. NULL: only a payment or a new date causes another mail.
    due_at      timestamptz,
    -- When the charge itself was mailed, or could not be.
    begun_at    timestamptz,
    PRIMARY KEY (charge_id, account_id)
) WITH (fillfactor = 85);
CREATE INDEX mail_request_due ON mail_request (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE mail (
    -- Also part of the Message-ID, so that a mail sent twice can be recognised.
    mail_id      uuid PRIMARY KEY,
    -- NULL for mails to staff, and for a requested link whose e-mail may belong to nobody.
    account_id   uuid REFERENCES account,
    charge_id    uuid,
    notice_id    uuid,
    -- charge (after the creation) | before_due, due_day (reminders) | receipt | asked (by the merchant) | notice
    -- | access (a one-time link) | security (what was done with somebody's access or money)
    kind         text NOT NULL CHECK (kind IN ('charge', 'before_due', 'due_day', 'receipt', 'asked', 'notice',
                                               'access', 'security')),
    -- For a reminder, its due date: a re-dated charge gets new reminders.
    about_day    date NOT NULL DEFAULT 'epoch',
    to_sealed    bytea NOT NULL,
    to_hash      text NOT NULL,
    -- The merchant's message; for access and security, the facts of the mail. Sealed.
    note_sealed  bytea,
    attach_pdf   boolean NOT NULL DEFAULT false,
    -- The subject as sent.
    subject      text,
    -- skipped: no longer needed (paid, cancelled), the address has unsubscribed, or the merchant is blocked.
    state        text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'sending', 'sent', 'failed', 'skipped')),
    attempts     integer NOT NULL DEFAULT 0,
    -- When to send it; after it was sent, failed or skipped: when that happened.
    due_at       timestamptz NOT NULL,
    lease_until  timestamptz,
    -- Why it is not sent (yet): a code of ours or the mail server's code, never the server's text.
    trouble      text,
    created_at   timestamptz NOT NULL,
    sent_at      timestamptz,
    CHECK (num_nonnulls(notice_id, charge_id) = CASE WHEN kind IN ('access', 'security') THEN 0 ELSE 1 END),
    CHECK (account_id IS NOT NULL OR kind IN ('access', 'security'))
) WITH (
    fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
CREATE INDEX mail_due ON mail (due_at, mail_id) WHERE state = 'waiting';
CREATE INDEX mail_leased ON mail (lease_until) WHERE state = 'sending';
CREATE INDEX mail_over ON mail (due_at, mail_id) WHERE state IN ('sent', 'failed', 'skipped');
-- Each of these mails is written once, even by two concurrent workers.
CREATE UNIQUE INDEX mail_of_charge ON mail (charge_id, kind, about_day) WHERE kind NOT IN ('asked', 'notice', 'access', 'security');
CREATE UNIQUE INDEX mail_of_notice ON mail (notice_id, to_hash) WHERE kind = 'notice';
CREATE INDEX mail_asked ON mail (charge_id, created_at) WHERE kind = 'asked';
-- For counting the mails that a merchant requested in a day, in all and to one address.
CREATE INDEX mail_asked_of ON mail (account_id, created_at) INCLUDE (to_hash) WHERE kind = 'asked';

-- Addresses that followed the unsubscribe link get no more mails of that merchant's charges.
CREATE TABLE mail_stop (
    account_id  uuid NOT NULL REFERENCES account,
    to_hash     text NOT NULL,
    stopped_at  timestamptz NOT NULL,
    PRIMARY KEY (account_id, to_hash)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);

-- For local work without a mail server: the latest mails as they would have been sent, sealed.
CREATE TABLE caught_mail (
    mail_id         uuid PRIMARY KEY,
    caught_at       timestamptz NOT NULL,
    message_sealed  bytea NOT NULL
);
CREATE INDEX caught_mail_at ON caught_mail (caught_at, mail_id);

-- Notices, shown in the dashboard and mailed to a merchant's people.
CREATE TABLE notice (
    notice_id    uuid PRIMARY KEY,
    account_id   uuid NOT NULL REFERENCES account,
    test         boolean NOT NULL,
    kind         text NOT NULL,  -- webhook_failing | webhook_paused | webhook_recovered | second_copy_asked
    -- The kind of the event that the receiver refused (or accepted again), prefixed with [TESTE/SANDBOX] for test
    -- events. Empty for other notices.
    event_type   text NOT NULL,
    endpoint_id  uuid,           -- outlives the endpoint
    at           timestamptz NOT NULL,
    facts        jsonb NOT NULL,
    -- E-mail: the sending worker holds a lease until mail_after; mailed_at marks it as done.
    mail_after   timestamptz NOT NULL,
    mailed_at    timestamptz
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
CREATE INDEX notice_of_account ON notice (account_id, at, notice_id);
CREATE INDEX notice_unmailed ON notice (mail_after) WHERE mailed_at IS NULL;

-- Payouts made over the API of which the account's owners were not notified yet: at most one mail an hour for each
-- kind, with count and sum.
CREATE TABLE program_payout (
    account_id    uuid NOT NULL REFERENCES account,
    kind          text NOT NULL CHECK (kind IN ('refund', 'withdrawal')),
    payouts       integer NOT NULL,
    amount_cents  bigint NOT NULL,
    -- The instant of the first payout, and the credentials of all.
    since         timestamptz NOT NULL,
    client_ids    text[] NOT NULL,
    due_at        timestamptz NOT NULL,
    PRIMARY KEY (account_id, kind)
);
CREATE INDEX program_payout_due ON program_payout (due_at) WHERE payouts > 0;
