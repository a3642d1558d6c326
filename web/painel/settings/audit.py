"""What the account's people did; in the staff's section, what staff did."""

from typing import Any

from litestar.response import Response

from readmodels.dashboard.audit import AuditRow, audit_page
from readmodels.page import SortOrder, TimePosition
from runtime.postgres import session
from web.painel.labels import ACTIONS, FACT_VALUES, FACTS
from web.painel.lists import PAGE, ListQuery, walk
from web.painel.page_request import PageRequest


async def show_audit(request: PageRequest) -> Response[Any]:
    asked = ListQuery(request.http, ())

    async def fetch(order: SortOrder, after: TimePosition | None) -> tuple[list[AuditRow], TimePosition | None]:
        async with session(request.pool) as conn:
            return await audit_page(conn, request.session.account_id, order, after, PAGE)

    walked = await walk(
        request, asked, "audit", None, TimePosition, fetch, lambda entry: TimePosition(entry.at, entry.id)
    )
    values = {"walked": walked, "actions": ACTIONS, "facts": FACTS, "values": FACT_VALUES}
    return request.show("audit.html", values)
