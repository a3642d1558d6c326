"""The feed: every event of an account and mode, each with its dense number, in the bytes its webhook carries."""

from datetime import datetime
from uuid import UUID

from msgspec import Struct

import sql
from domain.events import feed_item
from domain.mode import Owner
from readmodels.page import SortOrder, cut
from sql import Connection

_BELOW_ALL = 0
_ABOVE_ALL = 2**63 - 1


class EventFilters(Struct, frozen=True, kw_only=True):
    types: tuple[str, ...] = ()
    charge_id: UUID | None = None
    external_id: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    after_sequence: int | None = None
    order: SortOrder = SortOrder.DESC


class EventPosition(Struct, frozen=True, array_like=True):
    sequence: int


class _Row(Struct, frozen=True, gc=False):
    sequence: int
    type: str
    created_at: datetime
    body: bytes


class Bounds(Struct, frozen=True, gc=False):
    first: int | None
    beyond: int | None


_PAGE = {
    (path, order): sql.many(f"read_event.{path}_{order.value}", _Row)
    for path in ("page", "by_type", "by_charge", "by_reference")
    for order in SortOrder
}
find_bounds = sql.one("read_event.bounds", Bounds)


async def event_page(
    conn: Connection,
    owner: Owner,
    filters: EventFilters,
    after: EventPosition | None,
    limit: int,
) -> tuple[list[bytes], EventPosition | None]:
    """One page of feed items (JSON bytes) in the order of their numbers, and where the next one begins."""
    above, below = _BELOW_ALL, _ABOVE_ALL
    if filters.created_from is not None or filters.created_to is not None:
        bounds = await find_bounds(
            conn,
            account_id=owner.account_id,
            test=owner.test,
            created_from=filters.created_from,
            created_to=filters.created_to,
        )
        if filters.created_from is not None:
            above = _ABOVE_ALL if bounds.first is None else bounds.first - 1
        if filters.created_to is not None and bounds.beyond is not None:
            below = bounds.beyond
    if filters.after_sequence is not None:
        above = max(above, filters.after_sequence)
    if after is not None:
        if filters.order is SortOrder.ASC:
            above = max(above, after.sequence)
        else:
            below = min(below, after.sequence)
    rows, last = cut(
        await _PAGE[_path(filters), filters.order](
            conn,
            account_id=owner.account_id,
            test=owner.test,
            types=list(filters.types) or None,
            charge_id=filters.charge_id,
            external_id=filters.external_id,
            above=above,
            below=below,
            most=limit + 1,
        ),
        limit,
    )
    items = [feed_item(row.body, kind=row.type, sequence=row.sequence, created_at=row.created_at) for row in rows]
    return items, EventPosition(last.sequence) if last else None


async def event_body(conn: Connection, owner: Owner, sequence: int) -> bytes | None:
    """The bytes that every attempt to tell of an event sends; None when its month has left the feed."""
    page = _PAGE["page", SortOrder.ASC]
    rows = await page(
        conn, account_id=owner.account_id, test=owner.test, types=None, charge_id=None, external_id=None,
        above=sequence - 1, below=sequence + 1, most=1,
    )  # fmt: skip
    return rows[0].body if rows else None


def _path(filters: EventFilters) -> str:
    if filters.charge_id is not None:
        return "by_charge"
    if filters.external_id is not None:
        return "by_reference"
    return "by_type" if filters.types else "page"
