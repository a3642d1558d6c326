"""One cell's API and pages on one port: an ASGI application that forwards by path."""

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from api.app import make_api
from api.exchange import failure, new_exchange
from domain.errors import Code, Refused
from runtime.log import AccessLog
from runtime.servers.sealing_keys import check_keys
from runtime.settings import Settings
from web.app import make_app, unavailable_page

_PAGES = ("/pagar", "/painel", "/plataforma", "/correio", "/docs", "/static", "/pix/", "/logo/")
_FILES = frozenset(("/", "/robots.txt", "/favicon.ico"))


class Front:
    """An ASGI application that forwards each request to the API or the pages, and starts and stops both."""

    def __init__(self, api: Any, web: Any) -> None:
        self.api = api
        self.web = web
        self._draining = False
        self.closing = False
        """Whether every answer closes its connection. No connection is then idle when this process ends; on an idle
        one, a request just being sent would be lost."""

    def __call__(self, scope: Any, receive: Any, send: Any) -> Coroutine[Any, Any, None]:
        if self.closing:
            send = _closing_send(send)
        if scope["type"] == "lifespan":
            return self._run_lifespan(receive, send)
        answer: Coroutine[Any, Any, None] = (self.web if is_page(scope["path"]) else self.api)(scope, receive, send)
        return answer

    @property
    def draining(self) -> bool:
        """Whether this process is about to stop: /readyz answers 503, and all other requests are answered as before."""
        return self._draining

    @draining.setter
    def draining(self, draining: bool) -> None:
        self._draining = self.api.state.draining = self.closing = draining

    def stopping(self) -> None:
        """Ends the event streams. The server waits for open answers before it stops, and these do not end by
        themselves."""
        live = getattr(self.web.state, "live", None)
        if live is not None:
            live.close()

    async def unavailable(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers 503, for a cell whose database is unavailable."""
        exchange, refused = new_exchange(), Refused(Code.SERVICE_UNAVAILABLE, retry_after_s=1)
        answer = failure(refused, scope, exchange, self.api.state.docs_url)
        headers, body = [*answer.raw_headers, *exchange.all_headers()], answer.body
        if is_page(scope["path"]):
            body = unavailable_page(scope["path"])
            headers = [
                (b"content-type", b"text/html; charset=utf-8"),
                (b"content-length", b"%d" % len(body)),
                (b"retry-after", b"5"),
                (b"cache-control", b"no-store"),
            ]
        await send({"type": "http.response.start", "status": 503, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Runs both lifespans, the web application's inside the API's. An error that prevents the start is raised
        itself, without the exception group that the framework wraps it in."""
        try:
            async with self.api.lifespan(), self.web.lifespan():
                context = self.api.state.context
                await check_keys(context.pool, context.seal)
                yield
        except BaseExceptionGroup as group:
            raise _first_error(group) from group

    async def _run_lifespan(self, receive: Any, send: Any) -> None:
        await receive()
        try:
            async with self.opened():
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except BaseException as error:
            await send({"type": "lifespan.startup.failed", "message": type(error).__name__})
            raise
        await send({"type": "lifespan.shutdown.complete"})


def _first_error(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def make_front(settings: Settings) -> Front:
    """The application of the cell that these settings name."""
    tracing = settings.watching.tracing
    api = make_api(settings, access_log=AccessLog(traced=None if tracing is None else tracing.share))
    return Front(api, make_app(settings, openapi=api.state.openapi))


def is_page(path: str) -> bool:
    return path.startswith(_PAGES) or path in _FILES


def _closing_send(send: Any) -> Any:
    async def send_closing(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
        await send(message)

    return send_closing
