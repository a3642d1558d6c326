-- Charge schedules (recurring charges), and the outcome of each number. Production only.

CREATE TABLE schedule (
    account_id           uuid NOT NULL REFERENCES account,
    schedule_id          uuid NOT NULL,
    status               text NOT NULL CHECK (status IN ('active', 'paused', 'finished', 'cancelled')),
    version              integer NOT NULL DEFAULT 1,
    created_at           timestamptz NOT NULL,
    payment_method       text NOT NULL CHECK (payment_method IN ('pix', 'boleto', 'boleto_hibrido')),
    amount_cents         bigint NOT NULL CHECK (amount_cents > 0),
    frequency            text NOT NULL
                         CHECK (frequency IN ('weekly', 'biweekly', 'monthly', 'quarterly', 'semiannual', 'yearly')),
    first_due_date       date NOT NULL,
    end_date             date CHECK (end_date >= first_due_date),
    max_charges          integer CHECK (max_charges > 0),
    issue_days_before    integer NOT NULL CHECK (issue_days_before BETWEEN 0 AND 30),
    -- Fine, interest and discounts of its boletos (domain/schedules/terms.py).
    terms                jsonb CHECK (terms IS NULL OR payment_method <> 'pix'),
    external_id          text,
    description          text,
    send_email           boolean NOT NULL,
    -- The merchant's own keys and values, given to each of its charges.
    metadata             jsonb,
    -- As in its charges; NULL after erasure.
    payer_sealed         bytea CHECK (payer_sealed IS NOT NULL OR status IN ('finished', 'cancelled')),
    payer_document_hash  text,
    -- The next charge; NULL if there is none.
    next_number          integer CHECK (next_number > 0),
    next_due_date        date,
    -- When a worker checks it next: when the next charge is to be issued, a lease ends, or a try is repeated. For an
    -- ended schedule, the start of its payer's retention period.
    look_at              timestamptz NOT NULL,
    -- The boleto of the next number is being registered; workers follow it even if the schedule is stopped meanwhile.
    ordered              boolean NOT NULL DEFAULT false,
    -- Failures of the next number.
    failures             integer NOT NULL DEFAULT 0,
    failure_code         text,
    failed_at            timestamptz,
    PRIMARY KEY (schedule_id, account_id),
    CHECK (end_date IS NULL OR max_charges IS NULL),
    CHECK ((next_number IS NULL) = (next_due_date IS NULL))
) WITH (fillfactor = 85);
CREATE INDEX schedule_page ON schedule (account_id, status, created_at, schedule_id);
CREATE INDEX schedule_reference ON schedule (account_id, external_id, status, created_at, schedule_id)
    WHERE external_id IS NOT NULL;
-- Schedules to be issued, by time and by account; and those whose boleto is being registered, likewise.
CREATE INDEX schedule_due ON schedule (look_at) WHERE status = 'active' AND NOT ordered;
CREATE INDEX schedule_due_of ON schedule (account_id, look_at) WHERE status = 'active' AND NOT ordered;
CREATE INDEX schedule_ordered ON schedule (look_at) WHERE ordered;
CREATE INDEX schedule_ordered_of ON schedule (account_id) WHERE ordered;
-- Ended schedules that still name their payer, longest ended first.
CREATE INDEX schedule_ended ON schedule (look_at)
    WHERE status IN ('finished', 'cancelled') AND NOT ordered AND payer_sealed IS NOT NULL;

CREATE TABLE schedule_charge (
    account_id    uuid NOT NULL,
    schedule_id   uuid NOT NULL,
    number        integer NOT NULL CHECK (number > 0),
    due_date      date NOT NULL,
    -- skipped: its due date passed while the schedule was paused; failed: it could not be issued in time.
    state         text NOT NULL CHECK (state IN ('issued', 'skipped', 'failed')),
    charge_id     uuid,
    failure_code  text,
    recorded_at   timestamptz NOT NULL,
    PRIMARY KEY (schedule_id, number),
    CHECK ((state = 'issued') = (charge_id IS NOT NULL))
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 1000
);
