"""Orders to banks as tests look at them: open ones and those that have ended, together."""

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


def ever(query: str) -> str:
    """A SELECT from bank_order, over orders that have ended as well; of these nobody knows the request."""
    return _EVER + query


async def end_orders(conn: Any, charge_ids: Sequence[UUID], kind: str | None = None) -> None:
    """As if a worker had done the open orders of these charges."""
    await conn.execute(_END, charge_ids, kind)


async def age_orders(conn: Any, charge_id: UUID, by: timedelta) -> None:
    """As if all orders of this charge had been placed earlier; `conn` is the owner's of the tables."""
    for table in ("bank_order", "bank_order_done"):
        older = f"UPDATE {table} SET created_at = created_at - $2::interval WHERE charge_id = $1"  # noqa: S608
        await conn.execute(older, charge_id, by)
