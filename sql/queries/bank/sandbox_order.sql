-- Orders of test charges that the simulated bank can be given without asking it: its tables are in this database. All that
-- X-Sandbox-Bank says anything about, and every order of another kind, goes through the bank's port (bank_order.sql).

-- name: register
-- Registrations that are due: each cob is put, and its order ends, together and in one statement, so there is no lease. What
-- nobody may pay any more ends without one; what was paid at once is put all the same, since its QR Code's location is
-- to answer. An order whose cob cannot be put, for its location or because there is one, is left for the port, which says why;
-- so is that of a dual charge, whose PIX leg may be a cobv. `looked_until` is when the last of those it looked at was due,
-- null when there was none.
WITH due AS (
    SELECT order_id, account_id, charge_id, bank, attempts, created_at, due_at, request FROM bank_order
    WHERE lane = 'pix' AND test AND state = 'waiting' AND due_at <= :now
      AND kind = 'cob_register' AND NOT request ? 'scenario'
    ORDER BY due_at, order_id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
), judged AS MATERIALIZED (
    SELECT d.order_id, encode(uuid_send(d.charge_id), 'hex') AS txid, r.amount_cents, r.pix_key, r.description,
           r.created_at, r.expires_in_s, r.location_id,
           CASE c.status WHEN 'pending' THEN c.expires_at > :now::timestamptz + interval '1 second' * coalesce(k.ahead_s, 0)
                         ELSE c.status IN ('paid', 'refunded') END AS wanted,
           l.made AND o.taken IS NULL AND row_number() OVER (PARTITION BY r.location_id ORDER BY d.order_id) = 1 AS free
    FROM due d
    JOIN charge c ON c.charge_id = d.charge_id AND c.payment_method = 'pix'
    LEFT JOIN sandbox_clock k ON k.account_id = d.account_id
    CROSS JOIN LATERAL jsonb_to_record(d.request) AS r (
        amount_cents bigint, pix_key text, description text, created_at timestamptz, expires_in_s integer, location_id bigint)
    -- One row each: of EXISTS the planner may make a table of all locations, for every batch.
    LEFT JOIN LATERAL (
        SELECT true AS made FROM simulated_location WHERE world = 'sandbox' AND location_id = r.location_id LIMIT 1) l ON true
    LEFT JOIN LATERAL (
        SELECT true AS taken FROM simulated_cob WHERE world = 'sandbox' AND location_id = r.location_id LIMIT 1) o ON true
), put AS (
    INSERT INTO simulated_cob (world, txid, status, amount_cents, pix_key, description, created_at, expires_in_s, location_id)
    SELECT 'sandbox', txid, 'ATIVA', amount_cents, pix_key, left(description, :description_max), created_at, expires_in_s, location_id
    FROM judged WHERE wanted AND free
    ON CONFLICT DO NOTHING
    RETURNING txid
), done AS (
    DELETE FROM bank_order o USING judged j
    WHERE o.order_id = j.order_id AND (NOT j.wanted OR j.txid IN (SELECT txid FROM put))
    RETURNING o.order_id, o.account_id, o.charge_id, o.bank, o.attempts, o.created_at, j.txid
), kept AS (
    INSERT INTO bank_order_done (order_id, account_id, charge_id, test, bank, kind, state, attempts, created_at, ended_at)
    SELECT order_id, account_id, charge_id, true, bank, 'cob_register', 'done', attempts + 1, created_at, :now FROM done
)
SELECT coalesce(array_agg(txid), '{}') AS txids, (SELECT max(due_at) FROM due) AS looked_until FROM done;
