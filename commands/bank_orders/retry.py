"""Retry an order to a bank now instead of when its next attempt is due."""

from datetime import datetime
from uuid import UUID

import sql
from commands.bank_orders.kinds import OrderLane
from sql import Connection

_retry = sql.maybe("bank_order.retry", str)


async def retry_order(conn: Connection, order_id: UUID, *, now: datetime) -> OrderLane | None:
    """Make the order due now; returns its lane, or None when a worker holds its lease, it has ended, or it has had no
    attempt yet because it is not due.

    Nothing else of the order changes. Every later attempt first asks the bank for the result of the earlier ones, so an
    early attempt sends nothing twice.
    """
    lane = await _retry(conn, order_id=order_id, now=now)
    return None if lane is None else OrderLane(lane)
