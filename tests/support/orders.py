"""Bank orders for tests: queries over open and ended ones together, and changes of their state and age."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

_EVER = """
WITH bank_order AS (
    SELECT order_id, account_id, charge_id, test, bank, kind, request, state, attempts, due_at, lease_until, deadline,
           outcome, created_at
    FROM bank_order
    UNION ALL
    SELECT order_id, account_id, charge_id, test, bank, kind, NULL, state, attempts, ended_at, NULL, NULL, outcome,
           created_at
    FROM bank_order_done
)
"""
_END = """
WITH ended AS (DELETE FROM bank_order WHERE charge_id = ANY($1::uuid[]) AND kind = coalesce($2, kind) RETURNING *)
INSERT INTO bank_order_done (order_id, account_id, charge_id, test, bank, kind, state, attempts, created_at, ended_at)
SELECT order_id, account_id, charge_id, test, bank, kind, 'done', attempts, created_at, due_at FROM ended
"""


def including_ended_orders(query: str) -> str:
    """Makes a SELECT from bank_order include ended orders; their request is NULL, because it is not stored."""
    return _EVER + query


async def end_orders(conn: Any, charge_ids: Sequence[UUID], kind: str | None = None) -> None:
    """Mark the open orders of these charges as done, as if a worker had executed them."""
    await conn.execute(_END, charge_ids, kind)


async def age_orders(conn: Any, charge_id: UUID, by: timedelta) -> None:
    """Move the creation of all orders of this charge back in time; `conn` must be the table owner's."""
    for table in ("bank_order", "bank_order_done"):
        older = f"UPDATE {table} SET created_at = created_at - $2::interval WHERE charge_id = $1"  # noqa: S608
        await conn.execute(older, charge_id, by)
