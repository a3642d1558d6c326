"""A real browser for tests: headless Chromium, controlled by its DevTools protocol.

One process has any number of tabs; each group of tabs has its own cookies. A tab records the browser's complaints: a
failed script, a resource that our own policy refused, an answer that is an error.
"""

import asyncio
import base64
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import aiohttp

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NO_BROWSER = "no Chromium on this machine: these tests need chromium, chromium-browser or google-chrome on the PATH"
WCAG = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")

_STARTS_S_MAX = 90.0
_COMMAND_S_MAX = 90.0  # axe on a long page takes seconds of a core, which other processes share
_UNTIL_S_MAX = 90.0

# axe stays loaded for further evaluations in the same document.
_AXE = """
axe.run(document, {runOnly: {type: "tag", values: %s}, resultTypes: ["violations"], preload: false}).then((found) => {
  const why = (node) => node.failureSummary.split("\\n").slice(1).join(" ").trim().slice(0, 200);
  return found.violations.flatMap((rule) =>
    rule.nodes.map((node) => [rule.id, node.target.join(" "), why(node)].join(": ")));
})
"""


# Chromium's errors when a page is left while a command waits for its answer.
_LEFT = ("Inspected target navigated or closed", "Execution context was destroyed.")


class PageLeft(AssertionError):
    """The page was left for another one before it answered."""


class Tab:
    """A page. `complaints` are the browser's errors about it since it was opened."""

    def __init__(self, browser: "Browser", session: str) -> None:
        self._browser = browser
        self._session = session
        self.complaints: list[str] = []

    async def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        return await self._browser.command(method, parameters, self._session)

    async def value(self, expression: str) -> Any:
        """The value of an expression; a promise is awaited. None while a page loads."""
        # Evaluated as a user gesture: only then may a page use the clipboard.
        options = {"returnByValue": True, "awaitPromise": True, "userGesture": True}
        answer = await self.command("Runtime.evaluate", expression=expression, **options)
        failed = answer.get("exceptionDetails")
        assert failed is None or answer["result"].get("subtype") == "error", failed
        return answer.get("result", {}).get("value")

    async def until(self, expression: str, wanted: object = True, *, within_s: float = _UNTIL_S_MAX) -> None:
        seen = None
        deadline = asyncio.get_running_loop().time() + within_s
        while asyncio.get_running_loop().time() < deadline:
            try:
                seen = await self.value(expression)
            except PageLeft:
                seen = None  # try again on the next page
            else:
                if seen == wanted:
                    return
            await asyncio.sleep(0.05)
        raise AssertionError(f"{expression} stayed {seen!r}, wanted {wanted!r}")

    async def open(self, address: str) -> None:
        await self.value("window.left = true")
        await self.command("Page.navigate", url=address)
        await self.until("window.left === undefined && document.readyState === 'complete'")

    async def screen(self, width: int, *, height: int = 900, scheme: str = "light") -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        await self.command("Emulation.setDeviceMetricsOverride", **size)
        await self.command("Emulation.setScrollbarsHidden", hidden=True)
        await self.command(
            "Emulation.setEmulatedMedia",
            features=[
                {"name": "prefers-color-scheme", "value": scheme},
                # Otherwise a screenshot could show a transition between two colours.
                {"name": "prefers-reduced-motion", "value": "reduce"},
            ],
        )

    async def fill(self, selector: str, text: str) -> None:
        """Put `text` into a field, as if it had been pasted."""
        await self.value(f"document.querySelector({selector!r}).focus(); document.activeElement.select?.()")
        await self.command("Input.insertText", text=text)

    async def press(self, selector: str) -> None:
        """Click with the mouse in the middle of the element."""
        found = f"document.querySelector({selector!r})"
        await self.until(f"!!{found} && {found}.checkVisibility()")
        await self.value(f"{found}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        box = await self.value(
            f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({found}.getBoundingClientRect())"
        )
        where = {"x": box[0], "y": box[1], "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            await self.command("Input.dispatchMouseEvent", type=kind, **where)

    async def leaves(self, selector: str) -> None:
        """Click on an element that leads to another page, and wait until that page is loaded."""
        await self.value("window.left = true")
        await self.press(selector)
        await self.until("window.left === undefined && document.readyState === 'complete'")

    async def sign_in(self, entry: str, email: str, password: str) -> None:
        """Fill in the form of the page at `entry` and send it; the caller handles the next page."""
        await self.open(entry)
        await self.fill("#email", email)
        await self.fill("#password", password)
        await self.leaves("button[type=submit]")

    async def choose_file(self, selector: str, path: Path) -> None:
        """Choose a file, as in the system's own dialog."""
        root = (await self.command("DOM.getDocument"))["root"]["nodeId"]
        node = (await self.command("DOM.querySelector", nodeId=root, selector=selector))["nodeId"]
        await self.command("DOM.setFileInputFiles", files=[str(path)], nodeId=node)

    async def text(self, selector: str = "body") -> str:
        return str(await self.value(f"document.querySelector({selector!r})?.innerText ?? ''"))

    async def picture(self) -> bytes:
        """A PNG of the whole page."""
        taken = await self.command("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(taken["data"])

    async def barriers(self) -> list[str]:
        """The violations of WCAG 2.2 AA that axe-core finds, one line each; needs its package (requirements.in)."""
        # Evaluated and not added as a <script>, which the pages' own policy would refuse.
        await self.value("window.axe ?? (() => {" + axe_source() + "})(); 0")
        found: list[str] = await self.value(_AXE % list(WCAG))
        return found


class Browser:
    def __init__(self, wire: aiohttp.ClientWebSocketResponse) -> None:
        self._wire = wire
        self._numbers = iter(range(1, 1_000_000))
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._tabs: dict[str, Tab] = {}

    async def command(self, method: str, parameters: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        sent = {"id": number, "method": method, "params": parameters}
        await self._wire.send_json(sent if session is None else {**sent, "sessionId": session})
        try:
            async with asyncio.timeout(_COMMAND_S_MAX):
                told: dict[str, Any] = await answer
                return told
        finally:
            del self._waiting[number]

    @asynccontextmanager
    async def tab(self, *, group: str | None = None) -> AsyncIterator[Tab]:
        """An empty tab; tabs of one group (see `group`) share their cookies."""
        context = group or await self.group()
        target = await self.command("Target.createTarget", {"url": "about:blank", "browserContextId": context})
        attached = await self.command("Target.attachToTarget", {"targetId": target["targetId"], "flatten": True})
        opened = self._tabs[attached["sessionId"]] = Tab(self, attached["sessionId"])
        for domain in ("Page", "Runtime", "Network", "Log"):
            await opened.command(f"{domain}.enable")
        try:
            yield opened
        finally:
            await self.command("Target.closeTarget", {"targetId": target["targetId"]})
            del self._tabs[attached["sessionId"]]

    async def group(self) -> str:
        """A new group of tabs, with cookies of its own."""
        return str((await self.command("Target.createBrowserContext", {}))["browserContextId"])

    async def listen(self) -> None:
        """Pass each message to the command or tab it belongs to, until the connection ends."""
        async for message in self._wire:
            told = message.json()
            waiting = self._waiting.get(told.get("id", 0))
            if waiting is not None and not waiting.done():
                if "error" in told:
                    kind = PageLeft if told["error"].get("message") in _LEFT else AssertionError
                    waiting.set_exception(kind(f"the browser refused: {told['error']}"))
                else:
                    waiting.set_result(dict(told.get("result", {})))
            elif (tab := self._tabs.get(told.get("sessionId", ""))) is not None:
                tab.complaints += _complaint(told["method"], told["params"])


def _complaint(method: str, told: dict[str, Any]) -> list[str]:
    if method == "Runtime.exceptionThrown":
        details = told["exceptionDetails"]
        return [details.get("exception", {}).get("description") or details["text"]]
    if method == "Log.entryAdded" and told["entry"]["level"] == "error":
        return [f"{told['entry']['text']} {told['entry'].get('url', '')}"]
    return []


@asynccontextmanager
async def chromium(profile: Path) -> AsyncIterator[Browser]:
    """A browser with its profile in the folder `profile`; it ends with the block."""
    assert CHROMIUM, NO_BROWSER
    process = await asyncio.create_subprocess_exec(
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
        "--disable-dev-shm-usage", f"--user-data-dir={profile}", "--remote-debugging-port=0",
        # As in a payer's or a merchant's browser, date fields show dd/mm. A Chromium without its language packs does
        # not know pt-BR; its fields then follow the page's own lang.
        "--lang=pt-BR", "--enable-blink-features=LangAttributeAwareFormControlUI",
        "about:blank", stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        told = profile / "DevToolsActivePort"
        async with asyncio.timeout(_STARTS_S_MAX):
            while not told.exists() or len(told.read_text().split()) < 2:  # noqa: ASYNC110 - a file has no event
                await asyncio.sleep(0.05)
        port, path = told.read_text().split()
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"ws://127.0.0.1:{port}{path}", max_msg_size=0) as wire,
        ):
            browser = Browser(wire)
            listening = asyncio.create_task(browser.listen())
            try:
                yield browser
            finally:
                listening.cancel()
    finally:
        process.terminate()
        await process.wait()


def axe_source() -> str:
    """The source of axe-core, from its installed package; the repository has no copy."""
    found = find_spec("axe_playwright_python")
    assert found is not None, "axe-playwright-python is not installed (make install)"
    assert found.origin is not None
    return (Path(found.origin).parent / "axe.min.js").read_text(encoding="utf-8")
