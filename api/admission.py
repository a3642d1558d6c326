"""The checks that all routes with an access token share, in the order of contract section 1."""

import contextlib
from collections.abc import Coroutine
from datetime import datetime
from typing import Any

from litestar import Request
from litestar.types import Receive, Scope

from api.body.reading import fingerprint, read_object
from api.body.redaction import READ_MAX
from api.callers import Caller
from api.context import ApiContext
from api.exchange import Exchange
from api.idempotency.lock import read_key
from api.route import Call, Route, header_values
from domain.errors import Code, Refused
from domain.mode import Mode
from runtime.postgres import DB_UNAVAILABLE

BYTES_MAX = 256 * 1024
_TWICE = "The Content-Type header stands more than once: send one, application/json."
_PACKED = "A body is not unpacked here: send it as it is, without Content-Encoding."
_OTHER_MODE = {
    Mode.SANDBOX: "This operation is for test credentials, and this one is of production.",
    Mode.PRODUCTION: "This operation is for production credentials, and this one is of the sandbox.",
}


async def admit(route: Route, context: ApiContext, scope: Scope, receive: Receive, exchange: Exchange) -> Call:
    """Checks size and type, token, rate, mode, scope, key and JSON, in this order; returns the call or raises
    Refused."""
    try:
        raw = await _read(route, scope, receive)
    except Refused:
        await _identify(context, scope, exchange)
        raise
    now = context.now()
    caller = exchange.caller = await _caller(context, scope, now)
    if caller.test and route.method != "GET":
        exchange.sent = len(raw)
    await _spend(context, caller, exchange)
    if route.mode is not None and caller.mode is not route.mode:
        raise Refused(Code.SANDBOX_ONLY, message=_OTHER_MODE[route.mode])
    if route.scopes and not any(scope in caller.scopes for scope in route.scopes):
        raise Refused(Code.INSUFFICIENT_SCOPE, needed=" or ".join(route.scopes))
    key = read_key(header_values(scope, b"idempotency-key")) if route.key else ""
    body: dict[str, Any] = {}
    mark = b""
    if route.body is not None:
        if raw or not route.body_optional:
            body = read_object(raw)
            if exchange.sent is not None and len(raw) <= READ_MAX:
                exchange.sent = body
        if route.key:
            # The path with its ids, not the template: the same key and body for another charge is another request.
            mark = fingerprint(route.method, scope["path"], body)
    return Call(
        scope=scope, request_id=exchange.request_id, at=now, caller=caller, body=body, key=key, fingerprint=mark
    )


async def _read(route: Route, scope: Scope, receive: Receive) -> bytes:
    if route.method == "GET":
        return b""
    raw = await _body(scope, receive)
    if route.body is not None and not _is_json(scope) and not _no_body(route, raw):
        twice = len(header_values(scope, b"content-type")) > 1
        raise Refused(Code.UNSUPPORTED_MEDIA_TYPE, message=_TWICE if twice else None)
    if route.body is not None and not _is_plain(scope):
        raise Refused(Code.UNSUPPORTED_MEDIA_TYPE, message=_PACKED)
    return raw


def _caller(context: ApiContext, scope: Scope, now: datetime) -> Coroutine[Any, Any, Caller]:
    return context.callers.of(header_values(scope, b"authorization"), now=now)


async def _spend(context: ApiContext, caller: Caller, exchange: Exchange) -> None:
    """Spends one token of the credential's bucket. The RateLimit headers are set on a refusal too."""
    rate, burst = context.rate_of(caller)
    try:
        left, reset_s = await context.buckets.spend(caller.client_id, rate_per_s=rate, burst=burst)
    except Refused as limited:
        exchange.headers = _limits(burst, 0, limited.retry_after_s or 1)
        raise
    exchange.headers = _limits(burst, left, reset_s)


def _limits(burst: int, left: int, reset_s: int) -> list[tuple[bytes, bytes]]:
    return [
        (b"ratelimit-limit", b"%d" % burst),
        (b"ratelimit-remaining", b"%d" % left),
        (b"ratelimit-reset", b"%d" % reset_s),
    ]


async def _identify(context: ApiContext, scope: Scope, exchange: Exchange) -> None:
    """Identifies the caller of a request that was refused for its size or type before its token was read, so that it
    counts against the credential's rate limit and is logged. Failures here never replace the first refusal."""
    with contextlib.suppress(Refused, *DB_UNAVAILABLE):
        exchange.caller = await _caller(context, scope, context.now())
        await _spend(context, exchange.caller, exchange)


async def read_body(request: Request[Any, Any, Any]) -> bytes:
    """The body, at most BYTES_MAX, for routes without an access token, which do not come through `admit`."""
    return await _body(request.scope, request.receive)


async def _body(scope: Scope, receive: Receive) -> bytes:
    """The body straight from the server: the framework's own way costs as much as the rest of the framework."""
    for value in header_values(scope, b"content-length"):
        if len(value) > 9 or (value.isdigit() and int(value) > BYTES_MAX):
            raise Refused(Code.PAYLOAD_TOO_LARGE)  # refused by the declared length, before any byte is read
    here = getattr(getattr(receive, "__self__", None), "body_here", None)
    whole: bytes | None = None if here is None else here()  # our server's shortcut (cli/run/http_cycle.py)
    if whole is not None:
        if len(whole) > BYTES_MAX:
            raise Refused(Code.PAYLOAD_TOO_LARGE)
        return whole
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Refused(Code.MALFORMED_JSON)  # the client has disconnected and never reads this answer
        part = message["body"]
        size += len(part)
        if size > BYTES_MAX:
            raise Refused(Code.PAYLOAD_TOO_LARGE)
        if not message["more_body"]:
            return b"".join((*parts, part)) if parts else part
        parts.append(part)


def _no_body(route: Route, raw: bytes) -> bool:
    """Whether an empty body is exempt from the Content-Type check: HTTP libraries send any type with it. Where a body
    is required, this lets a credential of the wrong mode get SANDBOX_ONLY first (contract section 1)."""
    return not raw and (route.body_optional or route.mode is not None)


def _is_json(scope: Scope) -> bool:
    types = header_values(scope, b"content-type")
    return len(types) == 1 and (
        types[0] == b"application/json" or types[0].split(b";", 1)[0].strip().lower() == b"application/json"
    )


def _is_plain(scope: Scope) -> bool:
    """Whether Content-Encoding names no compression. Compressed bodies are refused: a small one may unpack to any
    size."""
    return all(value.strip().lower() in (b"", b"identity") for value in header_values(scope, b"content-encoding"))
