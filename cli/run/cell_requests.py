"""Finds the cell of a request in its token, cookie or path: each carries the number of the cell that made it. A form
with an e-mail alone is tried in each cell that knows it."""

from base64 import b64decode, urlsafe_b64decode
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote
from uuid import UUID

import msgspec

from runtime.cells.number import HOME, cell_of, cell_of_hex, cell_of_token
from web.cells import CHOSEN
from web.head import cookie_in, parameter_in

_BODY_BYTES_MAX: Final = 64 * 1024
_SECTIONS: Final = {"/painel": "painel", "/plataforma": "plataforma"}
"""The signed-in sections, each with the name of its session cookie (web/painel/section.py)."""
_CODE_FORMS: Final = frozenset(("/painel/entrar/codigo", "/plataforma/entrar/codigo"))
_CHOICE_PATHS: Final = ("/plataforma/entrar", "/correio")
"""Paths at which a parameter names the cell: staff sign in to a cell, and local work reads a cell's caught mails."""
_PERSONAL_PAGES: Final = tuple(f"/plataforma/{each}" for each in ("acesso", "sair", "celula", "entrar"))
"""Pages about the person, not about a cell: they go to the cell of the session, whichever cell staff have chosen."""
_STOP_LINK: Final = "/correio/parar/"
"""The link that stops a payer's mails (web/mail.py). Its token names the cell, so no choice applies to it."""
_KEY_SETS: Final = "/pix/v2/jwks/"
"""The keys with which cells other than home sign what the QR Codes of their sandbox lead to (web/pix_locations.py)."""
CHOICE: Final = "celula"
"""The parameter that names a cell, and the cookie that keeps it until the form is sent."""
_SIGN_IN: Final = "/painel/entrar"
EMAIL_FORMS: Final = frozenset((_SIGN_IN, "/painel/recuperar"))
"""Forms sent before sign-in: they carry an e-mail address and no cell number."""
_REFUSALS: Final = (403, 429, 503)
"""Answers with which a cell leaves a form about an e-mail to the other cells."""


class BufferedBody:
    """A request's body in memory, so that it can be read more than once."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self._is_received = False

    @classmethod
    async def read(cls, receive: Any) -> "BufferedBody":
        """Reads up to the size that any form or token request may have. A longer body is cut, and the application that
        reads it refuses it."""
        parts, size = [], 0
        while size <= _BODY_BYTES_MAX:
            message = await receive()
            if message["type"] != "http.request":
                break
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if not message.get("more_body", False):
                break
        return cls(b"".join(parts))

    def again(self) -> "BufferedBody":
        return BufferedBody(self.content)

    async def receive(self) -> Any:
        if self._is_received:
            return {"type": "http.disconnect"}
        self._is_received = True
        return {"type": "http.request", "body": self.content, "more_body": False}


class CollectedAnswer:
    """An answer that is collected and not sent yet."""

    def __init__(self) -> None:
        self.status = 503
        self._messages: list[Any] = []

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        self._messages.append(message)

    async def forward(self, send: Callable[[Any], Awaitable[None]]) -> None:
        for message in self._messages:
            await send(message)


def own_scope(scope: Any) -> Any:
    """A copy of the scope for one of several applications that are asked in turn. The framework keeps in `state` that
    an answer has begun: the next application would take that for its own answer, and could not report an error."""
    return {**scope, "state": dict(scope["state"])}


async def try_each(
    numbers: Iterable[int],
    scope: Any,
    body: BufferedBody,
    forward: Callable[[int, Any, Any, Any], Awaitable[None]],
    send: Any,
) -> None:
    """Tries the form in each cell: an e-mail may have accounts in several, with different passwords. A sign-in ends at
    the first cell that accepts it; a link to a new password is asked for in all of them."""
    answers: list[CollectedAnswer] = []
    for number in numbers:
        answer = CollectedAnswer()
        await forward(number, own_scope(scope), body.again().receive, answer.send)
        answers.append(answer)
        if scope["path"] == _SIGN_IN and answer.status not in _REFUSALS:
            break
    accepted = [each for each in answers if each.status not in _REFUSALS]
    # A cell in which too many passwords were tried says nothing about the others; but it explains a refusal better.
    throttled = [each for each in answers if each.status == 429]
    await (accepted or throttled or answers[-1:])[0].forward(send)


def cell_of_request(scope: Any) -> int | None:
    """The cell that a request's headers or path name; None when they name none."""
    path: str = scope["path"]
    if path.startswith("/v1/"):
        return _cell_of_bearer(scope)
    if path.startswith("/pagar/"):
        return cell_of_token(path[len("/pagar/") :])
    if path.startswith("/logo/"):
        return cell_of_hex(path[len("/logo/") :])
    if path.startswith(_STOP_LINK):
        # 22 characters of base 64: the account's id, with which the token begins (commands/mail.py, stop_token).
        return _cell_of_ordered_token(path[len(_STOP_LINK) :][:22])
    if path.startswith("/pix/"):
        last = path.rpartition("/")[2]
        return cell_of_hex(last) if path.startswith(_KEY_SETS) else _cell_of_ordered_token(last)
    for root, cookie in _SECTIONS.items():
        if path.startswith(f"{root}/recuperar/"):
            return _cell_of_link(path, root)
        if path.startswith(root):
            session_cell = _cell_of_cookie(scope, cookie)
            return (
                session_cell
                if root != "/plataforma" or path.startswith(_PERSONAL_PAGES)
                else _chosen_cell(scope, session_cell)
            )
    return None


def cell_of_client(scope: Any, body: bytes) -> int | None:
    """The cell of the client of a token request, from its client_id in HTTP Basic, a form or JSON."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            try:
                return cell_of_hex(unquote(b64decode(value[6:].strip()).decode("utf-8").partition(":")[0]))
            except ValueError:
                return None
    return cell_of_hex(_field(body, "client_id"))


def cell_chosen(scope: Any) -> str | None:
    """The name of the cell that the request asks for by parameter or cookie; None for other paths, or without one."""
    path: str = scope["path"]
    if not path.startswith(_CHOICE_PATHS) or path.startswith(_STOP_LINK):
        return None
    return parameter_in(scope, CHOICE) or cookie_in(scope, CHOICE) or None


def with_choice_cookie(chosen: str, send: Any) -> Any:
    """Wraps `send` to set the cookie that leads the next form to the same cell."""
    cookie = f"{CHOICE}={quote(chosen)}; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax".encode()

    async def send_with_cookie(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), (b"set-cookie", cookie)]}
        await send(message)

    return send_with_cookie


def is_form(scope: Any) -> bool:
    """Whether only the body can name the cell of this request."""
    path: str = scope["path"]
    return path == "/v1/oauth/token" or (scope["method"] == "POST" and path in EMAIL_FORMS | _CODE_FORMS)


def cell_in_form(scope: Any, body: bytes) -> int | None:
    """The cell that a form names: by a client_id, or, at the code step of sign-in, by the step's token (`passo`). None
    when it names none."""
    if scope["path"] in _CODE_FORMS:
        return cell_of_hex(_field(body, "passo"))
    return cell_of_client(scope, body)


def email_of(body: bytes) -> str:
    return _field(body, "email").strip().lower()


def _field(body: bytes, name: str) -> str:
    try:
        if body.lstrip()[:1] == b"{":
            fields = msgspec.json.decode(body)
            value = fields.get(name, "") if isinstance(fields, dict) else ""
            return value if isinstance(value, str) else ""
        return parse_qs(body.decode("utf-8")).get(name, [""])[0]
    except (ValueError, RecursionError):
        return ""


def _cell_of_bearer(scope: Any) -> int | None:
    for name, value in scope["headers"]:
        if name == b"authorization":
            return cell_of_token(value[7:].strip().decode("latin-1"))
    return None


def _cell_of_ordered_token(token: str) -> int | None:
    """The cell of a token that encodes an id (runtime/ids.py, ordered_token)."""
    try:
        return cell_of(UUID(bytes=urlsafe_b64decode(f"{token}==")))
    except ValueError:
        return None


def _cell_of_link(path: str, root: str) -> int | None:
    return cell_of_token(path[len(f"{root}/recuperar/") :])


def _cell_of_cookie(scope: Any, name: str) -> int | None:
    return cell_of_hex(cookie_in(scope, f"__Host-{name}") or cookie_in(scope, name))


def _chosen_cell(scope: Any, session_cell: int | None) -> int | None:
    """The cell that home's staff chose to work in. The mark is only read here; web/cells.py verifies it."""
    if session_cell != HOME:
        return session_cell
    chosen = _cell_of_cookie(scope, CHOSEN)
    return session_cell if chosen is None else chosen
