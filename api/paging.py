"""One page of a list: limit, cursor, rows, next cursor. A cursor is bound to its list, its owner and its filters."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from msgspec import Struct, defstruct

from api.answers import Answer, encode
from api.context import ApiContext
from api.query import Query
from api.route import Call
from runtime.postgres import session

Position = TypeVar("Position", bound=Struct)


def page_of(item: type[Struct], name: str) -> type[Struct]:
    """The type of a page's answer, as documented."""
    return defstruct(name, [("data", list[item]), ("next_cursor", str | None)], frozen=True)  # type: ignore[valid-type]


def _as_it_is(item: Any) -> object:
    return item


async def paged(
    context: ApiContext,
    call: Call,
    query: Query,
    name: str,
    filters: object,
    position: type[Position],
    rows: Callable[..., Awaitable[tuple[Sequence[Any], Position | None]]],
    shown: Callable[[Any], object] = _as_it_is,
) -> Answer:
    """`rows(conn, owner, filters, after, limit)` reads at most `limit` rows after a position, and answers
    the last position where more follow."""
    limit = query.limit()
    bound_to = [name, call.caller.owner, filters]
    cursor = query.cursor()
    after = None if cursor is None else context.cursors.read(cursor, position, bound_to)
    async with session(context.pool) as conn:
        items, last = await rows(conn, call.caller.owner, filters, after, limit)
    next_cursor = None if last is None else context.cursors.write(last, bound_to)
    return Answer(encode({"data": [shown(item) for item in items], "next_cursor": next_cursor}))
