"""The HTTP transport of Banco do Brasil's APIs: OAuth by scope set, application key in the query, answers as values.

An answer that arrived whole is `Heard`, whatever it says; everything else is `Unknown`. `refusal` distinguishes the
bank's own no, in any of its APIs' shapes, from the gateway's errors about our request.
"""

import asyncio
import math
import re
import ssl
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

import aiohttp
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from banks.banco_do_brasil.text import printable, without_lone_surrogates
from banks.lists import TooWide
from banks.protocol import Rejected, Unknown

READ_S: Final = 20.0
WRITE_S: Final = 30.0
NOTHING_FOUND: Final = "4769515"  # "Nao ha informacoes para os dados informados", under 400 as well as 404
RETRY_AFTER_S_MAX: Final = 60.0
"""The longest pause obeyed after a 429: a mistaken Retry-After must not stop all requests for hours."""

PAUSE_S_MAX: Final = 8.0
"""The longest pause that a call waits for after a 429. Requests wait ten seconds for their boletos, and an order that
came back before the pause was over used up its attempts without the bank having been asked."""

_RENEW_EARLY_S = 60.0
_RENEW_AGAIN_S = 5.0  # after a renewal that failed, while the token has not ended
_LIFETIME_S = 600.0  # of a token whose answer states no lifetime above zero; a 401 drops one that ended before
_ANSWER_BYTES_MAX = 2 * 1024 * 1024
_TOO_LARGE: Final = Unknown("answer too large")
# Statuses that can carry the bank's no. 401, 403 and 429 are about us and not about the charge.
_NO: Final = frozenset({400, 404, 409, 410, 422})
# The names of list, code and text in the error shapes A, F and B.
_ERRORS: Final = (
    ("erros", "codigo", "mensagem"),
    ("erros", "codigoMensagem", "textoMensagem"),
    ("errors", "code", "message"),
)
_SECONDS: Final = re.compile(r"[0-9]{1,40}")
_CODE_CHARACTERS = 60
_MESSAGE_CHARACTERS = 300

# The text of such an error may contain the URL and so the application key: only its type is reported.
_GONE = (aiohttp.ClientError, OSError, TimeoutError, ValueError)

Answer = TypeVar("Answer")


class _Issued(Struct, frozen=True):
    access_token: str
    expires_in: float | None = None


class _Token(Struct, frozen=True):
    """An access token; times are the loop's. From `renew_at` on it is renewed, and until `ends_at` it serves."""

    text: str
    renew_at: float
    ends_at: float


class _SentOnce(aiohttp.BytesPayload):
    """A request body that aiohttp does not send again. A dropped keep-alive connection may have delivered the first
    request; if aiohttp silently repeated a PUT that moved money, the bank would refuse the used id, as if no money had
    moved."""

    @property
    def consumed(self) -> bool:
        return True


class Heard(Struct, frozen=True):
    """An answer that arrived whole, whatever it says."""

    status: int
    body: bytes
    retry_after: str = ""
    """The Retry-After header: seconds, or a date."""

    @property
    def ok(self) -> bool:
        return self.status in (200, 201)


class Transport:
    """One application of the bank's portal: its credentials, its application key, its tokens.

    `read_s` and `write_s` bound one request from connecting to the last byte; `tls` is for client certificates.
    `known_fault` returns a fault known on our side, which is appended to the error of a request without an answer.
    """

    def __init__(
        self,
        http: aiohttp.ClientSession,
        *,
        oauth_url: str,
        client_id: str,
        client_secret: str,
        app_key: str,
        app_key_param: str = "gw-dev-app-key",
        read_s: float = READ_S,
        write_s: float = WRITE_S,
        tls: ssl.SSLContext | None = None,
        known_fault: Callable[[], str] = str,
    ) -> None:
        self._http = http
        self._oauth_url = oauth_url
        self._basic = "Basic " + b64encode(f"{client_id}:{client_secret}".encode()).decode()
        self._app_key = {app_key_param: app_key}
        self._read_s = read_s
        self._write_s = write_s
        self._tls: ssl.SSLContext | bool = True if tls is None else tls
        self._known_fault = known_fault
        # By scope set, to which the bank binds tokens.
        self._tokens: dict[tuple[str, ...], _Token] = {}
        self._renewing: dict[tuple[str, ...], asyncio.Lock] = {}
        # By scope set: the last renewal that failed, and the loop time at which it did.
        self._failed: dict[tuple[str, ...], tuple[Unknown, float]] = {}
        # By scope set: the loop time before which the bank wants no further request.
        self._retry_at: dict[tuple[str, ...], float] = {}

    def pause_s(self, scopes: tuple[str, ...]) -> float:
        """For how long the bank wants no call with these scopes."""
        return max(self._retry_at.get(scopes, 0.0) - asyncio.get_running_loop().time(), 0.0)

    async def ask(
        self,
        method: str,
        url: str,
        scopes: tuple[str, ...],
        *,
        body: object = None,
        query: Mapping[str, str] | None = None,
    ) -> Heard | Unknown:
        """Make one request. After a 401 or a 429, which mean that nothing was done, it is repeated once: with a new
        token, or when the bank wants to be asked again, if that is within PAUSE_S_MAX.

        aiohttp by itself repeats a GET once if a keep-alive connection turns out to be dead. It repeats nothing else
        (_SentOnce).
        """
        clock = asyncio.get_running_loop().time
        heard: Heard | Unknown = Unknown("never asked")
        for _ in range(2):
            # Each order has a backoff of its own; without this check all of them together would go on using up the
            # bank's rate limit.
            pause_s = self.pause_s(scopes)
            if pause_s > PAUSE_S_MAX:
                return Unknown("HTTP 429")
            if pause_s > 0:
                await asyncio.sleep(pause_s)
            token = await self._token(scopes)
            if isinstance(token, Unknown):
                return token
            heard = await self._request(
                method,
                url,
                limit_s=self._read_s if method == "GET" else self._write_s,
                params={**self._app_key, **(query or {})},
                headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
                data=None if body is None else _SentOnce(msgspec.json.encode(body)),
            )
            self._note_limit(scopes, heard)
            is_limited = isinstance(heard, Heard) and heard.status == 429 and clock() < self._retry_at.get(scopes, 0.0)
            if not isinstance(heard, Heard) or (heard.status != 401 and not is_limited):
                return heard
            if heard.status == 401 and (held := self._tokens.get(scopes)) is not None and held.text == token:
                del self._tokens[scopes]
        return heard

    async def _token(self, scopes: tuple[str, ...]) -> str | Unknown:
        """Return a token with these scopes. One request renews it, or fails to, for all callers that wait. While that
        request runs, and if it fails, a token that has not ended yet serves on."""
        clock = asyncio.get_running_loop().time
        came_at = clock()
        renewing = self._renewing.setdefault(scopes, asyncio.Lock())
        if renewing.locked() and (valid := self._valid_token(scopes)):
            return valid
        async with renewing:
            token = self._tokens.get(scopes)
            if token is not None and clock() < token.renew_at:
                return token.text
            failure, failed_at = self._failed.get(scopes, (Unknown(""), -math.inf))
            if failed_at >= came_at:
                return failure
            renewed = await self._renew(scopes)
            if isinstance(renewed, Unknown):
                self._failed[scopes] = (renewed, clock())
                token = self._tokens.get(scopes)  # a 401 may have dropped it meanwhile
                if token is not None and (now := clock()) < token.ends_at:
                    self._tokens[scopes] = replace(token, renew_at=min(now + _RENEW_AGAIN_S, token.ends_at))
                    return token.text
            return renewed

    def _valid_token(self, scopes: tuple[str, ...]) -> str:
        """Return the token with these scopes, which may be due to be renewed; empty if it has ended."""
        token = self._tokens.get(scopes)
        return token.text if token is not None and asyncio.get_running_loop().time() < token.ends_at else ""

    async def _renew(self, scopes: tuple[str, ...]) -> str | Unknown:
        asked_at = asyncio.get_running_loop().time()
        heard = await self._request(
            "POST",
            self._oauth_url,
            limit_s=self._read_s,
            headers={"Authorization": self._basic},
            data={"grant_type": "client_credentials", "scope": " ".join(scopes)},
        )
        if not self._valid_token(scopes):  # else calls go on with that token, whatever its host limits
            self._note_limit(scopes, heard)
        issued = read(heard, _Issued) if isinstance(heard, Heard) and heard.ok else None
        if issued is None:
            return Unknown(f"token: {unknown(heard).detail}")
        told_s = issued.expires_in or 0.0
        ends_at = asked_at + (told_s if told_s > 0 else _LIFETIME_S)
        # A server may issue the same token until it ends, with ever less time left: renewed by each call for its last
        # minute, one call after the other would wait for a token of its own.
        renew_at = ends_at - min(_RENEW_EARLY_S, (ends_at - asked_at) / 2)
        self._tokens[scopes] = _Token(issued.access_token, renew_at, ends_at)
        return issued.access_token

    def _note_limit(self, scopes: tuple[str, ...], heard: Heard | Unknown) -> None:
        """Note from a 429 how long to make no request with these scopes, token requests included."""
        if isinstance(heard, Heard) and heard.status == 429 and _SECONDS.fullmatch(heard.retry_after):
            wait_s = min(float(heard.retry_after), RETRY_AFTER_S_MAX)
            self._retry_at[scopes] = asyncio.get_running_loop().time() + wait_s

    async def _request(self, method: str, url: str, *, limit_s: float, **given: Any) -> Heard | Unknown:
        try:
            async with self._http.request(
                method,
                url,
                timeout=aiohttp.ClientTimeout(total=limit_s),
                ssl=self._tls,
                allow_redirects=False,
                **given,
            ) as response:
                body = bytearray()
                async for chunk in response.content.iter_any():
                    body += chunk
                    if len(body) > _ANSWER_BYTES_MAX:
                        return _TOO_LARGE
                return Heard(response.status, bytes(body), response.headers.get("Retry-After", ""))
        except _GONE as gone:
            return Unknown(_kind(gone) + self._known_fault())


def _kind(gone: BaseException) -> str:
    """Return the type of the error and, for a TLS error, its reason: with it the bank may tell what is wrong with our
    certificate before it closes the connection."""
    reason = getattr(gone.__cause__, "reason", None) if isinstance(gone.__cause__, ssl.SSLError) else None
    return f"{type(gone).__name__} {reason}" if reason else type(gone).__name__


def read(heard: Heard, shape: type[Answer]) -> Answer | None:
    """Return the answer's JSON as `shape`; None if it does not fit. Not strict, because the bank sometimes writes
    numbers as text: if that made an answer unreadable, one such token lifetime would stop all charges."""
    for body in (heard.body, without_lone_surrogates(heard.body)):
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            return msgspec.json.decode(body, type=shape, strict=False)
    return None


def unknown(heard: Heard | Unknown) -> Unknown:
    return heard if isinstance(heard, Unknown) else Unknown(f"HTTP {heard.status}")


def not_listed(heard: Heard | Unknown) -> TooWide | Unknown:
    """Return what an answer means that is no page of the requested list. The error code for a list with too many items
    is not published, so any 400 or 422 counts as that, and so does an answer larger than is read: the caller asks for
    a shorter interval."""
    if heard == _TOO_LARGE:
        return TooWide(_TOO_LARGE.detail)
    no = refusal(heard)
    refused = isinstance(heard, Heard) and heard.status in (400, 422)
    return TooWide(no.code) if no is not None and refused else unknown(heard)


def nothing_found(heard: Heard | Unknown) -> bool:
    """Whether the bank itself says that there is no such thing. A gateway's 404 page does not say it."""
    no = refusal(heard)
    return no is not None and isinstance(heard, Heard) and (heard.status == 404 or no.code == NOTHING_FOUND)


def refusal(heard: Heard | Unknown) -> Rejected | None:
    """Return the bank's own no, in any of its shapes; None for any other answer.

    Shapes: G `{type, title, detail, violacoes}` (RFC 7807), A and F `{erros: [...]}`, B `{errors: [...]}`, whose codes
    have a version after a dot. The gateway's shapes C, D and E and HTML concern the request's delivery, not the charge.
    """
    if not isinstance(heard, Heard) or heard.status not in _NO:
        return None
    said = read(heard, dict[str, Any])
    if said is None:
        return None
    kind = said.get("type")
    if isinstance(kind, str) and "/error/" in kind:
        violations = said.get("violacoes")
        reasons = [
            str(each["razao"])
            for each in (violations if isinstance(violations, list) else ())
            if isinstance(each, dict) and isinstance(each.get("razao"), str)
        ]
        message = "; ".join(reasons) or str(said.get("detail") or said.get("title") or "")
        return Rejected(printable(kind.rpartition("/")[2], _CODE_CHARACTERS), printable(message, _MESSAGE_CHARACTERS))
    for of, code, text in _ERRORS:
        errors = said.get(of)
        if isinstance(errors, list) and errors and isinstance(errors[0], dict) and errors[0].get(code):
            plain = str(errors[0][code]).partition(".")[0]
            return Rejected(
                printable(plain, _CODE_CHARACTERS), printable(str(errors[0].get(text) or ""), _MESSAGE_CHARACTERS)
            )
    return None
