"""Where the QR Codes of sandbox charges point to: a location answers the signed payload of its cob (API Pix)."""

from typing import Any

from litestar import Request, get
from litestar.params import FromPath
from litestar.response import Response
from litestar.types import ControllerRouterHandler

from banks.simulated.bank import SANDBOX, SimulatedBank
from banks.simulated.signing import (
    JWKS_PATH,
    MEDIA_TYPE,
    PROBLEM_TYPE,
    Signer,
    open_signer,
    payload,
    problem,
)
from runtime.seal import Seal


@get("/pix/v2/{token:str}")
async def location(request: Request[Any, Any, Any], token: FromPath[str]) -> Response[bytes]:
    state = request.app.state
    bank = SimulatedBank(
        state.pool, Seal(state.settings.secret_key), world=SANDBOX, url=state.settings.app_url, now=state.now
    )
    # A token with a NUL is no token, and PostgreSQL would not take it.
    cob = await bank.booked_at(token) if token.isascii() and token.isprintable() else None
    if cob is None:
        body = problem("CobPayloadNaoEncontrado", 404, "Não encontrado", "Não há cobrança nesta location.")
        return Response(body, status_code=404, media_type=PROBLEM_TYPE)
    signer = await _signer(request)
    return Response(signer.sign(payload(cob, now=state.now())), media_type=MEDIA_TYPE)


@get(JWKS_PATH)
async def key_set(request: Request[Any, Any, Any]) -> Response[bytes]:
    signer = await _signer(request)
    return Response(signer.jwks, media_type="application/json")


LOCATION_HANDLERS: list[ControllerRouterHandler] = [location, key_set]


async def _signer(request: Request[Any, Any, Any]) -> Signer:
    """This application's signer, opened once."""
    state = request.app.state
    found: Signer | None = state.get("location_signer")
    if found is None:
        found = await open_signer(
            state.pool,
            Seal(state.settings.secret_key),
            jku=state.settings.app_url + JWKS_PATH,
            now=state.now(),
        )
        state.location_signer = found
    return found
