"""The webhook deliveries to the merchant's endpoint: their list, each one's attempts, and sending them again."""

from typing import Any

from litestar.exceptions import NotFoundException
from litestar.response import Response

from commands.webhooks.redeliver import RANGE_MAX, redeliver, redeliver_range
from domain.brazilian import thousands
from domain.errors import Refused
from readmodels.page import SequencePosition
from readmodels.webhooks.delivery_list import Delivery, DeliveryFilters, delivery, delivery_page
from readmodels.webhooks.endpoint import endpoint_of
from readmodels.webhooks.event_list import event_body
from runtime.coordination.lanes import WEBHOOKS
from runtime.postgres import session
from web.painel.list_page import ListPage
from web.painel.page_request import PageRequest

_DIGITS_MAX = 18


async def show_list(request: PageRequest) -> Response[Any]:
    return await _list_page(request)


async def show(request: PageRequest) -> Response[Any]:
    row = await _find_delivery(request)
    async with session(request.pool) as conn:
        body = await event_body(conn, request.owner, row.sequence)
    values = {
        "body": "" if body is None else body.decode(),
        "delivery": row,
        "base": request.here(f"/webhooks/entregas/{row.delivery_id}"),
        "list": request.here("/webhooks/entregas"),
        "charge": request.here(f"/cobrancas/{row.charge_id}") if row.charge_id else "",
    }
    return request.show("delivery.html", values)


async def send_again(request: PageRequest) -> Response[Any]:
    delivery_id = request.id("delivery_id")
    async with request.change("webhook.redelivered", subject=str(delivery_id), wakes=[WEBHOOKS]) as conn:
        await redeliver(conn, request.owner, delivery_id, now=request.now)
    return request.go(request.here(f"/webhooks/entregas/{delivery_id}"), done="reenviada")


async def send_range_again(request: PageRequest) -> Response[Any]:
    first, last = request.field("from_sequence"), request.field("to_sequence")
    if not (is_sequence(first) and is_sequence(last)):
        return await _list_page(request, first=first, last=last, fault="Informe dois números de evento.")
    try:
        async with request.change("webhook.range_redelivered", wakes=[WEBHOOKS], first=first, last=last) as conn:
            await redeliver_range(conn, request.owner, int(first), int(last), now=request.now)
    except Refused:
        fault = f"A faixa precisa terminar depois de começar e ter no máximo {thousands(RANGE_MAX)} eventos."
        return await _list_page(request, first=first, last=last, fault=fault)
    return request.go(request.here("/webhooks/entregas"), done="faixa")


async def _list_page(request: PageRequest, *, first: str = "", last: str = "", fault: str = "") -> Response[Any]:
    async with session(request.pool) as conn:
        endpoint = await endpoint_of(conn, account_id=request.owner.account_id)
    values: dict[str, object] = {
        "base": request.here("/webhooks/entregas"),
        "endpoint": endpoint,
        "first": first,
        "last": last,
        "fault": fault,
        "range_max": RANGE_MAX,
    }
    return await LIST.page(request, LIST.query(request), values, status=400 if fault else 200)


LIST = ListPage(
    name="deliveries",
    path="/webhooks/entregas",
    filters=DeliveryFilters,
    fetch=lambda request: delivery_page,
    position=SequencePosition,
    at=lambda row: SequencePosition(row.sequence),
)


async def _find_delivery(request: PageRequest) -> Delivery:
    owner = request.owner
    async with session(request.pool) as conn:
        row = await delivery(conn, owner, request.id("delivery_id"))
    if row is None:
        raise NotFoundException
    return row


def is_sequence(text: str) -> bool:
    """Whether the text is the number of an event, from 1 on."""
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX and int(text) > 0
