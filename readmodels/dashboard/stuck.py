"""Work that is stuck, over all merchants: orders to banks, webhook deliveries and failing webhook endpoints."""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct

import sql
from sql import Connection

SHOWN_MAX: Final = 50
"""Rows shown of each kind. With more than these, staff look for one common cause, not at single rows."""
HELD_MAX: Final = 1_000
"""Deliveries held for one endpoint are counted up to this number."""
AFTER: Final = timedelta(minutes=10)
"""An order that is open for longer is shown as stuck: a bank that answers at all has answered by then."""
_SCANNED_MAX: Final = 5_000


class StuckOrder(Struct, frozen=True):
    """A stuck order. `detail` describes the last attempt; `lost`: its lease has run out because its worker died, and no
    other worker has claimed it yet."""

    order_id: UUID
    account_id: UUID | None
    merchant: str | None
    charge_id: UUID | None
    bank: str
    kind: str
    attempts: int
    created_at: datetime
    due_at: datetime
    lost: bool
    detail: str | None


class FailedOrder(Struct, frozen=True):
    """An order that ended without success; `state`: refused by the bank, or abandoned."""

    order_id: UUID
    account_id: UUID | None
    merchant: str | None
    charge_id: UUID | None
    bank: str
    kind: str
    state: str
    attempts: int
    created_at: datetime
    ended_at: datetime


class StuckDelivery(Struct, frozen=True):
    delivery_id: UUID
    account_id: UUID
    merchant: str
    type: str
    sequence: int
    attempt: int
    created_at: datetime


class FailingLane(Struct, frozen=True):
    """A webhook endpoint that fails; `held` counts at most HELD_MAX deliveries."""

    account_id: UUID
    merchant: str
    state: str
    since: datetime | None
    held: int


_find_stuck_orders = sql.many("stuck.orders", StuckOrder)
_find_given_up = sql.many("stuck.given_up", FailedOrder)
_find_stuck_deliveries = sql.many("stuck.deliveries", StuckDelivery)
_find_failing_lanes = sql.many("stuck.lanes", FailingLane)


async def stuck_orders(conn: Connection, *, now: datetime) -> list[StuckOrder]:
    return await _find_stuck_orders(conn, before=now - AFTER, look=_SCANNED_MAX, limit=SHOWN_MAX)


async def failed_orders(conn: Connection) -> list[FailedOrder]:
    """The newest orders that were refused or abandoned."""
    return await _find_given_up(conn, limit=SHOWN_MAX)


async def stuck_deliveries(conn: Connection) -> list[StuckDelivery]:
    return await _find_stuck_deliveries(conn, limit=SHOWN_MAX)


async def failing_lanes(conn: Connection) -> list[FailingLane]:
    return await _find_failing_lanes(conn, limit=SHOWN_MAX, count_max=HELD_MAX)
