"""A list of the dashboard, as a page that can be walked in both directions and as a file with the whole of it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any, Generic, TypeVar

from litestar.response import Response
from msgspec import Struct
from msgspec.structs import replace

from readmodels.filters import filters_of, read_filters
from readmodels.page import ListFilters, SortOrder
from sql import Connection
from web.painel.csv_export import ROWS, Columns, FileAnswer, csv_answer
from web.painel.lists import PAGE, ListQuery, walk
from web.painel.page_request import PageRequest, go
from web.painel.xlsx_export import xlsx_answer

Filters = TypeVar("Filters", bound=ListFilters)
Item = TypeVar("Item")
Position = TypeVar("Position", bound=Struct)


async def _unchanged_items(conn: Connection, items: Sequence[Any], request: PageRequest) -> Sequence[Any]:
    return items


async def _no_preparation(request: PageRequest) -> None:
    pass


async def _no_more_values(request: PageRequest, filters: Any) -> Mapping[str, object]:
    return {}


async def _single_part(request: PageRequest, filters: Filters) -> Sequence[Filters]:
    return (filters,)


class ListPage(Struct, Generic[Filters, Item, Position], frozen=True, kw_only=True):
    """A list: `name` is its template, `path` the path of its page, `words` the fixed values of the template."""

    name: str
    path: str
    words: Mapping[str, object] = {}
    filters: type[Filters]
    more_names: tuple[str, ...] = ()
    """Parameters of the address beside those of the filters' fields."""
    read: Callable[[ListQuery, PageRequest], Filters] | None = None
    """Reads the filters of a list whose parameters and fields differ; `more_names` then has all its parameters."""
    fetch: Callable[[PageRequest], Callable[..., Awaitable[tuple[Sequence[Item], Position | None]]]]
    """Returns the read model's function that reads a page: (conn, owner, filters, after, limit)."""
    position: type[Position]
    at: Callable[[Item], Position]
    """Returns an item's position in the list."""
    rows: Callable[[Connection, Sequence[Item], PageRequest], Awaitable[Sequence[Any]]] = _unchanged_items
    """Returns the rows that page and file show: the items, with what other tables hold about them."""
    columns: Columns[Any] = {}
    """The columns of a file, which read what `rows` returns."""
    before: Callable[[PageRequest], Awaitable[None]] = _no_preparation
    """Brings the stored data up to date before the list is read."""
    more: Callable[[PageRequest, Filters], Awaitable[Mapping[str, object]]] = _no_more_values
    """Returns what the template shows beside the rows, read with the same filters."""
    parts: Callable[[PageRequest, Filters], Awaitable[Sequence[Filters]]] = _single_part
    """Returns the filters of the parts that a file is read in, in the order of the file."""

    def query(self, request: PageRequest) -> ListQuery:
        filter_names = (
            [name for each in filters_of(self.filters) for name in each.parameters] if self.read is None else []
        )
        return ListQuery(request.http, (*filter_names, *self.more_names))

    async def show(self, request: PageRequest) -> Response[Any]:
        return await self.page(request, self.query(request), {})

    async def page(
        self, request: PageRequest, query: ListQuery, values: Mapping[str, object], *, status: int = 200
    ) -> Response[Any]:
        """Answers the page, with more `values` for the template; 400 and no rows when a filter cannot be read."""
        filters = self._read_filters(query, request)
        shown = {"asked": query, "walked": None, **self.words, **values}
        if query.faults:
            return request.show(f"{self.name}.html", shown, status=400)
        await self.before(request)

        async def fetch(order: SortOrder, after: Position | None) -> tuple[list[tuple[Item, Any]], Position | None]:
            async def read(conn: Connection) -> tuple[list[tuple[Item, Any]], Position | None]:
                ordered = replace(filters, order=order)
                items, last = await self.fetch(request)(conn, request.owner, ordered, after, PAGE)
                return list(zip(items, await self.rows(conn, items, request), strict=True)), last

            return await request.reads.ask(read)

        walked = await walk(
            request, query, self.name, filters, self.position, fetch, lambda each: self.at(each[0]), order=filters.order
        )
        walked.rows = [row for _, row in walked.rows]
        shown |= {"walked": walked, **await self.more(request, filters)}
        return request.show(f"{self.name}.html", shown, status=status)

    async def csv(self, request: PageRequest) -> Response[Any]:
        return await self._answer_file(request, csv_answer, nullcontext())

    async def xlsx(self, request: PageRequest) -> Response[Any]:
        """The request holds a turn of workbooks (web/painel/route.py); each read for the file takes a turn of pages."""
        return await self._answer_file(request, xlsx_answer, request.shares.of(request.owner))

    async def _answer_file(
        self, request: PageRequest, answer: FileAnswer, turn: AbstractAsyncContextManager[None]
    ) -> Response[Any]:
        """Answers the file. When a filter cannot be read, redirects to the page, which says what is wrong."""
        query = self.query(request)
        filters = self._read_filters(query, request)
        if query.faults:
            return go(request.here(self.path) + query.link())
        request.spend("files_per_min")
        async with turn:
            await self.before(request)
        return await answer(request, self.path.removeprefix("/"), self.columns, self._file_pages(request, filters))

    async def _file_pages(self, request: PageRequest, filters: Filters) -> AsyncIterator[Sequence[Item]]:
        async with request.shares.of(request.owner):
            parts = await self.parts(request, filters)
        for part in parts:
            after: Position | None = None
            while True:
                # A turn for each block of rows: a file that a browser reads slowly holds no turn meanwhile.
                async with request.shares.of(request.owner):
                    rows, after = await request.reads.ask(partial(self._read_rows, request, part, after))
                yield rows
                if after is None:
                    break

    async def _read_rows(
        self, request: PageRequest, part: Filters, after: Position | None, conn: Connection
    ) -> tuple[Sequence[Any], Position | None]:
        """Reads the next rows of a file."""
        items, last = await self.fetch(request)(conn, request.owner, part, after, ROWS)
        return await self.rows(conn, items, request), last

    def _read_filters(self, query: ListQuery, request: PageRequest) -> Filters:
        return self.read(query, request) if self.read else read_filters(self.filters, query, request.seal.blind)
