"""The list of merchants, for the staff: of the cell they work in or, by choice, of all cells as one list.

The list is ordered by creation time and id, and no two cells share an id. One position is therefore valid in every
cell: each cell returns the page after it, and the first of all these rows are the page of the whole list.
"""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from litestar.response import Response
from msgspec.structs import replace

from domain.payer import folded
from readmodels.dashboard.platform import FOUND_MAX, MerchantFilters, MerchantRow, merchant_page
from readmodels.filters import read_choice, read_text
from readmodels.page import SortOrder, TimePosition, merged
from web.cells import CellPages
from web.painel.labels import KYC
from web.painel.list_page import ListPage
from web.painel.lists import PAGE, ListQuery, walk
from web.painel.page_request import PageRequest
from web.plataforma.cells.ask import CELLS_FIELD, ask_cells, is_over_cells

_Page = tuple[Sequence[MerchantRow], TimePosition | None]
_ALL_CELLS: Final = "plataforma/merchants over cells"
"""The name that cursors of the list over all cells are bound to."""


async def show(request: PageRequest) -> Response[Any]:
    query = LIST.query(request)
    if is_over_cells(request, query):
        return await _show_all_cells(request, query)
    return await LIST.page(request, query, {"cell_of": {}, "away": [], "more": False})


async def _show_all_cells(request: PageRequest, query: ListQuery) -> Response[Any]:
    """Answers the list over all cells. The page names the cells that are away, whose merchants are missing."""
    filters = _read_filters(query, request)
    cell_of: dict[UUID, CellPages] = {}
    shown: dict[str, Any] = {"asked": query, "walked": None, "cell_of": cell_of, "away": [], "more": False}
    shown |= LIST.words
    if query.faults:
        return request.show("plataforma/merchants.html", shown, status=400)

    async def fetch(order: SortOrder, after: TimePosition | None) -> _Page:
        async def read_cell(cell: CellPages) -> _Page:
            ordered = replace(filters, order=order)
            page: _Page = await cell.state.reads.ask(
                lambda conn: merchant_page(conn, request.owner, ordered, after, PAGE)
            )
            return page

        outcome = await ask_cells(request.cells, read_cell)
        shown["away"] = outcome.away
        cell_of.update((row.id, cell) for cell, (rows, _) in outcome.answers for row in rows)
        pages = [page for _, page in outcome.answers]
        if filters.text is None:
            return merged(pages, order, PAGE)
        # A search has no further pages: the results of all cells are shown together, ordered by name.
        shown["more"] = any(len(rows) == FOUND_MAX for rows, _ in pages)
        return sorted((row for rows, _ in pages for row in rows), key=lambda row: (folded(row.name), row.id)), None

    walked = await walk(request, query, _ALL_CELLS, filters, TimePosition, fetch, LIST.at, order=filters.order)
    return request.show("plataforma/merchants.html", {**shown, "walked": walked})


def _read_filters(query: ListQuery, request: PageRequest) -> MerchantFilters:
    text, kyc = read_text(query, "busca"), read_choice(query, "situacao", list(KYC))
    if text is not None and kyc is not None:
        query.faults["situacao"] = "Busque, ou escolha uma situação."
    return MerchantFilters(text=text, kyc=kyc)


LIST = ListPage(
    name="plataforma/merchants",
    path="/lojas",
    words={"found_max": FOUND_MAX},
    filters=MerchantFilters,
    more_names=("busca", "situacao", CELLS_FIELD),
    read=_read_filters,
    fetch=lambda request: merchant_page,
    position=TimePosition,
    at=lambda row: TimePosition(row.at, row.id),
)
