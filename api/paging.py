"""The API's lists: their parameters, and their pages. A page's cursor is bound to list, owner and filters."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct, defstruct

from api.answers import Answer, encode
from api.context import ApiContext
from api.query import CURSOR, LIMIT, ORDER, Query, parameters_of
from api.route import Call, Parameter
from domain.errors import Code
from readmodels.filters import read_filters
from readmodels.page import ListFilters

Filters = TypeVar("Filters", bound=ListFilters)


def page_of(item: type[Struct], name: str) -> type[Struct]:
    """Makes the answer type of a page of `item`, for the OpenAPI document."""
    return defstruct(name, [("data", list[item]), ("next_cursor", str | None)], frozen=True)  # type: ignore[valid-type]


def _as_it_is(item: Any) -> object:
    return item


def _query_filters(filters: ListFilters, _: Query) -> ListFilters:
    return filters


class PagedList(Generic[Filters]):
    """A list's parameters and errors. Cursors are bound to `name` and carry a `position`, the key of a page's last row;
    `descriptions` as in parameters_of."""

    def __init__(
        self, name: str, position: type[Struct], filters: type[Filters], descriptions: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.position = position
        self.filters = filters
        self.filter_parameters: tuple[Parameter, ...] = (*parameters_of(filters, descriptions or {}), ORDER)
        self.parameters = (*self.filter_parameters, LIMIT, CURSOR)
        has_ranges = any(each.name.endswith("_from") for each in self.filter_parameters)
        self.filter_errors = (Code.VALIDATION_ERROR, *([Code.DATE_RANGE_INVALID] if has_ranges else []))
        self.errors = (*self.filter_errors, Code.LIMIT_INVALID, Code.CURSOR_INVALID)

    def read(
        self,
        context: ApiContext,
        call: Call,
        row_filters: Callable[[Filters, Query], ListFilters] = _query_filters,
    ) -> "ListRequest":
        """Reads the whole query, cursor included, before any resource is looked up. `row_filters` makes the filters of
        the rows from those of the query, for lists where they differ."""
        query = Query(call.scope["query_string"], self.parameters)
        filters = read_filters(self.filters, query, context.seal.blind)
        limit = query.limit()
        return ListRequest(self, context, call, query, limit, row_filters(filters, query))

    def read_filters(self, context: ApiContext, call: Call) -> Filters:
        """The filters of a route that answers one aggregate of all rows, without limit and cursor."""
        return read_filters(self.filters, Query(call.scope["query_string"], self.filter_parameters), context.seal.blind)


class ListRequest:
    """A request for one page of a list, with its query read. The cursor must be of this list, owner and filters."""

    def __init__(
        self,
        paged_list: PagedList[Any],
        context: ApiContext,
        call: Call,
        query: Query,
        limit: int,
        filters: ListFilters,
    ) -> None:
        self._context = context
        self._owner = call.caller.owner
        self._filters = filters
        self._limit = limit
        self._cursor_binding = [paged_list.name, self._owner, filters]
        cursor = query.cursor()
        self._after = (
            None if cursor is None else context.cursors.read(cursor, paged_list.position, self._cursor_binding)
        )

    async def page(
        self,
        read_rows: Callable[..., Awaitable[tuple[Sequence[Any], Struct | None]]],
        present: Callable[[Any], object] = _as_it_is,
    ) -> Answer:
        """Answers the page. `read_rows(conn, owner, filters, after, limit)` reads at most `limit` rows after a
        position, and returns the position of the last row if more follow."""
        rows, last = await self._context.reads.ask(
            lambda conn: read_rows(conn, self._owner, self._filters, self._after, self._limit)
        )
        next_cursor = None if last is None else self._context.cursors.write(last, self._cursor_binding)
        return Answer(encode({"data": [present(row) for row in rows], "next_cursor": next_cursor}))
