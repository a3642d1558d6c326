"""Pages of lists, by key: where a page begins, and whether another follows, which one row more than asked tells."""

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
    """The filters of a list are a struct of this kind."""

    order: SortOrder = SortOrder.DESC


class TimePosition(Struct, frozen=True, array_like=True):
    """The last row seen of a list in the order of an instant and an id."""

    at: datetime
    id: UUID


class SequencePosition(Struct, frozen=True, array_like=True):
    """The last row seen of a list in the order of numbers."""

    sequence: int


class DocRow(Struct, frozen=True, gc=False):
    at: datetime
    id: UUID
    doc: bytes


class Bounds(Struct, frozen=True, gc=False):
    """The first number at or after each end of a range of instants; None where there is none yet."""

    first: int | None
    beyond: int | None


class Window(Struct, frozen=True):
    """The numbers between `above` and `below`."""

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

_FIRST = TimePosition(BEGINNING, UUID(int=0))
_LAST = TimePosition(END, UUID(int=2**128 - 1))
_LEAST = timedelta(microseconds=1)


def cut(rows: Sequence[Row], limit: int) -> tuple[Sequence[Row], Row | None]:
    """The page, and its last row when more follow."""
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
    **given: Any,
) -> tuple[Sequence[TimedRow], TimePosition | None]:
    """One page of the rows in [since, before), and where the next one begins. The statement walks by (at, id), from
    just beyond (:at, :id) to :until."""
    start, until = _walk(order, after, since or BEGINNING, before or END)
    found = await fetch(conn, order=order, at=start.at, id=start.id, until=until, limit=limit + 1, **given)
    rows, last = cut(found, limit)
    return rows, TimePosition(last.at, last.id) if last else None


def _walk(
    order: SortOrder, after: TimePosition | None, since: datetime, before: datetime
) -> tuple[TimePosition, datetime]:
    """Where a walk begins, and its other end. An index is entered at one bound alone: with the position and the near
    end of the range as two, every entry between them would be passed over."""
    if order is SortOrder.ASC:
        edge = _FIRST if since <= BEGINNING else TimePosition(since - _LEAST, _LAST.id)
        return max(after or edge, edge, key=_place), before
    edge = _LAST if before >= END else TimePosition(before, _FIRST.id)
    return min(after or edge, edge, key=_place), since


def _place(position: TimePosition) -> tuple[datetime, UUID]:
    return position.at, position.id


def merged(
    pages: Sequence[tuple[Sequence[TimedRow], TimePosition | None]], order: SortOrder, limit: int
) -> tuple[Sequence[TimedRow], TimePosition | None]:
    """One page of several lists as one, and where the next one begins. Each of `pages` has the first rows of its list
    after the same position, `limit` of them where there are as many, and None where its list ends."""
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
    **given: Any,
) -> tuple[Sequence[NumberedRow], SequencePosition | None]:
    """One page of a statement that walks the numbers above `above` and below `below`, and where the next one begins."""
    above, below = window.above, window.below
    if after is not None and order is SortOrder.ASC:
        above = max(above, after.sequence)
    elif after is not None:
        below = min(below, after.sequence)
    rows, last = cut(await fetch(conn, order=order, above=above, below=below, limit=limit + 1, **given), limit)
    return rows, SequencePosition(last.sequence) if last else None


async def window_of(
    find_bounds: Callable[..., Awaitable[Bounds]],
    conn: Connection,
    owner: Owner,
    created_from: datetime | None,
    created_to: datetime | None,
) -> Window:
    """The numbers of the rows in [created_from, created_to)."""
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
