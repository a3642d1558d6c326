"""Keyset pages of lists. A statement fetches one row more than the page holds, to tell whether another page follows."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol, TypeVar
from uuid import UUID

from msgspec import Struct

from domain.mode import Owner
from sql import Connection

LIMIT_DEFAULT = 25
LIMIT_MAX = 100
BEGINNING = datetime(1, 1, 2, tzinfo=UTC)
END = datetime(9999, 12, 30, tzinfo=UTC)
_SEQUENCE_MAX = 2**63 - 1


class SortOrder(StrEnum):
    DESC = "desc"
    ASC = "asc"


class ListFilters(Struct, frozen=True, kw_only=True):
    """The base of every list's filters."""

    order: SortOrder = SortOrder.DESC


class TimePosition(Struct, frozen=True, array_like=True):
    """The last row returned of a list that is ordered by an instant and an id."""

    at: datetime
    id: UUID


class SequencePosition(Struct, frozen=True, array_like=True):
    """The last row returned of a list that is ordered by sequence."""

    sequence: int


class DocRow(Struct, frozen=True, gc=False):
    at: datetime
    id: UUID
    doc: bytes


class Bounds(Struct, frozen=True, gc=False):
    """The first sequence at or after each end of a range of instants; None where no such row exists yet."""

    first: int | None
    beyond: int | None


class Window(Struct, frozen=True):
    """The sequences between `above` and `below`, both excluded."""

    above: int = 0
    below: int = _SEQUENCE_MAX


class _Timed(Protocol):
    @property
    def at(self) -> datetime: ...
    @property
    def id(self) -> UUID: ...


class _Numbered(Protocol):
    @property
    def sequence(self) -> int: ...


Row = TypeVar("Row")
TimedRow = TypeVar("TimedRow", bound=_Timed)
NumberedRow = TypeVar("NumberedRow", bound=_Numbered)

_LOWEST_POSITION = TimePosition(BEGINNING, UUID(int=0))
_HIGHEST_POSITION = TimePosition(END, UUID(int=2**128 - 1))
_MICROSECOND = timedelta(microseconds=1)


def cut(rows: Sequence[Row], limit: int) -> tuple[Sequence[Row], Row | None]:
    """The page, and its last row if more rows follow."""
    page = rows[:limit]
    return page, page[-1] if len(rows) > limit else None


async def time_page(
    fetch: Callable[..., Awaitable[list[TimedRow]]],
    conn: Connection,
    order: SortOrder,
    after: TimePosition | None,
    limit: int,
    *,
    since: datetime | None = None,
    before: datetime | None = None,
    **parameters: Any,
) -> tuple[Sequence[TimedRow], TimePosition | None]:
    """One page of the rows in [since, before), and the position of its last row if another page follows. The statement
    walks by (at, id), from just beyond (:at, :id) to :until."""
    start, until = _walk_bounds(order, after, since or BEGINNING, before or END)
    fetched = await fetch(conn, order=order, at=start.at, id=start.id, until=until, limit=limit + 1, **parameters)
    rows, last = cut(fetched, limit)
    return rows, TimePosition(last.at, last.id) if last else None


def _walk_bounds(
    order: SortOrder, after: TimePosition | None, since: datetime, before: datetime
) -> tuple[TimePosition, datetime]:
    """Where a walk begins, and its other end. The position and the near end of the range are merged into one bound: an
    index scan starts at one bound only, and would read and discard every entry between the two."""
    if order is SortOrder.ASC:
        edge = _LOWEST_POSITION if since <= BEGINNING else TimePosition(since - _MICROSECOND, _HIGHEST_POSITION.id)
        return max(after or edge, edge, key=_sort_key), before
    edge = _HIGHEST_POSITION if before >= END else TimePosition(before, _LOWEST_POSITION.id)
    return min(after or edge, edge, key=_sort_key), since


def _sort_key(position: TimePosition) -> tuple[datetime, UUID]:
    return position.at, position.id


def merged(
    pages: Sequence[tuple[Sequence[TimedRow], TimePosition | None]], order: SortOrder, limit: int
) -> tuple[Sequence[TimedRow], TimePosition | None]:
    """One page of several lists merged, and the position of its last row if another page follows. Each of `pages` holds
    up to `limit` rows of its list after the same position, and None as its position where the list ends."""
    rows = sorted(
        (row for page, _ in pages for row in page), key=lambda row: (row.at, row.id), reverse=order is SortOrder.DESC
    )
    page = rows[:limit]
    more = len(rows) > limit or any(position is not None for _, position in pages)
    return page, TimePosition(page[-1].at, page[-1].id) if more and page else None


async def sequence_page(
    fetch: Callable[..., Awaitable[list[NumberedRow]]],
    conn: Connection,
    order: SortOrder,
    after: SequencePosition | None,
    limit: int,
    window: Window,
    **parameters: Any,
) -> tuple[Sequence[NumberedRow], SequencePosition | None]:
    """One page of the rows whose sequence lies within the window, and the position of its last row if more follow."""
    above, below = window.above, window.below
    if after is not None and order is SortOrder.ASC:
        above = max(above, after.sequence)
    elif after is not None:
        below = min(below, after.sequence)
    rows, last = cut(await fetch(conn, order=order, above=above, below=below, limit=limit + 1, **parameters), limit)
    return rows, SequencePosition(last.sequence) if last else None


async def sequence_window(
    find_bounds: Callable[..., Awaitable[Bounds]],
    conn: Connection,
    owner: Owner,
    created_from: datetime | None,
    created_to: datetime | None,
) -> Window:
    """The window of sequences that holds the rows created in [created_from, created_to)."""
    if created_from is None and created_to is None:
        return Window()
    bounds = await find_bounds(
        conn, account_id=owner.account_id, test=owner.test, created_from=created_from, created_to=created_to
    )
    above, below = 0, _SEQUENCE_MAX
    if created_from is not None:
        above = _SEQUENCE_MAX if bounds.first is None else bounds.first - 1
    if created_to is not None and bounds.beyond is not None:
        below = bounds.beyond
    return Window(above, below)
