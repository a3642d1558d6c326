"""The API and the pages on one port: an ASGI application that forwards by path."""

from typing import Any

from api.app import make_api
from runtime.log import AccessLog, setup
from runtime.settings import read_settings
from web.app import make_app

_PAGES = ("/pagar", "/painel", "/plataforma", "/correio", "/docs", "/static", "/pix/")
_FILES = frozenset(("/", "/robots.txt", "/favicon.ico"))


class Front:
    """An ASGI application that forwards by path and starts and stops both."""

    def __init__(self, api: Any, web: Any) -> None:
        self._api = api
        self._web = web
        self._draining = False
        self.closing = False
        """Whether every answer is its connection's last, so that none is idle when this process closes them: a request
        that is on its way then is lost."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self.closing:
            send = _last_answer(send)
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["path"].startswith(_PAGES) or scope["path"] in _FILES:
            await self._web(scope, receive, send)
        else:
            await self._api(scope, receive, send)

    @property
    def draining(self) -> bool:
        """Whether this process is about to stop: /readyz says so, and all else is answered as before."""
        return self._draining

    @draining.setter
    def draining(self, draining: bool) -> None:
        self._draining = self._api.state.draining = self.closing = draining

    def stopping(self) -> None:
        """The server waits for open answers before it stops: end the event streams, which do not end by themselves."""
        live = getattr(self._web.state, "live", None)
        if live is not None:
            live.close()

    async def _live(self, receive: Any, send: Any) -> None:
        """Both lifespans, nested: the web application lives inside the API's."""
        await receive()
        try:
            async with self._api.lifespan(), self._web.lifespan():
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except BaseException as error:
            await send({"type": "lifespan.startup.failed", "message": type(error).__name__})
            raise
        await send({"type": "lifespan.shutdown.complete"})


def _last_answer(send: Any) -> Any:
    async def closing(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
        await send(message)

    return closing


def make() -> Front:
    setup("api")
    api = make_api(read_settings(), access_log=AccessLog())
    return Front(api, make_app(openapi=api.state.openapi))


app = make()
