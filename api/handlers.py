"""Litestar handlers made from the table of routes: a guard admits the request, dependencies provide context and call,
one exception handler answers every failure, one middleware records. Two hot routes bypass the framework.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.datastructures import State
from litestar.di import NamedDependency, Provide
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from api.admission import admit
from api.answers import Answer
from api.context import ApiContext
from api.exchange import Exchange, failure, new_exchange
from api.query import CURSOR
from api.route import Call, Method, OpenRoute, Route
from domain.errors import Code, Refused
from runtime.metrics import Meter

_ID_CHARACTERS: Final = 36


def handler_of(route: Route, get_context: Callable[[], ApiContext], meter: Meter) -> HTTPRouteHandler:
    takes_turn = route.heavy or CURSOR in route.query

    async def handle(context: NamedDependency[ApiContext], call: NamedDependency[Call]) -> Answer:
        if not takes_turn:
            return await route.handle(context, call)
        async with context.shares.of(call.caller.owner):
            return await route.handle(context, call)

    middleware = RecordingMiddleware(route.method, route.path, get_context, meter)
    dependencies = {"call": Provide(provide_call, sync_to_thread=False)}
    return _http_handler(route, middleware, opt={"route": route}, guards=[admit_guard], dependencies=dependencies)(
        handle
    )


def open_handler_of(route: OpenRoute, get_context: Callable[[], ApiContext], meter: Meter) -> HTTPRouteHandler:
    return _http_handler(route, RecordingMiddleware(route.method, route.path, get_context, meter))(route.handle)


def _http_handler(route: Route | OpenRoute, middleware: "RecordingMiddleware", **options: Any) -> HTTPRouteHandler:
    return HTTPRouteHandler(
        route.path,
        http_method=route.method,
        name=route.name,
        status_code=200,
        include_in_schema=False,
        middleware=[middleware],
        **options,
    )


async def admit_guard(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Guard: runs the checks of api/admission.py and stores the resulting call."""
    scope = connection.scope
    state: dict[str, Any] = scope["state"]
    context: ApiContext = connection.app.state.context
    state["call"] = await admit(handler.opt["route"], context, scope, connection.receive, state["exchange"])


def provide_context(state: State) -> ApiContext:
    context: ApiContext = state.context
    return context


def provide_call(request: Request[Any, Any, Any], context: NamedDependency[ApiContext]) -> Call:
    call: Call = request.scope["state"].pop("call")  # it refers to the scope: left there, the two would be a cycle
    return call


def answer_failure(request: Request[Any, Any, Any], error: Any) -> Any:
    """Exception handler. A request that matched no route did not pass the middleware and has no request id yet."""
    scope = request.scope
    existing: Exchange | None = scope["state"].get("exchange")
    exchange = existing or new_exchange()
    if getattr(error, "status_code", None) == 404 and not isinstance(error, Refused):
        error = Refused(Code.ROUTE_NOT_FOUND, message=request.app.state.near(scope["path"]))
    answer = failure(error, scope, exchange, request.app.state.docs_url)
    if existing is None:
        answer.raw_headers += exchange.all_headers()
    return answer


class RecordingMiddleware:
    """Middleware: gives the request its id, adds the common headers to its answer, and counts and logs it."""

    def __init__(self, method: Method, path: str, get_context: Callable[[], ApiContext], meter: Meter) -> None:
        self._method = method
        self._path = path
        self._get_context = get_context
        self._meter = meter

    def __call__(self, app: ASGIApp) -> ASGIApp:
        async def run(scope: Scope, receive: Receive, send: Send) -> None:
            exchange = scope["state"]["exchange"] = new_exchange(self._meter.start())
            start_message: Any = None

            async def send_and_record(message: Message) -> None:
                nonlocal start_message
                if message["type"] == "http.response.start":
                    message["headers"] = [*message["headers"], *exchange.all_headers()]
                    start_message = message
                    if exchange.sent is None:
                        record(b"")
                elif message["type"] == "http.response.body" and start_message is not None:
                    record(message["body"])  # our answers have a single body message
                await send(message)

            def record(body: bytes) -> None:
                nonlocal start_message
                status, headers, start_message = start_message["status"], start_message["headers"], None
                context = self._get_context()
                exchange.record(self._method, self._path, scope, status, headers, body, context, self._meter)

            await app(scope, receive, send_and_record)

        return run


class HotRoute:
    """A route answered in front of the framework: the same checks and handler function, without the framework's
    routing, request, dependencies and response. Used for the two routes that a bench compares with an empty route
    (docs/decisions/0016-litestar.md). Other requests to their paths, HEAD for example, reach the framework's handler.
    """

    def __init__(self, route: Route, get_context: Callable[[], ApiContext], meter: Meter) -> None:
        self._route = route
        self._get_context = get_context
        self._meter = meter

    async def answer(self, scope: Scope, receive: Receive, send: Send, path_params: dict[str, Any]) -> None:
        route, context = self._route, self._get_context()
        scope["path_template"] = route.path
        scope["path_params"] = path_params
        exchange = new_exchange(self._meter.start())
        try:
            answer = await route.handle(context, await admit(route, context, scope, receive, exchange))
        except Exception as error:
            answer = failure(error, scope, exchange, context.settings.docs_url)
        answer.raw_headers += exchange.all_headers()
        status, headers = answer.status_code, answer.raw_headers
        exchange.record(route.method, route.path, scope, status, headers, answer.body, context, self._meter)
        send_answer = getattr(getattr(send, "__self__", None), "send_answer", None)
        if send_answer is None:
            await answer(scope, receive, send)
        else:  # our server's shortcut (cli/run/http_cycle.py); no middleware in between wraps `send`
            await send_answer(status, headers, answer.body)


def answer_hot_routes_first(
    asgi: ASGIApp, routes: Iterable[Route], get_context: Callable[[], ApiContext], meter: Meter
) -> ASGIApp:
    """The application behind its hot routes. The path of a hot route has no parameter, or one id at its end; a last
    segment that is not as long as an id goes to the framework, which has other routes there."""
    fixed: dict[tuple[str, str], HotRoute] = {}
    by_id: dict[tuple[str, str], tuple[HotRoute, str]] = {}
    for route in routes:
        if not route.hot:
            continue
        folder, _, name = route.path.rpartition("/")
        if name[:1] == "{":
            by_id[route.method, folder] = HotRoute(route, get_context, meter), name[1:-1].partition(":")[0]
        else:
            fixed[route.method, route.path] = HotRoute(route, get_context, meter)

    def outermost(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        method, path = str(scope.get("method")), scope["path"]
        if (hot := fixed.get((method, path))) is not None:
            return hot.answer(scope, receive, send, {})
        if path[-_ID_CHARACTERS - 1 : -_ID_CHARACTERS] == "/":
            matched = by_id.get((method, path[: -_ID_CHARACTERS - 1]))
            if matched is not None and "/" not in (id_segment := path[-_ID_CHARACTERS:]):
                return matched[0].answer(scope, receive, send, {matched[1]: id_segment})
        return asgi(scope, receive, send)

    return outermost
