"""The checks that all routes with an access token share, in the order of contract section 1."""

import contextlib
from collections.abc import Coroutine
from datetime import datetime
from typing import Any

from litestar import Request
from litestar.types import Receive, Scope

from api.body.reading import fingerprint, read_object
from api.body.redaction import REDACTABLE_BYTES_MAX
from api.callers import Caller
from api.context import ApiContext
from api.exchange import Exchange
from api.idempotency.lock import read_key
from api.route import Call, Route, header_values
from domain.errors import Code, Refused
from domain.mode import Mode
from runtime.postgres import DB_UNAVAILABLE

BYTES_MAX = 256 * 1024
_CONTENT_TYPE_REPEATED = "The Content-Type header stands more than once: send one, application/json."
_BODY_COMPRESSED = "A body is not unpacked here: send it as it is, without Content-Encoding."
_WRONG_MODE = {
    Mode.SANDBOX: "This operation is for test credentials, and this one is of production.",
    Mode.PRODUCTION: "This operation is for production credentials, and this one is of the sandbox.",
}


async def admit(route: Route, context: ApiContext, scope: Scope, receive: Receive, exchange: Exchange) -> Call:
    """Checks size and type, token, rate, mode, scope, key and JSON, in this order; returns the call or raises
    Refused."""
    try:
        raw = await _read_checked_body(route, scope, receive)
    except Refused:
        await _identify(context, scope, exchange)
        raise
    now = context.now()
    caller = exchange.caller = await _authenticate(context, scope, now)
    if caller.test and route.method != "GET":
        exchange.sent = len(raw)
    await _spend_rate(context, caller, exchange)
    if route.mode is not None and caller.mode is not route.mode:
        raise Refused(Code.SANDBOX_ONLY, message=_WRONG_MODE[route.mode])
    if route.scopes and not any(scope in caller.scopes for scope in route.scopes):
        raise Refused(Code.INSUFFICIENT_SCOPE, needed=" or ".join(route.scopes))
    key = read_key(header_values(scope, b"idempotency-key")) if route.key else ""
    body: dict[str, Any] = {}
    request_fingerprint = b""
    if route.body is not None:
        if raw or not route.body_optional:
            body = read_object(raw)
            if exchange.sent is not None and len(raw) <= REDACTABLE_BYTES_MAX:
                exchange.sent = body
        if route.key:
            # The path with its ids, not the template: the same key and body for another charge is another request.
            request_fingerprint = fingerprint(route.method, scope["path"], body)
    return Call(
        scope=scope,
        request_id=exchange.request_id,
        at=now,
        caller=caller,
        body=body,
        key=key,
        fingerprint=request_fingerprint,
    )


async def _read_checked_body(route: Route, scope: Scope, receive: Receive) -> bytes:
    if route.method == "GET":
        return b""
    raw = await _receive_body(scope, receive)
    if route.body is not None and not _is_json(scope) and not _may_be_untyped(route, raw):
        repeated = len(header_values(scope, b"content-type")) > 1
        raise Refused(Code.UNSUPPORTED_MEDIA_TYPE, message=_CONTENT_TYPE_REPEATED if repeated else None)
    if route.body is not None and not _is_uncompressed(scope):
        raise Refused(Code.UNSUPPORTED_MEDIA_TYPE, message=_BODY_COMPRESSED)
    return raw


def _authenticate(context: ApiContext, scope: Scope, now: datetime) -> Coroutine[Any, Any, Caller]:
    return context.callers.authenticate(header_values(scope, b"authorization"), now=now)


async def _spend_rate(context: ApiContext, caller: Caller, exchange: Exchange) -> None:
    """Spends one token of the credential's bucket. The RateLimit headers are set on a refusal too."""
    rate, burst = context.rate_of(caller)
    try:
        left, reset_s = await context.buckets.spend(caller.client_id, rate_per_s=rate, burst=burst)
    except Refused as limited:
        exchange.headers = _rate_limit_headers(burst, 0, limited.retry_after_s or 1)
        raise
    exchange.headers = _rate_limit_headers(burst, left, reset_s)


def _rate_limit_headers(burst: int, left: int, reset_s: int) -> list[tuple[bytes, bytes]]:
    return [
        (b"ratelimit-limit", b"%d" % burst),
        (b"ratelimit-remaining", b"%d" % left),
        (b"ratelimit-reset", b"%d" % reset_s),
    ]


async def _identify(context: ApiContext, scope: Scope, exchange: Exchange) -> None:
    """Identifies the caller of a request that was refused for its size or type before its token was read, so that it
    counts against the credential's rate limit and is logged. Failures here never replace the first refusal."""
    with contextlib.suppress(Refused, *DB_UNAVAILABLE):
        exchange.caller = await _authenticate(context, scope, context.now())
        await _spend_rate(context, exchange.caller, exchange)


async def read_body(request: Request[Any, Any, Any]) -> bytes:
    """The body, at most BYTES_MAX, for routes without an access token, which do not come through `admit`."""
    return await _receive_body(request.scope, request.receive)


async def _receive_body(scope: Scope, receive: Receive) -> bytes:
    """The body straight from the server: the framework's own way costs as much as the rest of the framework."""
    for value in header_values(scope, b"content-length"):
        if len(value) > 9 or (value.isdigit() and int(value) > BYTES_MAX):
            raise Refused(Code.PAYLOAD_TOO_LARGE)  # refused by the declared length, before any byte is read
    received_body = getattr(getattr(receive, "__self__", None), "received_body", None)
    body: bytes | None = (
        None if received_body is None else received_body()
    )  # our server's shortcut (cli/run/http_cycle.py)
    if body is not None:
        if len(body) > BYTES_MAX:
            raise Refused(Code.PAYLOAD_TOO_LARGE)
        return body
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


def _may_be_untyped(route: Route, raw: bytes) -> bool:
    """Whether an empty body is exempt from the Content-Type check: HTTP libraries send any type with it. Where a body
    is required, this lets a credential of the wrong mode get SANDBOX_ONLY first (contract section 1)."""
    return not raw and (route.body_optional or route.mode is not None)


def _is_json(scope: Scope) -> bool:
    types = header_values(scope, b"content-type")
    return len(types) == 1 and (
        types[0] == b"application/json" or types[0].split(b";", 1)[0].strip().lower() == b"application/json"
    )


def _is_uncompressed(scope: Scope) -> bool:
    """Whether Content-Encoding names no compression. Compressed bodies are refused: a small one may unpack to any
    size."""
    return all(value.strip().lower() in (b"", b"identity") for value in header_values(scope, b"content-encoding"))
