-- Bank orders, written by commands in the transaction that makes them necessary.

-- name: add
-- A boleto has one open order at a time (unique index bank_order_boleto_alone). When the PIX leg pays a charge while
-- another change of its boleto is under way, no order to close the boleto is written: the worker that ends that change
-- checks the charge again (workers/orders/boleto.py).
WITH given AS MATERIALIZED (
    SELECT g.order_id, g.account_id, g.charge_id, g.test, c.bank, g.kind,
           CASE WHEN g.request_id IS NULL THEN g.request
                ELSE g.request || jsonb_build_object('request_id', g.request_id) END AS request
    FROM unnest(:order_ids::uuid[], :postings.owner.account_id::uuid[], :postings.charge_id::uuid[],
                :postings.owner.test::boolean[], :kinds::text[], :requests::jsonb[],
                :postings.request_id::text[])
         AS g (order_id, account_id, charge_id, test, kind, request, request_id)
    JOIN charge c ON c.charge_id = g.charge_id AND c.account_id = g.account_id
)
INSERT INTO bank_order (order_id, account_id, charge_id, test, bank, kind, request, due_at, created_at)
SELECT order_id, account_id, charge_id, test, bank, kind, request, :now, :now FROM given
ON CONFLICT (charge_id)
    WHERE kind IN ('boleto_write_off', 'boleto_redate', 'boleto_pay', 'boleto_reconcile')
    DO NOTHING;
