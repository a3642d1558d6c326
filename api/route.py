"""A route is a row: who may come in, what it takes, what it answers. The handlers, the order of checks
(contract section 1) and the OpenAPI document are all made from these rows."""

import contextlib
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Literal

import structlog
from litestar import Request
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, Receive, Scope, Send
from msgspec import Struct

from api.answers import Answer, refusal
from api.bodies import fingerprint, read_object
from api.callers import Caller
from api.context import ApiContext
from api.idempotency.lock import KeyName, read_key
from domain.errors import Code, Refused
from domain.mode import Mode
from domain.sandbox_clock import on_clock
from runtime.ids import new_token
from runtime.metrics import Meter
from runtime.postgres import DB_UNAVAILABLE

BYTES_MAX = 256 * 1024
# Refused in front of the token (contract section 1).
_BEFORE_THE_TOKEN = frozenset({Code.PAYLOAD_TOO_LARGE, Code.UNSUPPORTED_MEDIA_TYPE})

_log = structlog.get_logger()
Handler = Callable[["ApiContext", "Call"], Awaitable[Answer]]


Method = Literal["GET", "POST", "PATCH"]


class Parameter(Struct, frozen=True, kw_only=True):
    """A query parameter or header as documented. `schema` is JSON Schema."""

    name: str
    schema: dict[str, Any]
    description: str = ""
    repeatable: bool = False


class Route(Struct, frozen=True, kw_only=True):
    method: Method
    path: str
    name: str
    summary: str
    handle: Handler
    token: bool = True
    scopes: tuple[str, ...] = ()
    """Any one of these is enough."""
    mode: Mode | None = None
    """Whose credentials it is for; the others get 403 SANDBOX_ONLY before anything else is looked at."""
    key: bool = False
    """Whether it is a financial operation that needs an Idempotency-Key."""
    body: type[Struct] | None = None
    body_optional: bool = False
    """Whether a request without a body is one with an empty object."""
    query: tuple[Parameter, ...] = ()
    headers: tuple[Parameter, ...] = ()
    """Optional request headers, beside Authorization and Idempotency-Key."""
    answers: dict[int, Any] = {}
    errors: tuple[Code, ...] = ()
    tag: str = ""


class Call(Struct, kw_only=True):
    """A request let in: who asks, when, with what."""

    scope: Scope
    request_id: str
    at: datetime
    """When it came in: what keys, tokens, bank orders and webhooks go by."""
    caller: Caller
    body: dict[str, Any]
    key: str
    fingerprint: bytes
    headers: list[tuple[bytes, bytes]]
    """Added to whatever is answered."""

    @property
    def now(self) -> datetime:
        """The instant it is for the caller's charges: `at`, but in a sandbox whose clock was advanced."""
        return on_clock(self.at, self.caller.ahead_s)

    @property
    def key_name(self) -> KeyName:
        return (self.caller.owner, self.key)

    def path(self, name: str) -> str:
        value: str = self.scope["path_params"][name]
        return value

    def header(self, name: bytes) -> bytes | None:
        """The first header of that name."""
        return next(iter(_values(self.scope, name)), None)


def new_request_id() -> str:
    return f"req_{new_token()}"


def handler_of(route: Route, context: Callable[[], ApiContext], meter: Meter) -> HTTPRouteHandler:
    """The framework's handler for a row: admit, handle, answer; every refusal becomes its envelope here.

    It finds the route, and no more: what it would do between that and the handler (a request object, parameters,
    a response) costs 6 us a request, so the work hangs before the handler, as the middleware that never calls it.
    """

    async def answer_it(scope: Scope, receive: Receive, send: Send) -> None:
        at = context()
        request_id = new_request_id()
        started = meter.start()
        headers: list[tuple[bytes, bytes]] = []
        caller: Caller | None = None
        code: str | None = None
        try:
            raw = await _read(route, scope, receive)
            now = at.now()
            caller = await _caller(at, scope, now)
            call = await _admit(route, at, scope, raw, now, caller, request_id, headers)
            answer = await route.handle(at, call)
        except Refused as refused:
            code = refused.code.name
            if refused.code in _BEFORE_THE_TOKEN:
                caller = await _known(at, scope, headers)
            answer = refusal(refused, request_id=request_id, docs_url=at.settings.docs_url)
        except (*DB_UNAVAILABLE, OverflowError) as gone:
            _log.warning("unavailable", request_id=request_id, route=route.path, error=type(gone).__name__)
            busy = Refused(Code.SERVICE_UNAVAILABLE, retry_after_s=1)
            code = busy.code.name
            answer = refusal(busy, request_id=request_id, docs_url=at.settings.docs_url)
        except Exception as error:
            _log.exception("request_broken", request_id=request_id, route=route.path, error=type(error).__name__)
            broken = Refused(Code.INTERNAL_ERROR)
            code = broken.code.name
            answer = refusal(broken, request_id=request_id, docs_url=at.settings.docs_url)
        answer.raw_headers.extend(headers)
        answer.raw_headers.append((b"x-request-id", request_id.encode()))
        took_s = meter.finish(route.method, route.path, answer.status_code, started, request_id)
        if caller is not None:
            at.request_log.add(caller, request_id, route.method, scope["path"], answer.status_code, code, took_s)
        await answer(scope, receive, send)

    def instead(app: ASGIApp) -> ASGIApp:
        return answer_it

    async def handle() -> None:
        raise AssertionError("every request is answered before it gets here")

    return HTTPRouteHandler(
        route.path,
        http_method=route.method,
        name=route.name,
        status_code=200,
        include_in_schema=False,
        middleware=[instead],
    )(handle)


# The checks every route shares, in the contract's order: what was sent, by whom, and whether he may.


async def _read(route: Route, scope: Scope, receive: Receive) -> bytes:
    if route.method == "GET":
        return b""
    raw = await _body(scope, receive)
    if route.body is not None and not _is_json(scope) and not _no_body(route, raw):
        raise Refused(Code.UNSUPPORTED_MEDIA_TYPE)
    return raw


async def _caller(context: ApiContext, scope: Scope, now: datetime) -> Caller:
    authorization = _values(scope, b"authorization")
    return await context.callers.of(authorization[0] if len(authorization) == 1 else None, now=now)


async def _admit(
    route: Route,
    context: ApiContext,
    scope: Scope,
    raw: bytes,
    now: datetime,
    caller: Caller,
    request_id: str,
    headers: list[tuple[bytes, bytes]],
) -> Call:
    """From the rate limit up to the shape of the body being JSON."""
    await _spend(context, caller, headers)
    if route.mode is not None and caller.mode is not route.mode:
        raise Refused(Code.SANDBOX_ONLY)
    if route.scopes and not any(scope in caller.scopes for scope in route.scopes):
        raise Refused(Code.INSUFFICIENT_SCOPE)
    key = ""
    if route.key:
        key = read_key(_values(scope, b"idempotency-key"))
    body: dict[str, Any] = {}
    mark = b""
    if route.body is not None:
        if raw or not route.body_optional:
            body = read_object(raw)
        if route.key:
            # The path as asked for: a key used for one charge is not another charge's.
            mark = fingerprint(route.method, scope["path"], body)
    return Call(
        scope=scope,
        request_id=request_id,
        at=now,
        caller=caller,
        body=body,
        key=key,
        fingerprint=mark,
        headers=headers,
    )


async def _spend(context: ApiContext, caller: Caller, headers: list[tuple[bytes, bytes]]) -> None:
    """One token of the credential's bucket; what is left is told whether or not there was one."""
    rate, burst = caller.rate_per_s or context.settings.rate_per_s, caller.rate_burst or context.settings.rate_burst
    headers.append((b"ratelimit-limit", b"%d" % burst))
    try:
        left, reset_s = await context.buckets.spend(caller.client_id, rate_per_s=rate, burst=burst)
    except Refused as limited:
        headers.append((b"ratelimit-remaining", b"0"))
        headers.append((b"ratelimit-reset", b"%d" % (limited.retry_after_s or 1)))
        raise
    headers.append((b"ratelimit-remaining", b"%d" % left))
    headers.append((b"ratelimit-reset", b"%d" % reset_s))


async def _known(context: ApiContext, scope: Scope, headers: list[tuple[bytes, bytes]]) -> Caller | None:
    """Who sent what was refused before anybody asked: his request counts, he is told his limits, and his log has it.

    The refusal stands whoever he is, and whatever goes wrong here.
    """
    caller = None
    with contextlib.suppress(Refused, *DB_UNAVAILABLE):
        caller = await _caller(context, scope, context.now())
        await _spend(context, caller, headers)
    return caller


async def read_body(request: Request[Any, Any, Any]) -> bytes:
    """For routes without a token, which are not admitted: the body within its bound."""
    return await _body(request.scope, request.receive)


async def _body(scope: Scope, receive: Receive) -> bytes:
    """The body straight from the server: the framework's way costs as much as the rest of the framework."""
    for value in _values(scope, b"content-length"):
        if len(value) > 9 or (value.isdigit() and int(value) > BYTES_MAX):
            raise Refused(Code.PAYLOAD_TOO_LARGE)  # said to be too large: not a byte of it is waited for
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Refused(Code.MALFORMED_JSON)  # the client has gone; nobody reads this
        part = message["body"]
        size += len(part)
        if size > BYTES_MAX:
            raise Refused(Code.PAYLOAD_TOO_LARGE)
        if not message["more_body"]:
            return b"".join((*parts, part)) if parts else part
        parts.append(part)


def _no_body(route: Route, raw: bytes) -> bool:
    """Nothing was sent, and nothing has no type, whatever a client's library calls it. Where that is a fault, a
    credential of the wrong mode is told about its mode first."""
    return not raw and (route.body_optional or route.mode is not None)


def _is_json(scope: Scope) -> bool:
    types = _values(scope, b"content-type")
    return len(types) == 1 and (
        types[0] == b"application/json" or types[0].split(b";", 1)[0].strip().lower() == b"application/json"
    )


def _values(scope: Scope, name: bytes) -> list[bytes]:
    """Every value of a header, in order; `name` is lower case."""
    return [value for each, value in scope["headers"] if each == name]
