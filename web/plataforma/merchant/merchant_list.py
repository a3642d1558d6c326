"""The list of merchants, for the staff: of the cell they work in or, by choice, of all cells as one list.

The list is ordered by creation time and id, and no two cells share an id. One position is therefore valid in every
cell: each cell returns the page after it, and the first of all these rows are the page of the whole list.
"""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from litestar.response import Response
from msgspec.structs import replace

from readmodels.dashboard.platform import FOUND_MAX, MerchantFilters, MerchantRow, merchant_page
from readmodels.filters import read_choice, read_text
from readmodels.page import SortOrder, TimePosition, merged
from web.cells import CellPages
from web.painel.labels import KYC, KYC_CHIPS
from web.painel.list_page import ListPage
from web.painel.lists import PAGE, ListQuery, walk
from web.painel.page_request import PageRequest
from web.plataforma.cells.ask import CELLS_FIELD, ask_cells, is_over_cells

_Page = tuple[Sequence[MerchantRow], TimePosition | None]
_OVER: Final = "plataforma/merchants over cells"
"""The name that cursors of the list over all cells are bound to."""


async def show(request: PageRequest) -> Response[Any]:
    asked = LIST.query(request)
    if is_over_cells(request, asked):
        return await _show_over(request, asked)
    return await LIST.page(request, asked, {"cell_of": {}, "away": [], "more": False})


async def _show_over(request: PageRequest, asked: ListQuery) -> Response[Any]:
    """Answers the list over all cells. The page names the cells that are away, whose merchants are missing."""
    filters = _filters(asked, request)
    cell_of: dict[UUID, CellPages] = {}
    shown: dict[str, Any] = {"asked": asked, "walked": None, "cell_of": cell_of, "away": [], "more": False}
    shown |= LIST.words
    if asked.faults:
        return request.show("plataforma/merchants.html", shown, status=400)

    async def fetch(order: SortOrder, after: TimePosition | None) -> _Page:
        async def of_cell(cell: CellPages) -> _Page:
            wanted = replace(filters, order=order)
            page: _Page = await cell.state.reads.ask(
                lambda conn: merchant_page(conn, request.owner, wanted, after, PAGE)
            )
            return page

        told = await ask_cells(request.cells, of_cell)
        shown["away"] = told.away
        cell_of.update((row.id, cell) for cell, (rows, _) in told.answers for row in rows)
        pages = [page for _, page in told.answers]
        if filters.text is None:
            return merged(pages, order, PAGE)
        # A search has no further pages: the results of all cells are shown together, ordered by name.
        shown["more"] = any(len(rows) == FOUND_MAX for rows, _ in pages)
        return sorted((row for rows, _ in pages for row in rows), key=lambda row: (row.name.lower(), row.id)), None

    walked = await walk(request, asked, _OVER, filters, TimePosition, fetch, LIST.at, order=filters.order)
    return request.show("plataforma/merchants.html", {**shown, "walked": walked})


def _filters(asked: ListQuery, request: PageRequest) -> MerchantFilters:
    text, kyc = read_text(asked, "busca"), read_choice(asked, "situacao", list(KYC))
    if text is not None and kyc is not None:
        asked.faults["situacao"] = "Busque, ou escolha uma situação."
    return MerchantFilters(text=text, kyc=kyc)


LIST = ListPage(
    name="plataforma/merchants",
    path="/lojas",
    words={"kyc": KYC, "chips": KYC_CHIPS, "found_max": FOUND_MAX},
    filters=MerchantFilters,
    more_names=("busca", "situacao", CELLS_FIELD),
    read=_filters,
    fetch=lambda request: merchant_page,
    position=TimePosition,
    at=lambda row: TimePosition(row.at, row.id),
)
