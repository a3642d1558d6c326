"""The page of one payment's anomaly: what is wrong, and the note with which a person resolves the anomaly."""

from typing import Any

from litestar.exceptions import NotFoundException
from litestar.response import Response

from commands.money.anomalies import NOTE_MAX, RESOLVED, resolve_anomaly
from domain.errors import Code, Refused
from readmodels.money.anomalies import find_anomalous_payment, open_anomalies_among
from runtime.postgres import session
from web.painel.fields import Filled
from web.painel.page_request import PageRequest
from web.painel.rows import payments_with_payers


async def show(request: PageRequest) -> Response[Any]:
    return await _page(request, Filled())


async def resolve(request: PageRequest) -> Response[Any]:
    payment_id, filled = request.id("payment_id"), Filled(request)
    try:
        async with request.change(RESOLVED, subject=str(payment_id)) as conn:
            await resolve_anomaly(
                conn, request.owner, payment_id, filled.value("note"), request.session.email, now=request.now
            )
    except Refused as refused:
        if refused.code is not Code.VALIDATION_ERROR:
            raise NotFoundException from None
        filled.wrong("note", f"Escreva o que foi feito, com até {NOTE_MAX} caracteres.")
        return await _page(request, filled)
    return request.go(request.here(f"/pagamentos/{payment_id}/divergencia"), done="divergencia")


async def _page(request: PageRequest, filled: Filled) -> Response[Any]:
    async with session(request.pool) as conn:  # the primary: a standby may not have the resolution yet
        anomalous = await find_anomalous_payment(conn, request.owner, request.id("payment_id"), seal=request.seal)
        if anomalous is None:
            raise NotFoundException
        (payment,) = await payments_with_payers(conn, [anomalous.payment], request.owner, request.seal, request.payers)
        open_anomalies = await open_anomalies_among(conn, request.owner, [request.id("payment_id")])
    values = {
        "odd": open_anomalies.get(payment.payment_id),
        "found": anomalous,
        "payment": payment,
        "filled": filled,
        "note_max": NOTE_MAX,
    }
    return request.show("anomaly.html", values, status=400 if filled.faults else 200)
