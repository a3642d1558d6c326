-- Charge schedules. They exist in production only: no statement here has a mode.

-- name: insert
-- Inserts the idempotency key and the schedule. No row: the key was used before.
WITH claimed AS (
    INSERT INTO idempotency (account_id, test, key, fingerprint, resource_type, resource_id, first_used_at)
    VALUES (:account_id, false, :key, :fingerprint, 'schedule', :schedule_id, :now)
    ON CONFLICT DO NOTHING
    RETURNING resource_id
)
INSERT INTO schedule (account_id, schedule_id, status, created_at, payment_method, amount_cents, frequency, first_due_date,
                      end_date, max_charges, issue_days_before, terms, external_id, description, send_email, metadata, payer_sealed,
                      payer_document_hash, next_number, next_due_date, look_at)
SELECT :account_id, :schedule_id, 'active', :now, :payment_method, :amount_cents, :frequency, :first_due_date, :end_date,
       :max_charges, :issue_days_before, :terms, :external_id, :description, :send_email, :metadata, :payer_sealed, :payer_document_hash,
       1, :first_due_date, :look_at
FROM claimed
RETURNING schedule_id;

-- name: find
SELECT created_at AS at, schedule_id AS id, status, version, payment_method, amount_cents, frequency, first_due_date, end_date,
       max_charges, issue_days_before, terms, external_id, description, send_email, metadata, next_number, next_due_date,
       failure_code, failed_at
FROM schedule WHERE schedule_id = :schedule_id AND account_id = :account_id;

-- name: page
-- both ways
-- One range of schedule_page, or of schedule_reference, for each requested status; the first page of each is merged.
SELECT created_at AS at, schedule_id AS id, s.status, version, payment_method, amount_cents, frequency, first_due_date, end_date,
       max_charges, issue_days_before, terms, external_id, description, send_email, metadata, next_number, next_due_date,
       failure_code, failed_at
FROM unnest(:statuses::text[]) AS k (status)
CROSS JOIN LATERAL (
    SELECT * FROM schedule
    WHERE account_id = :account_id AND status = k.status AND (created_at, schedule_id) {<} (:at, :id)
      AND external_id = :external_id -- when external_id
    ORDER BY created_at {DESC}, schedule_id {DESC}
    LIMIT :limit
) s
ORDER BY created_at {DESC}, schedule_id {DESC}
LIMIT :limit;

-- name: charges
-- both ways
-- The outcome of each number, with its charge as it is now; walks the key of schedule_charge.
SELECT n.number AS sequence, n.due_date, n.state, n.charge_id, n.failure_code, r.doc
FROM schedule_charge n
LEFT JOIN charge_view r ON r.charge_id = n.charge_id AND r.account_id = n.account_id
WHERE n.schedule_id = :schedule_id AND n.account_id = :account_id AND n.number > :above AND n.number < :below
ORDER BY n.number {DESC}
LIMIT :limit;

-- name: change_status
-- Changes the status if it was one of :statuses, and returns the status it had. The row stays locked until the
-- transaction ends, so concurrent changes follow one another. No row: the account has no such schedule.
WITH held AS (
    SELECT schedule_id, account_id, status FROM schedule
    WHERE schedule_id = :schedule_id AND account_id = :account_id
    FOR UPDATE
), changed AS (
    UPDATE schedule s SET status = :status, version = s.version + 1
    FROM held h
    WHERE s.schedule_id = h.schedule_id AND s.account_id = h.account_id AND h.status = ANY(:statuses::text[])
)
SELECT status FROM held;

-- name: turn
-- Chooses the accounts whose schedules are issued next, so that many due schedules of one account delay no other
-- account. The accounts of the :window longest due schedules come with n = 0. Only if the window is full can other
-- accounts be hidden behind them; then a loose index scan also visits :scan_max accounts, beginning after the account
-- :after, where the last scan ended. An account with :ordered_max boletos at the bank to be registered is not due until
-- it has fewer.
WITH RECURSIVE oldest AS MATERIALIZED (
    SELECT account_id FROM schedule
    WHERE status = 'active' AND NOT ordered AND look_at <= :now
    ORDER BY look_at LIMIT :window
), scanned AS (
    (SELECT account_id, look_at, 1 AS n FROM schedule
     WHERE status = 'active' AND NOT ordered AND account_id > :after AND (SELECT count(*) FROM oldest) >= :window
     ORDER BY account_id, look_at LIMIT 1)
    UNION ALL
    SELECT next.account_id, next.look_at, s.n + 1
    FROM scanned s
    CROSS JOIN LATERAL (
        SELECT account_id, look_at FROM schedule
        WHERE status = 'active' AND NOT ordered AND account_id > s.account_id
        ORDER BY account_id, look_at LIMIT 1
    ) AS next
    WHERE s.n < :scan_max
), looked_at AS (
    SELECT account_id, n, look_at <= :now AS due FROM scanned
    WHERE look_at <= :now OR n = (SELECT max(n) FROM scanned)
    UNION ALL
    SELECT DISTINCT account_id, 0, true FROM oldest
)
SELECT account_id, n, due AND (
           SELECT count(*) FROM (SELECT FROM schedule o WHERE o.account_id = l.account_id AND o.ordered LIMIT :ordered_max) AS open
       ) < :ordered_max AS due
FROM looked_at l
ORDER BY n;

-- name: claim
-- Leases schedules: those whose boleto the bank was asked to register, and up to :each due ones of each of these
-- accounts. When the lease ends another worker may take them. Returns all that decides: the account as it is now, the
-- charge that the number's key created already, and whether its boleto is being registered.
WITH followed AS MATERIALIZED (
    SELECT schedule_id, account_id, next_number FROM schedule
    WHERE ordered AND look_at <= :now
    ORDER BY look_at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
), issued AS MATERIALIZED (
    SELECT d.schedule_id, d.account_id, d.next_number
    FROM unnest(:account_ids::uuid[]) AS a (account_id)
    CROSS JOIN LATERAL (
        SELECT schedule_id, account_id, next_number FROM schedule s
        WHERE s.account_id = a.account_id AND s.status = 'active' AND NOT s.ordered AND s.look_at <= :now
        ORDER BY s.look_at
        LIMIT :each
        FOR UPDATE SKIP LOCKED
    ) AS d
), due AS (
    SELECT schedule_id, account_id, 'schedule:' || schedule_id || ':' || next_number AS key
    FROM (SELECT * FROM followed UNION ALL SELECT * FROM issued) AS both_kinds
)
UPDATE schedule s SET look_at = :lease_until
FROM due d
CROSS JOIN LATERAL (
    SELECT name, city, receiving_key, account_id, address, kyc FROM account WHERE account_id = d.account_id
    OFFSET 0 -- else a plan made while very many are due would read all accounts, and all keys ever used, for each claim
) a
LEFT JOIN LATERAL (
    SELECT fingerprint, resource_id FROM idempotency WHERE account_id = d.account_id AND NOT test AND key = d.key
    OFFSET 0 -- as above
) k ON true
WHERE s.schedule_id = d.schedule_id AND s.account_id = d.account_id
RETURNING s.account_id, s.schedule_id, s.status, s.payment_method, s.amount_cents, s.frequency, s.first_due_date,
          s.end_date, s.max_charges, s.issue_days_before, s.terms, s.external_id, s.description, s.send_email, s.metadata, s.payer_sealed,
          s.payer_document_hash, s.next_number AS number, s.next_due_date AS due_date, s.ordered, s.failures, s.failure_code, s.failed_at, d.key,
          a.name, a.city,
          coalesce(a.receiving_key, (SELECT pix_key FROM receiving_key), a.account_id::text) AS pix_key,
          a.address, a.kyc = 'approved' AS approved, k.fingerprint, k.resource_id,
          EXISTS (
              SELECT FROM bank_order o
              WHERE o.account_id = d.account_id AND NOT o.test AND o.request ->> 'key' = d.key
                AND o.kind = 'boleto_register') AS under_way;

-- name: hold
-- Locks a claimed schedule whose number is about to be issued: it cannot be paused or cancelled until the transaction
-- ends. Returns whether its account may still charge. No row: it was stopped, or another worker has issued its number.
SELECT a.kyc = 'approved' AS approved FROM schedule s JOIN account a ON a.account_id = s.account_id
WHERE s.schedule_id = :schedule_id AND s.account_id = :account_id AND s.next_number = :number AND s.status = 'active'
FOR UPDATE OF s;

-- name: advance
-- Records the outcome of a number and moves on to the next, in one statement. Nothing is written if another worker has
-- done so.
WITH moved AS (
    UPDATE schedule SET next_number = :next_number, next_due_date = :next_due_date, look_at = :look_at, ordered = false,
           failures = 0, failure_code = NULL, failed_at = NULL, version = version + 1,
           status = CASE WHEN :next_number::integer IS NULL AND status <> 'cancelled' THEN 'finished' ELSE status END
    WHERE schedule_id = :schedule_id AND account_id = :account_id AND next_number = :number
    RETURNING account_id
)
INSERT INTO schedule_charge (account_id, schedule_id, number, due_date, state, charge_id, failure_code, recorded_at)
SELECT account_id, :schedule_id, :number, :due_date, :state, :charge_id, :failure_code, :now FROM moved;

-- name: wait
-- Puts the schedule off until :look_at.
UPDATE schedule SET look_at = :look_at, ordered = :ordered, failures = :failures, failure_code = :failure_code,
       failed_at = :failed_at
WHERE schedule_id = :schedule_id AND account_id = :account_id AND next_number = :number;
