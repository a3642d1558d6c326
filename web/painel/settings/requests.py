"""What the account's programs asked of the API in the last 30 days, of this page's mode; and one request by its id."""

from datetime import timedelta
from typing import Any

from litestar.exceptions import NotFoundException
from litestar.response import Response

from domain.instants import day_begins, day_ends
from readmodels.dashboard.request_log import (
    LOOK,
    RequestFilters,
    RequestPosition,
    RequestRow,
    StatusClass,
    find_request,
    request_page,
)
from readmodels.page import SortOrder
from runtime.postgres import session
from web.painel.lists import PAGE, ListQuery, Walked, walk
from web.painel.page_request import PageRequest

KEPT_DAYS = 30
_ID_MAX = 64
_CLASSES = {
    StatusClass.FINE: "Aceitas (2xx)",
    StatusClass.REFUSED: "Recusadas (4xx)",
    StatusClass.BROKEN: "Falhas nossas (5xx)",
}


async def show_list(request: PageRequest) -> Response[Any]:
    asked = ListQuery(request.http, ("situacao", "caminho", "chave", "dia", "requisicao"))
    wanted = asked.word("requisicao")
    if wanted is not None and not asked.faults:
        if await _find(request, wanted) is not None:
            return request.go(request.here(f"/requisicoes/{wanted}"))
        asked.faults["requisicao"] = "Não há requisição com este id neste ambiente."
    status = asked.choice("situacao", list(_CLASSES))
    day, _ = asked.dates("dia", "dia")
    filters = RequestFilters(
        status=StatusClass(status or ""),
        path=asked.word("caminho") or "",
        client_id=asked.word("chave") or "",
        from_at=day_begins(day) if day else request.now - timedelta(days=KEPT_DAYS),
        to_at=day_ends(day) if day else None,
    )

    async def fetch(order: SortOrder, after: RequestPosition | None) -> tuple[list[RequestRow], RequestPosition | None]:
        async with session(request.pool) as conn:
            rows, more = await request_page(conn, request.owner, filters, order, after, PAGE)
        return list(rows), more

    walked: Walked[RequestRow] = Walked((), "", "")
    if not asked.faults:
        # Bound to what was asked for: the 30 days move on between two pages.
        walked = await walk(
            request, asked, "requests", asked.filters(), RequestPosition, fetch,
            lambda row: RequestPosition(row.at, row.request_id),
        )  # fmt: skip
    values = {"asked": asked, "walked": walked, "classes": _CLASSES, "look": LOOK, "days": KEPT_DAYS}
    return request.show("requests.html", values, status=400 if asked.faults else 200)


async def show(request: PageRequest) -> Response[Any]:
    found = await _find(request, request.text_of_path("request_id"))
    if found is None:
        raise NotFoundException
    return request.show("request.html", {"row": found})


async def _find(request: PageRequest, request_id: str) -> RequestRow | None:
    if len(request_id) > _ID_MAX or not (request_id.isascii() and request_id.isprintable()):
        return None
    owner = request.owner
    async with session(request.pool) as conn:
        return await find_request(conn, request_id=request_id, account_id=owner.account_id, test=owner.test)
