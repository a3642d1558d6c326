"""The API as an ASGI application: the routes of the table behind one framework object."""

from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import structlog
from litestar import Litestar, Request, Response
from litestar.datastructures import State
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from api.answers import refusal
from api.creation import Creations
from api.door import Door, close_door, open_door
from api.openapi import document
from api.route import MOST_BYTES, Route, handler_of, new_request_id
from api.routes import charges, events, idempotency_keys, money, pix
from api.routes.service import open_handlers
from domain.errors import Code, Refused
from domain.qr import prepare
from runtime.log import AccessLog
from runtime.metrics import Meter
from runtime.settings import Settings

ROUTES: tuple[Route, ...] = (
    *pix.ROUTES,
    *charges.ROUTES,
    *money.ROUTES,
    *events.ROUTES,
    *idempotency_keys.ROUTES,
)

# BR Codes of our shape have between 130 and 220 characters: their QR tables are made before the first request.
_BR_CODE_LENGTHS = range(130, 221)
_log = structlog.get_logger()


def make_api(
    settings: Settings, *, access_log: AccessLog | None = None, also: Sequence[HTTPRouteHandler] = ()
) -> Litestar:
    """The API; it opens what it needs when the server starts it. `also` are handlers a bench measures against."""
    state = State()
    meter = Meter(access_log)

    def door() -> Door:
        opened: Door = state.door
        return opened

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        prepare(_BR_CODE_LENGTHS)
        if access_log is not None:
            access_log.start()
        state.door = await open_door(settings)
        state.door.creations = Creations(state.door)
        try:
            yield
        finally:
            await state.door.creations.close()
            meter.hand_on()
            await close_door(state.door)
            if access_log is not None:
                await access_log.stop()

    def answer_exception(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
        """What never reached a handler: unknown paths, wrong methods, and whatever the framework itself refuses."""
        status = error.status_code if isinstance(error, HTTPException) else 500
        code = {404: Code.ROUTE_NOT_FOUND, 405: Code.METHOD_NOT_ALLOWED, 413: Code.PAYLOAD_TOO_LARGE}.get(status)
        if code is None:
            code = Code.VALIDATION_ERROR if 400 <= status < 500 else Code.INTERNAL_ERROR
        request_id = new_request_id()
        if code is Code.INTERNAL_ERROR:
            _log.error("request_broken", request_id=request_id, error=type(error).__name__, exc_info=error)
        answer = refusal(Refused(code), request_id=request_id, docs_url=settings.docs_url)
        allow = getattr(error, "headers", None) or {}
        headers = {name: value for name, value in allow.items() if name.lower() == "allow"}
        headers["X-Request-Id"] = request_id
        return Response(answer.body, status_code=code.status, media_type="application/json", headers=headers)

    state.openapi = document(ROUTES, settings)
    app = Litestar(
        route_handlers=[
            *(handler_of(route, door, meter) for route in ROUTES),
            *open_handlers(door, meter),
            *also,
        ],
        lifespan=[lifespan],
        state=state,
        openapi_config=None,
        logging_config=None,
        request_max_body_size=MOST_BYTES,
        exception_handlers={HTTPException: answer_exception, Exception: answer_exception},
        debug=False,
        pdb_on_exception=False,
    )
    app.asgi_handler = _identified(app.asgi_handler)
    return app


def _identified(asgi: ASGIApp) -> ASGIApp:
    """The framework answers OPTIONS itself; that answer too carries a request id."""

    def outermost(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope.get("method") != "OPTIONS":
            return asgi(scope, receive, send)

        async def identify(message: Message) -> None:
            if message["type"] == "http.response.start" and all(
                name.lower() != b"x-request-id" for name, _ in message["headers"]
            ):
                message["headers"] = [*message["headers"], (b"x-request-id", new_request_id().encode())]
            await send(message)

        return asgi(scope, receive, identify)

    return outermost
