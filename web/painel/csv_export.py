"""A list as a CSV file, the whole of it: written page by page as it is read, so that a million rows need no more memory
than a thousand, and no transaction stays open while a browser reads.

The rows are those of the list with the same filters, walked by the same keys. What changes meanwhile is shown as it is
when its page is read. A file that ends early was cut: the answer's end is then missing, and browsers say so.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from litestar.response import Response, Stream

from domain.instants import SAO_PAULO
from readmodels.reports.csv_lines import BOM, Field, csv_line
from web.painel.page_request import PAGE_HEADERS, PageRequest

ROWS: Final = 500
"""Of one page: some 20 ms of work, after which other requests of this process are served."""
ROWS_MAX: Final = 5_000_000
_CUT: Final = f"Limite de {ROWS_MAX} linhas: use um filtro de datas para ver o resto."

Item = TypeVar("Item")
Columns = Mapping[str, Callable[[Item], Field]]
"""What each heading shows of an item, in the order of the file. Headings never change: programs read them too."""


FileAnswer = Callable[[PageRequest, str, Columns[Any], AsyncIterator[Sequence[Any]]], Awaitable[Response[Any]]]
"""Makes a file of a list: of its name, its columns and its rows, page by page."""


async def csv_answer(
    request: PageRequest, name: str, columns: Columns[Item], found: AsyncIterator[Sequence[Item]]
) -> Response[Any]:
    """The file. `name` is what it is about; the day, and in test the mode, are added."""

    async def lines() -> AsyncIterator[bytes]:
        yield BOM + csv_line(list(columns))
        written = 0
        async for items in found:
            written += len(items)
            if items:
                yield b"".join([csv_line([read(item) for read in columns.values()]) for item in items])
            if written >= ROWS_MAX:
                yield csv_line([_CUT])
                return

    headers = {**PAGE_HEADERS, "Content-Disposition": attachment(request, name, "csv")}
    # The framework names the character set of every text itself.
    return Stream(lines(), media_type="text/csv", headers=headers)


def attachment(request: PageRequest, name: str, kind: str) -> str:
    """The header that names a file after what it is about, its mode and the day."""
    day = request.now.astimezone(SAO_PAULO).date().isoformat()
    return f'attachment; filename="{name}-{"teste-" if request.test else ""}{day}.{kind}"'
