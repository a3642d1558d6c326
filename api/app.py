"""The API as an ASGI application: the routes of the table behind one framework object."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import cast

from litestar import Litestar
from litestar.datastructures import State
from litestar.di import Provide
from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from api.admission import BYTES_MAX
from api.context import ApiContext, close_context, open_context
from api.exchange import add_head_method, failure, new_exchange
from api.handlers import answer_failure, answer_hot_routes_first, handler_of, open_handler_of, provide_context
from api.near_paths import NearPaths
from api.openapi.document import document
from api.route import Route
from api.routes import (
    boleto_pdf,
    boletos,
    charges,
    dual,
    events,
    idempotency_keys,
    money,
    pix,
    portal,
    refunds,
    requests,
    sandbox,
    schedules,
    service,
    token,
    webhooks,
    withdrawals,
)
from domain.boleto.business_days import effective_due_date
from domain.errors import Code, Refused
from domain.pix.qr import prepare
from runtime.coordination.clocks import watch_clock
from runtime.log import AccessLog
from runtime.metrics import DatabaseMeter, Meter
from runtime.settings import Settings

ROUTES: tuple[Route, ...] = (
    *pix.ROUTES,
    *charges.ROUTES,
    *boletos.ROUTES,
    *dual.ROUTES,
    *sandbox.ROUTES,
    *boleto_pdf.ROUTES,
    *portal.ROUTES,
    *schedules.ROUTES,
    *refunds.ROUTES,
    *withdrawals.ROUTES,
    *money.ROUTES,
    *events.ROUTES,
    *webhooks.ROUTES,
    *idempotency_keys.ROUTES,
    *requests.ROUTES,
)

# After this prefix comes an idempotency key, which may contain slashes of the merchant's.
_KEY_PATH_PREFIX = "/v1/idempotency-keys/"
# BR Codes of our shape have between 130 and 220 characters: their QR tables are made before the first request.
_BR_CODE_LENGTHS = range(130, 221)
PREPARE_AFTER_S = 3.0


def make_api(
    settings: Settings, *, access_log: AccessLog | None = None, also: Sequence[HTTPRouteHandler] = ()
) -> Litestar:
    """Makes the application; it opens its connections when the server starts it. `also` are handlers that a bench
    compares with."""
    state = State()
    meter = Meter(access_log)

    def context() -> ApiContext:
        opened: ApiContext = state.context
        return opened

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        prepare(_BR_CODE_LENGTHS)
        state.context = await open_context(settings)
        if access_log is not None:
            access_log.start()
        database_meter = DatabaseMeter()
        watching = database_meter.run(), watch_clock(state.context.pool, state.context.now)
        tasks = [asyncio.create_task(each) for each in (_prepare_boletos(state.context), *watching)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            meter.flush_counts()
            database_meter.flush_counts()
            await close_context(state.context)
            if access_log is not None:
                await access_log.stop()

    state.docs_url = settings.docs_url
    state.draining = False
    state.openapi = document(ROUTES, settings)
    state.near = NearPaths(
        [*(each.path for each in ROUTES), *(each.path for each in (*service.ROUTES, *token.ROUTES))]
    ).hint
    app = Litestar(
        route_handlers=[
            *(handler_of(route, context, meter) for route in ROUTES),
            *(open_handler_of(route, context, meter) for route in (*service.ROUTES, *token.ROUTES)),
            *also,
        ],
        lifespan=[lifespan],
        state=state,
        openapi_config=None,
        logging_config=None,
        request_max_body_size=BYTES_MAX,
        exception_handlers={Exception: answer_failure},
        dependencies={"context": Provide(provide_context, sync_to_thread=False)},
        debug=False,
        pdb_on_exception=False,
    )
    framework = _refuse_other_spellings(
        _answer_options_and_head(app.asgi_handler, _allowed_methods(app)), settings.docs_url, state.near
    )
    app.asgi_handler = answer_hot_routes_first(framework, ROUTES, context, meter)
    return app


async def _prepare_boletos(context: ApiContext) -> None:
    """Loads the bank calendar and the printed forms, for which the first boleto would wait a second. Starts after
    PREPARE_AFTER_S, because a starting system is busy."""
    await asyncio.sleep(PREPARE_AFTER_S)
    await asyncio.to_thread(effective_due_date, context.now().date())
    await asyncio.to_thread(context.printer.prepare)


def _allowed_methods(app: Litestar) -> dict[str, bytes]:
    """The value of the Allow header for each path, by the framework's path template."""
    return {
        route.path_format: ", ".join(sorted(add_head_method(route.methods))).encode()
        for route in app.routes
        if isinstance(route, HTTPRoute)
    }


def _refuse_other_spellings(asgi: ASGIApp, docs_url: str, near: Callable[[str], str | None]) -> ASGIApp:
    """Answers 404 for a path in another spelling, such as /v1/charges/pix/ or /v1//charges/pix, which the framework
    would route too. The idempotency fingerprint covers the path as sent, so a retry in another spelling would count as
    a different request."""

    def outermost(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        path = scope.get("path", "")
        if (path[-1:] != "/" and "//" not in path) or path.startswith(_KEY_PATH_PREFIX):
            return asgi(scope, receive, send)
        exchange = new_exchange()
        answer = failure(Refused(Code.ROUTE_NOT_FOUND, message=near(path)), scope, exchange, docs_url)
        answer.raw_headers += exchange.all_headers()
        return answer(scope, receive, _without_body(send) if scope.get("method") == "HEAD" else send)

    return outermost


def _answer_options_and_head(asgi: ASGIApp, methods: dict[str, bytes]) -> ASGIApp:
    """Completes the framework's own answers to OPTIONS: with a request id, and an Allow header of every method of the
    path (the framework names those of the first handler only). HEAD is answered as GET, without the body."""

    def outermost(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        method = scope.get("method")
        if method == "HEAD":
            # A copy, because the server reads HEAD from its own scope to know that the answer has no body.
            return asgi(cast("Scope", {**scope, "method": "GET"}), receive, _without_body(send))
        if method != "OPTIONS":
            return asgi(scope, receive, send)

        async def send_completed(message: Message) -> None:
            if message["type"] == "http.response.start" and all(
                name.lower() != b"x-request-id" for name, _ in message["headers"]
            ):
                allowed = methods.get(scope.get("path_template", ""))
                headers = [
                    (name, allowed if allowed is not None and name.lower() == b"allow" else value)
                    for name, value in message["headers"]
                ]
                message["headers"] = [*headers, *new_exchange().all_headers()]
            await send(message)

        return asgi(scope, receive, send_completed)

    return outermost


def _without_body(send: Send) -> Send:
    async def send_without_body(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {"type": "http.response.body", "body": b"", "more_body": message.get("more_body", False)}
        await send(message)

    return send_without_body
