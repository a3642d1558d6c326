"""Cancel several charges of the list at once: a page that confirms how many and how much, and one that tells of each
what became of it.

Each goes the way of a single cancellation, in a transaction and with an audit row of its own, whose id follows from the
form's and the charge's: sent twice, a form cancels each once. Boletos wait for their bank side by side, so a silent
bank holds the page up for one deadline, whatever their number.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from litestar.response import Response
from msgspec import Struct

from commands.people.audit import AlreadySent
from domain.charge import CancelReason, Status
from domain.errors import Refused
from domain.identifiers import parse_id
from domain.instants import iso
from readmodels.charges.charge import ChargeDoc, charges_by_id
from runtime.postgres import session
from web.painel.charges.boleto_change import cancel_charge
from web.painel.labels import CANCEL_REASONS, REFUSED, STATUS, refusal
from web.painel.lists import PAGE
from web.painel.page_request import PageRequest

CHARGES_MAX: Final = PAGE
"""A page of the list."""


class CancelResult(Struct, frozen=True):
    """What became of one; `fault` says why it is not cancelled."""

    doc: ChargeDoc
    fault: str = ""


async def cancel(request: PageRequest) -> Response[Any]:
    """The page that confirms; with its tick the charges are cancelled."""
    docs = await _chosen(request)
    if request.field("sure") == "yes" and docs:
        given = request.field("reason")
        reason = CancelReason(given) if given in CANCEL_REASONS else CancelReason.CANCELLED
        ended = await asyncio.gather(*(_cancel(request, doc, reason) for doc in docs))
        values = {"ended": ended, "cancelled": sum(not each.fault for each in ended)}
        return request.show("cancelled_charges.html", values)
    pending = [doc for doc in docs if doc.status == Status.PENDING]
    values = {
        "docs": docs,
        "pending": pending,
        "cents": sum(doc.amount_cents for doc in pending),
        "boletos": sum(doc.boleto is not None for doc in pending),
        "charges_max": CHARGES_MAX,
        "sure_fault": "Confirme que quer cancelar." if request.field("confirmed") else "",
    }
    return request.show("cancel_charges.html", values, status=200 if pending and not values["sure_fault"] else 400)


async def _chosen(request: PageRequest) -> Sequence[ChargeDoc]:
    """The account's charges among those that were ticked, in their order; none when there are too many."""
    ids = list(dict.fromkeys(found for each in request.fields("charge") if (found := parse_id(each)) is not None))
    if not ids or len(ids) > CHARGES_MAX:
        return []
    async with session(request.pool) as conn:
        docs = await charges_by_id(conn, [(each, request.owner) for each in ids])
    return [doc.at(iso(request.account_now)) for doc in docs if doc is not None]


async def _cancel(request: PageRequest, doc: ChargeDoc, reason: CancelReason) -> CancelResult:
    try:
        await cancel_charge(request.part(doc.charge_id), doc, reason)
    except AlreadySent:
        return await _as_it_is(request, doc)
    except Refused as refused:
        now = await _as_it_is(request, doc)
        # Somebody else may have done it meanwhile: then there is nothing to say no to.
        known = refused.code in REFUSED
        return CancelResult(now.doc, refusal(refused.code)) if now.fault and known else now
    return CancelResult(doc)


async def _as_it_is(request: PageRequest, doc: ChargeDoc) -> CancelResult:
    async with session(request.pool) as conn:
        (now,) = await charges_by_id(conn, [(UUID(doc.charge_id), request.owner)])
    found = now or doc
    if found.status == Status.CANCELLED:
        return CancelResult(found)
    return CancelResult(found, f"{STATUS[found.status]}. Este pedido já foi tratado.")
