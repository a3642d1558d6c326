-- The projections: the one definition of each read table, as functions of journal rows. Commands run them in the
-- statement that writes the rows; rebuild and verify run them over the whole journal. Tables are named without a
-- schema, so that a rebuild fills the shadow tables it puts first in the search path.

-- The columns of read_charge for a new charge. A function of a single query is inlined into the calling statement, so
-- the statement that creates PIX charges need not read back the journal row it has just written.
CREATE FUNCTION created_charge(payload jsonb)
RETURNS TABLE (created_at timestamptz, amount_cents bigint, due_date date, status text, payment_method text, public_id text,
               external_id text, nosso_numero text, txid text, integrador_code text)
LANGUAGE sql STABLE AS $$
    SELECT c.created_at, c.amount_cents, c.due_date, c.status, c.payment_method, c.public_id, c.external_id,
           c.nosso_numero,
           -- A PIX charge's txid is its id in hex, so the charge is found by id; only others need the column.
           CASE WHEN c.payment_method <> 'pix' THEN c.txid END, c.integrador_code
    FROM jsonb_to_record(payload -> 'charge') AS c (
        created_at timestamptz, amount_cents bigint, due_date date, status text, payment_method text, public_id text,
        external_id text, nosso_numero text, txid text, integrador_code text)
$$;

-- Adds new charges to read_charge; returns how many. The hash of the payer's document comes from the charge's own row,
-- since the journal has no data of payers.
CREATE FUNCTION project_created(journal_ids bigint[]) RETURNS bigint LANGUAGE plpgsql AS $$
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
END $$;

-- Runs the projections named in `which` (readmodels/projector.py), in the order that a rebuild needs.
CREATE FUNCTION project(journal_ids bigint[], which text[]) RETURNS void LANGUAGE plpgsql AS $$
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
END $$;

-- Enqueues the deliveries of the events among these journal rows, in one statement for a whole batch. created_at is the
-- event's instant, so that the event is looked up in that month of the feed only.
CREATE FUNCTION enqueue_deliveries(journal_ids bigint[], now_at timestamptz) RETURNS void LANGUAGE plpgsql AS $$
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
END $$;

-- Verifications of the read tables and the books: their progress and findings (readmodels/verify.py).

CREATE TABLE verification (
    verification_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- {"account_id", "since", "until", "begun", "rows_max"} (VerifyScope): what is verified; an absent one of the first
    -- three sets no bound.
    scope            jsonb NOT NULL,
    -- Begun by workers, which also resume it by themselves; otherwise an operator started it.
    nightly          boolean NOT NULL,
    -- Where the feed began at the start. Events before it are counted; the count is used only if feed_begin has not
    -- changed.
    feed_begins_at   timestamptz NOT NULL,
    begun_at         timestamptz NOT NULL DEFAULT now(),
    ended_at         timestamptz
);

-- The parts of a verification that have begun. A slice, its findings and the position of the next slice are stored in
-- one transaction.
CREATE TABLE verification_part (
    verification_id  bigint NOT NULL REFERENCES verification ON DELETE CASCADE,
    part             text NOT NULL,
    -- Where the next slice begins, in the part's own notation; NULL when the part is done.
    next             text,
    slices           bigint NOT NULL,
    -- How many rows of the journal, or of the table that the part walks, were checked.
    rows             bigint NOT NULL,
    -- Balance of the events that left the feed: those found in the journal are added, those implied by the feeds'
    -- sequences are subtracted.
    left_feed        bigint NOT NULL,
    PRIMARY KEY (verification_id, part)
);

-- Differences found, by slice.
CREATE TABLE verification_difference (
    verification_id  bigint NOT NULL REFERENCES verification ON DELETE CASCADE,
    part             text NOT NULL,
    slice            bigint NOT NULL,
    -- The slice's beginning and end; NULL is the end of the part.
    began            text NOT NULL,
    next             text,
    "table"          text NOT NULL,
    what             text NOT NULL,
    rows             bigint NOT NULL,
    PRIMARY KEY (verification_id, part, slice, "table", what)
);

-- Rebuilds of the read tables and their progress (readmodels/rebuild.py).
CREATE TABLE rebuild (
    rebuild_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    begun_at    timestamptz NOT NULL,
    -- The current part, where its next slice begins, ranges to be repeated, and rows so far.
    standing    jsonb NOT NULL,
    ended_at    timestamptz
) WITH (fillfactor = 50);

-- Creates a temporary table like a table of this schema, for the transaction. It has no index except the primary key:
-- it is filled and compared as a whole.
CREATE FUNCTION make_shadow(original text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TEMPORARY TABLE %1$I (LIKE %1$I INCLUDING DEFAULTS INCLUDING GENERATED, %2$s) ON COMMIT DROP', original,
                   (SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = original::regclass AND contype = 'p'));
END $$;

-- Makes the rows of a table that satisfy a condition (on `r`) equal to those of its shadow; returns how many rows the
-- shadow has. Rows that are correct already are not touched.
CREATE FUNCTION repair(original text, condition text) RETURNS bigint LANGUAGE plpgsql AS $$
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
END $$;
