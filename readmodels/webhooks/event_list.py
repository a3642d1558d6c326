"""The feed: every event of an account and mode, each with its dense sequence and the bytes of its webhook's body."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from msgspec import Struct

import sql
from domain.events import EventKind, feed_item
from domain.mode import Owner
from readmodels.filters import OneOf
from readmodels.page import Bounds, ListFilters, SequencePosition, Window, sequence_page, sequence_window
from sql import Connection

KINDS = tuple(each.value for each in EventKind)


class EventFilters(ListFilters, frozen=True, kw_only=True):
    types: Annotated[tuple[str, ...], OneOf(KINDS, "type")] = ()
    charge_id: UUID | None = None
    external_id: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    after_sequence: int | None = None


class _Row(Struct, frozen=True, gc=False):
    sequence: int
    type: str
    created_at: datetime
    body: bytes


_page = sql.list_of("read_event.page", _Row)
_page_by_type = sql.list_of("read_event.by_type", _Row)
find_bounds = sql.one("read_event.bounds", Bounds)


async def event_page(
    conn: Connection, owner: Owner, filters: EventFilters, after: SequencePosition | None, limit: int
) -> tuple[list[bytes], SequencePosition | None]:
    """One page of feed items (JSON bytes) in the order of their sequence, and the position after which the next page
    begins."""
    window = await sequence_window(find_bounds, conn, owner, filters.created_from, filters.created_to)
    if filters.after_sequence is not None:
        window = Window(max(window.above, filters.after_sequence), window.below)
    has_key = filters.charge_id or filters.external_id is not None
    rows, last = await sequence_page(
        _page_by_type if filters.types and not has_key else _page,
        conn,
        filters.order,
        after,
        limit,
        window,
        account_id=owner.account_id,
        test=owner.test,
        types=filters.types or None,
        charge_id=filters.charge_id,
        external_id=filters.external_id,
    )
    return [feed_item(row.body, kind=row.type, sequence=row.sequence, created_at=row.created_at) for row in rows], last


async def event_body(conn: Connection, owner: Owner, sequence: int) -> bytes | None:
    """The body that every webhook attempt for an event sends; None when the event's month has left the feed."""
    rows = await _page(
        conn, order="asc", account_id=owner.account_id, test=owner.test, above=sequence - 1, below=sequence + 1, limit=1
    )
    return rows[0].body if rows else None
