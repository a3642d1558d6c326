"""A member of the platform's staff in a browser without scripts, over several cells in the test's process."""

import asyncio
import re
import secrets
from datetime import UTC, datetime
from html import unescape
from http.cookies import SimpleCookie
from typing import Any, NamedTuple
from urllib.parse import urlencode

from commands.people.second_factor import RECOVERY_CHANCE, enrol
from commands.people.staff import add_staff
from domain.totp import SECRET_BYTES, code_at, step_at
from runtime.cells.number import HOME
from runtime.passwords import hash_password
from runtime.postgres import transaction
from tests.support.cells import Cells
from tests.support.in_process import Api

_FORM = (b"content-type", b"application/x-www-form-urlencoded")
_HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)">')


class Page(NamedTuple):
    status: int
    html: str
    where: str
    """The target of a redirect."""
    file: str
    """The file name of a download."""

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", self.html)))

    def hidden(self, action: str) -> dict[str, str]:
        """The hidden fields of the first form with this action."""
        form = re.search(rf'<form[^>]* action="{re.escape(action)}"[^>]*>(.*?)</form>', self.html, re.DOTALL)
        assert form, (action, self.status, self.text[:300])
        return {name: unescape(value) for name, value in _HIDDEN.findall(form[1])}

    def hidden_with(self, name: str, value: str) -> dict[str, str]:
        """The hidden fields of the first form that has this hidden field."""
        forms = (dict(_HIDDEN.findall(form)) for form in re.findall(r"<form.*?</form>", self.html, re.DOTALL))
        return next(form for form in forms if form.get(name) == value)


class _StayingClient:
    """An application whose client disconnects only after the whole answer, also when the answer is streamed."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        ended = asyncio.Event()

        async def receiving() -> Any:
            message = await receive()
            if message["type"] == "http.disconnect":
                await ended.wait()
            return message

        async def sending(message: Any) -> None:
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                ended.set()

        await self._app(scope, receiving, sending)


class StaffBrowser:
    """The browser of a member of staff; `cookies` are those it keeps."""

    def __init__(self, cells: Cells, email: str, password: str) -> None:
        self.cells = cells
        app: Any = _StayingClient(cells.router)
        self._api = Api(app, cells.settings, [cells.merchants[HOME]] * 3)
        self.email = email
        self.password = password
        self.cookies: dict[str, str] = {}

    async def ask(self, method: str, path: str, fields: dict[str, Any] | None = None) -> Page:
        path, _, query = path.partition("?")
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        reply = await self._api.ask(
            method,
            path,
            query=query.encode(),
            headers=[_FORM, (b"cookie", cookie.encode())],
            body=urlencode(fields or {}, doseq=True).encode(),
        )
        for name, value in reply.headers:
            if name.lower() == b"set-cookie":
                self._keep(SimpleCookie(value.decode()))
        where = next((value.decode() for name, value in reply.headers if name.lower() == b"location"), "")
        file = (reply.header("content-disposition") or "").partition('filename="')[2].rstrip('"')
        return Page(reply.status, reply.body.decode("utf-8", "replace"), where, file)

    def _keep(self, jar: SimpleCookie) -> None:
        for name, morsel in jar.items():
            if morsel["max-age"] == "0":
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = morsel.value

    async def opened(self, path: str) -> Page:
        page = await self.ask("GET", path)
        assert page.status == 200, (path, page.status, page.where, page.text[:300])
        return page

    async def send(self, path: str, *, on: str, **fields: Any) -> Page:
        """Send the form of the page at `on` whose action is `path`, with these fields."""
        return await self.ask("POST", path, {**(await self.opened(on)).hidden(path), **fields})

    async def sign_in(self, *, code: str = "", cell: str = "") -> Page:
        entry = "/plataforma/entrar"
        form = await self.opened(f"{entry}?celula={cell}" if cell else entry)
        given = {"email": self.email, "password": self.password}
        page = await self.ask("POST", entry, {**form.hidden(entry), **given})
        if code:
            page = await self.ask("POST", f"{entry}/codigo", {**page.hidden(f"{entry}/codigo"), "codigo": code})
        return page

    async def choose(self, cell: str, *, on: str = "/plataforma/celula", **fields: Any) -> Page:
        return await self.send("/plataforma/celula", on=on, **{"celula": cell, **fields})


async def staff_of_cell(
    cells: Cells, number: int = HOME, *, role: str = "admin", signed_in: bool = True
) -> StaffBrowser:
    """Create a member of staff of this cell."""
    email, password = f"equipe.{secrets.token_hex(4)}@example.com", secrets.token_urlsafe(12)
    async with cells.pool(number) as pool, transaction(pool) as conn:
        await add_staff(conn, email, hash_password(password), role=role, now=datetime.now(UTC))
    desk = StaffBrowser(cells, email, password)
    if signed_in:
        name = "" if number == HOME else next(each.name for each in cells.router.pages() if each.number == number)
        assert (await desk.sign_in(cell=name)).status == 303
    return desk


async def enrol_second_factor(cells: Cells, desk: StaffBrowser) -> list[str]:
    """Enrol a second factor at home; returns recovery codes, each of which works once."""
    secret, now = secrets.token_bytes(SECRET_BYTES), datetime.now(UTC)
    async with cells.pool(HOME) as pool, transaction(pool) as conn:
        return await enrol(
            conn,
            desk.email,
            secret,
            code_at(secret, step_at(now)),
            now=now,
            seal=cells.seal,
            chance=secrets.token_bytes(RECOVERY_CHANCE),
        )
