"""What the account's people did; in the staff's section, what staff did."""

from typing import Any

from litestar.response import Response

from readmodels.dashboard_settings import Deed, DeedPosition, deed_page
from readmodels.page import Order
from runtime.postgres import session
from web.painel.lists import PAGE, Asked, walk
from web.painel.visit import Visit
from web.painel.words import ACTIONS, FACT_VALUES, FACTS


async def show_audit(visit: Visit) -> Response[Any]:
    asked = Asked(visit.request, ())

    async def fetch(order: Order, after: DeedPosition | None) -> tuple[list[Deed], DeedPosition | None]:
        async with session(visit.pool) as conn:
            return await deed_page(conn, visit.session.account_id, order, after, PAGE)

    walked = await walk(
        visit, asked, "audit", None, DeedPosition, fetch, lambda deed: DeedPosition(deed.at, deed.audit_id)
    )
    values = {"walked": walked, "actions": ACTIONS, "facts": FACTS, "values": FACT_VALUES}
    return visit.show("audit.html", values)
