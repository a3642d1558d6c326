"""Money in suspense (received, but fitting no charge) as the platform's staff see it, and items of banks' lists that
could not be read."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Struct

import sql
from domain.mode import Owner
from readmodels.page import ListFilters, TimePosition, time_page
from sql import Connection

UNREADABLE_MAX = 50
"""Unreadable items shown, the oldest first."""


class SuspenseFilters(ListFilters, frozen=True, kw_only=True):
    state: str = "open"
    kind: str | None = None


class SuspenseRow(Struct, frozen=True):
    """An amount in suspense; `settled_by` is the person who assigned or returned it."""

    at: datetime
    """When the money was received."""
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
"""Takes `suspense_id`."""
suspense_totals = sql.many("suspense.totals", SuspenseTotal)
"""The totals of open rows, by kind. All open rows are read, because few wait for a person at a time."""
_find_unreadable = sql.many("reconciled.unreadable", Unreadable)


async def suspense_page(
    conn: Connection, owner: Owner, filters: SuspenseFilters, after: TimePosition | None, limit: int
) -> tuple[Sequence[SuspenseRow], TimePosition | None]:
    """One page of the suspense rows of all accounts (`owner` is the platform), and the position after which the next
    page begins."""
    return await time_page(_page, conn, filters.order, after, limit, state=filters.state, kind=filters.kind)


async def unreadable_items(conn: Connection) -> list[Unreadable]:
    return await _find_unreadable(conn, limit=UNREADABLE_MAX)
