"""What the account's people did; in the staff's section, what staff did."""

from typing import Any

from litestar.response import Response

from readmodels.dashboard.settings import AuditRow, DeedPosition, deed_page
from readmodels.page import SortOrder
from runtime.postgres import session
from web.painel.labels import ACTIONS, FACT_VALUES, FACTS
from web.painel.lists import PAGE, ListQuery, walk
from web.painel.page_request import PageRequest


async def show_audit(request: PageRequest) -> Response[Any]:
    asked = ListQuery(request.http, ())

    async def fetch(order: SortOrder, after: DeedPosition | None) -> tuple[list[AuditRow], DeedPosition | None]:
        async with session(request.pool) as conn:
            return await deed_page(conn, request.session.account_id, order, after, PAGE)

    walked = await walk(
        request, asked, "audit", None, DeedPosition, fetch, lambda deed: DeedPosition(deed.at, deed.audit_id)
    )
    values = {"walked": walked, "actions": ACTIONS, "facts": FACTS, "values": FACT_VALUES}
    return request.show("audit.html", values)
