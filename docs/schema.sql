-- Written by sql/snapshot.py.

CREATE TABLE access_link (
    link_id uuid NOT NULL,
    token_hash bytea NOT NULL,
    email text NOT NULL,
    account_id uuid,
    expires_at timestamp with time zone NOT NULL,
    used_at timestamp with time zone,
    CONSTRAINT access_link_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(account_id),
    CONSTRAINT access_link_pkey PRIMARY KEY (link_id),
    CONSTRAINT access_link_token_hash_check CHECK (length(token_hash) = 32),
    CONSTRAINT access_link_token_hash_key UNIQUE (token_hash)
);
CREATE INDEX access_link_expired ON access_link USING btree (expires_at);
CREATE INDEX access_link_of ON access_link USING btree (email);

CREATE TABLE access_token (
    token_hash bytea NOT NULL,
    client_id text NOT NULL,
    scopes text[] NOT NULL,
    issued_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT access_token_client_id_fkey FOREIGN KEY (client_id) REFERENCES credential(client_id),
    CONSTRAINT access_token_pkey PRIMARY KEY (token_hash),
    CONSTRAINT access_token_token_hash_check CHECK (length(token_hash) = 32)
);
CREATE INDEX access_token_client ON access_token USING btree (client_id);
CREATE INDEX access_token_expired ON access_token USING btree (expires_at);

CREATE TABLE account (
    account_id uuid NOT NULL,
    name text NOT NULL,
    document text NOT NULL,
    city text NOT NULL,
    address jsonb,
    kyc text NOT NULL,
    kyc_reason text,
    kyc_at timestamp with time zone,
    pix_key text NOT NULL,
    receiving_key text,
    refunds_to_others text,
    rate_per_s integer,
    rate_burst integer,
    fees jsonb,
    contact_phone text DEFAULT ''::text NOT NULL,
    contact_whatsapp boolean DEFAULT false NOT NULL,
    contact_email text DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT account_fees_check CHECK (fees ?& '{pix_bps,pix_cents,pix_cents_min,pix_cents_max,boleto_cents,withdrawal_cents}'::text[]),
    CONSTRAINT account_kyc_check CHECK (kyc = ANY (ARRAY['pending'::text, 'approved'::text, 'rejected'::text, 'blocked'::text])),
    CONSTRAINT account_kyc_reason_check CHECK (length(kyc_reason) >= 1 AND length(kyc_reason) <= 500),
    CONSTRAINT account_pkey PRIMARY KEY (account_id),
    CONSTRAINT account_rate_burst_check CHECK (rate_burst > 0),
    CONSTRAINT account_rate_per_s_check CHECK (rate_per_s > 0),
    CONSTRAINT account_refunds_to_others_check CHECK (length(refunds_to_others) >= 1 AND length(refunds_to_others) <= 500)
);
CREATE INDEX account_created ON account USING btree (created_at, account_id);
CREATE INDEX account_document ON account USING btree (document, account_id);
CREATE INDEX account_kyc ON account USING btree (kyc, created_at, account_id);
CREATE INDEX account_name ON account USING btree (folded(name) text_pattern_ops, account_id);

CREATE TABLE account_clock (
    account_id uuid NOT NULL,
    test boolean NOT NULL,
    event_sequence bigint DEFAULT 0 NOT NULL,
    entry_sequence bigint DEFAULT 0 NOT NULL,
    balance_cents bigint DEFAULT 0 NOT NULL,
    latest_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    CONSTRAINT account_clock_pkey PRIMARY KEY (account_id, test)
) WITH (fillfactor=50);

CREATE TABLE account_note (
    note_id uuid NOT NULL,
    account_id uuid NOT NULL,
    written_at timestamp with time zone NOT NULL,
    written_by text NOT NULL,
    text text NOT NULL,
    CONSTRAINT account_note_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(account_id),
    CONSTRAINT account_note_pkey PRIMARY KEY (note_id),
    CONSTRAINT account_note_text_check CHECK (length(text) >= 1 AND length(text) <= 2000)
);
CREATE INDEX account_note_account ON account_note USING btree (account_id, written_at, note_id);

CREATE TABLE anomaly_resolved (
    payment_id uuid NOT NULL,
    account_id uuid NOT NULL,
    resolved_at timestamp with time zone NOT NULL,
    resolved_by text NOT NULL,
    note text NOT NULL,
    CONSTRAINT anomaly_resolved_pkey PRIMARY KEY (payment_id)
);

CREATE TABLE audit (
    audit_id uuid NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    account_id uuid NOT NULL,
    email text NOT NULL,
    at timestamp with time zone NOT NULL,
    action text NOT NULL,
    subject text,
    facts jsonb NOT NULL,
    address_hash text NOT NULL,
    request_id text NOT NULL,
    CONSTRAINT audit_number_key UNIQUE (number),
    CONSTRAINT audit_pkey PRIMARY KEY (audit_id)
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);
CREATE TRIGGER audit_is_append_only BEFORE DELETE OR UPDATE ON audit FOR EACH ROW EXECUTE FUNCTION refuse_change_of_audit();
CREATE TRIGGER audit_is_kept BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();
CREATE INDEX audit_of_account ON audit USING btree (account_id, at, audit_id);
CREATE INDEX audit_of_subject ON audit USING btree (account_id, subject, at, audit_id) WHERE subject IS NOT NULL;

CREATE TABLE auto_withdrawal (
    account_id uuid NOT NULL,
    keep_cents bigint NOT NULL,
    looked_on date DEFAULT '-infinity'::date NOT NULL,
    CONSTRAINT auto_withdrawal_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(account_id),
    CONSTRAINT auto_withdrawal_keep_cents_check CHECK (keep_cents >= 0),
    CONSTRAINT auto_withdrawal_pkey PRIMARY KEY (account_id)
);
CREATE INDEX auto_withdrawal_due ON auto_withdrawal USING btree (looked_on, account_id);

CREATE TABLE bank_call_hour (
    hour timestamp with time zone NOT NULL,
    bank text NOT NULL,
    operation text NOT NULL,
    calls bigint NOT NULL,
    rejected bigint NOT NULL,
    unanswered bigint NOT NULL,
    duration_ms bigint NOT NULL,
    slowest_ms bigint NOT NULL,
    CONSTRAINT bank_call_hour_pkey PRIMARY KEY (hour, bank, operation)
);

CREATE TABLE bank_callback (
    bank text NOT NULL,
    pix_key text NOT NULL,
    url text NOT NULL,
    registered_at timestamp with time zone NOT NULL,
    CONSTRAINT bank_callback_pkey PRIMARY KEY (bank, pix_key)
);

CREATE TABLE bank_hint (
    hint_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    bank text NOT NULL,
    about text NOT NULL,
    txid text NOT NULL,
    received_at timestamp with time zone NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    due_at timestamp with time zone NOT NULL,
    request_id text,
    of_boleto boolean GENERATED ALWAYS AS (starts_with(about, 'boleto:'::text)) STORED NOT NULL,
    CONSTRAINT bank_hint_about_bank_key UNIQUE (about, bank),
    CONSTRAINT bank_hint_pkey PRIMARY KEY (hint_id)
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000, autovacuum_analyze_scale_factor=0, autovacuum_analyze_threshold=1000);
CREATE INDEX bank_hint_due ON bank_hint USING btree (of_boleto, due_at);
CREATE INDEX bank_hint_txid ON bank_hint USING btree (txid);

CREATE TABLE bank_hint_done (
    about text NOT NULL,
    bank text NOT NULL,
    confirmed_at timestamp with time zone NOT NULL
) PARTITION BY RANGE (confirmed_at);
CREATE INDEX bank_hint_done_about ON ONLY bank_hint_done USING btree (about, bank);

CREATE TABLE bank_hint_done_other PARTITION OF bank_hint_done DEFAULT;

CREATE TABLE bank_order (
    order_id uuid NOT NULL,
    account_id uuid,
    charge_id uuid,
    test boolean NOT NULL,
    bank text NOT NULL,
    kind text NOT NULL,
    lane text GENERATED ALWAYS AS (
CASE
    WHEN (kind = ANY (ARRAY['cob_register'::text, 'pix_simulate'::text])) THEN 'pix'::text
    WHEN (kind = ANY (ARRAY['cob_remove'::text, 'cob_revise'::text])) THEN 'pix_change'::text
    WHEN (kind = 'boleto_register'::text) THEN 'boleto'::text
    WHEN (kind = ANY (ARRAY['boleto_write_off'::text, 'boleto_redate'::text, 'boleto_pay'::text])) THEN 'boleto_change'::text
    WHEN (kind = 'boleto_reconcile'::text) THEN 'reconciliation'::text
    WHEN (kind = 'refund_return'::text) THEN 'refund'::text
    WHEN (kind = 'refund_transfer'::text) THEN 'transfer'::text
    WHEN (kind = 'withdrawal_send'::text) THEN 'withdrawal'::text
    ELSE NULL::text
END) STORED NOT NULL,
    request jsonb NOT NULL,
    state text DEFAULT 'waiting'::text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    due_at timestamp with time zone NOT NULL,
    lease_until timestamp with time zone,
    deadline timestamp with time zone,
    reply_to text,
    outcome jsonb,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT bank_order_pkey PRIMARY KEY (order_id),
    CONSTRAINT bank_order_state_check CHECK (state = ANY (ARRAY['waiting'::text, 'working'::text]))
) WITH (fillfactor=50, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000, autovacuum_analyze_scale_factor=0, autovacuum_analyze_threshold=1000);
CREATE UNIQUE INDEX bank_order_boleto_alone ON bank_order USING btree (charge_id) WHERE kind = ANY (ARRAY['boleto_write_off'::text, 'boleto_redate'::text, 'boleto_pay'::text, 'boleto_reconcile'::text]);
CREATE UNIQUE INDEX bank_order_boleto_key ON bank_order USING btree (account_id, test, (request ->> 'key'::text)) WHERE kind = 'boleto_register'::text;
CREATE INDEX bank_order_charge ON bank_order USING btree (charge_id);
CREATE INDEX bank_order_due ON bank_order USING btree (lane, test, due_at, order_id) WHERE state = 'waiting'::text;
CREATE INDEX bank_order_early ON bank_order USING btree (lane, test, due_at, order_id) WHERE state = 'waiting'::text AND attempts = 0 AND due_at > created_at;
CREATE INDEX bank_order_leased ON bank_order USING btree (lease_until) WHERE state = 'working'::text;

CREATE TABLE bank_order_done (
    order_id uuid NOT NULL,
    account_id uuid,
    charge_id uuid,
    created_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone NOT NULL,
    attempts integer NOT NULL,
    test boolean NOT NULL,
    bank text NOT NULL,
    kind text NOT NULL,
    state text NOT NULL,
    outcome jsonb,
    CONSTRAINT bank_order_done_pkey PRIMARY KEY (order_id),
    CONSTRAINT bank_order_done_state_check CHECK (state = ANY (ARRAY['done'::text, 'refused'::text, 'abandoned'::text]))
) PARTITION BY RANGE (order_id);
CREATE INDEX bank_order_failed ON ONLY bank_order_done USING btree (order_id) WHERE state <> 'done'::text AND NOT test;

CREATE TABLE bank_order_done_other PARTITION OF bank_order_done DEFAULT;

CREATE TABLE bank_reconciled (
    bank text NOT NULL,
    method text NOT NULL,
    pass text NOT NULL,
    until timestamp with time zone NOT NULL,
    goal timestamp with time zone NOT NULL,
    window_until timestamp with time zone,
    after text,
    width_s integer NOT NULL,
    CONSTRAINT bank_reconciled_method_check CHECK (method = ANY (ARRAY['pix'::text, 'boleto'::text, 'transfer'::text])),
    CONSTRAINT bank_reconciled_pkey PRIMARY KEY (bank, method, pass),
    CONSTRAINT bank_reconciled_width_s_check CHECK (width_s > 0)
);

CREATE TABLE bank_unreadable (
    bank text NOT NULL,
    method text NOT NULL,
    about text NOT NULL,
    item_sealed bytea NOT NULL,
    found_at timestamp with time zone NOT NULL,
    CONSTRAINT bank_unreadable_method_check CHECK (method = ANY (ARRAY['pix'::text, 'boleto'::text, 'transfer'::text])),
    CONSTRAINT bank_unreadable_pkey PRIMARY KEY (bank, method, about)
);
CREATE INDEX bank_unreadable_found ON bank_unreadable USING btree (found_at, bank, method, about);

CREATE TABLE boleto (
    account_id uuid NOT NULL,
    charge_id uuid NOT NULL,
    bank text NOT NULL,
    number text NOT NULL,
    due_on date NOT NULL,
    terms jsonb,
    registered_at timestamp with time zone NOT NULL,
    booked_cents bigint DEFAULT 0 NOT NULL,
    CONSTRAINT boleto_booked_cents_check CHECK (booked_cents >= 0),
    CONSTRAINT boleto_number_check CHECK (length(number) >= 1 AND length(number) <= 25),
    CONSTRAINT boleto_pkey PRIMARY KEY (charge_id, account_id)
) WITH (fillfactor=85, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);
CREATE UNIQUE INDEX boleto_number ON boleto USING btree (number, bank);

CREATE TABLE caught_mail (
    mail_id uuid NOT NULL,
    caught_at timestamp with time zone NOT NULL,
    message_sealed bytea NOT NULL,
    CONSTRAINT caught_mail_pkey PRIMARY KEY (mail_id)
);
CREATE INDEX caught_mail_at ON caught_mail USING btree (caught_at, mail_id);

CREATE TABLE cell (
    number integer NOT NULL,
    name text NOT NULL,
    addresses_sealed bytea NOT NULL,
    next_sealed bytea,
    held_since timestamp with time zone,
    added_at timestamp with time zone NOT NULL,
    moved_at timestamp with time zone,
    CONSTRAINT cell_name_check CHECK (name ~ '^[a-z][a-z0-9_-]{0,39}$'::text AND name <> 'home'::text),
    CONSTRAINT cell_name_key UNIQUE (name),
    CONSTRAINT cell_number_check CHECK (number >= 1 AND number <= 4095),
    CONSTRAINT cell_pkey PRIMARY KEY (number)
);

CREATE TABLE charge (
    account_id uuid NOT NULL,
    charge_id uuid NOT NULL,
    test boolean NOT NULL,
    bank text NOT NULL,
    payment_method text NOT NULL,
    status text NOT NULL,
    version integer NOT NULL,
    amount_cents bigint NOT NULL,
    refunded_cents bigint DEFAULT 0 NOT NULL,
    external_id text,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    location text,
    payer_sealed bytea,
    payer_document_hash text,
    payer_erased_at timestamp with time zone,
    CONSTRAINT charge_amount_cents_check CHECK (amount_cents > 0),
    CONSTRAINT charge_bank_check CHECK (length(bank) = 3),
    CONSTRAINT charge_payment_method_check CHECK (payment_method = ANY (ARRAY['pix'::text, 'boleto'::text, 'boleto_hibrido'::text, 'boleto_pix'::text])),
    CONSTRAINT charge_pkey PRIMARY KEY (charge_id),
    CONSTRAINT charge_refunded_cents_check CHECK (refunded_cents >= 0),
    CONSTRAINT charge_status_check CHECK (status = ANY (ARRAY['pending'::text, 'paid'::text, 'expired'::text, 'cancelled'::text, 'refunded'::text, 'failed'::text]))
) WITH (fillfactor=85, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);
CREATE INDEX charge_expiring ON charge USING btree (expires_at) WHERE status = 'pending'::text;
CREATE INDEX charge_overdue ON charge USING btree (account_id, test, expires_at) WHERE status = 'pending'::text;
CREATE INDEX charge_reference ON charge USING btree (account_id, test, external_id, charge_id) WHERE status = 'pending'::text AND external_id IS NOT NULL;

CREATE TABLE credential (
    client_id text NOT NULL,
    account_id uuid NOT NULL,
    test boolean NOT NULL,
    secret_hash bytea NOT NULL,
    previous_secret_hash bytea,
    previous_until timestamp with time zone,
    scopes text[] NOT NULL,
    name text,
    created_at timestamp with time zone NOT NULL,
    rotated_at timestamp with time zone,
    created_by text,
    rotated_by text,
    last_token_at timestamp with time zone,
    revoked_at timestamp with time zone,
    CONSTRAINT credential_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(account_id),
    CONSTRAINT credential_name_check CHECK (length(name) >= 1 AND length(name) <= 60),
    CONSTRAINT credential_pkey PRIMARY KEY (client_id),
    CONSTRAINT credential_previous_secret_hash_check CHECK (length(previous_secret_hash) = 32),
    CONSTRAINT credential_secret_hash_check CHECK (length(secret_hash) = 32)
);
CREATE INDEX credential_account ON credential USING btree (account_id);

CREATE TABLE dashboard_session (
    session_hash bytea NOT NULL,
    email text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    proved_at timestamp with time zone NOT NULL,
    CONSTRAINT dashboard_session_email_fkey FOREIGN KEY (email) REFERENCES dashboard_user(email) ON DELETE CASCADE,
    CONSTRAINT dashboard_session_pkey PRIMARY KEY (session_hash),
    CONSTRAINT dashboard_session_session_hash_check CHECK (length(session_hash) = 32)
) WITH (fillfactor=80);
CREATE INDEX dashboard_session_created ON dashboard_session USING btree (created_at);
CREATE INDEX dashboard_session_of ON dashboard_session USING btree (email, created_at);

CREATE TABLE dashboard_user (
    email text NOT NULL,
    account_id uuid,
    role text NOT NULL,
    name text,
    password_hash text,
    totp_sealed bytea,
    totp_since timestamp with time zone,
    totp_step bigint DEFAULT 0 NOT NULL,
    created_at timestamp with time zone NOT NULL,
    role_given_at timestamp with time zone,
    CONSTRAINT dashboard_user_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(account_id),
    CONSTRAINT dashboard_user_name_check CHECK (length(name) >= 1 AND length(name) <= 100),
    CONSTRAINT dashboard_user_pkey PRIMARY KEY (email),
    CONSTRAINT dashboard_user_role_check CHECK (
CASE
    WHEN account_id IS NULL THEN role = ANY (ARRAY['admin'::text, 'operations'::text, 'finance'::text, 'support'::text])
    ELSE (role = ANY (ARRAY['owner'::text, 'finance'::text, 'developer'::text, 'support'::text])) AND role_given_at IS NULL
END)
);
CREATE INDEX dashboard_user_of_account ON dashboard_user USING btree (account_id, email);

CREATE TABLE feed_begin (
    single boolean DEFAULT true NOT NULL,
    begins_at timestamp with time zone NOT NULL,
    CONSTRAINT feed_begin_pkey PRIMARY KEY (single),
    CONSTRAINT feed_begin_single_check CHECK (single)
);

CREATE TABLE held_refund (
    account_id uuid NOT NULL,
    refund_id uuid NOT NULL,
    charge_id uuid NOT NULL,
    amount_cents bigint NOT NULL,
    why text NOT NULL,
    request jsonb NOT NULL,
    state text DEFAULT 'open'::text NOT NULL,
    held_at timestamp with time zone NOT NULL,
    decided_by text,
    decided_at timestamp with time zone,
    reason text,
    CONSTRAINT held_refund_amount_cents_check CHECK (amount_cents > 0),
    CONSTRAINT held_refund_check CHECK ((state = 'open'::text) = (decided_by IS NULL) AND (state = 'open'::text) = (decided_at IS NULL)),
    CONSTRAINT held_refund_check1 CHECK (state <> 'refused'::text OR reason IS NOT NULL),
    CONSTRAINT held_refund_pkey PRIMARY KEY (refund_id, account_id),
    CONSTRAINT held_refund_reason_check CHECK (length(reason) >= 1 AND length(reason) <= 500),
    CONSTRAINT held_refund_state_check CHECK (state = ANY (ARRAY['open'::text, 'released'::text, 'refused'::text])),
    CONSTRAINT held_refund_why_check CHECK (why = ANY (ARRAY['not_approved'::text, 'over_bound'::text]))
);
CREATE INDEX held_refund_page ON held_refund USING btree (state, held_at, refund_id);

CREATE TABLE idempotency (
    first_used_at timestamp with time zone NOT NULL,
    replay_count integer DEFAULT 0 NOT NULL,
    account_id uuid NOT NULL,
    test boolean NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    resource_type text NOT NULL,
    resource_id uuid NOT NULL,
    CONSTRAINT idempotency_fingerprint_check CHECK (length(fingerprint) = 32),
    CONSTRAINT idempotency_key_check CHECK (length(key) >= 1 AND length(key) <= 255),
    CONSTRAINT idempotency_pkey PRIMARY KEY (account_id, test, key)
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);

CREATE TABLE integrator (
    integrador_code text NOT NULL,
    name text NOT NULL,
    account_id uuid,
    active boolean NOT NULL,
    created_at timestamp with time zone NOT NULL,
    version bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    CONSTRAINT integrator_integrador_code_check CHECK (integrador_code ~ '^INTG-[A-Z0-9]{6}$'::text),
    CONSTRAINT integrator_pkey PRIMARY KEY (integrador_code)
);
CREATE INDEX integrator_version ON integrator USING btree (version);

CREATE TABLE integrator_share (
    integrador_code text NOT NULL,
    since timestamp with time zone NOT NULL,
    share_bps integer NOT NULL,
    CONSTRAINT integrator_share_integrador_code_fkey FOREIGN KEY (integrador_code) REFERENCES integrator(integrador_code),
    CONSTRAINT integrator_share_pkey PRIMARY KEY (integrador_code, since),
    CONSTRAINT integrator_share_share_bps_check CHECK (share_bps >= 0 AND share_bps <= 10000)
);

CREATE TABLE invitation (
    account_id uuid NOT NULL,
    email text NOT NULL,
    name text NOT NULL,
    role text NOT NULL,
    invited_by text NOT NULL,
    invited_at timestamp with time zone NOT NULL,
    CONSTRAINT invitation_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(account_id),
    CONSTRAINT invitation_name_check CHECK (length(name) >= 1 AND length(name) <= 100),
    CONSTRAINT invitation_pkey PRIMARY KEY (account_id, email),
    CONSTRAINT invitation_role_check CHECK (role = ANY (ARRAY['owner'::text, 'finance'::text, 'developer'::text, 'support'::text]))
);
CREATE INDEX invitation_of_email ON invitation USING btree (email, invited_at);

CREATE TABLE journal (
    journal_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    account_id uuid NOT NULL,
    test boolean NOT NULL,
    charge_id uuid,
    version integer NOT NULL,
    kind text NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    actor text NOT NULL,
    request_id text,
    payload jsonb NOT NULL,
    event_id uuid,
    event_sequence bigint,
    event_body bytea,
    CONSTRAINT journal_check CHECK ((event_id IS NULL) = (event_sequence IS NULL) AND (event_id IS NULL) = (event_body IS NULL)),
    CONSTRAINT journal_pkey PRIMARY KEY (journal_id)
) WITH (autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);
CREATE INDEX journal_created ON journal USING brin (charge_id) WHERE kind = 'charge.created'::text;
CREATE TRIGGER journal_is_append_only BEFORE DELETE OR UPDATE ON journal FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER journal_is_kept BEFORE TRUNCATE ON journal FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE INDEX journal_of_charge ON journal USING btree (charge_id, version, journal_id) WHERE kind <> 'charge.created'::text;
CREATE INDEX journal_of_other ON journal USING btree (journal_subject(payload), version, journal_id) WHERE charge_id IS NULL;
CREATE INDEX journal_recorded ON journal USING brin (recorded_at) WHERE NOT test;

CREATE TABLE lease (
    name text NOT NULL,
    holder text NOT NULL,
    taken_at timestamp with time zone NOT NULL,
    until timestamp with time zone NOT NULL,
    CONSTRAINT lease_pkey PRIMARY KEY (name)
) WITH (fillfactor=50);

CREATE TABLE mail (
    mail_id uuid NOT NULL,
    account_id uuid,
    charge_id uuid,
    notice_id uuid,
    kind text NOT NULL,
    about_day date DEFAULT '1970-01-01'::date NOT NULL,
    to_sealed bytea NOT NULL,
    to_hash text NOT NULL,
    note_sealed bytea,
    attach_pdf boolean DEFAULT false NOT NULL,
    subject text,
    state text DEFAULT 'waiting'::text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    due_at timestamp with time zone NOT NULL,
    lease_until timestamp with time zone,
    trouble text,
    created_at timestamp with time zone NOT NULL,
    sent_at timestamp with time zone,
    CONSTRAINT mail_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(account_id),
    CONSTRAINT mail_check CHECK (num_nonnulls(notice_id, charge_id) =
CASE
    WHEN kind = ANY (ARRAY['access'::text, 'security'::text]) THEN 0
    ELSE 1
END),
    CONSTRAINT mail_check1 CHECK (account_id IS NOT NULL OR (kind = ANY (ARRAY['access'::text, 'security'::text]))),
    CONSTRAINT mail_kind_check CHECK (kind = ANY (ARRAY['charge'::text, 'before_due'::text, 'due_day'::text, 'receipt'::text, 'asked'::text, 'notice'::text, 'access'::text, 'security'::text])),
    CONSTRAINT mail_pkey PRIMARY KEY (mail_id),
    CONSTRAINT mail_state_check CHECK (state = ANY (ARRAY['waiting'::text, 'sending'::text, 'sent'::text, 'failed'::text, 'skipped'::text]))
) WITH (fillfactor=85, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);
CREATE INDEX mail_asked ON mail USING btree (charge_id, created_at) WHERE kind = 'asked'::text;
CREATE INDEX mail_asked_of ON mail USING btree (account_id, created_at) INCLUDE (to_hash) WHERE kind = 'asked'::text;
CREATE INDEX mail_due ON mail USING btree (due_at, mail_id) WHERE state = 'waiting'::text;
CREATE INDEX mail_leased ON mail USING btree (lease_until) WHERE state = 'sending'::text;
CREATE UNIQUE INDEX mail_of_charge ON mail USING btree (charge_id, kind, about_day) WHERE kind <> ALL (ARRAY['asked'::text, 'notice'::text, 'access'::text, 'security'::text]);
CREATE UNIQUE INDEX mail_of_notice ON mail USING btree (notice_id, to_hash) WHERE kind = 'notice'::text;
CREATE INDEX mail_over ON mail USING btree (due_at, mail_id) WHERE state = ANY (ARRAY['sent'::text, 'failed'::text, 'skipped'::text]);

CREATE TABLE mail_request (
    charge_id uuid NOT NULL,
    account_id uuid NOT NULL,
    due_at timestamp with time zone,
    begun_at timestamp with time zone,
    CONSTRAINT mail_request_pkey PRIMARY KEY (charge_id, account_id)
) WITH (fillfactor=85);
CREATE INDEX mail_request_due ON mail_request USING btree (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE mail_stop (
    account_id uuid NOT NULL,
    to_hash text NOT NULL,
    stopped_at timestamp with time zone NOT NULL,
    CONSTRAINT mail_stop_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(account_id),
    CONSTRAINT mail_stop_pkey PRIMARY KEY (account_id, to_hash)
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);

CREATE TABLE merchant_logo (
    account_id uuid NOT NULL,
    digest bytea NOT NULL,
    width smallint NOT NULL,
    height smallint NOT NULL,
    image bytea NOT NULL,
    preview bytea NOT NULL,
    set_at timestamp with time zone NOT NULL,
    CONSTRAINT merchant_logo_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(account_id),
    CONSTRAINT merchant_logo_digest_check CHECK (length(digest) = 16),
    CONSTRAINT merchant_logo_height_check CHECK (height >= 1 AND height <= 200),
    CONSTRAINT merchant_logo_image_check CHECK (length(image) >= 1 AND length(image) <= 32768),
    CONSTRAINT merchant_logo_pkey PRIMARY KEY (account_id),
    CONSTRAINT merchant_logo_preview_check CHECK (length(preview) >= 1 AND length(preview) <= 32768),
    CONSTRAINT merchant_logo_width_check CHECK (width >= 1 AND width <= 400)
);
CREATE INDEX merchant_logo_digest ON merchant_logo USING btree (digest);

CREATE TABLE migration (
    name text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL,
    sha256 bytea,
    needs text,
    CONSTRAINT migration_pkey PRIMARY KEY (name)
);

CREATE TABLE notice (
    notice_id uuid NOT NULL,
    account_id uuid NOT NULL,
    test boolean NOT NULL,
    kind text NOT NULL,
    event_type text NOT NULL,
    endpoint_id uuid,
    at timestamp with time zone NOT NULL,
    facts jsonb NOT NULL,
    mail_after timestamp with time zone NOT NULL,
    mailed_at timestamp with time zone,
    CONSTRAINT notice_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(account_id),
    CONSTRAINT notice_pkey PRIMARY KEY (notice_id)
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);
CREATE INDEX notice_of_account ON notice USING btree (account_id, at, notice_id);
CREATE INDEX notice_unmailed ON notice USING btree (mail_after) WHERE mailed_at IS NULL;

CREATE TABLE number_block (
    first bigint NOT NULL,
    last bigint NOT NULL,
    number integer NOT NULL,
    CONSTRAINT number_block_check CHECK (last >= first AND last <= '9999999999'::bigint),
    CONSTRAINT number_block_first_check CHECK (first > 0),
    CONSTRAINT number_block_number_check CHECK (number >= 1 AND number <= 4095),
    CONSTRAINT number_block_pkey PRIMARY KEY (first)
);

CREATE TABLE partner_copy (
    single boolean DEFAULT true NOT NULL,
    version bigint NOT NULL,
    CONSTRAINT partner_copy_pkey PRIMARY KEY (single),
    CONSTRAINT partner_copy_single_check CHECK (single)
);

CREATE TABLE partner_share (
    share_id uuid NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    account_id uuid NOT NULL,
    test boolean NOT NULL,
    payment_id uuid NOT NULL,
    refund_id uuid,
    integrador_code text NOT NULL,
    partner_id uuid NOT NULL,
    amount_cents bigint NOT NULL,
    share_bps integer NOT NULL,
    share_cents bigint NOT NULL,
    earned_at timestamp with time zone NOT NULL,
    posted_at timestamp with time zone,
    sent_to integer,
    received_from integer,
    CONSTRAINT partner_share_amount_cents_check CHECK (amount_cents > 0),
    CONSTRAINT partner_share_check CHECK (
CASE
    WHEN refund_id IS NULL THEN share_cents > 0
    ELSE share_cents < 0
END),
    CONSTRAINT partner_share_check1 CHECK (sent_to = cell_of(partner_id)),
    CONSTRAINT partner_share_check2 CHECK (received_from = cell_of(account_id)),
    CONSTRAINT partner_share_check3 CHECK (share_id = COALESCE(refund_id, payment_id)),
    CONSTRAINT partner_share_check4 CHECK (sent_to IS NULL OR received_from IS NULL),
    CONSTRAINT partner_share_pkey PRIMARY KEY (share_id, account_id),
    CONSTRAINT partner_share_share_bps_check CHECK (share_bps >= 1 AND share_bps <= 10000)
) WITH (fillfactor=90, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);
CREATE INDEX partner_share_away ON partner_share USING btree (sent_to, number) WHERE posted_at IS NULL AND sent_to IS NOT NULL;
CREATE INDEX partner_share_due ON partner_share USING btree (test, earned_at, number) INCLUDE (partner_id) WHERE posted_at IS NULL AND sent_to IS NULL;
CREATE INDEX partner_share_held ON partner_share USING btree (partner_id, test, earned_at, number) INCLUDE (share_cents) WHERE posted_at IS NULL AND sent_to IS NULL;

CREATE TABLE payer_kept (
    account_id uuid NOT NULL,
    charge_id uuid NOT NULL,
    test boolean NOT NULL,
    look_at timestamp with time zone NOT NULL,
    CONSTRAINT payer_kept_pkey PRIMARY KEY (charge_id)
);
CREATE INDEX payer_kept_due ON payer_kept USING btree (test, look_at);

CREATE TABLE payer_retention (
    test boolean NOT NULL,
    charge_id uuid NOT NULL,
    CONSTRAINT payer_retention_pkey PRIMARY KEY (test)
) WITH (fillfactor=50);

CREATE TABLE payment (
    amount_cents bigint NOT NULL,
    fee_cents bigint DEFAULT 0 NOT NULL,
    paid_at timestamp with time zone NOT NULL,
    credited_at timestamp with time zone NOT NULL,
    refunded_cents bigint DEFAULT 0 NOT NULL,
    refunding_cents bigint DEFAULT 0 NOT NULL,
    reversed_cents bigint DEFAULT 0 NOT NULL,
    account_id uuid NOT NULL,
    payment_id uuid NOT NULL,
    test boolean NOT NULL,
    settles boolean NOT NULL,
    charge_id uuid NOT NULL,
    source text NOT NULL,
    method text NOT NULL,
    anomaly text,
    payer_sealed bytea,
    CONSTRAINT payment_account_id_test_source_key UNIQUE (account_id, test, source),
    CONSTRAINT payment_amount_cents_check CHECK (amount_cents > 0),
    CONSTRAINT payment_anomaly_check CHECK (anomaly = ANY (ARRAY['duplicate'::text, 'paid_after_cancel'::text, 'amount_mismatch'::text])),
    CONSTRAINT payment_check CHECK (fee_cents >= 0 AND fee_cents <= amount_cents),
    CONSTRAINT payment_check1 CHECK (refunded_cents >= 0 AND refunded_cents <= amount_cents),
    CONSTRAINT payment_method_check CHECK (method = ANY (ARRAY['pix'::text, 'boleto'::text])),
    CONSTRAINT payment_pkey PRIMARY KEY (payment_id),
    CONSTRAINT payment_refunding_cents_check CHECK (refunding_cents >= 0),
    CONSTRAINT payment_refunds CHECK ((refunded_cents + refunding_cents) <= amount_cents),
    CONSTRAINT payment_reversed_cents_check CHECK (reversed_cents >= 0)
) WITH (autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);
CREATE INDEX payment_anomaly_everywhere ON payment USING btree (credited_at, payment_id) WHERE NOT test AND anomaly IS NOT NULL AND (refunded_cents + refunding_cents + reversed_cents) < amount_cents;
CREATE INDEX payment_anomaly_open ON payment USING btree (account_id, test, payment_id) WHERE anomaly IS NOT NULL AND (refunded_cents + refunding_cents + reversed_cents) < amount_cents;
CREATE INDEX payment_paid ON payment USING brin (paid_at) WHERE NOT test;
CREATE UNIQUE INDEX payment_settling ON payment USING btree (charge_id) WHERE settles;

CREATE TABLE payment_reversal (
    account_id uuid NOT NULL,
    reversal_id uuid NOT NULL,
    payment_id uuid NOT NULL,
    charge_id uuid NOT NULL,
    end_to_end_id text NOT NULL,
    bank_id text NOT NULL,
    return_id text,
    amount_cents bigint NOT NULL,
    booked_at timestamp with time zone NOT NULL,
    CONSTRAINT payment_reversal_amount_cents_check CHECK (amount_cents > 0),
    CONSTRAINT payment_reversal_payment_id_account_id_end_to_end_id_bank_i_key UNIQUE (payment_id, account_id, end_to_end_id, bank_id),
    CONSTRAINT payment_reversal_pkey PRIMARY KEY (reversal_id, account_id)
) WITH (autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);
CREATE INDEX payment_reversal_of_pix ON payment_reversal USING btree (end_to_end_id);

CREATE TABLE payout_change (
    change_id uuid NOT NULL,
    account_id uuid NOT NULL,
    pix_key text NOT NULL,
    document text NOT NULL,
    asked_by text NOT NULL,
    by_staff boolean NOT NULL,
    asked_at timestamp with time zone NOT NULL,
    confirmed_by text,
    effective_at timestamp with time zone,
    cancelled_by text,
    cancelled_at timestamp with time zone,
    CONSTRAINT payout_change_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(account_id),
    CONSTRAINT payout_change_check CHECK (confirmed_by <> asked_by),
    CONSTRAINT payout_change_check1 CHECK (effective_at IS NOT NULL OR by_staff),
    CONSTRAINT payout_change_check2 CHECK (confirmed_by IS NULL OR effective_at IS NOT NULL),
    CONSTRAINT payout_change_check3 CHECK (NOT by_staff OR effective_at IS NULL OR confirmed_by IS NOT NULL),
    CONSTRAINT payout_change_check4 CHECK ((cancelled_by IS NULL) = (cancelled_at IS NULL)),
    CONSTRAINT payout_change_pkey PRIMARY KEY (change_id)
);
CREATE INDEX payout_change_of_account ON payout_change USING btree (account_id, asked_at) WHERE cancelled_at IS NULL;

CREATE TABLE pix_location (
    test boolean NOT NULL,
    bank text NOT NULL,
    block_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    count bigint GENERATED ALWAYS AS (cardinality(location_ids)) STORED,
    location_ids bigint[] NOT NULL,
    locations text[] NOT NULL,
    CONSTRAINT pix_location_check CHECK (cardinality(locations) = cardinality(location_ids)),
    CONSTRAINT pix_location_pkey PRIMARY KEY (test, bank, block_id)
) WITH (toast_tuple_target=8160, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000, autovacuum_analyze_scale_factor=0, autovacuum_analyze_threshold=1000);

CREATE TABLE pix_pool (
    test boolean NOT NULL,
    bank text NOT NULL,
    made bigint NOT NULL,
    taken bigint DEFAULT 0 NOT NULL,
    per_s double precision DEFAULT 0 NOT NULL,
    counted_at timestamp with time zone NOT NULL,
    silent_at timestamp with time zone,
    CONSTRAINT pix_pool_pkey PRIMARY KEY (test, bank)
) WITH (fillfactor=50);

CREATE TABLE pix_suspension (
    single boolean DEFAULT true NOT NULL,
    suspended_at timestamp with time zone NOT NULL,
    CONSTRAINT pix_suspension_pkey PRIMARY KEY (single),
    CONSTRAINT pix_suspension_single_check CHECK (single)
);

CREATE TABLE program_payout (
    account_id uuid NOT NULL,
    kind text NOT NULL,
    payouts integer NOT NULL,
    amount_cents bigint NOT NULL,
    since timestamp with time zone NOT NULL,
    client_ids text[] NOT NULL,
    due_at timestamp with time zone NOT NULL,
    CONSTRAINT program_payout_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(account_id),
    CONSTRAINT program_payout_kind_check CHECK (kind = ANY (ARRAY['refund'::text, 'withdrawal'::text])),
    CONSTRAINT program_payout_pkey PRIMARY KEY (account_id, kind)
);
CREATE INDEX program_payout_due ON program_payout USING btree (due_at) WHERE payouts > 0;

CREATE TABLE read_charge (
    created_at timestamp with time zone NOT NULL,
    amount_cents bigint NOT NULL,
    journal_id bigint NOT NULL,
    paid_journal_id bigint,
    version integer NOT NULL,
    due_date date,
    account_id uuid NOT NULL,
    charge_id uuid NOT NULL,
    test boolean NOT NULL,
    status text NOT NULL,
    payment_method text NOT NULL,
    public_id text NOT NULL,
    external_id text,
    payer_document_hash text,
    nosso_numero text,
    txid text,
    integrador_code text,
    changes jsonb,
    CONSTRAINT read_charge_pkey PRIMARY KEY (charge_id)
) WITH (fillfactor=85, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);
CREATE INDEX read_charge_due ON read_charge USING btree (account_id, test, due_date, created_at, charge_id) WHERE due_date IS NOT NULL;
CREATE INDEX read_charge_integrador ON read_charge USING btree (account_id, test, integrador_code, created_at, charge_id) WHERE integrador_code IS NOT NULL;
CREATE INDEX read_charge_nosso_numero ON read_charge USING btree (account_id, test, nosso_numero, created_at, charge_id) WHERE nosso_numero IS NOT NULL;
CREATE INDEX read_charge_page ON read_charge USING btree (account_id, test, created_at, charge_id);
CREATE INDEX read_charge_payer ON read_charge USING btree (account_id, test, payer_document_hash, created_at, charge_id) WHERE payer_document_hash IS NOT NULL;
CREATE UNIQUE INDEX read_charge_public ON read_charge USING btree (public_id);
CREATE INDEX read_charge_reference ON read_charge USING btree (account_id, test, external_id, created_at, charge_id) WHERE external_id IS NOT NULL;
CREATE INDEX read_charge_status ON read_charge USING btree (account_id, test, status, payment_method, created_at, charge_id);
CREATE INDEX read_charge_txid ON read_charge USING btree (account_id, test, txid, created_at, charge_id) WHERE txid IS NOT NULL;

CREATE TABLE read_event (
    sequence bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    journal_id bigint NOT NULL,
    account_id uuid NOT NULL,
    event_id uuid NOT NULL,
    charge_id uuid,
    test boolean NOT NULL,
    type text NOT NULL,
    external_id text,
    CONSTRAINT read_event_pkey PRIMARY KEY (account_id, test, sequence, created_at)
) PARTITION BY LIST (test);
CREATE INDEX read_event_charge ON ONLY read_event USING btree (charge_id, sequence);
CREATE INDEX read_event_created ON ONLY read_event USING btree (account_id, test, created_at, sequence);
CREATE INDEX read_event_reference ON ONLY read_event USING btree (account_id, test, external_id, sequence) WHERE external_id IS NOT NULL;
CREATE INDEX read_event_type ON ONLY read_event USING btree (account_id, test, type, sequence);

CREATE TABLE read_event_production_other PARTITION OF read_event_production DEFAULT;

CREATE TABLE read_event_sandbox_other PARTITION OF read_event_sandbox DEFAULT;

CREATE TABLE read_ledger (
    sequence bigint NOT NULL,
    amount_cents bigint NOT NULL,
    balance_after_cents bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    account_id uuid NOT NULL,
    test boolean NOT NULL,
    entry_id uuid NOT NULL,
    type text NOT NULL,
    charge_id uuid,
    payment_id uuid,
    refund_id uuid,
    withdrawal_id uuid,
    external_id text,
    CONSTRAINT read_ledger_amount_cents_check CHECK (amount_cents <> 0),
    CONSTRAINT read_ledger_pkey PRIMARY KEY (account_id, test, sequence)
) WITH (autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);
CREATE INDEX read_ledger_created ON read_ledger USING btree (account_id, test, created_at, sequence);
CREATE INDEX read_ledger_type ON read_ledger USING btree (account_id, test, type, sequence);

CREATE TABLE read_payment (
    paid_at timestamp with time zone NOT NULL,
    journal_id bigint NOT NULL,
    account_id uuid NOT NULL,
    test boolean NOT NULL,
    payment_id uuid NOT NULL,
    charge_id uuid NOT NULL,
    method text NOT NULL,
    anomaly text,
    external_id text,
    changes jsonb,
    CONSTRAINT read_payment_pkey PRIMARY KEY (account_id, test, paid_at, payment_id)
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);
CREATE INDEX read_payment_anomaly ON read_payment USING btree (account_id, test, anomaly, paid_at, payment_id) WHERE anomaly IS NOT NULL;
CREATE INDEX read_payment_charge ON read_payment USING btree (charge_id, paid_at, payment_id);
CREATE INDEX read_payment_method ON read_payment USING btree (account_id, test, method, paid_at, payment_id);
CREATE INDEX read_payment_reference ON read_payment USING btree (account_id, test, external_id, paid_at, payment_id) WHERE external_id IS NOT NULL;

CREATE TABLE read_refund (
    account_id uuid NOT NULL,
    refund_id uuid NOT NULL,
    test boolean NOT NULL,
    created_at timestamp with time zone NOT NULL,
    status text NOT NULL,
    charge_id uuid NOT NULL,
    payment_id uuid NOT NULL,
    paid_at timestamp with time zone NOT NULL,
    external_id text,
    doc jsonb NOT NULL,
    CONSTRAINT read_refund_pkey PRIMARY KEY (refund_id, account_id)
) WITH (fillfactor=85, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);
CREATE INDEX read_refund_charge ON read_refund USING btree (charge_id, created_at, refund_id);
CREATE INDEX read_refund_page ON read_refund USING btree (account_id, test, created_at, refund_id);
CREATE INDEX read_refund_payment ON read_refund USING btree (payment_id, created_at, refund_id);
CREATE INDEX read_refund_reference ON read_refund USING btree (account_id, test, external_id, created_at, refund_id) WHERE external_id IS NOT NULL;
CREATE INDEX read_refund_status ON read_refund USING btree (account_id, test, status, created_at, refund_id);

CREATE TABLE read_withdrawal (
    account_id uuid NOT NULL,
    withdrawal_id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    status text NOT NULL,
    external_id text,
    doc jsonb NOT NULL,
    CONSTRAINT read_withdrawal_pkey PRIMARY KEY (withdrawal_id, account_id)
) WITH (fillfactor=85, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);
CREATE INDEX read_withdrawal_page ON read_withdrawal USING btree (account_id, created_at, withdrawal_id);
CREATE INDEX read_withdrawal_reference ON read_withdrawal USING btree (account_id, external_id, created_at, withdrawal_id) WHERE external_id IS NOT NULL;
CREATE INDEX read_withdrawal_status ON read_withdrawal USING btree (account_id, status, created_at, withdrawal_id);

CREATE TABLE rebuild (
    rebuild_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    begun_at timestamp with time zone NOT NULL,
    standing jsonb NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT rebuild_pkey PRIMARY KEY (rebuild_id)
) WITH (fillfactor=50);

CREATE TABLE receiving_key (
    single boolean DEFAULT true NOT NULL,
    pix_key text NOT NULL,
    set_at timestamp with time zone NOT NULL,
    CONSTRAINT receiving_key_pkey PRIMARY KEY (single),
    CONSTRAINT receiving_key_single_check CHECK (single)
);

CREATE TABLE recovery (
    began_at timestamp with time zone NOT NULL,
    released_at timestamp with time zone,
    boletos_from bigint NOT NULL,
    boletos_to bigint NOT NULL,
    restored_to text NOT NULL,
    began_by text NOT NULL,
    released_by text,
    compared_at timestamp with time zone,
    compared_by text,
    compared_from timestamp with time zone,
    booked bigint,
    differences integer,
    CONSTRAINT recovery_check CHECK (boletos_to > boletos_from),
    CONSTRAINT recovery_pkey PRIMARY KEY (restored_to),
    CONSTRAINT recovery_restored_to_check CHECK (restored_to <> ''::text)
);

CREATE TABLE recovery_code (
    email text NOT NULL,
    code_hash text NOT NULL,
    CONSTRAINT recovery_code_email_fkey FOREIGN KEY (email) REFERENCES dashboard_user(email) ON DELETE CASCADE,
    CONSTRAINT recovery_code_pkey PRIMARY KEY (email, code_hash)
);

CREATE TABLE refund (
    account_id uuid NOT NULL,
    refund_id uuid NOT NULL,
    test boolean NOT NULL,
    charge_id uuid NOT NULL,
    payment_id uuid NOT NULL,
    amount_cents bigint NOT NULL,
    status text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    transfer_day date,
    CONSTRAINT refund_amount_cents_check CHECK (amount_cents > 0),
    CONSTRAINT refund_pkey PRIMARY KEY (refund_id, account_id),
    CONSTRAINT refund_status_check CHECK (status = ANY (ARRAY['pending'::text, 'succeeded'::text, 'failed'::text]))
) WITH (fillfactor=85, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);
CREATE INDEX refund_transfers_of_day ON refund USING btree (account_id, transfer_day) INCLUDE (amount_cents, status) WHERE transfer_day IS NOT NULL;

CREATE TABLE registration_check (
    account_id uuid NOT NULL,
    item text NOT NULL,
    seen bytea NOT NULL,
    checked_by text NOT NULL,
    checked_at timestamp with time zone NOT NULL,
    CONSTRAINT registration_check_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(account_id),
    CONSTRAINT registration_check_item_check CHECK (item = ANY (ARRAY['company'::text, 'address'::text, 'people'::text, 'payout_key'::text, 'activity'::text])),
    CONSTRAINT registration_check_pkey PRIMARY KEY (account_id, item)
);

CREATE TABLE report_attempt (
    account_id uuid NOT NULL,
    day date NOT NULL,
    outcome text NOT NULL,
    attempts bigint NOT NULL,
    duration_ms bigint NOT NULL,
    CONSTRAINT report_attempt_pkey PRIMARY KEY (account_id, day, outcome)
) WITH (fillfactor=85);

CREATE TABLE report_attempt_told (
    account_id uuid NOT NULL,
    day date NOT NULL,
    outcome text NOT NULL,
    attempts bigint NOT NULL,
    duration_ms bigint NOT NULL
);

CREATE TABLE report_charge (
    charge_id uuid NOT NULL,
    account_id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    payment_method text NOT NULL,
    status text NOT NULL,
    due_date date,
    amount_cents bigint NOT NULL,
    CONSTRAINT report_charge_pkey PRIMARY KEY (charge_id)
) WITH (fillfactor=85, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);

CREATE TABLE report_cohort (
    account_id uuid NOT NULL,
    day date NOT NULL,
    payment_method text NOT NULL,
    status text NOT NULL,
    charges bigint NOT NULL,
    cents bigint NOT NULL,
    CONSTRAINT report_cohort_pkey PRIMARY KEY (account_id, day, payment_method, status)
) WITH (fillfactor=85);
CREATE INDEX report_cohort_day ON report_cohort USING brin (day);

CREATE TABLE report_due (
    account_id uuid NOT NULL,
    status text NOT NULL,
    due_date date NOT NULL,
    payment_method text NOT NULL,
    charges bigint NOT NULL,
    cents bigint NOT NULL,
    CONSTRAINT report_due_pkey PRIMARY KEY (account_id, status, due_date, payment_method)
) WITH (fillfactor=85);
CREATE INDEX report_due_day ON report_due USING brin (due_date);

CREATE TABLE report_entry (
    account_id uuid NOT NULL,
    day date NOT NULL,
    type text NOT NULL,
    method text NOT NULL,
    entries bigint NOT NULL,
    cents bigint NOT NULL,
    late bigint NOT NULL,
    anomalous bigint NOT NULL,
    CONSTRAINT report_entry_pkey PRIMARY KEY (account_id, day, type, method)
) WITH (fillfactor=85);
CREATE INDEX report_entry_day ON report_entry USING brin (day);

CREATE TABLE report_integrator (
    account_id uuid NOT NULL,
    day date NOT NULL,
    integrador_code text NOT NULL,
    charges bigint NOT NULL,
    charge_cents bigint NOT NULL,
    payments bigint NOT NULL,
    payment_cents bigint NOT NULL,
    given_cents bigint NOT NULL,
    taken_back_cents bigint NOT NULL,
    CONSTRAINT report_integrator_pkey PRIMARY KEY (account_id, day, integrador_code)
) WITH (fillfactor=85);
CREATE INDEX report_integrator_day ON report_integrator USING brin (day);

CREATE TABLE report_position (
    single boolean DEFAULT true NOT NULL,
    journal_id bigint NOT NULL,
    as_of timestamp with time zone NOT NULL,
    CONSTRAINT report_position_pkey PRIMARY KEY (single),
    CONSTRAINT report_position_single_check CHECK (single)
);

CREATE TABLE report_refund (
    account_id uuid NOT NULL,
    day date NOT NULL,
    method text NOT NULL,
    what text NOT NULL,
    refunds bigint NOT NULL,
    cents bigint NOT NULL,
    CONSTRAINT report_refund_pkey PRIMARY KEY (account_id, day, method, what)
) WITH (fillfactor=85);
CREATE INDEX report_refund_day ON report_refund USING brin (day);

CREATE TABLE report_wait (
    account_id uuid NOT NULL,
    day date NOT NULL,
    payment_method text NOT NULL,
    bucket integer NOT NULL,
    charges bigint NOT NULL,
    CONSTRAINT report_wait_pkey PRIMARY KEY (account_id, day, payment_method, bucket)
) WITH (fillfactor=85);
CREATE INDEX report_wait_day ON report_wait USING brin (day);

CREATE TABLE request_log (
    account_id uuid NOT NULL,
    test boolean NOT NULL,
    at timestamp with time zone NOT NULL,
    request_id text NOT NULL,
    client_id text NOT NULL,
    method text NOT NULL,
    path text NOT NULL,
    status smallint NOT NULL,
    code text,
    duration_us integer NOT NULL,
    made text,
    refusal text,
    sent text,
    answered text,
    CONSTRAINT request_log_check CHECK (sent IS NULL OR test),
    CONSTRAINT request_log_check1 CHECK (answered IS NULL OR test)
) PARTITION BY RANGE (at);
CREATE INDEX request_log_broken ON ONLY request_log USING btree (account_id, test, at, request_id) WHERE status >= 500;
CREATE INDEX request_log_id ON ONLY request_log USING btree ("left"(request_id, 12));
CREATE INDEX request_log_page ON ONLY request_log USING btree (account_id, test, at, request_id);
CREATE INDEX request_log_refused ON ONLY request_log USING btree (account_id, test, at, request_id) WHERE status >= 400 AND status <= 499;

CREATE TABLE request_log_other PARTITION OF request_log DEFAULT;

CREATE TABLE sandbox_clock (
    account_id uuid NOT NULL,
    ahead_s bigint NOT NULL,
    moved_at timestamp with time zone NOT NULL,
    CONSTRAINT sandbox_clock_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(account_id),
    CONSTRAINT sandbox_clock_ahead_s_check CHECK (ahead_s >= 0),
    CONSTRAINT sandbox_clock_pkey PRIMARY KEY (account_id)
);

CREATE TABLE schedule (
    account_id uuid NOT NULL,
    schedule_id uuid NOT NULL,
    status text NOT NULL,
    version integer DEFAULT 1 NOT NULL,
    created_at timestamp with time zone NOT NULL,
    payment_method text NOT NULL,
    amount_cents bigint NOT NULL,
    frequency text NOT NULL,
    first_due_date date NOT NULL,
    end_date date,
    max_charges integer,
    issue_days_before integer NOT NULL,
    terms jsonb,
    external_id text,
    description text,
    send_email boolean NOT NULL,
    metadata jsonb,
    payer_sealed bytea,
    payer_document_hash text,
    next_number integer,
    next_due_date date,
    look_at timestamp with time zone NOT NULL,
    ordered boolean DEFAULT false NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    failure_code text,
    failed_at timestamp with time zone,
    CONSTRAINT schedule_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(account_id),
    CONSTRAINT schedule_amount_cents_check CHECK (amount_cents > 0),
    CONSTRAINT schedule_check CHECK (end_date >= first_due_date),
    CONSTRAINT schedule_check1 CHECK (terms IS NULL OR payment_method <> 'pix'::text),
    CONSTRAINT schedule_check2 CHECK (payer_sealed IS NOT NULL OR (status = ANY (ARRAY['finished'::text, 'cancelled'::text]))),
    CONSTRAINT schedule_check3 CHECK (end_date IS NULL OR max_charges IS NULL),
    CONSTRAINT schedule_check4 CHECK ((next_number IS NULL) = (next_due_date IS NULL)),
    CONSTRAINT schedule_frequency_check CHECK (frequency = ANY (ARRAY['weekly'::text, 'biweekly'::text, 'monthly'::text, 'quarterly'::text, 'semiannual'::text, 'yearly'::text])),
    CONSTRAINT schedule_issue_days_before_check CHECK (issue_days_before >= 0 AND issue_days_before <= 30),
    CONSTRAINT schedule_max_charges_check CHECK (max_charges > 0),
    CONSTRAINT schedule_next_number_check CHECK (next_number > 0),
    CONSTRAINT schedule_payment_method_check CHECK (payment_method = ANY (ARRAY['pix'::text, 'boleto'::text, 'boleto_hibrido'::text])),
    CONSTRAINT schedule_pkey PRIMARY KEY (schedule_id, account_id),
    CONSTRAINT schedule_status_check CHECK (status = ANY (ARRAY['active'::text, 'paused'::text, 'finished'::text, 'cancelled'::text]))
) WITH (fillfactor=85);
CREATE INDEX schedule_due ON schedule USING btree (look_at) WHERE status = 'active'::text AND NOT ordered;
CREATE INDEX schedule_due_of ON schedule USING btree (account_id, look_at) WHERE status = 'active'::text AND NOT ordered;
CREATE INDEX schedule_ended ON schedule USING btree (look_at) WHERE (status = ANY (ARRAY['finished'::text, 'cancelled'::text])) AND NOT ordered AND payer_sealed IS NOT NULL;
CREATE INDEX schedule_ordered ON schedule USING btree (look_at) WHERE ordered;
CREATE INDEX schedule_ordered_of ON schedule USING btree (account_id) WHERE ordered;
CREATE INDEX schedule_page ON schedule USING btree (account_id, status, created_at, schedule_id);
CREATE INDEX schedule_reference ON schedule USING btree (account_id, external_id, status, created_at, schedule_id) WHERE external_id IS NOT NULL;

CREATE TABLE schedule_charge (
    account_id uuid NOT NULL,
    schedule_id uuid NOT NULL,
    number integer NOT NULL,
    due_date date NOT NULL,
    state text NOT NULL,
    charge_id uuid,
    failure_code text,
    recorded_at timestamp with time zone NOT NULL,
    CONSTRAINT schedule_charge_check CHECK ((state = 'issued'::text) = (charge_id IS NOT NULL)),
    CONSTRAINT schedule_charge_number_check CHECK (number > 0),
    CONSTRAINT schedule_charge_pkey PRIMARY KEY (schedule_id, number),
    CONSTRAINT schedule_charge_state_check CHECK (state = ANY (ARRAY['issued'::text, 'skipped'::text, 'failed'::text]))
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);

CREATE TABLE seal (
    chain text NOT NULL,
    last_id bigint NOT NULL,
    rows bigint NOT NULL,
    digest bytea NOT NULL,
    sealed_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT seal_chain_check CHECK (chain = ANY (ARRAY['journal'::text, 'audit'::text])),
    CONSTRAINT seal_pkey PRIMARY KEY (chain, last_id)
) WITH (autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=100000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);
CREATE TRIGGER seal_is_append_only BEFORE DELETE OR UPDATE ON seal FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER seal_is_kept BEFORE TRUNCATE ON seal FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE sealing_key (
    key_id smallint NOT NULL,
    fingerprint text NOT NULL,
    CONSTRAINT sealing_key_key_id_check CHECK (key_id >= 1 AND key_id <= 255),
    CONSTRAINT sealing_key_pkey PRIMARY KEY (key_id)
);

CREATE TABLE second_copy_request (
    account_id uuid NOT NULL,
    charge_id uuid NOT NULL,
    test boolean NOT NULL,
    asked_at timestamp with time zone NOT NULL,
    asked_on date NOT NULL,
    times integer DEFAULT 1 NOT NULL,
    closed_at timestamp with time zone,
    answered_by uuid,
    CONSTRAINT second_copy_request_check CHECK (answered_by IS NULL OR closed_at IS NOT NULL),
    CONSTRAINT second_copy_request_pkey PRIMARY KEY (charge_id),
    CONSTRAINT second_copy_request_times_check CHECK (times > 0)
) WITH (fillfactor=85, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);
CREATE INDEX second_copy_request_open ON second_copy_request USING btree (account_id, test, asked_at, charge_id) WHERE closed_at IS NULL;

CREATE TABLE share_proposal (
    proposal_id uuid NOT NULL,
    integrador_code text NOT NULL,
    share_bps integer NOT NULL,
    proposed_by text NOT NULL,
    proposed_at timestamp with time zone NOT NULL,
    state text DEFAULT 'open'::text NOT NULL,
    decided_by text,
    decided_at timestamp with time zone,
    CONSTRAINT share_proposal_check CHECK ((state = 'open'::text) = (decided_by IS NULL)),
    CONSTRAINT share_proposal_check1 CHECK (state <> 'confirmed'::text OR decided_by <> proposed_by),
    CONSTRAINT share_proposal_integrador_code_fkey FOREIGN KEY (integrador_code) REFERENCES integrator(integrador_code),
    CONSTRAINT share_proposal_pkey PRIMARY KEY (proposal_id),
    CONSTRAINT share_proposal_share_bps_check CHECK (share_bps >= 0 AND share_bps <= 10000),
    CONSTRAINT share_proposal_state_check CHECK (state = ANY (ARRAY['open'::text, 'confirmed'::text, 'withdrawn'::text]))
);
CREATE INDEX share_proposal_open ON share_proposal USING btree (integrador_code) WHERE state = 'open'::text;

CREATE TABLE sign_in_attempt (
    subject text NOT NULL,
    attempts integer NOT NULL,
    until timestamp with time zone NOT NULL,
    next_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    CONSTRAINT sign_in_attempt_pkey PRIMARY KEY (subject)
) WITH (fillfactor=80);
CREATE INDEX sign_in_attempt_until ON sign_in_attempt USING btree (until);

CREATE TABLE sign_in_place (
    email text NOT NULL,
    place_hash text NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    CONSTRAINT sign_in_place_email_fkey FOREIGN KEY (email) REFERENCES dashboard_user(email) ON DELETE CASCADE,
    CONSTRAINT sign_in_place_pkey PRIMARY KEY (email, place_hash)
) WITH (fillfactor=80);

CREATE TABLE simulated_boleto (
    world text NOT NULL,
    number text NOT NULL,
    seu_numero text NOT NULL,
    amount_cents bigint NOT NULL,
    issued_on date NOT NULL,
    due_on date NOT NULL,
    terms jsonb,
    fine_from date,
    late_days integer DEFAULT 0 NOT NULL,
    description text,
    payer_sealed bytea NOT NULL,
    registered_at timestamp with time zone NOT NULL,
    txid text,
    token text,
    location text,
    payments integer DEFAULT 0 NOT NULL,
    written_off_at timestamp with time zone,
    moved_at timestamp with time zone,
    garbled boolean DEFAULT false NOT NULL,
    CONSTRAINT simulated_boleto_amount_cents_check CHECK (amount_cents >= 1 AND amount_cents <= '9999999999'::bigint),
    CONSTRAINT simulated_boleto_late_days_check CHECK (late_days >= 0),
    CONSTRAINT simulated_boleto_location_check CHECK (length(location) <= 77),
    CONSTRAINT simulated_boleto_number_check CHECK (number ~ '^000[1-9][0-9]{16}$'::text),
    CONSTRAINT simulated_boleto_pkey PRIMARY KEY (world, number),
    CONSTRAINT simulated_boleto_seu_numero_check CHECK (length(seu_numero) >= 1 AND length(seu_numero) <= 15),
    CONSTRAINT simulated_boleto_token_check CHECK (length(token) = 22),
    CONSTRAINT simulated_boleto_txid_check CHECK (txid ~ '^BOLETO[0-9]{17}DATA[0-9]{8}$'::text),
    CONSTRAINT simulated_boleto_world_check CHECK (world = ANY (ARRAY['sandbox'::text, 'production'::text]))
) WITH (fillfactor=85, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);
CREATE INDEX simulated_boleto_moved ON simulated_boleto USING btree (world, moved_at, number) WHERE moved_at IS NOT NULL;
CREATE INDEX simulated_boleto_registered ON simulated_boleto USING btree (world, registered_at, number);
CREATE UNIQUE INDEX simulated_boleto_token ON simulated_boleto USING btree (token);

CREATE TABLE simulated_boleto_payment (
    world text NOT NULL,
    payment_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    number text NOT NULL,
    rail text NOT NULL,
    amount_cents bigint NOT NULL,
    interest_cents bigint DEFAULT 0 NOT NULL,
    fine_cents bigint DEFAULT 0 NOT NULL,
    discount_cents bigint DEFAULT 0 NOT NULL,
    paid_at timestamp with time zone NOT NULL,
    settles_at timestamp with time zone NOT NULL,
    called_off boolean DEFAULT false NOT NULL,
    end_to_end_id text,
    payer_name text NOT NULL,
    payer_document text NOT NULL,
    tell_at timestamp with time zone,
    tell_attempts integer DEFAULT 0 NOT NULL,
    CONSTRAINT simulated_boleto_payment_amount_cents_check CHECK (amount_cents > 0),
    CONSTRAINT simulated_boleto_payment_discount_cents_check CHECK (discount_cents >= 0),
    CONSTRAINT simulated_boleto_payment_fine_cents_check CHECK (fine_cents >= 0),
    CONSTRAINT simulated_boleto_payment_interest_cents_check CHECK (interest_cents >= 0),
    CONSTRAINT simulated_boleto_payment_pkey PRIMARY KEY (world, payment_id),
    CONSTRAINT simulated_boleto_payment_rail_check CHECK (rail = ANY (ARRAY['boleto'::text, 'pix'::text])),
    CONSTRAINT simulated_boleto_payment_world_check CHECK (world = ANY (ARRAY['sandbox'::text, 'production'::text])),
    CONSTRAINT simulated_boleto_payment_world_number_fkey FOREIGN KEY (world, number) REFERENCES simulated_boleto(world, number)
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);
CREATE INDEX simulated_boleto_payment_number ON simulated_boleto_payment USING btree (world, number);
CREATE INDEX simulated_boleto_payment_pix ON simulated_boleto_payment USING btree (world, end_to_end_id) WHERE end_to_end_id IS NOT NULL;
CREATE INDEX simulated_boleto_payment_untold ON simulated_boleto_payment USING btree (tell_at) WHERE tell_at IS NOT NULL;

CREATE TABLE simulated_boleto_rules (
    world text NOT NULL,
    apply_30_minutes boolean NOT NULL,
    detail_cache_s double precision NOT NULL,
    settle_after_s double precision NOT NULL,
    CONSTRAINT simulated_boleto_rules_detail_cache_s_check CHECK (detail_cache_s >= 0::double precision),
    CONSTRAINT simulated_boleto_rules_pkey PRIMARY KEY (world),
    CONSTRAINT simulated_boleto_rules_settle_after_s_check CHECK (settle_after_s >= 0::double precision),
    CONSTRAINT simulated_boleto_rules_world_check CHECK (world = ANY (ARRAY['sandbox'::text, 'production'::text]))
);

CREATE TABLE simulated_boleto_webhook (
    world text NOT NULL,
    url text NOT NULL,
    registered_at timestamp with time zone NOT NULL,
    CONSTRAINT simulated_boleto_webhook_pkey PRIMARY KEY (world),
    CONSTRAINT simulated_boleto_webhook_world_check CHECK (world = ANY (ARRAY['sandbox'::text, 'production'::text]))
);

CREATE TABLE simulated_callback (
    world text NOT NULL,
    pix_key text NOT NULL,
    url text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT simulated_callback_pkey PRIMARY KEY (world, pix_key),
    CONSTRAINT simulated_callback_world_check CHECK (world = ANY (ARRAY['sandbox'::text, 'production'::text]))
);

CREATE TABLE simulated_cob (
    world text NOT NULL,
    txid text NOT NULL,
    status text NOT NULL,
    revisao integer DEFAULT 0 NOT NULL,
    amount_cents bigint NOT NULL,
    pix_key text NOT NULL,
    description text,
    payer_sealed bytea,
    created_at timestamp with time zone NOT NULL,
    expires_in_s integer NOT NULL,
    location_id bigint NOT NULL,
    due_on date,
    terms jsonb,
    CONSTRAINT simulated_cob_amount_cents_check CHECK (amount_cents > 0),
    CONSTRAINT simulated_cob_check CHECK ((due_on IS NULL) = (terms IS NULL)),
    CONSTRAINT simulated_cob_expires_in_s_check CHECK (expires_in_s > 0),
    CONSTRAINT simulated_cob_pkey PRIMARY KEY (world, txid),
    CONSTRAINT simulated_cob_status_check CHECK (status = ANY (ARRAY['ATIVA'::text, 'CONCLUIDA'::text, 'REMOVIDA_PELO_USUARIO_RECEBEDOR'::text])),
    CONSTRAINT simulated_cob_txid_check CHECK (txid ~ '^[a-zA-Z0-9]{26,35}$'::text),
    CONSTRAINT simulated_cob_world_check CHECK (world = ANY (ARRAY['sandbox'::text, 'production'::text]))
) WITH (fillfactor=85, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);
CREATE INDEX simulated_cob_location ON simulated_cob USING btree (world, location_id);

CREATE TABLE simulated_devolucao (
    world text NOT NULL,
    end_to_end_id text NOT NULL,
    id text NOT NULL,
    natureza text DEFAULT 'ORIGINAL'::text NOT NULL,
    amount_cents bigint NOT NULL,
    description text,
    return_id text NOT NULL,
    asked_at timestamp with time zone NOT NULL,
    settles_at timestamp with time zone NOT NULL,
    fails boolean NOT NULL,
    CONSTRAINT simulated_devolucao_amount_cents_check CHECK (amount_cents > 0),
    CONSTRAINT simulated_devolucao_id_check CHECK (id ~ '^[a-zA-Z0-9]{1,35}$'::text),
    CONSTRAINT simulated_devolucao_natureza_check CHECK (natureza = ANY (ARRAY['ORIGINAL'::text, 'MED_FRAUDE'::text, 'MED_OPERACIONAL'::text])),
    CONSTRAINT simulated_devolucao_pkey PRIMARY KEY (world, end_to_end_id, id),
    CONSTRAINT simulated_devolucao_world_check CHECK (world = ANY (ARRAY['sandbox'::text, 'production'::text]))
) WITH (autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);

CREATE TABLE simulated_fault (
    world text NOT NULL,
    fault text NOT NULL,
    delay_ms integer,
    CONSTRAINT simulated_fault_delay_ms_check CHECK (delay_ms >= 1 AND delay_ms <= 60000),
    CONSTRAINT simulated_fault_fault_check CHECK (fault = ANY (ARRAY['up'::text, 'down'::text, 'slow'::text, 'lost_reply'::text, 'refuse'::text, 'timeout_before'::text, 'cut'::text, 'error500'::text, 'html'::text])),
    CONSTRAINT simulated_fault_pkey PRIMARY KEY (world),
    CONSTRAINT simulated_fault_world_check CHECK (world = ANY (ARRAY['sandbox'::text, 'production'::text]))
);

CREATE TABLE simulated_location (
    world text NOT NULL,
    location_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    token text NOT NULL,
    location text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT simulated_location_location_check CHECK (length(location) <= 77),
    CONSTRAINT simulated_location_pkey PRIMARY KEY (world, location_id),
    CONSTRAINT simulated_location_token_check CHECK (length(token) = 22),
    CONSTRAINT simulated_location_world_check CHECK (world = ANY (ARRAY['sandbox'::text, 'production'::text]))
) WITH (autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);
CREATE UNIQUE INDEX simulated_location_token ON simulated_location USING btree (token);

CREATE TABLE simulated_pix (
    world text NOT NULL,
    end_to_end_id text NOT NULL,
    txid text,
    amount_cents bigint NOT NULL,
    pix_key text,
    paid_at timestamp with time zone NOT NULL,
    payer_name text NOT NULL,
    payer_document text NOT NULL,
    tell_at timestamp with time zone,
    tell_attempts integer DEFAULT 0 NOT NULL,
    garbled boolean DEFAULT false NOT NULL,
    interest_cents bigint DEFAULT 0 NOT NULL,
    fine_cents bigint DEFAULT 0 NOT NULL,
    discount_cents bigint DEFAULT 0 NOT NULL,
    CONSTRAINT simulated_pix_amount_cents_check CHECK (amount_cents > 0),
    CONSTRAINT simulated_pix_discount_cents_check CHECK (discount_cents >= 0),
    CONSTRAINT simulated_pix_fine_cents_check CHECK (fine_cents >= 0),
    CONSTRAINT simulated_pix_interest_cents_check CHECK (interest_cents >= 0),
    CONSTRAINT simulated_pix_pkey PRIMARY KEY (world, end_to_end_id),
    CONSTRAINT simulated_pix_world_check CHECK (world = ANY (ARRAY['sandbox'::text, 'production'::text]))
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);
CREATE INDEX simulated_pix_of_cob ON simulated_pix USING btree (world, txid);
CREATE INDEX simulated_pix_paid ON simulated_pix USING btree (world, paid_at, end_to_end_id);
CREATE INDEX simulated_pix_untold ON simulated_pix USING btree (tell_at) WHERE tell_at IS NOT NULL;

CREATE TABLE simulated_refund_rules (
    world text NOT NULL,
    settle_after_s double precision NOT NULL,
    fails boolean NOT NULL,
    CONSTRAINT simulated_refund_rules_pkey PRIMARY KEY (world),
    CONSTRAINT simulated_refund_rules_settle_after_s_check CHECK (settle_after_s >= 0::double precision),
    CONSTRAINT simulated_refund_rules_world_check CHECK (world = ANY (ARRAY['sandbox'::text, 'production'::text]))
);

CREATE TABLE simulated_signing_key (
    kid text NOT NULL,
    private_sealed bytea NOT NULL,
    certificate bytea NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT simulated_signing_key_pkey PRIMARY KEY (kid)
);

CREATE TABLE simulated_transfer (
    world text NOT NULL,
    id text NOT NULL,
    amount_cents bigint NOT NULL,
    pix_key text NOT NULL,
    document text NOT NULL,
    description text,
    end_to_end_id text NOT NULL,
    asked_at timestamp with time zone NOT NULL,
    settles_at timestamp with time zone NOT NULL,
    fails boolean NOT NULL,
    CONSTRAINT simulated_transfer_amount_cents_check CHECK (amount_cents > 0),
    CONSTRAINT simulated_transfer_id_check CHECK (id ~ '^[a-zA-Z0-9]{1,35}$'::text),
    CONSTRAINT simulated_transfer_pkey PRIMARY KEY (world, id),
    CONSTRAINT simulated_transfer_world_check CHECK (world = ANY (ARRAY['sandbox'::text, 'production'::text]))
) WITH (autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);

CREATE TABLE span_charge (
    account_id uuid NOT NULL,
    test boolean NOT NULL,
    dated text NOT NULL,
    span text NOT NULL,
    starts date NOT NULL,
    payment_method text NOT NULL,
    status text NOT NULL,
    charges bigint NOT NULL,
    cents bigint NOT NULL,
    CONSTRAINT span_charge_dated_check CHECK (dated = ANY (ARRAY['issued'::text, 'due'::text])),
    CONSTRAINT span_charge_pkey PRIMARY KEY (account_id, test, dated, span, starts, payment_method, status)
) WITH (fillfactor=85);

CREATE TABLE span_entry (
    account_id uuid NOT NULL,
    span text NOT NULL,
    starts date NOT NULL,
    type text NOT NULL,
    method text NOT NULL,
    entries bigint NOT NULL,
    cents bigint NOT NULL,
    CONSTRAINT span_entry_pkey PRIMARY KEY (account_id, span, starts, type, method)
) WITH (fillfactor=85);
CREATE INDEX span_entry_day ON span_entry USING brin (starts) WHERE span = 'day'::text;
CREATE INDEX span_entry_fees ON span_entry USING btree (span, starts, account_id) WHERE type = 'fee'::text;

CREATE TABLE suspense (
    suspense_id uuid NOT NULL,
    bank text NOT NULL,
    kind text NOT NULL,
    source text NOT NULL,
    reference text,
    amount_cents bigint NOT NULL,
    received_at timestamp with time zone NOT NULL,
    found_at timestamp with time zone NOT NULL,
    payer_sealed bytea,
    state text DEFAULT 'open'::text NOT NULL,
    settled_by text,
    settled_at timestamp with time zone,
    charge_id uuid,
    return_reference text,
    note text,
    CONSTRAINT suspense_amount_cents_check CHECK (amount_cents > 0),
    CONSTRAINT suspense_bank_source_key UNIQUE (bank, source),
    CONSTRAINT suspense_check CHECK ((state = 'open'::text) = (settled_at IS NULL) AND (state = 'assigned'::text) = (charge_id IS NOT NULL) AND (state = 'returned'::text) = (return_reference IS NOT NULL)),
    CONSTRAINT suspense_kind_check CHECK (kind = ANY (ARRAY['pix_unknown_txid'::text, 'pix_without_txid'::text, 'boleto_unknown'::text])),
    CONSTRAINT suspense_pkey PRIMARY KEY (suspense_id),
    CONSTRAINT suspense_state_check CHECK (state = ANY (ARRAY['open'::text, 'assigned'::text, 'returned'::text]))
) WITH (fillfactor=85);
CREATE INDEX suspense_of_charge ON suspense USING btree (charge_id) WHERE charge_id IS NOT NULL;
CREATE INDEX suspense_page ON suspense USING btree (state, received_at, suspense_id);
CREATE INDEX suspense_reference ON suspense USING btree (bank, reference) WHERE reference IS NOT NULL;
CREATE INDEX suspense_returned ON suspense USING btree (settled_at) WHERE state = 'returned'::text AND payer_sealed IS NOT NULL;

CREATE TABLE this_cell (
    one boolean DEFAULT true NOT NULL,
    number integer NOT NULL,
    CONSTRAINT this_cell_number_check CHECK (number >= 0 AND number <= 4095),
    CONSTRAINT this_cell_one_check CHECK (one),
    CONSTRAINT this_cell_pkey PRIMARY KEY (one)
);

CREATE TABLE verification (
    verification_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    scope jsonb NOT NULL,
    nightly boolean NOT NULL,
    feed_begins_at timestamp with time zone NOT NULL,
    begun_at timestamp with time zone DEFAULT now() NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT verification_pkey PRIMARY KEY (verification_id)
);

CREATE TABLE verification_difference (
    verification_id bigint NOT NULL,
    part text NOT NULL,
    slice bigint NOT NULL,
    began text NOT NULL,
    next text,
    table text NOT NULL,
    what text NOT NULL,
    rows bigint NOT NULL,
    CONSTRAINT verification_difference_pkey PRIMARY KEY (verification_id, part, slice, "table", what),
    CONSTRAINT verification_difference_verification_id_fkey FOREIGN KEY (verification_id) REFERENCES verification(verification_id) ON DELETE CASCADE
);

CREATE TABLE verification_part (
    verification_id bigint NOT NULL,
    part text NOT NULL,
    next text,
    slices bigint NOT NULL,
    rows bigint NOT NULL,
    left_feed bigint NOT NULL,
    CONSTRAINT verification_part_pkey PRIMARY KEY (verification_id, part),
    CONSTRAINT verification_part_verification_id_fkey FOREIGN KEY (verification_id) REFERENCES verification(verification_id) ON DELETE CASCADE
);

CREATE TABLE webhook_attempt (
    delivery_id uuid NOT NULL,
    attempt integer NOT NULL,
    started_at timestamp with time zone NOT NULL,
    duration_ms integer NOT NULL,
    status integer,
    outcome text NOT NULL,
    answer bytea,
    CONSTRAINT webhook_attempt_pkey PRIMARY KEY (delivery_id, attempt)
) PARTITION BY RANGE (delivery_id);

CREATE TABLE webhook_attempt_other PARTITION OF webhook_attempt DEFAULT;

CREATE TABLE webhook_delivery (
    delivery_id uuid NOT NULL,
    endpoint_id uuid NOT NULL,
    account_id uuid NOT NULL,
    test boolean NOT NULL,
    event_id uuid NOT NULL,
    sequence bigint NOT NULL,
    type text NOT NULL,
    state text DEFAULT 'pending'::text NOT NULL,
    step integer DEFAULT 0 NOT NULL,
    attempt integer DEFAULT 0 NOT NULL,
    losses integer DEFAULT 0 NOT NULL,
    due_at timestamp with time zone NOT NULL,
    lease_until timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    delivered_at timestamp with time zone
) PARTITION BY LIST (state);
CREATE INDEX webhook_delivery_feed ON ONLY webhook_delivery USING btree (endpoint_id, test, sequence);
CREATE INDEX webhook_delivery_state ON ONLY webhook_delivery USING btree (endpoint_id, test, state, type, sequence);

CREATE TABLE webhook_delivery_done_other PARTITION OF webhook_delivery_done DEFAULT;

CREATE TABLE webhook_endpoint (
    endpoint_id uuid NOT NULL,
    account_id uuid,
    url text NOT NULL,
    secret_sealed bytea NOT NULL,
    kinds text[] NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT webhook_endpoint_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(account_id),
    CONSTRAINT webhook_endpoint_account_id_key UNIQUE (account_id),
    CONSTRAINT webhook_endpoint_pkey PRIMARY KEY (endpoint_id)
);

CREATE TABLE webhook_lane (
    endpoint_id uuid NOT NULL,
    test boolean NOT NULL,
    state text DEFAULT 'open'::text NOT NULL,
    consecutive_failures integer DEFAULT 0 NOT NULL,
    failing_since timestamp with time zone,
    blocked_until timestamp with time zone,
    concurrency integer DEFAULT 2 NOT NULL,
    strained_by uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    probes integer DEFAULT 0 NOT NULL,
    gone integer DEFAULT 0 NOT NULL,
    gone_since timestamp with time zone,
    noticed boolean DEFAULT false NOT NULL,
    paused_at timestamp with time zone,
    paused_reason text,
    holding boolean DEFAULT false NOT NULL,
    releasing_since timestamp with time zone,
    CONSTRAINT webhook_lane_concurrency_check CHECK (concurrency > 0),
    CONSTRAINT webhook_lane_endpoint_id_fkey FOREIGN KEY (endpoint_id) REFERENCES webhook_endpoint(endpoint_id) ON DELETE CASCADE,
    CONSTRAINT webhook_lane_paused_reason_check CHECK (paused_reason = ANY (ARRAY['no_success'::text, 'gone'::text])),
    CONSTRAINT webhook_lane_pkey PRIMARY KEY (endpoint_id, test),
    CONSTRAINT webhook_lane_state_check CHECK (state = ANY (ARRAY['open'::text, 'broken'::text, 'paused'::text]))
);
CREATE INDEX webhook_lane_holding ON webhook_lane USING btree (endpoint_id, test) WHERE holding;
CREATE INDEX webhook_lane_paused ON webhook_lane USING btree (blocked_until) WHERE state = 'paused'::text;
CREATE INDEX webhook_lane_releasing ON webhook_lane USING btree (releasing_since) WHERE releasing_since IS NOT NULL;

CREATE TABLE webhook_old_secret (
    endpoint_id uuid NOT NULL,
    account_id uuid NOT NULL,
    secret_sealed bytea NOT NULL,
    until timestamp with time zone NOT NULL,
    CONSTRAINT webhook_old_secret_endpoint_id_fkey FOREIGN KEY (endpoint_id) REFERENCES webhook_endpoint(endpoint_id) ON DELETE CASCADE
);
CREATE INDEX webhook_old_secret_until ON webhook_old_secret USING btree (endpoint_id, until);

CREATE TABLE withdrawal (
    account_id uuid NOT NULL,
    withdrawal_id uuid NOT NULL,
    status text NOT NULL,
    version integer NOT NULL,
    amount_cents bigint NOT NULL,
    fee_cents bigint DEFAULT 0 NOT NULL,
    automatic_on date,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT withdrawal_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(account_id),
    CONSTRAINT withdrawal_amount_cents_check CHECK (amount_cents > 0),
    CONSTRAINT withdrawal_fee_cents_check CHECK (fee_cents >= 0),
    CONSTRAINT withdrawal_pkey PRIMARY KEY (withdrawal_id, account_id),
    CONSTRAINT withdrawal_status_check CHECK (status = ANY (ARRAY['pending'::text, 'processing'::text, 'succeeded'::text, 'failed'::text, 'cancelled'::text]))
) WITH (fillfactor=85, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=200000, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=1000);
CREATE UNIQUE INDEX withdrawal_automatic ON withdrawal USING btree (account_id, automatic_on) WHERE automatic_on IS NOT NULL;

CREATE TABLE worker_heartbeat (
    worker text NOT NULL,
    beat_at timestamp with time zone NOT NULL,
    failing text[] NOT NULL,
    CONSTRAINT worker_heartbeat_pkey PRIMARY KEY (worker)
) WITH (fillfactor=50);

CREATE SEQUENCE boleto_control AS bigint INCREMENT BY 50 MINVALUE 1 MAXVALUE 9999999949 START 1;

CREATE AGGREGATE jsonb_merge(jsonb) (SFUNC = jsonb_concat, STYPE = jsonb, INITCOND = '{}');

CREATE OR REPLACE FUNCTION audit_digest(a audit)
 RETURNS bytea
 LANGUAGE sql
 STABLE
AS $function$
    SELECT sha256(convert_to(jsonb_build_array(
        a.number, a.audit_id, a.account_id, a.email, (extract(epoch FROM a.at) * 1000000)::bigint, a.action, a.subject, a.facts,
        a.address_hash, a.request_id)::text, 'UTF8'))
$function$
;

CREATE OR REPLACE FUNCTION behind_spans(account_id uuid, test boolean, dated text)
 RETURNS TABLE(day date, payment_method text, status text, charges bigint, cents bigint)
 LANGUAGE sql
 STABLE
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION cell_of(id uuid)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
AS $function$
    SELECT (get_byte(uuid_send(id), 6) & 15) << 8 | get_byte(uuid_send(id), 7)
$function$
;

CREATE OR REPLACE FUNCTION chain_rows(of_chain text, first bigint, up_to bigint, rows_max bigint)
 RETURNS TABLE(id bigint, digest bytea)
 LANGUAGE plpgsql
 STABLE
AS $function$
BEGIN
    IF of_chain = 'journal' THEN
        RETURN QUERY SELECT j.journal_id, journal_digest(j) FROM journal j
                     WHERE j.journal_id >= first AND j.journal_id <= up_to ORDER BY j.journal_id LIMIT rows_max;
    ELSE
        RETURN QUERY SELECT a.number, audit_digest(a) FROM audit a
                     WHERE a.number >= first AND a.number <= up_to ORDER BY a.number LIMIT rows_max;
    END IF;
END $function$
;

CREATE OR REPLACE FUNCTION created_charge(payload jsonb)
 RETURNS TABLE(created_at timestamp with time zone, amount_cents bigint, due_date date, status text, payment_method text, public_id text, external_id text, nosso_numero text, txid text, integrador_code text)
 LANGUAGE sql
 STABLE
AS $function$
    SELECT c.created_at, c.amount_cents, c.due_date, c.status, c.payment_method, c.public_id, c.external_id,
           c.nosso_numero,
           -- A PIX charge's txid is its id in hex, so the charge is found by id; only others need the column.
           CASE WHEN c.payment_method <> 'pix' THEN c.txid END, c.integrador_code
    FROM jsonb_to_record(payload -> 'charge') AS c (
        created_at timestamptz, amount_cents bigint, due_date date, status text, payment_method text, public_id text,
        external_id text, nosso_numero text, txid text, integrador_code text)
$function$
;

CREATE OR REPLACE FUNCTION detach_months(parent text, ended_before timestamp with time zone)
 RETURNS SETOF timestamp with time zone
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET lock_timeout TO '500ms'
 SET search_path TO CURRENT_SCHEMA, 'pg_temp'
AS $function$
DECLARE
    month record;
BEGIN
    PERFORM refuse_other_tables(parent);
    IF parent NOT IN ('bank_order_done', 'bank_hint_done') AND ended_before > now() - interval '399 days' THEN -- clocks differ
        RAISE EXCEPTION 'months of % stay for 400 days', parent;
    END IF;
    -- Waits for another worker that is detaching, so that the loop below does not see months which that worker took.
    EXECUTE format('LOCK TABLE ONLY %I IN SHARE UPDATE EXCLUSIVE MODE', parent);
    FOR month IN
        SELECT c.relname AS name, (to_date(right(c.relname, 7), 'YYYY_MM') + interval '1 month')::timestamp AT TIME ZONE 'UTC' AS ended
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = parent::regclass AND c.relname ~ ('^' || parent || '_[0-9]{4}_[0-9]{2}$')
        ORDER BY c.relname
    LOOP
        EXIT WHEN month.ended > ended_before;
        EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', parent, month.name);
        EXECUTE format('ALTER TABLE %I RENAME TO %I', month.name, parent || '_archive' || right(month.name, 8));
        RETURN NEXT month.ended;
    END LOOP;
END $function$
;
REVOKE EXECUTE ON FUNCTION detach_months(text,timestamp with time zone) FROM PUBLIC;

CREATE OR REPLACE FUNCTION drop_months(parent text, ended_before timestamp with time zone)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET lock_timeout TO '500ms'
 SET search_path TO CURRENT_SCHEMA, 'pg_temp'
AS $function$
DECLARE
    ended timestamptz;
    dropped integer := 0;
BEGIN
    IF parent NOT IN ('webhook_delivery_done', 'webhook_attempt') THEN
        RAISE EXCEPTION 'months of % are kept', parent;
    END IF;
    FOR ended IN SELECT detach_months(parent, ended_before) LOOP
        EXECUTE format('DROP TABLE %I', parent || to_char(ended AT TIME ZONE 'UTC' - interval '1 month', '_"archive"_YYYY_MM'));
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END $function$
;
REVOKE EXECUTE ON FUNCTION drop_months(text,timestamp with time zone) FROM PUBLIC;

CREATE OR REPLACE FUNCTION enqueue_deliveries(journal_ids bigint[], now_at timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    WITH due AS MATERIALIZED (
        SELECT webhook_delivery_id(e.endpoint_id, j.event_id), e.endpoint_id, j.account_id, j.test, j.event_id, j.event_sequence, j.kind,
               CASE WHEN l.state = 'paused' THEN 'held' ELSE 'pending' END, now_at, j.recorded_at
        FROM journal j
        JOIN webhook_endpoint e ON e.account_id = j.account_id AND j.kind = ANY(e.kinds)
        LEFT JOIN webhook_lane l ON l.endpoint_id = e.endpoint_id AND l.test = j.test
        WHERE j.journal_id = ANY(journal_ids) AND j.event_id IS NOT NULL
    )
    INSERT INTO webhook_delivery_open (delivery_id, endpoint_id, account_id, test, event_id, sequence, type, state, due_at,
                                       created_at)
    TABLE due
    ON CONFLICT (delivery_id) DO NOTHING;
END $function$
;

CREATE OR REPLACE FUNCTION expect_few_values(only_of text DEFAULT NULL::text)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
DECLARE
    few record;
    told integer := 0;
BEGIN
    IF current_setting('server_version_num')::integer < 180000 THEN
        RETURN 0;
    END IF;
    FOR few IN
        WITH expected (name, number) AS (
            VALUES ('account_id', 2), ('test', 2), ('world', 2), ('endpoint_id', 2), ('bank', 2), ('status', 5), ('state', 5),
                   ('kind', 5), ('lane', 5), ('type', 5), ('payment_method', 5), ('method', 5)
        )
        SELECT c.relname::text AS relation, a.attname::text AS name, c.relkind = 'p' AS parent, e.number
        FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid
        JOIN expected e ON e.name = a.attname
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT a.attisdropped
          AND (only_of IS NULL OR c.relname = only_of)
          AND NOT EXISTS (
              SELECT FROM pg_index i
              WHERE i.indrelid = c.oid AND i.indisunique AND i.indexprs IS NULL AND i.indpred IS NULL AND (
                  SELECT bool_and(k.attname IN (SELECT name FROM expected))
                  FROM pg_attribute k WHERE k.attrelid = c.oid AND k.attnum = ANY(i.indkey::smallint[])))
          AND NOT EXISTS (SELECT FROM pg_stats s
                          WHERE s.schemaname = current_schema() AND s.tablename = c.relname AND s.attname = a.attname)
    LOOP
        PERFORM pg_restore_attribute_stats(
            'schemaname', current_schema()::text, 'relname', few.relation, 'attname', few.name, 'inherited', few.parent,
            'null_frac', 0::real, 'avg_width', 16, 'n_distinct', few.number::real);
        told := told + 1;
    END LOOP;
    RETURN told;
END $function$
;

CREATE OR REPLACE FUNCTION folded(name text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
AS $function$
    SELECT regexp_replace(normalize(lower(name), NFKD), '[\u0300-\u036f]', '', 'g')
$function$
;

CREATE OR REPLACE FUNCTION instant_of_id(id uuid)
 RETURNS timestamp with time zone
 LANGUAGE sql
 IMMUTABLE
AS $function$
    SELECT CASE WHEN substr(id::text, 15, 1) = '7'
        THEN to_timestamp(('x0000' || left(translate(id::text, '-', ''), 12))::bit(64)::bigint / 1000.0) END
$function$
;

CREATE OR REPLACE FUNCTION journal_digest(j journal)
 RETURNS bytea
 LANGUAGE sql
 STABLE
AS $function$
    SELECT sha256(convert_to(jsonb_build_array(
        j.journal_id, j.account_id, j.test, j.charge_id, j.version, j.kind,
        (extract(epoch FROM j.recorded_at) * 1000000)::bigint, j.actor, j.request_id, j.payload, j.event_id, j.event_sequence,
        encode(j.event_body, 'hex'))::text, 'UTF8'))
$function$
;

CREATE OR REPLACE FUNCTION journal_subject(payload jsonb)
 RETURNS uuid
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
    SELECT coalesce(payload #>> '{withdrawal,withdrawal_id}', payload #>> '{entry,withdrawal_id}', payload #>> '{entry,refund_id}',
                    payload #>> '{entry,payment_id}', payload #>> '{entry,entry_id}', '00000000-0000-0000-0000-000000000000')::uuid
$function$
;

CREATE OR REPLACE FUNCTION make_months(parent text, first date, last date, moved_max integer DEFAULT NULL::integer)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET lock_timeout TO '500ms'
 SET search_path TO CURRENT_SCHEMA, 'pg_temp'
AS $function$
DECLARE
    key text;
    by_id boolean;
    instant text;
    months date[];
    month date;
    name text;
    from_key text;
    to_key text;
    lying bigint;
    made integer := 0;
BEGIN
    PERFORM refuse_other_tables(parent);
    SELECT quote_ident(a.attname), a.atttypid = 'uuid'::regtype INTO STRICT key, by_id
    FROM pg_partitioned_table p JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0]
    WHERE p.partrelid = parent::regclass;
    instant := CASE WHEN by_id THEN format('instant_of_id(%s)', key) ELSE key END;
    EXECUTE format('SELECT array_agg(DISTINCT date_trunc(''month'', %1$s AT TIME ZONE ''UTC'')::date) FROM %2$I '
                   'WHERE %3$s < %4$L AND %1$s IS NOT NULL',
                   instant, parent || '_other', key, month_begins(date_trunc('month', first::timestamp)::date, by_id)) INTO months;
    FOR month IN
        SELECT unnest(months) AS wanted
        UNION
        SELECT generate_series(date_trunc('month', first::timestamp), last::timestamp, interval '1 month')::date
        ORDER BY wanted
    LOOP
        name := parent || to_char(month, '_YYYY_MM');
        CONTINUE WHEN to_regclass(name) IS NOT NULL OR to_regclass(parent || to_char(month, '_"archive"_YYYY_MM')) IS NOT NULL;
        from_key := month_begins(month, by_id);
        to_key := month_begins((month + interval '1 month')::date, by_id);
        EXECUTE format('SELECT count(*) FROM (SELECT FROM %1$I WHERE %2$s >= %3$L AND %2$s < %4$L LIMIT %5$L::bigint + 1) AS lying',
                       parent || '_other', key, from_key, to_key, moved_max) INTO lying;
        CONTINUE WHEN lying > moved_max;
        -- Storage parameters are not inherited. Rows are only added, so autovacuum goes by a number of rows, not by a share.
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL) WITH ('
                       'autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000, '
                       'autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000)', name, parent);
        PERFORM expect_few_values(name);
        EXECUTE format('LOCK TABLE ONLY %I IN SHARE ROW EXCLUSIVE MODE', parent);
        EXECUTE format('WITH moved AS (DELETE FROM %1$I WHERE %2$s >= %3$L AND %2$s < %4$L RETURNING *) '
                       'INSERT INTO %5$I SELECT * FROM moved', parent || '_other', key, from_key, to_key, name);
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, name, from_key, to_key);
        made := made + 1;
    END LOOP;
    RETURN made;
END $function$
;
REVOKE EXECUTE ON FUNCTION make_months(text,date,date,integer) FROM PUBLIC;

CREATE OR REPLACE FUNCTION make_shadow(original text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    EXECUTE format('CREATE TEMPORARY TABLE %1$I (LIKE %1$I INCLUDING DEFAULTS INCLUDING GENERATED, %2$s) ON COMMIT DROP', original,
                   (SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = original::regclass AND contype = 'p'));
END $function$
;

CREATE OR REPLACE FUNCTION month_begins(month date, by_id boolean)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$
    SELECT CASE
        WHEN by_id THEN (lpad(to_hex((extract(epoch FROM month::timestamp) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid::text
        ELSE (month || ' 00:00:00+00') END
$function$
;

CREATE OR REPLACE FUNCTION payout_in_force(of_account uuid, at timestamp with time zone)
 RETURNS TABLE(pix_key text, document text)
 LANGUAGE sql
 STABLE
AS $function$
    SELECT c.pix_key, c.document FROM payout_change c
    WHERE c.account_id = of_account AND c.cancelled_at IS NULL AND c.effective_at <= at
    ORDER BY c.asked_at DESC, c.change_id DESC
    LIMIT 1
$function$
;

CREATE OR REPLACE FUNCTION payouts_held()
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$
    SELECT EXISTS (SELECT FROM recovery WHERE released_at IS NULL)
        OR (coalesce(current_setting('quita.restored_to', true), '') <> ''
            AND NOT EXISTS (SELECT FROM recovery r WHERE r.restored_to = current_setting('quita.restored_to', true)));
$function$
;

CREATE OR REPLACE FUNCTION project(journal_ids bigint[], which text[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    IF 'created' = ANY (which) THEN
        PERFORM project_created(journal_ids);
    END IF;
    IF 'changed' = ANY (which) THEN
        -- Merge the changes of each charge, then merge them over its earlier changes. The payment's document is stored once, in
        -- the journal row that books the payment that settles the charge; the charge refers to that row.
        WITH delta AS (
            SELECT j.charge_id, j.account_id, max(j.version) AS version,
                   jsonb_merge(j.payload -> 'charge' ORDER BY j.version, j.journal_id) AS fields,
                   max(j.journal_id) FILTER (WHERE j.payload ? 'payment') AS paid_journal_id
            FROM journal j
            WHERE j.journal_id = ANY(journal_ids) AND j.kind <> 'charge.created' AND j.payload ? 'charge'
            GROUP BY j.charge_id, j.account_id
        )
        UPDATE read_charge r
        SET changes = coalesce(r.changes, '{}') || d.fields,
            paid_journal_id = coalesce(d.paid_journal_id, r.paid_journal_id),
            status = coalesce(d.fields ->> 'status', r.status),
            due_date = coalesce((d.fields ->> 'due_date')::date, r.due_date),
            version = d.version
        FROM delta d
        WHERE r.charge_id = d.charge_id AND r.account_id = d.account_id;
    END IF;
    IF 'payments' = ANY (which) THEN
        WITH booked AS MATERIALIZED (
            SELECT j.account_id, j.test, p.paid_at, p.payment_id, j.charge_id, p.method, p.anomaly, p.external_id,
                   j.journal_id
            FROM journal j
            CROSS JOIN LATERAL jsonb_to_record(j.payload -> 'payment') AS p (
                paid_at timestamptz, payment_id uuid, method text, anomaly text, external_id text)
            WHERE j.journal_id = ANY(journal_ids) AND j.payload ? 'payment'
        )
        INSERT INTO read_payment (account_id, test, paid_at, payment_id, charge_id, method, anomaly, external_id, journal_id)
        TABLE booked;
    END IF;
    IF 'funds' = ANY (which) THEN
        -- The totals of payments after refunds: merged for each payment, then merged over its earlier changes.
        WITH delta AS (
            SELECT j.account_id, j.test, (j.payload #>> '{fund,paid_at}')::timestamptz AS paid_at,
                   (j.payload #>> '{fund,payment_id}')::uuid AS payment_id,
                   jsonb_merge(j.payload -> 'fund' ORDER BY j.version, j.journal_id) AS fields
            FROM journal j
            WHERE j.journal_id = ANY(journal_ids) AND j.payload ? 'fund'
            GROUP BY 1, 2, 3, 4
        )
        UPDATE read_payment r
        SET changes = coalesce(r.changes, '{}') || d.fields
        FROM delta d
        WHERE r.account_id = d.account_id AND r.test = d.test AND r.paid_at = d.paid_at AND r.payment_id = d.payment_id;
    END IF;
    IF 'refunds' = ANY (which) THEN
        WITH created AS MATERIALIZED (
            SELECT j.account_id, f.refund_id, j.test, f.created_at, f.status, j.charge_id, f.payment_id,
                   (j.payload #>> '{fund,paid_at}')::timestamptz, f.external_id, j.payload -> 'refund'
            FROM journal j
            CROSS JOIN LATERAL jsonb_to_record(j.payload -> 'refund') AS f (
                refund_id uuid, created_at timestamptz, status text, payment_id uuid, external_id text)
            WHERE j.journal_id = ANY(journal_ids) AND j.kind = 'refund.created'
        )
        INSERT INTO read_refund (account_id, refund_id, test, created_at, status, charge_id, payment_id, paid_at, external_id, doc)
        TABLE created;
    END IF;
    IF 'refunds_ended' = ANY (which) THEN
        -- A refund ends once, so there is nothing to merge.
        UPDATE read_refund r
        SET doc = r.doc || (j.payload -> 'refund'), status = j.payload #>> '{refund,status}'
        FROM journal j
        WHERE j.journal_id = ANY(journal_ids) AND j.payload ? 'refund' AND j.kind <> 'refund.created'
          AND r.refund_id = (j.payload #>> '{refund,refund_id}')::uuid AND r.account_id = j.account_id;
    END IF;
    IF 'withdrawals' = ANY (which) THEN
        WITH created AS MATERIALIZED (
            SELECT j.account_id, w.withdrawal_id, w.created_at, w.status, w.external_id, j.payload -> 'withdrawal'
            FROM journal j
            CROSS JOIN LATERAL jsonb_to_record(j.payload -> 'withdrawal') AS w (
                withdrawal_id uuid, created_at timestamptz, status text, external_id text)
            WHERE j.journal_id = ANY(journal_ids) AND j.kind = 'withdrawal.created'
        )
        INSERT INTO read_withdrawal (account_id, withdrawal_id, created_at, status, external_id, doc)
        TABLE created;
    END IF;
    IF 'withdrawals_changed' = ANY (which) THEN
        -- Merge the changes of each withdrawal, then merge them over its document.
        WITH delta AS (
            SELECT j.account_id, (j.payload #>> '{withdrawal,withdrawal_id}')::uuid AS withdrawal_id,
                   jsonb_merge(j.payload -> 'withdrawal' ORDER BY j.version, j.journal_id) AS fields
            FROM journal j
            WHERE j.journal_id = ANY(journal_ids) AND j.payload ? 'withdrawal' AND j.kind <> 'withdrawal.created'
            GROUP BY 1, 2
        )
        UPDATE read_withdrawal r
        SET doc = r.doc || d.fields, status = d.fields ->> 'status'
        FROM delta d
        WHERE r.withdrawal_id = d.withdrawal_id AND r.account_id = d.account_id;
    END IF;
    IF 'events' = ANY (which) THEN
        WITH recorded AS MATERIALIZED (
            SELECT j.account_id, j.test, j.event_sequence, j.event_id, j.kind, j.charge_id, j.payload ->> 'external_id',
                   j.recorded_at, j.journal_id
            FROM journal j
            -- Events of detached months are left out: the feed begins at feed_begin (migration 0004_feed).
            WHERE j.journal_id = ANY(journal_ids) AND j.event_id IS NOT NULL
              AND j.recorded_at >= (SELECT begins_at FROM feed_begin)
        )
        INSERT INTO read_event (account_id, test, sequence, event_id, type, charge_id, external_id, created_at, journal_id)
        TABLE recorded;
    END IF;
    IF 'entries' = ANY (which) THEN
        WITH posted AS MATERIALIZED (
            SELECT j.account_id, j.test, e.sequence, e.entry_id, e.type, e.amount_cents, e.balance_after_cents, j.charge_id,
                   e.payment_id, e.refund_id, e.withdrawal_id, j.payload ->> 'external_id', j.recorded_at
            FROM journal j
            CROSS JOIN LATERAL jsonb_to_record(j.payload -> 'entry') AS e (
                sequence bigint, entry_id uuid, type text, amount_cents bigint, balance_after_cents bigint, payment_id uuid,
                refund_id uuid, withdrawal_id uuid)
            WHERE j.journal_id = ANY(journal_ids) AND j.payload ? 'entry'
        )
        INSERT INTO read_ledger (account_id, test, sequence, entry_id, type, amount_cents, balance_after_cents, charge_id,
                                 payment_id, refund_id, withdrawal_id, external_id, created_at)
        TABLE posted;
    END IF;
END $function$
;

CREATE OR REPLACE FUNCTION project_created(journal_ids bigint[])
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
DECLARE
    projected bigint;
BEGIN
    WITH created AS MATERIALIZED (
        SELECT c.*, h.payer_document_hash, j.account_id, j.charge_id, j.test, j.version, j.journal_id
        FROM journal j CROSS JOIN LATERAL created_charge(j.payload) c
        LEFT JOIN charge h ON h.charge_id = j.charge_id AND h.account_id = j.account_id
        WHERE j.journal_id = ANY(journal_ids) AND j.kind = 'charge.created'
    )
    INSERT INTO read_charge (created_at, amount_cents, due_date, status, payment_method, public_id, external_id,
                             nosso_numero, txid, integrador_code, payer_document_hash, account_id, charge_id, test, version,
                             journal_id)
    TABLE created;
    GET DIAGNOSTICS projected = ROW_COUNT;
    RETURN projected;
END $function$
;

CREATE OR REPLACE FUNCTION refuse_change()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    RAISE EXCEPTION 'the journal is append only';
END $function$
;

CREATE OR REPLACE FUNCTION refuse_change_of_audit()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    RAISE EXCEPTION 'the audit log is append only';
END $function$
;

CREATE OR REPLACE FUNCTION refuse_other_tables(parent text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    IF parent NOT IN ('read_event_production', 'read_event_sandbox', 'bank_order_done', 'bank_hint_done',
                      'webhook_delivery_done', 'webhook_attempt') THEN
        RAISE EXCEPTION '% is not partitioned by month', parent;
    END IF;
END $function$
;

CREATE OR REPLACE FUNCTION repair(original text, condition text)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
DECLARE
    same text;
    rows bigint;
BEGIN
    SELECT string_agg(format('k.%1$I = r.%1$I', a.attname), ' AND ') || ' AND ROW(k.*) IS NOT DISTINCT FROM ROW(r.*)' INTO same
    FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = ANY(c.conkey)
    WHERE c.conrelid = original::regclass AND c.contype = 'p';
    EXECUTE format('DELETE FROM %1$I r WHERE %2$s AND NOT EXISTS (SELECT FROM pg_temp.%1$I k WHERE %3$s)', original, condition, same);
    EXECUTE format('WITH missing AS MATERIALIZED (SELECT r.* FROM pg_temp.%1$I r WHERE %2$s '
                   'AND NOT EXISTS (SELECT FROM %1$I k WHERE %3$s)) INSERT INTO %1$I TABLE missing', original, condition, same);
    EXECUTE format('SELECT count(*) FROM pg_temp.%I r WHERE %s', original, condition) INTO rows;
    RETURN rows;
END $function$
;

CREATE OR REPLACE FUNCTION reporting_grant(reader name)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
DECLARE
    view regclass;
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), reader);
    FOR view IN SELECT oid FROM pg_class
                WHERE relnamespace = current_schema()::regnamespace AND relkind = 'v' AND starts_with(relname, 'reporting_') LOOP
        EXECUTE format('GRANT SELECT ON %s TO %I', view, reader);
    END LOOP;
END $function$
;
REVOKE EXECUTE ON FUNCTION reporting_grant(name) FROM PUBLIC;

CREATE OR REPLACE FUNCTION request_log_forget_days(ended_before timestamp with time zone, days_max integer, rows_max integer)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO CURRENT_SCHEMA, 'pg_temp'
AS $function$
DECLARE
    day record;
    forgotten integer := 0;
    deleted integer;
BEGIN
    FOR day IN
        SELECT c.relname AS name, (to_date(right(c.relname, 10), 'YYYY_MM_DD') + 1)::timestamp AT TIME ZONE 'UTC' AS ended
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'request_log'::regclass AND c.relname ~ '^request_log_[0-9]{4}_[0-9]{2}_[0-9]{2}$'
        ORDER BY c.relname LIMIT days_max
    LOOP
        EXIT WHEN day.ended > ended_before;
        EXECUTE format('DROP TABLE %I', day.name);
        forgotten := forgotten + 1;
    END LOOP;
    DELETE FROM request_log_other WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM request_log_other WHERE at < ended_before ORDER BY at LIMIT rows_max));
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN forgotten + deleted;
END $function$
;
REVOKE EXECUTE ON FUNCTION request_log_forget_days(timestamp with time zone,integer,integer) FROM PUBLIC;

CREATE OR REPLACE FUNCTION request_log_make_days(first date, last date)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO CURRENT_SCHEMA, 'pg_temp'
AS $function$
DECLARE
    day date;
    name text;
    from_at timestamptz;
    to_at timestamptz;
    made integer := 0;
BEGIN
    FOR day IN SELECT generate_series(first::timestamp, last::timestamp, interval '1 day')::date LOOP
        name := 'request_log_' || to_char(day, 'YYYY_MM_DD');
        from_at := day::timestamp AT TIME ZONE 'UTC';
        to_at := (day + 1)::timestamp AT TIME ZONE 'UTC';
        CONTINUE WHEN to_regclass(name) IS NOT NULL
            OR EXISTS (SELECT FROM request_log_other WHERE at >= from_at AND at < to_at);
        EXECUTE format('CREATE TABLE %I PARTITION OF request_log FOR VALUES FROM (%L) TO (%L)', name, from_at, to_at);
        PERFORM expect_few_values(name);
        made := made + 1;
    END LOOP;
    RETURN made;
END $function$
;
REVOKE EXECUTE ON FUNCTION request_log_make_days(date,date) FROM PUBLIC;

CREATE OR REPLACE FUNCTION reseal(original text, sealed text, member text, places text[], before bytea[], after bytea[])
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
DECLARE
    path text[] := string_to_array(member, '.');
    held text := CASE WHEN member IS NULL THEN format('t.%I', sealed) ELSE format('decode(t.%I #>> %L::text[], ''base64'')', sealed, path) END;
    made text := CASE WHEN member IS NULL THEN 'g.after'
        ELSE format('jsonb_set(t.%I, %L::text[], to_jsonb(translate(encode(g.after, ''base64''), E''\n'', '''')))', sealed, path) END;
    rows bigint;
BEGIN
    EXECUTE format(
        'UPDATE %1$I t SET %2$I = %3$s FROM unnest($1, $2, $3) AS g (place, before, after)'
        ' WHERE t.ctid = ANY($1::tid[]) AND t.ctid = g.place::tid AND %4$s = g.before', original, sealed, made, held)
    USING places, before, after;
    GET DIAGNOSTICS rows = ROW_COUNT;
    RETURN rows;
END $function$
;

CREATE OR REPLACE FUNCTION sealed_otherwise(original text, sealed text, member text, bound text[], current integer, first bigint, pages bigint)
 RETURNS TABLE(at text, row_key text, bytes bytea)
 LANGUAGE plpgsql
 STABLE
AS $function$
DECLARE
    path text[] := string_to_array(member, '.');
    held text := CASE WHEN member IS NULL THEN format('%I', sealed) ELSE format('decode(%I #>> %L::text[], ''base64'')', sealed, path) END;
BEGIN
    RETURN QUERY EXECUTE format(
        'SELECT ctid::text, concat_ws('' '', %1$s), %2$s FROM %3$I WHERE ctid >= $1 AND ctid < $2 AND num_nulls(%1$s) = 0'
        ' AND length(%2$s) > 0 AND substring(%2$s FROM 1 FOR 1) <> $3',
        (SELECT string_agg(format('%I', c), ', ') FROM unnest(bound) c), held, original)
    USING format('(%s,0)', first)::tid, format('(%s,0)', first + pages)::tid, set_byte('\x00', 0, current);
END $function$
;

CREATE OR REPLACE FUNCTION spans_of(day date)
 RETURNS TABLE(span text, starts date)
 LANGUAGE sql
 IMMUTABLE
AS $function$
    SELECT 'day', day
    UNION ALL
    SELECT span, date_trunc(span, day::timestamp)::date FROM (VALUES ('month'), ('year'), ('decade')) AS s (span)
$function$
;

CREATE OR REPLACE FUNCTION wait_bucket(created_at timestamp with time zone, paid_at timestamp with time zone)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
AS $function$
    SELECT floor(8 * ln(greatest(extract(epoch FROM paid_at - created_at), 1)::double precision)
                 / ln(2::double precision))::integer
$function$
;

CREATE OR REPLACE FUNCTION webhook_delivery_id(endpoint_id uuid, event_id uuid)
 RETURNS uuid
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
    SELECT (overlay(overlay(md5(endpoint_id::text || event_id::text) PLACING '8' FROM 17)
                    PLACING left(event_id::text, 8) || substr(event_id::text, 10, 4) || '7' || substr(event_id::text, 16, 3)
                    FROM 1))::uuid
$function$
;

CREATE VIEW charge_view AS
 SELECT created_at,
    amount_cents,
    journal_id,
    paid_journal_id,
    version,
    due_date,
    account_id,
    charge_id,
    test,
    status,
    payment_method,
    public_id,
    external_id,
    payer_document_hash,
    nosso_numero,
    txid,
    integrador_code,
    changes,
    ( SELECT
                CASE
                    WHEN r.changes IS NULL THEN j.payload -> 'charge'::text
                    WHEN r.paid_journal_id IS NULL THEN (j.payload -> 'charge'::text) || r.changes
                    ELSE ((j.payload -> 'charge'::text) || r.changes) || jsonb_build_object('payment', ( SELECT ((p.payload -> 'payment'::text) || COALESCE(r.changes -> 'payment'::text, '{}'::jsonb)) || jsonb_build_object('payer_sealed', ( SELECT encode(s.payer_sealed, 'base64'::text) AS encode
                               FROM payment s
                              WHERE s.charge_id = r.charge_id AND s.account_id = r.account_id AND s.settles))
                       FROM journal p
                      WHERE p.journal_id = r.paid_journal_id))
                END AS "case"
           FROM journal j
          WHERE j.journal_id = r.journal_id) AS doc
   FROM read_charge r;

CREATE VIEW payment_view AS
 SELECT paid_at,
    journal_id,
    account_id,
    test,
    payment_id,
    charge_id,
    method,
    anomaly,
    external_id,
    changes,
    ( SELECT ((j.payload -> 'payment'::text) || jsonb_build_object('payer_sealed', ( SELECT encode(p.payer_sealed, 'base64'::text) AS encode
                   FROM payment p
                  WHERE p.payment_id = r.payment_id AND p.account_id = r.account_id))) || COALESCE(r.changes, '{}'::jsonb)
           FROM journal j
          WHERE j.journal_id = r.journal_id) AS doc
   FROM read_payment r;

CREATE VIEW reporting_accounts AS
 SELECT account_id,
    name,
    kyc,
    created_at
   FROM account;

CREATE VIEW reporting_boletos_by_due_date AS
 SELECT account_id,
    status,
    due_date,
    payment_method,
    charges,
    (cents::numeric / 100.0)::numeric(20,2) AS amount
   FROM report_due
  WHERE charges <> 0 AND account_id <> '00000000-0000-0000-0000-000000000000'::uuid;

CREATE VIEW reporting_charges AS
 SELECT charge_id,
    account_id,
    created_at,
    payment_method,
    status,
    (amount_cents::numeric / 100.0)::numeric(14,2) AS amount,
    due_date,
    integrador_code,
    (changes ->> 'paid_at'::text)::timestamp with time zone AS paid_at
   FROM read_charge
  WHERE NOT test;

CREATE VIEW reporting_charges_by_day AS
 SELECT account_id,
    day,
    payment_method,
    status,
    charges,
    (cents::numeric / 100.0)::numeric(20,2) AS amount
   FROM report_cohort
  WHERE charges <> 0 AND account_id <> '00000000-0000-0000-0000-000000000000'::uuid;

CREATE VIEW reporting_freshness AS
 SELECT as_of,
    EXTRACT(epoch FROM now() - as_of)::numeric(20,3) AS lag_seconds
   FROM report_position;

CREATE VIEW reporting_integrators AS
 SELECT integrador_code,
    name,
    account_id,
    active,
    created_at,
    COALESCE(( SELECT s.share_bps::numeric / 100.0
           FROM integrator_share s
          WHERE s.integrador_code = i.integrador_code
          ORDER BY s.since DESC
         LIMIT 1), 0::numeric)::numeric(5,2) AS share_percent
   FROM integrator i;

CREATE VIEW reporting_integrators_by_day AS
 SELECT account_id,
    day,
    integrador_code,
    charges,
    (charge_cents::numeric / 100.0)::numeric(20,2) AS charge_amount,
    payments,
    (payment_cents::numeric / 100.0)::numeric(20,2) AS payment_amount,
    (given_cents::numeric / 100.0)::numeric(20,2) AS share_given,
    (taken_back_cents::numeric / 100.0)::numeric(20,2) AS share_taken_back
   FROM report_integrator
  WHERE account_id <> '00000000-0000-0000-0000-000000000000'::uuid;

CREATE VIEW reporting_ledger AS
 SELECT account_id,
    sequence,
    entry_id,
    created_at,
    type,
    (amount_cents::numeric / 100.0)::numeric(20,2) AS amount,
    (balance_after_cents::numeric / 100.0)::numeric(20,2) AS balance_after
   FROM read_ledger
  WHERE NOT test;

CREATE VIEW reporting_ledger_by_day AS
 SELECT account_id,
    day,
    type,
    method,
    entries,
    (cents::numeric / 100.0)::numeric(20,2) AS amount
   FROM report_entry
  WHERE account_id <> '00000000-0000-0000-0000-000000000000'::uuid;

CREATE VIEW reporting_payments AS
 SELECT payment_id,
    charge_id,
    account_id,
    method,
    (amount_cents::numeric / 100.0)::numeric(14,2) AS amount,
    (fee_cents::numeric / 100.0)::numeric(14,2) AS fee,
    ((amount_cents - fee_cents)::numeric / 100.0)::numeric(14,2) AS net_amount,
    (refunded_cents::numeric / 100.0)::numeric(14,2) AS refunded,
    anomaly,
    settles,
    paid_at,
    credited_at
   FROM payment
  WHERE NOT test;

CREATE VIEW reporting_receipts_by_day AS
 SELECT account_id,
    day,
    method,
    entries AS payments,
    (cents::numeric / 100.0)::numeric(20,2) AS amount,
    late,
    anomalous
   FROM report_entry
  WHERE type = 'payment'::text AND account_id <> '00000000-0000-0000-0000-000000000000'::uuid;

CREATE VIEW reporting_refunds_by_day AS
 SELECT account_id,
    day,
    method,
    what,
    refunds,
    (cents::numeric / 100.0)::numeric(20,2) AS amount
   FROM report_refund
  WHERE account_id <> '00000000-0000-0000-0000-000000000000'::uuid;

CREATE VIEW reporting_time_to_pay AS
 SELECT account_id,
    day,
    payment_method,
    power(2::numeric, bucket::numeric / 8.0)::numeric(20,1) AS from_seconds,
    power(2::numeric, (bucket + 1)::numeric / 8.0)::numeric(20,1) AS below_seconds,
    charges
   FROM report_wait
  WHERE account_id <> '00000000-0000-0000-0000-000000000000'::uuid;

CREATE VIEW reporting_webhooks_by_day AS
 SELECT account_id,
    day,
    outcome,
    attempts,
    duration_ms
   FROM report_attempt
  WHERE account_id <> '00000000-0000-0000-0000-000000000000'::uuid;
