-- State of the reconcilers: their progress through the bank's lists, unbooked money, and unreadable items.

-- name: progress
SELECT until, goal, window_until, after, width_s FROM bank_reconciled
WHERE bank = :bank AND method = :method AND pass = :pass_name;

-- name: set_progress
INSERT INTO bank_reconciled (bank, method, pass, until, goal, window_until, after, width_s)
VALUES (:bank, :method, :pass_name, :until, :goal, :window_until, :after, :width_s)
ON CONFLICT (bank, method, pass) DO UPDATE
SET until = excluded.until, goal = excluded.goal, window_until = excluded.window_until, after = excluded.after,
    width_s = excluded.width_s;

-- name: unbooked_pix
-- Which of these receipts are not booked yet, and whether a production charge is known for them. Each is a look-up in
-- payment's unique key, so asking about the same receipts again costs little. Money in suspense is left to staff, even
-- if its charge is known by now. Among charges with a PIX, only dual ones can have a partner's code, and terms that
-- change the amount due.
SELECT g.end_to_end_id, c.charge_id IS NOT NULL AS known, r.integrador_code,
       coalesce(c.payment_method = 'boleto_pix', false) AS dual
FROM unnest(:charge_ids::uuid[], :end_to_end_ids::text[]) AS g (charge_id, end_to_end_id)
LEFT JOIN charge c ON c.charge_id = g.charge_id AND NOT c.test
LEFT JOIN read_charge r
    ON c.payment_method = 'boleto_pix' AND r.charge_id = c.charge_id AND r.account_id = c.account_id
WHERE NOT EXISTS (
    SELECT FROM payment p
    WHERE p.account_id = c.account_id AND p.test = c.test AND p.source = g.end_to_end_id
) AND NOT EXISTS (SELECT FROM suspense s WHERE s.bank = :bank AND s.source = g.end_to_end_id);

-- name: unbooked_boletos
-- Of the boletos that the bank lists as paid, those with unbooked money, and those with an unknown number.
SELECT g.number, s.number IS NOT NULL AS known, g.paid_cents, g.moved_on
FROM unnest(:boletos.number::text[], :boletos.paid_cents::bigint[], :boletos.moved_on::date[])
     AS g (number, paid_cents, moved_on)
LEFT JOIN boleto s ON s.bank = :bank AND s.number = g.number
WHERE s.number IS NULL OR s.booked_cents < g.paid_cents;

-- name: set_aside
-- Stores unreadable items; returns those that are new.
INSERT INTO bank_unreadable (bank, method, about, item_sealed, found_at)
SELECT :bank, :method, g.about, g.item_sealed, :now
FROM (SELECT DISTINCT ON (about) about, item_sealed FROM unnest(:abouts::text[], :items::bytea[]) AS u (about, item_sealed)
      ORDER BY about) AS g
ON CONFLICT DO NOTHING
RETURNING about;

-- name: read_after_all
DELETE FROM bank_unreadable WHERE bank = :bank AND method = :method AND about = ANY(:abouts::text[]);

-- name: unreadable
-- For staff, oldest first.
SELECT bank, method, about, found_at FROM bank_unreadable ORDER BY found_at, bank, method, about LIMIT :limit;
