-- Orders to banks, written by commands in the transaction that makes them necessary.

-- name: add
INSERT INTO bank_order (order_id, account_id, charge_id, test, kind, request, due_at, created_at)
SELECT g.order_id, g.account_id, g.charge_id, g.test, g.kind, g.request, :now, :now
FROM unnest(:order_ids::uuid[], :account_ids::uuid[], :charge_ids::uuid[], :tests::boolean[], :kinds::text[],
            :requests::jsonb[]) AS g (order_id, account_id, charge_id, test, kind, request);
