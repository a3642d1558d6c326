"""One payment that came otherwise than asked for: what it was, and the note with which somebody settles it."""

from typing import Any

from litestar.exceptions import NotFoundException
from litestar.response import Response

from commands.money.odd_payments import NOTE_MAX, SETTLED, settle_odd_payment
from domain.errors import Code, Refused
from readmodels.money.odd_payments import find_odd
from runtime.postgres import session
from web.painel.fields import Filled
from web.painel.page_request import PageRequest
from web.painel.rows import with_payers


async def show(request: PageRequest) -> Response[Any]:
    return await _page(request, Filled())


async def settle(request: PageRequest) -> Response[Any]:
    payment_id, filled = request.id("payment_id"), Filled(request)
    try:
        async with request.change(SETTLED, subject=str(payment_id)) as conn:
            await settle_odd_payment(
                conn, request.owner, payment_id, filled.value("note"), request.session.email, now=request.now
            )
    except Refused as refused:
        if refused.code is not Code.VALIDATION_ERROR:
            raise NotFoundException from None
        filled.wrong("note", f"Escreva o que foi feito, com até {NOTE_MAX} caracteres.")
        return await _page(request, filled)
    return request.go(request.here(f"/pagamentos/{payment_id}/divergencia"), done="divergencia")


async def _page(request: PageRequest, filled: Filled) -> Response[Any]:
    async with session(request.pool) as conn:  # what was just settled is shown
        found = await find_odd(conn, request.owner, request.id("payment_id"), seal=request.seal)
        if found is None:
            raise NotFoundException
        (payment,) = await with_payers(conn, [found.payment], request.owner, request.seal, request.payers)
    values = {"found": found, "payment": payment, "filled": filled, "note_max": NOTE_MAX}
    return request.show("odd_payment.html", values, status=400 if filled.faults else 200)
