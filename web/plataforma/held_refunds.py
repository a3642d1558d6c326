"""Held refunds to a PIX key, for the staff: the list, the page of one, and the decision to release or refuse it."""

from collections.abc import Sequence
from typing import Any

from litestar.exceptions import NotFoundException
from litestar.response import Response

from commands.money.held_refunds import AlreadyDecided, refuse_refund, release_refund
from domain.brazilian import brl
from domain.merchants.staff import REASON_MAX, reason_faults
from domain.mode import Mode
from domain.money import reais
from domain.withdrawal import logged_key
from readmodels.dashboard.held_refunds import (
    HeldRefund,
    HeldRefundFilters,
    HeldRow,
    find_held_refund,
    held_refund_page,
    held_total,
    shown,
)
from readmodels.filters import read_choice
from readmodels.page import TimePosition
from runtime.coordination.lanes import REFUND_ORDERS, WEBHOOKS
from runtime.postgres import session
from sql import Connection
from web.painel.auth.step_up import require_step_up
from web.painel.list_page import ListPage
from web.painel.lists import ListQuery
from web.painel.page_request import PageRequest
from web.plataforma.labels import HELD_CHIPS, HELD_STATES, HOLDS, NO_REASON

_RELEASE, _REFUSE = "liberar", "recusar"
_DECIDED = "Alguém já decidiu sobre esta devolução. Veja como está agora."


async def show_list(request: PageRequest) -> Response[Any]:
    async with session(request.pool) as conn:
        total = await held_total(conn)
    return await LIST.page(request, LIST.query(request), {"total": total})


async def show(request: PageRequest) -> Response[Any]:
    return await _page(request)


async def release(request: PageRequest) -> Response[Any]:
    """Releases the refund, which a worker then orders from the bank. The reason may be left out."""
    refund_id, reason = request.id("refund_id"), request.field("reason")
    held = await _find_held(request)
    row = held.row
    step_up_facts = {"Loja": row.merchant, "Valor": brl(row.amount_cents), "Para a chave Pix": held.pix_key or ""}
    require_step_up(request, "Liberar uma devolução retida", step_up_facts)
    if reason and reason_faults(reason):
        return await _page(request, fault=NO_REASON, fault_of=_RELEASE)
    facts = _audit_facts(held) | ({"reason": reason} if reason else {})
    try:
        async with request.change(
            "refund.released", subject=str(held.row.account_id), wakes=[REFUND_ORDERS[Mode.PRODUCTION]], **facts
        ) as conn:
            await release_refund(conn, refund_id, by=request.session.email, reason=reason or None, now=request.now)
    except AlreadyDecided:
        return await _page(request, fault=_DECIDED, fault_of=_RELEASE)
    return request.go(f"/plataforma/devolucoes/{refund_id}", done="devolucao-liberada")


async def refuse(request: PageRequest) -> Response[Any]:
    """Refuses the refund; the money is back in the account's balance at once."""
    refund_id, reason = request.id("refund_id"), request.field("reason")
    held = await _find_held(request)
    if reason_faults(reason):
        return await _page(request, fault=NO_REASON, fault_of=_REFUSE)
    try:
        async with request.change(
            "refund.refused", subject=str(held.row.account_id), wakes=[WEBHOOKS], reason=reason, **_audit_facts(held)
        ) as conn:
            await refuse_refund(conn, refund_id, by=request.session.email, reason=reason, now=request.now)
    except AlreadyDecided:
        return await _page(request, fault=_DECIDED, fault_of=_REFUSE)
    return request.go(f"/plataforma/devolucoes/{refund_id}", done="devolucao-recusada")


async def _find_held(request: PageRequest) -> HeldRefund:
    async with session(request.pool) as conn:
        held = await find_held_refund(conn, request.id("refund_id"), seal=request.seal)
    if held is None:
        raise NotFoundException
    return held


async def _page(request: PageRequest, *, fault: str = "", fault_of: str = "") -> Response[Any]:
    values = {
        "one": await _find_held(request),
        "holds": HOLDS,
        "states": HELD_STATES,
        "chips": HELD_CHIPS,
        "fault": fault,
        "fault_of": fault_of,
        "reason": request.field("reason"),
        "reason_max": REASON_MAX,
    }
    return request.show("plataforma/held_refund.html", values, status=400 if fault else 200)


def _audit_facts(held: HeldRefund) -> dict[str, str]:
    key = logged_key(held.pix_key or "")
    return {"refund": str(held.row.id), "amount": reais(held.row.amount_cents), "pix_key": key}


async def _rows(conn: Connection, items: Sequence[HeldRow], request: PageRequest) -> list[HeldRefund]:
    return [shown(row, request.seal) for row in items]


def _read_filters(query: ListQuery, request: PageRequest) -> HeldRefundFilters:
    return HeldRefundFilters(state=read_choice(query, "situacao", list(HELD_STATES)) or "open")


LIST = ListPage(
    name="plataforma/held_refunds",
    path="/devolucoes",
    words={"holds": HOLDS, "states": HELD_STATES, "chips": HELD_CHIPS},
    filters=HeldRefundFilters,
    more_names=("situacao",),
    read=_read_filters,
    fetch=lambda request: held_refund_page,
    position=TimePosition,
    at=lambda row: TimePosition(row.at, row.id),
    rows=_rows,
)
