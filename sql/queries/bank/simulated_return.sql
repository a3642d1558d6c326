-- The simulated bank's devolucoes and transfers (banks/simulated/returns.py). Every statement concerns one world.

-- name: hold_pix
SELECT amount_cents, paid_at FROM simulated_pix
WHERE world = :world AND end_to_end_id = :end_to_end_id FOR UPDATE;

-- name: hold_boleto_pix
-- The PIX that paid a hybrid boleto.
SELECT amount_cents, paid_at FROM simulated_boleto_payment
WHERE world = :world AND end_to_end_id = :end_to_end_id AND NOT called_off
ORDER BY payment_id LIMIT 1 FOR UPDATE;

-- name: gone
-- The amount returned or being returned; a failed devolucao does not count.
SELECT coalesce(sum(amount_cents), 0)::bigint AS cents FROM simulated_devolucao
WHERE world = :world AND end_to_end_id = :end_to_end_id AND NOT (fails AND settles_at <= :now);

-- name: add
INSERT INTO simulated_devolucao (world, end_to_end_id, id, natureza, amount_cents, description, return_id, asked_at,
                                 settles_at, fails)
VALUES (:world, :end_to_end_id, :id, :natureza, :amount_cents, :description, :return_id, :now, :settles_at, :fails);

-- name: of_pix
-- The devolucoes of each PIX, in the order requested.
SELECT end_to_end_id, id, natureza, amount_cents, description, return_id, asked_at, settles_at, fails
FROM simulated_devolucao
WHERE world = :world AND end_to_end_id = ANY(:end_to_end_ids::text[])
ORDER BY end_to_end_id, asked_at, id;

-- name: find
SELECT end_to_end_id, id, natureza, amount_cents, description, return_id, asked_at, settles_at, fails FROM simulated_devolucao
WHERE world = :world AND end_to_end_id = :end_to_end_id AND id = :id;

-- name: add_transfer
-- A repetition with the same id changes nothing.
INSERT INTO simulated_transfer (world, id, amount_cents, pix_key, document, description, end_to_end_id, asked_at,
                                     settles_at, fails)
VALUES (:world, :id, :amount_cents, :pix_key, :document, :description, :end_to_end_id, :now, :settles_at, :fails)
ON CONFLICT DO NOTHING;

-- name: find_transfer
SELECT id, amount_cents, pix_key, document, description, end_to_end_id, asked_at, settles_at, fails
FROM simulated_transfer WHERE world = :world AND id = :id;

-- name: count_transfers
SELECT count(*) AS found FROM simulated_transfer
WHERE world = :world AND asked_at >= :since AND asked_at <= :until;

-- name: page_transfers
-- In numbered pages, ordered by time, as banks list them.
SELECT id, amount_cents, pix_key, document, description, end_to_end_id, asked_at, settles_at, fails
FROM simulated_transfer
WHERE world = :world AND asked_at >= :since AND asked_at <= :until
ORDER BY asked_at, id LIMIT :limit OFFSET :skip;

-- name: rules
SELECT settle_after_s, fails FROM simulated_refund_rules WHERE world = :world;

-- name: set_rules
UPDATE simulated_refund_rules SET settle_after_s = :settle_after_s, fails = :fails WHERE world = :world;
