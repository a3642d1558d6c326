"""An account's webhook endpoint, its health in each mode, and the latest notices about it."""

from datetime import datetime
from typing import ClassVar
from uuid import UUID

from msgspec import Struct

import sql
from sql import Connection

NOTICES_MAX = 10


class Endpoint(Struct, frozen=True):
    """An account's endpoint. `old_until` lists, newest first, until when each secret replaced by a rotation still signs
    too; some of these instants may be past."""

    endpoint_id: UUID
    url: str
    kinds: list[str]
    old_until: list[datetime]


class LaneHealth(Struct, frozen=True):
    """The endpoint's health in one mode. `state`: open | broken | paused; counts stop at `counted_max`; `delivered_at`
    is the latest success among the newest hundred deliveries."""

    counted_max: ClassVar[int] = 1_000

    test: bool
    state: str
    failures: int
    failing_since: datetime | None
    blocked_until: datetime | None
    paused_at: datetime | None
    paused_reason: str | None
    waiting: int
    held: int
    given_up: int
    delivered_at: datetime | None


class NoticeRow(Struct, frozen=True):
    test: bool
    kind: str
    event_type: str
    at: datetime


endpoint_of = sql.maybe("webhook_settings.of_account", Endpoint)
"""Takes `account_id`."""
_find_lanes = sql.many("webhook_settings.lanes", LaneHealth)
_find_notices = sql.many("webhook_settings.notices", NoticeRow)


async def lanes_health(conn: Connection, account_id: UUID) -> list[LaneHealth]:
    """The endpoint's health in production, then in test mode; empty without an endpoint."""
    return await _find_lanes(conn, account_id=account_id, limit=LaneHealth.counted_max)


async def latest_notices(conn: Connection, account_id: UUID) -> list[NoticeRow]:
    return await _find_notices(conn, account_id=account_id, limit=NOTICES_MAX)
