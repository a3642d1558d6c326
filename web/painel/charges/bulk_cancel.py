"""Cancel several charges of the list at once: one page asks to confirm their number and amount, and the next page shows
the outcome of each.

Each charge is cancelled like a single one, in a transaction and with an audit row of its own. The row's id is derived
from the form's id and the charge's, so a form sent twice cancels each charge once. Boletos wait for the bank
concurrently, so a silent bank delays the page by one deadline, however many boletos there are.
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
from web.painel.charges.boleto_change import cancel_charge, chosen_reason
from web.painel.labels import STATUS, refusal
from web.painel.lists import PAGE
from web.painel.page_request import PageRequest

CHARGES_MAX: Final = PAGE
"""As many as a page of the list has."""


class CancelResult(Struct, frozen=True):
    """The outcome for one charge; `fault` says why it is not cancelled, and is empty when it is."""

    doc: ChargeDoc
    fault: str = ""


async def cancel(request: PageRequest) -> Response[Any]:
    """Answers the page that asks to confirm; when its box is ticked, cancels the charges."""
    docs = await _ticked_charges(request)
    if request.field("sure") == "yes" and docs:
        reason = chosen_reason(request)
        results = await asyncio.gather(*(_cancel_one(request, doc, reason) for doc in docs))
        values = {"ended": results, "cancelled": sum(not each.fault for each in results)}
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


async def _ticked_charges(request: PageRequest) -> Sequence[ChargeDoc]:
    """Returns the ticked charges that are the account's, in the order of the form; none when there are too many."""
    ids = list(
        dict.fromkeys(charge_id for each in request.fields("charge") if (charge_id := parse_id(each)) is not None)
    )
    if not ids or len(ids) > CHARGES_MAX:
        return []
    async with session(request.pool) as conn:
        docs = await charges_by_id(conn, [(each, request.owner) for each in ids])
    return [doc.at(iso(request.account_now)) for doc in docs if doc is not None]


async def _cancel_one(request: PageRequest, doc: ChargeDoc, reason: CancelReason) -> CancelResult:
    try:
        await cancel_charge(request.part(doc.charge_id), doc, reason)
    except AlreadySent:
        return await _current_result(request, doc)
    except Refused as refused:
        current = await _current_result(request, doc)
        # Somebody else may have cancelled the charge meanwhile: it counts as cancelled then, not as refused.
        return CancelResult(current.doc, refusal(refused.code)) if current.fault else current
    return CancelResult(doc)


async def _current_result(request: PageRequest, doc: ChargeDoc) -> CancelResult:
    async with session(request.pool) as conn:
        (stored,) = await charges_by_id(conn, [(UUID(doc.charge_id), request.owner)])
    current = stored or doc
    if current.status == Status.CANCELLED:
        return CancelResult(current)
    return CancelResult(current, f"{STATUS[current.status]}. Este pedido já foi tratado.")
