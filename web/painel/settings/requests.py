"""The log of recent API requests of the account's programs in this page's mode, and one request by its id."""

from functools import partial
from typing import Any

from litestar.exceptions import NotFoundException
from litestar.response import Response

from readmodels.dashboard.request_log import (
    REQUESTS_KEPT,
    SCANNED_MAX,
    RequestDetail,
    RequestFilters,
    RequestPosition,
    StatusClass,
    find_request,
    request_page,
)
from readmodels.filters import read_choice, read_instants, read_text
from runtime.postgres import session
from web.painel.list_page import ListPage
from web.painel.lists import ListQuery
from web.painel.page_request import PageRequest

_STATUS_CLASSES = {
    StatusClass.FINE: "Aceitas (2xx)",
    StatusClass.REFUSED: "Recusadas (4xx)",
    StatusClass.BROKEN: "Falhas nossas (5xx)",
}


async def show_list(request: PageRequest) -> Response[Any]:
    query = LIST.query(request)
    request_id = read_text(query, "requisicao")
    if request_id is not None and not query.faults:
        if await _find(request, request_id) is not None:
            return request.go(request.here(f"/requisicoes/{request_id}"))
        query.faults["requisicao"] = "Não há requisição com este id neste ambiente."
    return await LIST.page(request, query, {})


async def show(request: PageRequest) -> Response[Any]:
    row = await _find(request, request.text_of_path("request_id"))
    if row is None:
        raise NotFoundException
    return request.show("request.html", {"row": row})


async def _find(request: PageRequest, request_id: str) -> RequestDetail | None:
    async with session(request.pool) as conn:
        return await find_request(conn, request.owner, request_id)


def _read_filters(query: ListQuery, request: PageRequest) -> RequestFilters:
    from_at, to_at = read_instants(query, "dia", "dia")
    return RequestFilters(
        status=StatusClass(read_choice(query, "situacao", list(_STATUS_CLASSES)) or ""),
        path=read_text(query, "caminho") or "",
        client_id=read_text(query, "chave") or "",
        from_at=from_at,
        to_at=to_at,
    )


LIST = ListPage(
    name="requests",
    path="/requisicoes",
    words={"classes": _STATUS_CLASSES, "look": SCANNED_MAX, "days": REQUESTS_KEPT.days},
    filters=RequestFilters,
    more_names=("situacao", "caminho", "chave", "dia", "requisicao"),
    read=_read_filters,
    fetch=lambda request: partial(request_page, since=request.now - REQUESTS_KEPT),
    position=RequestPosition,
    at=lambda row: RequestPosition(row.at, row.request_id),
)
