"""A request and its answer: the request id, the rate limit headers, and the facts that are logged of both."""

import time
from collections.abc import Iterable
from typing import Any

import structlog
from litestar.exceptions import HTTPException
from litestar.types import Scope
from msgspec import Struct

from api.answers import Answer, refusal
from api.callers import Caller
from api.context import ApiContext
from api.near_paths import method_hint
from api.request_log import LoggedRequest
from domain.errors import Code, Refused
from runtime.ids import new_token
from runtime.metrics import Meter
from runtime.postgres import DB_UNAVAILABLE

_CODE_OF_STATUS = {404: Code.ROUTE_NOT_FOUND, 405: Code.METHOD_NOT_ALLOWED, 413: Code.PAYLOAD_TOO_LARGE}
Headers = Iterable[tuple[bytes, bytes]]

_log = structlog.get_logger()


class Exchange(Struct):
    request_id: str
    started: float = 0.0
    headers: list[tuple[bytes, bytes]] = []
    """Added to the answer, whatever it is."""
    caller: Caller | None = None
    refused: Refused | None = None
    """The refusal, if the answer is one."""
    sent: dict[str, Any] | int | None = None
    """The body of a write in the sandbox, as read; its size in bytes if it was no JSON object or too long. Always None
    in production."""

    def all_headers(self) -> list[tuple[bytes, bytes]]:
        return [*self.headers, (b"x-request-id", self.request_id.encode())]

    def record(
        self,
        method: str,
        route: str,
        scope: Scope,
        status: int,
        headers: Headers,
        body: bytes,
        context: ApiContext,
        meter: Meter,
    ) -> None:
        """Counts the request and adds it to the request log. `headers` and `body` are the answer's."""
        took_s = meter.finish(method, route, status, self.started, self.request_id)
        if self.caller is None:
            return
        location = user_agent = None
        if status == 201:
            location = next((value for name, value in headers if name == b"location"), None)
        if self.refused is not None:
            user_agent = next((value for name, value in scope["headers"] if name == b"user-agent"), None)
        context.request_log.add(
            LoggedRequest(
                self.caller,
                time.time(),
                self.request_id,
                method,
                scope["path"],
                status,
                took_s,
                self.refused,
                location,
                user_agent,
            ),
            self.sent,
            body,
        )


def new_exchange(started: float = 0.0) -> Exchange:
    return Exchange(f"req_{new_token()}", started)


def failure(error: Exception, scope: Scope, exchange: Exchange, docs_url: str) -> Answer:
    """The error envelope for any exception raised while a request is answered: a refusal of ours, an unavailable
    database, or an exception of the framework."""
    refused = _refusal_of(error, scope, exchange)
    # The request log keeps the refusal for a while. Its traceback refers to the request with its body, and, in a cycle,
    # to this exchange: bodies of hundreds of refused requests would stay until Python next looks for cycles.
    refused.__traceback__ = refused.__context__ = refused.__cause__ = None
    exchange.refused = refused
    answer = refusal(refused, request_id=exchange.request_id, docs_url=docs_url)
    if refused.code is Code.METHOD_NOT_ALLOWED and (methods := _allowed_methods(error)):
        answer.raw_headers.append((b"allow", methods.encode()))
    return answer


def _allowed_methods(error: Exception) -> str:
    """The methods of the path as an Allow header, from the framework's exception; empty if it has none."""
    headers = (getattr(error, "headers", None) or {}).items()
    return ", ".join(
        add_head_method(method for name, value in headers if name.lower() == "allow" for method in value.split(", "))
    )


def add_head_method(methods: Iterable[str]) -> list[str]:
    """The methods, with HEAD added wherever there is GET (RFC 9110 section 9.1)."""
    allowed = list(methods)
    return [*allowed, "HEAD"] if "GET" in allowed and "HEAD" not in allowed else allowed


def _refusal_of(error: Exception, scope: Scope, exchange: Exchange) -> Refused:
    if isinstance(error, Refused):
        return error
    if isinstance(error, (*DB_UNAVAILABLE, OverflowError)):
        _log.warning(
            "unavailable", request_id=exchange.request_id, route=scope.get("path_template"), error=type(error).__name__
        )
        return Refused(Code.SERVICE_UNAVAILABLE, retry_after_s=1)
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 405 and (methods := _allowed_methods(error)):
        message = f"This path does not answer to this method, but to {methods}."
        return Refused(Code.METHOD_NOT_ALLOWED, message=message + method_hint(str(scope.get("method")), scope["path"]))
    if 400 <= status < 500:
        return Refused(_CODE_OF_STATUS.get(status, Code.VALIDATION_ERROR))
    _log.error(
        "request_broken",
        request_id=exchange.request_id,
        route=scope.get("path_template"),
        error=type(error).__name__,
        exc_info=error,
    )
    return Refused(Code.INTERNAL_ERROR)
