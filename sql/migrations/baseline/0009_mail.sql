-- E-mail: what a charge's creation asked for, notices to merchants, mails to send, and addresses that want no more.

-- A production charge whose payer is to be mailed. Written in the creation's own statement, and only when asked.
CREATE TABLE mail_request (
    charge_id   uuid NOT NULL,
    account_id  uuid NOT NULL,
    -- When to look next: at once after the creation, then at the next reminder, or when it is paid or gets another date.
    -- NULL: only these cause another mail.
    due_at      timestamptz,
    -- The charge itself was mailed, or could not be.
    begun_at    timestamptz,
    PRIMARY KEY (charge_id, account_id)
) WITH (fillfactor = 85);
CREATE INDEX mail_request_due ON mail_request (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE mail (
    -- Also in its Message-ID, so that one sent twice can be recognised.
    mail_id      uuid PRIMARY KEY,
    -- NULL of mails to staff, and of a link somebody asked for who may be nobody.
    account_id   uuid REFERENCES account,
    charge_id    uuid,
    notice_id    uuid,
    -- charge (after the creation) | before_due, due_day (reminders) | receipt | asked (by the merchant) | notice
    -- | access (a one-time link) | security (what was done with somebody's access or money)
    kind         text NOT NULL CHECK (kind IN ('charge', 'before_due', 'due_day', 'receipt', 'asked', 'notice',
                                               'access', 'security')),
    -- Of a reminder the due date it is about: a charge with a new date is reminded of anew.
    about_day    date NOT NULL DEFAULT 'epoch',
    to_sealed    bytea NOT NULL,
    to_hash      text NOT NULL,
    -- What the merchant adds; of access and security what the letter is about. Sealed.
    note_sealed  bytea,
    attach_pdf   boolean NOT NULL DEFAULT false,
    -- As it was sent.
    subject      text,
    -- skipped: nothing to say any more (paid, cancelled), or the address wants no mails of this merchant.
    state        text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'sending', 'sent', 'failed', 'skipped')),
    attempts     integer NOT NULL DEFAULT 0,
    -- When to send it; once it is sent, failed or skipped, when that was settled.
    due_at       timestamptz NOT NULL,
    lease_until  timestamptz,
    -- Why it is not sent (yet): a code of ours or of the mail server's, never what it said.
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
-- Each of these once, also when two workers write them at the same time.
CREATE UNIQUE INDEX mail_of_charge ON mail (charge_id, kind, about_day) WHERE kind NOT IN ('asked', 'notice', 'access', 'security');
CREATE UNIQUE INDEX mail_of_notice ON mail (notice_id, to_hash) WHERE kind = 'notice';
CREATE INDEX mail_asked ON mail (charge_id, created_at) WHERE kind = 'asked';
-- How many a merchant asked for in a day, in all and to one address.
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

-- Local work without a mail server: the last mails, as they would have been sent, sealed.
CREATE TABLE caught_mail (
    mail_id         uuid PRIMARY KEY,
    caught_at       timestamptz NOT NULL,
    message_sealed  bytea NOT NULL
);
CREATE INDEX caught_mail_at ON caught_mail (caught_at, mail_id);

-- Shown in the dashboard and sent by e-mail to a merchant's people.
CREATE TABLE notice (
    notice_id    uuid PRIMARY KEY,
    account_id   uuid NOT NULL REFERENCES account,
    test         boolean NOT NULL,
    kind         text NOT NULL,  -- webhook_failing | webhook_paused | webhook_recovered | second_copy_asked
    -- The kind of event that was not accepted (or was again); of test events with [TESTE/SANDBOX] in front. Else empty.
    event_type   text NOT NULL,
    endpoint_id  uuid,           -- outlives the endpoint
    at           timestamptz NOT NULL,
    facts        jsonb NOT NULL,
    -- E-mail: leased until mail_after by the worker that sends it, done with mailed_at.
    mail_after   timestamptz NOT NULL,
    mailed_at    timestamptz
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
CREATE INDEX notice_of_account ON notice (account_id, at, notice_id);
CREATE INDEX notice_unmailed ON notice (mail_after) WHERE mailed_at IS NULL;

-- What an account's programs paid out that its owners were not mailed of yet: a letter an hour of each kind, with the count.
CREATE TABLE program_payout (
    account_id    uuid NOT NULL REFERENCES account,
    kind          text NOT NULL CHECK (kind IN ('refund', 'withdrawal')),
    payouts       integer NOT NULL,
    amount_cents  bigint NOT NULL,
    -- The first of them, and the credential of the last.
    since         timestamptz NOT NULL,
    client_id     text NOT NULL,
    due_at        timestamptz NOT NULL,
    PRIMARY KEY (account_id, kind)
);
CREATE INDEX program_payout_due ON program_payout (due_at) WHERE payouts > 0;
