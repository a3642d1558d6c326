"""Money that fits no charge, as the platform's staff see it, and what a bank listed that nobody could read."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Struct

import sql
from domain.mode import Owner
from readmodels.page import ListFilters, TimePosition, time_page
from sql import Connection

UNREADABLE_MAX = 50
"""Shown; the oldest first."""


class SuspenseFilters(ListFilters, frozen=True, kw_only=True):
    state: str = "open"
    kind: str | None = None


class SuspenseRow(Struct, frozen=True):
    """`settled_by`: who assigned or returned it. Cents."""

    at: datetime
    """When it was received."""
    id: UUID
    bank: str
    kind: str
    source: str
    reference: str | None
    amount_cents: int
    found_at: datetime
    payer_sealed: bytes | None
    state: str
    settled_by: str | None
    settled_at: datetime | None
    charge_id: UUID | None
    return_reference: str | None
    note: str | None


class SuspenseTotal(Struct, frozen=True):
    kind: str
    rows: int
    cents: int
    oldest_at: datetime


class Unreadable(Struct, frozen=True):
    bank: str
    method: str
    about: str
    found_at: datetime


_page = sql.list_of("suspense.page", SuspenseRow)
find_suspense = sql.maybe("suspense.find", SuspenseRow)
"""`suspense_id`."""
suspense_totals = sql.many("suspense.totals", SuspenseTotal)
"""Of what is open, by kind: read whole, for what waits for a person is little."""
_unreadable = sql.many("reconciled.unreadable", Unreadable)


async def suspense_page(
    conn: Connection, owner: Owner, filters: SuspenseFilters, after: TimePosition | None, limit: int
) -> tuple[Sequence[SuspenseRow], TimePosition | None]:
    """One page of it (of every account: `owner` is the platform), and where the next one begins."""
    return await time_page(_page, conn, filters.order, after, limit, state=filters.state, kind=filters.kind)


async def unreadable_items(conn: Connection) -> list[Unreadable]:
    return await _unreadable(conn, limit=UNREADABLE_MAX)
