"""Suspense, money that fits no charge, for the staff: the list, the page of one row, and the two ways to settle a row.

To return money, staff do so at the bank itself, and record the bank's reference of that return here.
"""

from collections.abc import Sequence
from typing import Any

from litestar.exceptions import NotFoundException
from litestar.response import Response
from msgspec import Struct

from commands.money.suspense import NotOpen, assign_suspense, open_payer, return_suspense
from domain.documents import masked
from domain.errors import Code, Refused
from domain.identifiers import parse_id
from domain.mode import Mode
from readmodels.dashboard.suspense import (
    UNREADABLE_MAX,
    SuspenseFilters,
    SuspenseRow,
    find_suspense,
    suspense_page,
    suspense_totals,
    unreadable_items,
)
from readmodels.filters import read_choice
from readmodels.page import TimePosition
from runtime.coordination.lanes import BOLETO_ORDERS, PIX_ORDERS, WEBHOOKS
from runtime.postgres import session
from runtime.seal import Seal
from sql import Connection
from web.painel.auth.step_up import refuse_newcomer
from web.painel.list_page import ListPage
from web.painel.lists import ListQuery
from web.painel.page_request import PageRequest
from web.plataforma.labels import SUSPENSE_CHIPS, SUSPENSE_KINDS, SUSPENSE_STATES

REFERENCE_MAX = 100
NOTE_MAX = 500
_ASSIGN, _RETURN = "atribuir", "devolver"
_NO_CHARGE = "Não há cobrança de produção com este ID."
_SAME_PERSON = (
    "Você aprovou a loja desta cobrança, ou liberou as devoluções dela para outras chaves. "
    "É preciso que outra pessoa da equipe atribua este valor."
)
_NO_REFERENCE = f"Escreva a referência da devolução no banco, com até {REFERENCE_MAX} caracteres."
_NO_NOTE = f"A observação vai até {NOTE_MAX} caracteres."
_SETTLED = "Alguém já tratou este valor. Veja como está agora."


class Shown(Struct, frozen=True):
    """A row of suspense, and its payer as far as the bank named one; the document is masked."""

    row: SuspenseRow
    payer_name: str | None
    payer_document: str | None


async def show_list(request: PageRequest) -> Response[Any]:
    async with session(request.pool) as conn:
        totals = await suspense_totals(conn)
        unreadable = await unreadable_items(conn)
    values = {
        "totals": totals,
        "total_cents": sum(each.cents for each in totals),
        "unreadable": unreadable,
        "unreadable_max": UNREADABLE_MAX,
    }
    return await LIST.page(request, LIST.query(request), values)


async def show(request: PageRequest) -> Response[Any]:
    return await _page(request)


async def assign(request: PageRequest) -> Response[Any]:
    """Books the money as a payment of a production charge. The charge's state decides whether the payment is an anomaly
    (contract section 7)."""
    refuse_newcomer(request)
    suspense_id, note = request.id("suspense_id"), request.field("note")
    charge_id = parse_id(request.field("charge_id").lower())
    fault = _NO_CHARGE if charge_id is None else _note_fault(note)
    if fault or charge_id is None:
        return await _page(request, fault=fault, fault_of=_ASSIGN)
    wakes = (WEBHOOKS, PIX_ORDERS[Mode.PRODUCTION], BOLETO_ORDERS[Mode.PRODUCTION])
    try:
        async with request.change(
            "suspense.assigned", subject=str(suspense_id), wakes=wakes, charge_id=str(charge_id), **_note_facts(note)
        ) as conn:
            await assign_suspense(
                conn,
                suspense_id,
                charge_id,
                by=request.session.email,
                note=note or None,
                now=request.now,
                seal=request.seal,
                fees=request.settings.fees,
            )
    except NotOpen:
        return await _page(request, fault=_SETTLED, fault_of=_ASSIGN)
    except Refused as refused:
        if refused.code is not Code.CHARGE_NOT_FOUND and "by" not in (refused.fields or {}):
            raise
        fault = _NO_CHARGE if refused.code is Code.CHARGE_NOT_FOUND else _SAME_PERSON
        return await _page(request, fault=fault, fault_of=_ASSIGN)
    return request.go(f"/plataforma/a-identificar/{suspense_id}", done="atribuido")


async def give_back(request: PageRequest) -> Response[Any]:
    """Records that the money was returned at the bank."""
    suspense_id, note, reference = request.id("suspense_id"), request.field("note"), request.field("reference")
    fault = _note_fault(note)
    if not 0 < len(reference) <= REFERENCE_MAX or not reference.isprintable():
        fault = _NO_REFERENCE
    if fault:
        return await _page(request, fault=fault, fault_of=_RETURN)
    try:
        async with request.change(
            "suspense.returned", subject=str(suspense_id), reference=reference, **_note_facts(note)
        ) as conn:
            await return_suspense(
                conn,
                suspense_id,
                reference=reference,
                by=request.session.email,
                note=note or None,
                now=request.now,
            )
    except NotOpen:
        return await _page(request, fault=_SETTLED, fault_of=_RETURN)
    return request.go(f"/plataforma/a-identificar/{suspense_id}", done="devolvido-no-banco")


async def _page(request: PageRequest, *, fault: str = "", fault_of: str = "") -> Response[Any]:
    async with session(request.pool) as conn:
        row = await find_suspense(conn, suspense_id=request.id("suspense_id"))
    if row is None:
        raise NotFoundException
    values = {
        "one": _shown_row(row, request.seal),
        "kinds": SUSPENSE_KINDS,
        "states": SUSPENSE_STATES,
        "chips": SUSPENSE_CHIPS,
        "fault": fault,
        "fault_of": fault_of,
        "charge_id": request.field("charge_id"),
        "reference": request.field("reference"),
        "note": request.field("note"),
        "reference_max": REFERENCE_MAX,
        "note_max": NOTE_MAX,
    }
    return request.show("plataforma/suspense_one.html", values, status=400 if fault else 200)


def _note_fault(note: str) -> str:
    return "" if len(note) <= NOTE_MAX and (not note or note.isprintable()) else _NO_NOTE


def _note_facts(note: str) -> dict[str, str]:
    return {"note": note} if note else {}


def _shown_row(row: SuspenseRow, seal: Seal) -> Shown:
    payer = open_payer(row.payer_sealed, row.source, seal)
    return Shown(row, payer.name, masked(payer.document) if payer.document else None)


async def _rows(conn: Connection, items: Sequence[SuspenseRow], request: PageRequest) -> list[Shown]:
    return [_shown_row(row, request.seal) for row in items]


def _read_filters(query: ListQuery, request: PageRequest) -> SuspenseFilters:
    return SuspenseFilters(
        state=read_choice(query, "situacao", list(SUSPENSE_STATES)) or "open",
        kind=read_choice(query, "tipo", list(SUSPENSE_KINDS)),
    )


LIST = ListPage(
    name="plataforma/suspense",
    path="/a-identificar",
    words={"kinds": SUSPENSE_KINDS, "states": SUSPENSE_STATES, "chips": SUSPENSE_CHIPS},
    filters=SuspenseFilters,
    more_names=("situacao", "tipo"),
    read=_read_filters,
    fetch=lambda request: suspense_page,
    position=TimePosition,
    at=lambda row: TimePosition(row.at, row.id),
    rows=_rows,
)
