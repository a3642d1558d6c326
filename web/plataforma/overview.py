"""The staff's first page: money received over all accounts, the state of bank, queues and webhooks, and the switch that
suspends PIX."""

from typing import Any

from litestar.response import Response

from commands.merchants.kyc import Kyc
from commands.merchants.pix_suspension import resume_pix, suspend_pix
from domain.instants import day_of
from domain.merchants.staff import reason_faults
from readmodels.dashboard.platform import COUNT_MAX, bank_state, find_suspended_at, kyc_counts, lanes_in_trouble, queues
from readmodels.reports.report import By, ask, freshness, keeping
from readmodels.reports.reports import REPORTS
from runtime.postgres import session
from web.painel.page_request import PageRequest
from web.plataforma.labels import LANES, NO_REASON, QUEUES

_DAYS = 30
_ORDER = list(QUEUES)


async def show(request: PageRequest) -> Response[Any]:
    return await _page(request)


async def suspend(request: PageRequest) -> Response[Any]:
    """Suspends PIX in production for every account. It takes effect at the commit, because the statement that creates a
    charge reads the suspension's row itself."""
    reason = request.field("reason")
    if reason_faults(reason):
        return await _page(request, fault=NO_REASON)
    async with request.change("pix.suspended", reason=reason) as conn:
        await suspend_pix(conn, now=request.now)
    return request.go("/plataforma", done="pix-suspenso")


async def resume(request: PageRequest) -> Response[Any]:
    async with request.change("pix.resumed") as conn:
        await resume_pix(conn)
    return request.go("/plataforma", done="pix-retomado")


async def _page(request: PageRequest, *, fault: str = "") -> Response[Any]:
    receipts = REPORTS["receipts"]
    month_query = ask(receipts, today=day_of(request.now), by=By.PERIOD)
    today_query = ask(receipts, today=day_of(request.now), first=day_of(request.now), by=By.PERIOD)
    async with session(request.pool) as conn:
        month_rows = [row async for row in receipts.rows(keeping(conn), month_query)]
        today_rows = [row async for row in receipts.rows(keeping(conn), today_query)]
        values = {
            "month": _receipts_total(month_rows),
            "today": _receipts_total(today_rows),
            "freshness": await freshness(conn),
            "kyc": await kyc_counts(conn, list(Kyc)),
            "suspended_at": await find_suspended_at(conn),
            "bank": await bank_state(conn),
            "queues": sorted(await queues(conn, now=request.now), key=lambda queue: _ORDER.index(queue.name)),
            "lanes": await lanes_in_trouble(conn),
        }
    words = {"queue_words": QUEUES, "lane_words": LANES}
    more = {"days": _DAYS, "count_max": COUNT_MAX, "now": request.now, "fault": fault}
    return request.show("plataforma/overview.html", values | words | more, status=400 if fault else 200)


def _receipts_total(rows: list[tuple[Any, ...]]) -> tuple[int, int]:
    """Returns the number of payments and their cents over rows of receipts (day, method, payments, amount, ...)."""
    return sum(row[2] for row in rows), sum(row[3] for row in rows)
