"""Open anomalies of all merchants, for the staff: payments that await a merchant's decision. Payers are not shown."""

from typing import Any

from litestar.response import Response

from readmodels.money.anomalies import COUNT_MAX, AnomalyFilters, anomalies_everywhere, count_anomalies_everywhere
from readmodels.page import TimePosition
from runtime.postgres import session
from web.painel.list_page import ListPage
from web.painel.page_request import PageRequest


async def show(request: PageRequest) -> Response[Any]:
    async with session(request.pool) as conn:
        waiting = await count_anomalies_everywhere(conn)
    return await LIST.page(request, LIST.query(request), {"waiting": waiting})


LIST = ListPage(
    name="plataforma/anomalies",
    path="/divergencias",
    words={"count_max": COUNT_MAX},
    filters=AnomalyFilters,
    fetch=lambda request: anomalies_everywhere,
    position=TimePosition,
    at=lambda row: TimePosition(row.at, row.id),
)
