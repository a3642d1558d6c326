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

    def read(self, context: ApiContext, call: Call) -> "ListRequest[Filters]":
        return ListRequest(self, context, call, self.parameters)

    def read_filters(self, context: ApiContext, call: Call) -> Filters:
        """The filters of a route that answers one aggregate of all rows, without limit and cursor."""
        return ListRequest(self, context, call, self.filter_parameters).filters


class ListRequest(Generic[Filters]):
    """A request for one page of a list, with its filters read."""

    def __init__(
        self, paged_list: PagedList[Filters], context: ApiContext, call: Call, parameters: Sequence[Parameter]
    ) -> None:
        self._list = paged_list
        self._context = context
        self._owner = call.caller.owner
        self.query = Query(call.scope["query_string"], parameters)
        self.filters: Filters = read_filters(paged_list.filters, self.query, context.seal.blind)
        self._limit = self.query.limit()

    async def page(
        self,
        read_rows: Callable[..., Awaitable[tuple[Sequence[Any], Struct | None]]],
        present: Callable[[Any], object] = _as_it_is,
        *,
        filters: ListFilters | None = None,
    ) -> Answer:
        """Answers the page. `rows(conn, owner, filters, after, limit)` reads at most `limit` rows after a position, and
        returns the last row's position if more follow. `filters` replace those of the query."""
        cursors = self._context.cursors
        limit, cursor = self._limit, self.query.cursor()
        filters = filters or self.filters
        cursor_binding = [self._list.name, self._owner, filters]
        after = None if cursor is None else cursors.read(cursor, self._list.position, cursor_binding)
        items, last = await self._context.reads.ask(lambda conn: read_rows(conn, self._owner, filters, after, limit))
        next_cursor = None if last is None else cursors.write(last, cursor_binding)
        return Answer(encode({"data": [present(item) for item in items], "next_cursor": next_cursor}))
