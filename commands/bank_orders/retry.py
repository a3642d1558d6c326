"""Ask a bank again about an order now, and not when its next attempt is due."""

from datetime import datetime
from uuid import UUID

import sql
from commands.bank_orders.kinds import OrderLane
from sql import Connection

_retry = sql.maybe("bank_order.retry", str)


async def retry_order(conn: Connection, order_id: UUID, *, now: datetime) -> OrderLane | None:
    """Its lane; None when a worker has it, it has ended, or it was not tried yet because its moment is yet to come.

    Nothing else of the order changes: a later attempt asks first what became of those before, so one that is early
    sends nothing twice.
    """
    lane = await _retry(conn, order_id=order_id, now=now)
    return None if lane is None else OrderLane(lane)
