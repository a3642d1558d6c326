"""The first page of the dashboard: the balance, money received, open charges, and what needs attention."""

from typing import Any

from litestar.response import Response

from commands.charges.expire import expire_account
from domain.mode import Mode
from readmodels.charges.charge_list import ChargeFilters
from readmodels.charges.current_list import current_page
from readmodels.charges.second_copies import COUNT_MAX as ASKED_AGAIN_MAX
from readmodels.charges.second_copies import count_open_second_copies, open_second_copies
from readmodels.dashboard.company import find_company
from readmodels.dashboard.overview import DAYS, received_by_day, received_cents_of_last, standing
from readmodels.money.anomalies import COUNT_MAX, newest_open_anomalies
from readmodels.webhooks.endpoint import endpoint_of, lanes_health
from sql import Connection
from web.painel.page_request import PageRequest
from web.painel.plot import plot
from web.painel.rows import charges_with_payers, listed_payments

_CHARGES_MAX = 8
_ANOMALIES_MAX = 5
_SECOND_COPIES_MAX = 5


async def show(request: PageRequest) -> Response[Any]:
    """Production only: test credits are not money (spec, Sandbox-only errors)."""
    owner = request.owner
    assert owner.mode is Mode.PRODUCTION
    await expire_account(request.pool, owner, now=request.now)

    async def read(conn: Connection) -> dict[str, Any]:
        totals = await standing(conn, owner, now=request.account_now)
        days = await received_by_day(conn, owner, now=request.now)
        docs, _ = await current_page(conn, owner, ChargeFilters(), None, _CHARGES_MAX, now=request.account_now)
        charges = await charges_with_payers(conn, docs, owner, request.seal, request.payers)
        lanes = await lanes_health(conn, owner.account_id)
        endpoint = await endpoint_of(conn, account_id=owner.account_id)
        is_unapproved = request.session.kyc != "approved"
        company = await find_company(conn, account_id=owner.account_id, now=request.now) if is_unapproved else None
        anomalous = (
            await newest_open_anomalies(conn, owner, _ANOMALIES_MAX, seal=request.seal) if totals.anomalies else []
        )
        second_copies = await open_second_copies(conn, owner, _SECOND_COPIES_MAX)
        return {
            "asked_again": second_copies,
            "asked_again_count": await count_open_second_copies(conn, owner) if second_copies else 0,
            "company": company,
            "standing": totals,
            "days": days,
            "plot": plot(days),
            "today_cents": received_cents_of_last(days, 1),
            "week_cents": received_cents_of_last(days, 7),
            "month_cents": received_cents_of_last(days, DAYS),
            "charges": charges,
            "anomalous": await listed_payments(conn, anomalous, owner, request.seal, request.payers),
            "lanes": lanes,
            "endpoint": endpoint,
        }

    bounds = {"count_max": COUNT_MAX, "asked_again_max": ASKED_AGAIN_MAX, "span": DAYS}
    values = {**bounds, **await request.reads.ask(read)}
    return request.show("overview.html", values)
