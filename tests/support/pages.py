"""The web application on a real socket, and a real browser that uses it."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from litestar import Litestar

from api.app import ROUTES
from api.openapi.document import document
from runtime.postgres import Pool
from runtime.settings import Settings, read_settings
from tests.support.browser import PageLeft, chromium
from web.app import lifespan, make_app

# No Redis listens at this address; the web application works without it.
NOWHERE = "redis://127.0.0.1:9/0"
SETTINGS = read_settings({"DATABASE_URL": "unused", "REDIS_URL": NOWHERE, "SECRET_KEY": "00" * 32})
# Applications that are not in use. Each test needs one, and registering 270 routes takes 0.3 s of a core.
_IDLE: list[Litestar] = []


@asynccontextmanager
async def serving(pool: Pool, now: Callable[[], datetime], settings: Settings = SETTINGS) -> AsyncIterator[str]:
    """The web application on a free port; yields its address."""
    app = _IDLE.pop() if _IDLE else make_app()
    app._lifespan_managers = [lifespan(settings, pool=pool, now=now, openapi=document(ROUTES, settings))]
    # As in `quita serve`, the application and not uvicorn evaluates a proxy's headers.
    config = uvicorn.Config(app, port=0, log_level="critical", lifespan="on", ws="none", proxy_headers=False)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    running = asyncio.create_task(server._serve())
    async with asyncio.timeout(30):
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event to wait for
            await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        app.state.live.close()
        await running
        _IDLE.append(app)


Command = Callable[..., Awaitable[dict[str, Any]]]
Evaluate = Callable[[str], Awaitable[Any]]


def _evaluating(command: Command) -> Evaluate:
    async def evaluate(expression: str) -> Any:
        # Evaluated as a user gesture: only then may a page use the clipboard.
        try:
            answer = await command("Runtime.evaluate", expression=expression, returnByValue=True, userGesture=True)
        except PageLeft:
            return None
        # There is no result while the page loads; callers try again.
        return answer.get("result", {}).get("value")

    return evaluate


@asynccontextmanager
async def browsing(address: str, profile: Path) -> AsyncIterator[Evaluate]:
    """A page of headless Chromium at `address`; yields a function that evaluates an expression in it."""
    async with tab(profile) as (command, evaluate):
        await command("Page.navigate", url=address)
        yield evaluate


@asynccontextmanager
async def tab(profile: Path) -> AsyncIterator[tuple[Command, Evaluate]]:
    """An empty tab of headless Chromium; yields a function for DevTools commands and one that evaluates expressions."""
    async with chromium(profile) as browser, browser.tab() as opened:
        yield opened.command, _evaluating(opened.command)


async def screenshot_of(address: str, profile: Path, *, width: int, scale: int, scripts: str = "on") -> bytes:
    """A PNG of the whole page on a screen of this width (CSS pixels) and scale."""
    async with tab(profile) as (command, evaluate):
        if scripts == "off":
            await command("Emulation.setScriptExecutionDisabled", value=True)
        size = {"width": width, "height": 900, "deviceScaleFactor": scale, "mobile": width < 600}
        await command("Emulation.setDeviceMetricsOverride", **size)
        await command("Page.navigate", url=address)
        await until(evaluate, "location.href + document.readyState", f"{address}complete")
        picture = await command("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(picture["data"])


async def until(evaluate: Evaluate, expression: str, wanted: object) -> None:
    seen = None
    for _ in range(300):
        seen = await evaluate(expression)
        if seen == wanted:
            return
        await asyncio.sleep(0.1)
    pytest.fail(f"{expression} stayed {seen!r}, wanted {wanted!r}")
