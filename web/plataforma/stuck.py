"""Stuck bank orders, deliveries and lanes of all merchants, for the staff: shown on one page, and tried again."""

from typing import Any, Final

from litestar.response import Response

from commands.bank_orders.retry import retry_order
from commands.people.audit import audit_for_account
from commands.webhooks.redeliver import redeliver
from domain.errors import Refused
from domain.mode import Mode, Owner
from readmodels.dashboard.stuck import (
    HELD_MAX,
    SHOWN_MAX,
    failed_orders,
    failing_lanes,
    stuck_deliveries,
    stuck_orders,
)
from runtime.coordination.lanes import WEBHOOKS
from runtime.postgres import session
from web.painel.page_request import PageRequest
from web.plataforma.labels import ORDER_ENDS, ORDER_KINDS

_PATH: Final = "/plataforma/pendencias"


class _OrderOver(Exception):
    """The order cannot be retried any more; the transaction is rolled back, with its audit row."""


async def show(request: PageRequest) -> Response[Any]:
    return await _page(request)


async def retry(request: PageRequest) -> Response[Any]:
    order_id = request.id("order_id")
    wakes: list[str] = []
    try:
        async with request.change("order.retried", subject=str(order_id), wakes=wakes) as conn:
            lane = await retry_order(conn, order_id, now=request.now)
            if lane is None:
                raise _OrderOver
            wakes.append(lane.jobs[Mode.PRODUCTION])
    except _OrderOver:
        return await _page(request, fault="Este pedido terminou, ou está sendo feito agora. Veja como está.")
    return request.go(_PATH, done="pedido-tentado")


async def redeliver_one(request: PageRequest) -> Response[Any]:
    """Sends a merchant's production delivery again. The account's audit log has the action too."""
    account_id, delivery_id = request.id("account_id"), request.id("delivery_id")
    owner = Owner(account_id, Mode.PRODUCTION)
    facts = {"delivery": str(delivery_id)}
    try:
        async with request.change("webhook.redelivered", subject=str(account_id), wakes=[WEBHOOKS], **facts) as conn:
            await redeliver(conn, owner, delivery_id, now=request.now)
            await audit_for_account(conn, account_id, "webhook.redelivered", facts, request.origin, now=request.now)
    except Refused:
        return await _page(
            request, fault="Esta entrega não existe mais: o evento saiu do histórico, ou o webhook mudou."
        )
    return request.go(_PATH, done="reenviada")


async def _page(request: PageRequest, *, fault: str = "") -> Response[Any]:
    async with session(request.pool) as conn:
        values = {
            "orders": await stuck_orders(conn, now=request.now),
            "given_up": await failed_orders(conn),
            "deliveries": await stuck_deliveries(conn),
            "lanes": await failing_lanes(conn),
        }
    words = {"order_kinds": ORDER_KINDS, "order_ends": ORDER_ENDS}
    more = {"fault": fault, "shown_max": SHOWN_MAX, "held_max": HELD_MAX, "now": request.now}
    return request.show("plataforma/stuck.html", values | words | more, status=400 if fault else 200)
