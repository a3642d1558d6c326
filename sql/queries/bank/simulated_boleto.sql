-- The simulated bank's boletos (banks/simulated/boletos.py). Every statement concerns one world.

-- name: add
-- No row if the number was used before.
INSERT INTO simulated_boleto (world, number, seu_numero, amount_cents, issued_on, due_on, terms, fine_from,
                                 late_days, description, payer_sealed, registered_at, txid, token, location)
VALUES (:world, :number, :seu_numero, :amount_cents, :issued_on, :due_on, :terms, :fine_from, :late_days, :description, :payer_sealed, :now,
        :txid, :token, :location)
ON CONFLICT (world, number) DO NOTHING
RETURNING number;

-- name: boleto
-- A boleto with the sums of its settled payments; the latest of these gives rail and dates.
SELECT s.number, s.seu_numero, s.amount_cents, s.issued_on, s.due_on, s.terms, s.fine_from, s.late_days, s.description,
       s.payer_sealed, s.registered_at, s.txid, s.location, s.payments, s.written_off_at,
       coalesce(p.paid_cents, 0)::bigint AS paid_cents, coalesce(p.interest_cents, 0)::bigint AS interest_cents,
       coalesce(p.fine_cents, 0)::bigint AS fine_cents, coalesce(p.discount_cents, 0)::bigint AS discount_cents,
       p.paid_at, p.settled_at, p.rail
FROM simulated_boleto s
LEFT JOIN LATERAL (
    SELECT sum(p.amount_cents) AS paid_cents, sum(p.interest_cents) AS interest_cents, sum(p.fine_cents) AS fine_cents,
           sum(p.discount_cents) AS discount_cents,
           (array_agg(p.paid_at ORDER BY p.payment_id DESC))[1] AS paid_at,
           (array_agg(p.settles_at ORDER BY p.payment_id DESC))[1] AS settled_at,
           (array_agg(p.rail ORDER BY p.payment_id DESC))[1] AS rail
    FROM simulated_boleto_payment p
    WHERE p.world = s.world AND p.number = s.number AND p.settles_at <= :now AND NOT p.called_off
) p ON true
WHERE s.world = :world AND s.number = :number;

-- name: pix
-- The settled PIX among a boleto's payments, in the order received.
SELECT p.end_to_end_id, s.txid, p.amount_cents, p.paid_at, p.payer_name, p.payer_document
FROM simulated_boleto s JOIN simulated_boleto_payment p ON p.world = s.world AND p.number = s.number
WHERE s.world = :world AND s.number = :number AND s.txid IS NOT NULL AND p.rail = 'pix'
  AND p.settles_at <= :now AND NOT p.called_off
ORDER BY p.payment_id;

-- name: number_at
-- The boleto behind the location that a payer's bank read from a QR Code.
SELECT number FROM simulated_boleto WHERE token = :token AND world = :world;

-- name: change
-- A NULL argument leaves its column unchanged. No row: there is no such boleto, it is not open, or it was registered
-- too recently; a read tells which.
UPDATE simulated_boleto s
SET due_on = coalesce(:due_on::date, s.due_on), fine_from = coalesce(:fine_from::date, s.fine_from),
    late_days = coalesce(:late_days::integer, s.late_days)
WHERE s.world = :world AND s.number = :number AND s.payments = 0 AND s.written_off_at IS NULL
  AND (s.registered_at <= :old_enough
       OR NOT (SELECT r.apply_30_minutes FROM simulated_boleto_rules r WHERE r.world = :world))
RETURNING s.number;

-- name: write_off
-- As `change`. This statement and a concurrent payment wait for each other's row lock and then read `payments` again,
-- so a boleto is never both paid and written off, unless the payment was forced.
UPDATE simulated_boleto s SET written_off_at = :now, moved_at = :now
WHERE s.world = :world AND s.number = :number AND s.payments = 0 AND s.written_off_at IS NULL
  AND (s.registered_at <= :old_enough
       OR NOT (SELECT r.apply_30_minutes FROM simulated_boleto_rules r WHERE r.world = :world))
RETURNING s.number;

-- name: add_pix
-- Only for an open boleto without a PIX.
UPDATE simulated_boleto SET txid = :txid, token = :token, location = :location
WHERE world = :world AND number = :number AND payments = 0 AND written_off_at IS NULL AND txid IS NULL
RETURNING number;

-- name: remove_pix
UPDATE simulated_boleto SET txid = NULL, token = NULL, location = NULL
WHERE world = :world AND number = :number AND payments = 0 AND written_off_at IS NULL AND txid IS NOT NULL
RETURNING number;

-- name: pay
-- Books payments on either rail, once or several times. A payer's bank checks first, unless :force says that the money
-- was under way already: the boleto must have had exactly :after payments (0 for an open boleto; a payment closes the
-- other rail too) and not be written off. A PIX also goes to the PIX received, under the boleto's txid, as at the real
-- bank.
WITH paid AS (
    UPDATE simulated_boleto s
    SET payments = s.payments + cardinality(:end_to_end_ids::text[]),
        moved_at = CASE WHEN s.payments = 0
                        THEN :paid_at::timestamptz + r.settle_after_s * interval '1 second' ELSE s.moved_at END
    FROM simulated_boleto_rules r
    WHERE s.world = :world AND s.number = :number AND r.world = s.world
      AND (:force::boolean OR (s.payments = :after AND s.written_off_at IS NULL))
      AND (:rail::text = 'boleto' OR s.txid IS NOT NULL)
    RETURNING s.number, s.txid, r.settle_after_s
), booked AS (
    INSERT INTO simulated_boleto_payment (world, number, rail, amount_cents, interest_cents, fine_cents, discount_cents, paid_at,
                                             settles_at, end_to_end_id, payer_name, payer_document, tell_at)
    SELECT :world, p.number, :rail, :amount_cents::bigint, :interest_cents::bigint, :fine_cents::bigint, :discount_cents::bigint, :paid_at,
           :paid_at::timestamptz + p.settle_after_s * interval '1 second',
           CASE WHEN :rail = 'pix' THEN e.end_to_end_id END, :payer_name, :payer_document, :tell_at::timestamptz
    FROM paid p CROSS JOIN unnest(:end_to_end_ids::text[]) AS e (end_to_end_id)
    RETURNING payment_id, number, rail, amount_cents, paid_at, end_to_end_id
), received AS (
    INSERT INTO simulated_pix (world, end_to_end_id, txid, amount_cents, pix_key, paid_at, payer_name,
                                    payer_document)
    SELECT :world, b.end_to_end_id, p.txid, b.amount_cents, :pix_key, b.paid_at, :payer_name, :payer_document
    FROM booked b JOIN paid p ON p.number = b.number WHERE b.end_to_end_id IS NOT NULL
)
SELECT number, rail, amount_cents, paid_at, end_to_end_id FROM booked ORDER BY payment_id;

-- name: call_off
-- Calls off the payments that are announced but not settled yet; the receiver gets a callback.
WITH off AS (
    UPDATE simulated_boleto_payment SET called_off = true, tell_at = :now, tell_attempts = 0
    WHERE world = :world AND number = :number AND NOT called_off AND settles_at > :now
    RETURNING number
), counted AS (
    SELECT count(*)::integer AS count FROM off
)
UPDATE simulated_boleto s
SET payments = s.payments - c.count, moved_at = CASE WHEN s.payments = c.count THEN s.written_off_at ELSE s.moved_at END
FROM counted c WHERE s.world = :world AND s.number = :number AND c.count > 0
RETURNING c.count;

-- name: open_page
-- The list of boletos that are open, or whose payment is only announced, by registration; OFFSET, as in the real bank's
-- pages.
SELECT s.number, s.amount_cents, s.due_on, s.registered_at, s.payments, s.moved_at, s.garbled,
       0::bigint AS paid_cents
FROM simulated_boleto s
WHERE s.world = :world AND s.registered_at >= :registered_from AND s.registered_at < :registered_before
  AND s.due_on BETWEEN :due_from AND :due_to AND (s.due_on < :today) = ANY(:overdue::boolean[])
  AND (s.moved_at IS NULL OR s.moved_at > :now)
ORDER BY s.registered_at, s.number LIMIT :limit OFFSET :skip;

-- name: closed_page
-- The list of settled or written-off boletos, by the instant of that. :states: 6 settled, 7 written off.
SELECT s.number, s.amount_cents, s.due_on, s.registered_at, s.payments, s.moved_at, s.garbled,
       coalesce((SELECT sum(p.amount_cents) FROM simulated_boleto_payment p
                 WHERE p.world = s.world AND p.number = s.number AND p.settles_at <= :now AND NOT p.called_off),
                0)::bigint AS paid_cents
FROM simulated_boleto s
WHERE s.world = :world AND s.moved_at >= :moved_from AND s.moved_at < :moved_before AND s.moved_at <= :now
  AND s.registered_at >= :registered_from AND s.registered_at < :registered_before
  AND s.due_on BETWEEN :due_from AND :due_to AND (s.due_on < :today) = ANY(:overdue::boolean[])
  AND (CASE WHEN s.payments > 0 THEN 6 ELSE 7 END) = ANY(:states::integer[])
ORDER BY s.moved_at, s.number LIMIT :limit OFFSET :skip;

-- name: claim_untold
-- Claims the due callbacks. The next try is stored before this one is made, so a bank that dies in between calls twice
-- rather than not at all. Without a registered address there is no callback.
WITH due AS (
    SELECT world, payment_id FROM simulated_boleto_payment
    WHERE world = :world AND tell_at <= :now ORDER BY tell_at LIMIT :limit FOR UPDATE SKIP LOCKED
), tried AS (
    UPDATE simulated_boleto_payment p
    SET tell_attempts = p.tell_attempts + 1,
        tell_at = CASE WHEN p.tell_attempts + 1 < :attempts_max::integer
                       THEN :now::timestamptz + least(0.5 * 2 ^ p.tell_attempts, 60) * interval '1 second' END
    FROM due d WHERE p.world = d.world AND p.payment_id = d.payment_id
    RETURNING p.payment_id, p.number, p.rail, p.amount_cents, p.paid_at, p.called_off, p.payer_name, p.payer_document
)
SELECT t.payment_id, t.number, t.rail, t.amount_cents, t.paid_at, t.called_off, t.payer_name, t.payer_document,
       s.amount_cents AS boleto_cents, s.due_on, s.registered_at, w.url
FROM tried t
JOIN simulated_boleto s ON s.world = :world AND s.number = t.number
JOIN simulated_boleto_webhook w ON w.world = :world
ORDER BY t.payment_id;

-- name: told
UPDATE simulated_boleto_payment SET tell_at = NULL WHERE world = :world AND payment_id = ANY(:payment_ids::bigint[]);

-- name: set_webhook
INSERT INTO simulated_boleto_webhook (world, url, registered_at) VALUES (:world, :url, :now)
ON CONFLICT (world) DO UPDATE SET url = excluded.url, registered_at = excluded.registered_at;

-- name: webhook
SELECT url FROM simulated_boleto_webhook WHERE world = :world;

-- name: rules
SELECT apply_30_minutes, detail_cache_s, settle_after_s FROM simulated_boleto_rules WHERE world = :world;

-- name: set_rules
UPDATE simulated_boleto_rules
SET apply_30_minutes = :young_refused, detail_cache_s = :detail_cache_s, settle_after_s = :settle_after_s
WHERE world = :world;
