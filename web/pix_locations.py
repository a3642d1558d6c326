"""The locations in the QR Codes of sandbox charges: a location answers its charge's signed payload (API Pix)."""

from typing import Any, Final
from uuid import UUID

from litestar import Request, get
from litestar.params import FromPath
from litestar.response import Response
from litestar.types import ControllerRouterHandler

from banks.simulated.bank import SANDBOX, SimulatedBank
from banks.simulated.boletos import boleto_payload
from banks.simulated.signing import (
    JWKS_PATH,
    MEDIA_TYPE,
    PROBLEM_TYPE,
    Signer,
    open_signer,
    payload,
    problem,
)
from commands.sandbox_clock import clock_of_boleto, clock_of_charge
from runtime.cells.number import HOME, current_cell
from runtime.postgres import session
from web.context import spend

_CELL_JWKS_ROOT: Final = "/pix/v2/jwks/"
"""Followed by the three hex digits of a cell, by which cli/run/cell_requests.py leads the request there."""


@get("/pix/v2/{token:str}")
async def location(request: Request[Any, Any, Any], token: FromPath[str]) -> Response[bytes]:
    spend(request, "pages_per_min")
    cob = await _simulated_bank(request).booked_at(token) if _is_token(token) else None
    if cob is None:
        return await _signed_answer(request, None)
    state = request.app.state
    async with session(state.pool) as conn:
        now = await clock_of_charge(conn, UUID(cob.txid), now=state.now())
    return await _signed_answer(request, payload(cob, now=now))


@get("/pix/v2/cobv/{token:str}")
async def boleto_location(request: Request[Any, Any, Any], token: FromPath[str]) -> Response[bytes]:
    """The PIX side of a hybrid boleto: a charge with a due date."""
    spend(request, "pages_per_min")
    boleto = await _simulated_bank(request).boletos.booked_at(token) if _is_token(token) else None
    if boleto is None:
        return await _signed_answer(request, None)
    state = request.app.state
    async with session(state.pool) as conn:
        now = await clock_of_boleto(conn, boleto.number, now=state.now())
    return await _signed_answer(request, boleto_payload(boleto, now=now))


@get([JWKS_PATH, f"{_CELL_JWKS_ROOT}{{cell:str}}"])
async def key_set(request: Request[Any, Any, Any]) -> Response[bytes]:
    signer = await _signer(request)
    return Response(signer.jwks, media_type="application/json")


LOCATION_HANDLERS: list[ControllerRouterHandler] = [location, boleto_location, key_set]


def _is_token(token: str) -> bool:
    # A text with a NUL is no token, and PostgreSQL would refuse it with an error.
    return token.isascii() and token.isprintable()


def _simulated_bank(request: Request[Any, Any, Any]) -> SimulatedBank:
    state = request.app.state
    return SimulatedBank(state.pool, state.context.seal, world=SANDBOX, url=state.settings.app_url, now=state.now)


async def _signed_answer(request: Request[Any, Any, Any], unsigned: bytes | None) -> Response[bytes]:
    if unsigned is None:
        body = problem("CobPayloadNaoEncontrado", 404, "Não encontrado", "Não há cobrança nesta location.")
        return Response(body, status_code=404, media_type=PROBLEM_TYPE)
    return Response((await _signer(request)).sign(unsigned), media_type=MEDIA_TYPE)


async def _signer(request: Request[Any, Any, Any]) -> Signer:
    """This application's signer, opened on first use."""
    state = request.app.state
    signer: Signer | None = state.get("location_signer")
    if signer is None:
        # Each cell has made a key of its own, and the request for it has only its path to lead it there.
        number = current_cell()
        path = JWKS_PATH if number == HOME else f"{_CELL_JWKS_ROOT}{number:03x}"
        jku, now = state.settings.app_url + path, state.now()
        signer = await open_signer(state.pool, state.context.seal, jku=jku, now=now)
        state.location_signer = signer
    return signer
