"""A whole list as a CSV file. The file is written page by page as the list is read, so that a million rows need no more
memory than a thousand, and no transaction stays open while a browser reads.

The rows are those of the list with the same filters, walked by the same keyset. A row that changes meanwhile is written
as it is when its page is read. When reading fails midway, the response has no end, and browsers report that.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from litestar.response import Response, Stream

from domain.brazilian import thousands
from domain.instants import day_of
from readmodels.reports.csv_lines import BOM, CONTENT_TYPE, Field, csv_line
from web.painel.page_request import PAGE_HEADERS, PageRequest

ROWS: Final = 500
"""Rows of one page: some 20 ms of work, after which the process serves other requests."""
ROWS_MAX: Final = 5_000_000
_TRUNCATED: Final = f"Limite de {thousands(ROWS_MAX)} linhas: use um filtro de datas para ver o resto."

Item = TypeVar("Item")
Columns = Mapping[str, Callable[[Item], Field]]
"""The headings in the order of the file, each with the function that reads its value from an item. Headings never
change, because programs read them too."""


FileAnswer = Callable[[PageRequest, str, Columns[Any], AsyncIterator[Sequence[Any]]], Awaitable[Response[Any]]]
"""Answers a list as a file. The arguments are the request, the list's name, its columns, and its rows page by page."""


async def csv_answer(
    request: PageRequest, name: str, columns: Columns[Item], pages: AsyncIterator[Sequence[Item]]
) -> Response[Any]:
    """Answers the file. `name` is its subject; the file's name has the day too, and the mode in test mode."""

    async def lines() -> AsyncIterator[bytes]:
        yield BOM + csv_line(list(columns))
        written = 0
        async for items in pages:
            written += len(items)
            if items:
                yield b"".join([csv_line([read(item) for read in columns.values()]) for item in items])
            if written >= ROWS_MAX:
                yield csv_line([_TRUNCATED])
                return

    headers = {**PAGE_HEADERS, "Content-Disposition": attachment(request, name, "csv")}
    return Stream(lines(), media_type=CONTENT_TYPE, headers=headers)


def attachment(request: PageRequest, name: str, kind: str) -> str:
    """Returns the Content-Disposition header, which names a file after its subject, its mode and the day."""
    day = day_of(request.now).isoformat()
    return f'attachment; filename="{name}-{"teste-" if request.test else ""}{day}.{kind}"'
