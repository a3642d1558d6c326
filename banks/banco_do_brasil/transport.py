"""How every API of Banco do Brasil is asked: OAuth by scope set, the application key in the query, answers as values.

What arrived whole is `Heard`, whatever it says; everything else is `Unknown`. `refusal` tells the bank's own no, in
any of the shapes its APIs write, from the gateway's trouble with our request.
"""

import asyncio
import math
import re
import ssl
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import aiohttp
import msgspec
from msgspec import Struct

from banks.protocol import Rejected, Unknown

READ_S: Final = 20.0
WRITE_S: Final = 30.0
NOTHING_FOUND: Final = "4769515"  # "Nao ha informacoes para os dados informados", under 400 as well as 404
RETRY_AFTER_S_MAX: Final = 60.0
"""For how long at most the bank keeps us away by a 429: a wrong one must not silence it for hours."""

_RENEW_EARLY_S = 60.0
_LIFETIME_S = 600.0  # of a token whose answer does not say
_ANSWER_BYTES_MAX = 2 * 1024 * 1024
# Statuses that can carry the bank's no. 401, 403 and 429 are about us and not about the charge.
_NO: Final = frozenset({400, 404, 409, 410, 422})
# Where an item of an error list keeps its code and its text: shapes A, F and B.
_ERRORS: Final = (
    ("erros", "codigo", "mensagem"),
    ("erros", "codigoMensagem", "textoMensagem"),
    ("errors", "code", "message"),
)
_SECONDS: Final = re.compile(r"[0-9]{1,40}")
_CODE_CHARACTERS = 60
_MESSAGE_CHARACTERS = 300

# The text of such an error may hold the URL, and so the application key: only its kind is told.
_GONE = (aiohttp.ClientError, OSError, TimeoutError, ValueError)

Answer = TypeVar("Answer")


class _Token(Struct, frozen=True):
    access_token: str
    expires_in: float = _LIFETIME_S


class _SentOnce(aiohttp.BytesPayload):
    """A body that aiohttp does not send a second time. A kept connection that is dropped may have carried it: repeated
    unseen, a PUT that moved money is answered with a no to its used id, as if nothing had gone."""

    @property
    def consumed(self) -> bool:
        return True


class Heard(Struct, frozen=True):
    """An answer that arrived whole, whatever it says."""

    status: int
    body: bytes
    retry_after: str = ""
    """The header: seconds, or a date."""

    @property
    def ok(self) -> bool:
        return self.status in (200, 201)


class Transport:
    """One application of the bank's portal: its credentials, its key, its tokens.

    `read_s` and `write_s` bound one request from connecting to the last byte; `tls` is for client certificates.
    `known_fault` is told beside the error of a request that was not answered: what is known to be wrong here.
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
        # By scope set, as the bank binds them: token and the loop time from which it is renewed.
        self._tokens: dict[tuple[str, ...], tuple[str, float]] = {}
        self._renewing: dict[tuple[str, ...], asyncio.Lock] = {}
        # By scope set: the last renewal that failed, and the loop time at which it did.
        self._failed: dict[tuple[str, ...], tuple[Unknown, float]] = {}
        # By scope set: the loop time before which the bank wants no request.
        self._retry_at: dict[tuple[str, ...], float] = {}

    async def ask(
        self,
        method: str,
        url: str,
        scopes: tuple[str, ...],
        *,
        body: object = None,
        query: Mapping[str, str] | None = None,
    ) -> Heard | Unknown:
        """One request, repeated once with a new token after a 401, which means that nothing was done.

        aiohttp by itself sends a GET once more when a kept connection turns out to be dead. Nothing else is repeated
        here (_SentOnce).
        """
        clock = asyncio.get_running_loop().time
        if clock() < self._retry_at.get(scopes, 0.0):
            # Each order waits by itself: without this, all of them would go on using up what the bank allows.
            return Unknown("HTTP 429")
        heard: Heard | Unknown = Unknown("never asked")
        for _ in range(2):
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
            if not isinstance(heard, Heard) or heard.status != 401:
                return heard
            if self._tokens.get(scopes, ("", 0.0))[0] == token:
                del self._tokens[scopes]
        return heard

    async def _token(self, scopes: tuple[str, ...]) -> str | Unknown:
        """A token with these scopes; one request renews it, or fails to, for everybody who waits."""
        clock = asyncio.get_running_loop().time
        came_at = clock()
        async with self._renewing.setdefault(scopes, asyncio.Lock()):
            token, renew_at = self._tokens.get(scopes, ("", 0.0))
            if token and clock() < renew_at:
                return token
            failure, failed_at = self._failed.get(scopes, (Unknown(""), -math.inf))
            if failed_at >= came_at:
                return failure
            renewed = await self._renew(scopes)
            if isinstance(renewed, Unknown):
                self._failed[scopes] = (renewed, clock())
            return renewed

    async def _renew(self, scopes: tuple[str, ...]) -> str | Unknown:
        asked_at = asyncio.get_running_loop().time()
        heard = await self._request(
            "POST",
            self._oauth_url,
            limit_s=self._read_s,
            headers={"Authorization": self._basic},
            data={"grant_type": "client_credentials", "scope": " ".join(scopes)},
        )
        self._note_limit(scopes, heard)
        issued = read(heard, _Token) if isinstance(heard, Heard) and heard.ok else None
        if issued is None:
            return Unknown(f"token: {unknown(heard).detail}")
        self._tokens[scopes] = (issued.access_token, asked_at + issued.expires_in - _RENEW_EARLY_S)
        return issued.access_token

    def _note_limit(self, scopes: tuple[str, ...], heard: Heard | Unknown) -> None:
        """Of a 429, before when the bank wants nothing more, tokens included."""
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
                        return Unknown("answer too large")
                return Heard(response.status, bytes(body), response.headers.get("Retry-After", ""))
        except _GONE as gone:
            return Unknown(_kind(gone) + self._known_fault())


def _kind(gone: BaseException) -> str:
    """What kind of error it is; of one of TLS its reason too, in which the other side says what is wrong with our
    certificate, where it says anything before it hangs up."""
    reason = getattr(gone.__cause__, "reason", None) if isinstance(gone.__cause__, ssl.SSLError) else None
    return f"{type(gone).__name__} {reason}" if reason else type(gone).__name__


def read(heard: Heard, shape: type[Answer]) -> Answer | None:
    """The answer's JSON as `shape`; None when it is no such thing. The bank writes numbers as text now and then: as an
    unreadable answer, one such lifetime of a token would silence it for every charge."""
    try:
        return msgspec.json.decode(heard.body, type=shape, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def unknown(heard: Heard | Unknown) -> Unknown:
    return heard if isinstance(heard, Unknown) else Unknown(f"HTTP {heard.status}")


def refusal(heard: Heard | Unknown) -> Rejected | None:
    """The bank's own no, in any of its shapes; None for everything that is not one.

    G `{type, title, detail, violacoes}` (RFC 7807), A and F `{erros: [...]}`, B `{errors: [...]}`, whose codes carry
    a version behind a dot. The gateway's shapes C, D and E and HTML say something about the request's way, not
    about the charge.
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
        return Rejected(kind.rpartition("/")[2][:_CODE_CHARACTERS], message[:_MESSAGE_CHARACTERS])
    for of, code, text in _ERRORS:
        errors = said.get(of)
        if isinstance(errors, list) and errors and isinstance(errors[0], dict) and errors[0].get(code):
            plain = str(errors[0][code]).partition(".")[0]
            return Rejected(plain[:_CODE_CHARACTERS], str(errors[0].get(text) or "")[:_MESSAGE_CHARACTERS])
    return None
