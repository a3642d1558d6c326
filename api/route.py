"""The row types of the table of routes: who may call a route, what requests carry, what it answers. The handlers
(api/handlers.py), the checks (api/admission.py) and the OpenAPI document are made from these rows."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Literal

from litestar.types import Scope
from msgspec import Struct
from msgspec.structs import replace

from api.answers import Answer
from api.callers import Caller
from api.context import ApiContext
from api.idempotency.lock import KeyName
from domain.errors import Code
from domain.mode import Mode
from domain.sandbox_clock import on_clock

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
    scopes: tuple[str, ...] = ()
    """The token needs one of these scopes; none means any token may call."""
    mode: Mode | None = None
    """The mode whose credentials may call; others get 403 SANDBOX_ONLY before scope, key and body are checked."""
    key: bool = False
    """Whether the route is a financial operation that requires an Idempotency-Key."""
    body: type[Struct] | None = None
    body_optional: bool = False
    """Whether a request without a body counts as one with an empty object."""
    query: tuple[Parameter, ...] = ()
    headers: tuple[Parameter, ...] = ()
    """Optional request headers, beside Authorization and Idempotency-Key."""
    heavy: bool = False
    """Whether the request takes a turn of its account's share (runtime/limits/shares.py), as every list does."""
    hot: bool = False
    """Answered in front of the framework's handler (api/handlers.py, answer_hot_routes_first)."""
    answers: dict[int, Any] = {}
    errors: tuple[Code, ...] = ()
    tag: str = ""


class OpenRoute(Struct, frozen=True):
    """A route without an access token. Its handler declares what it needs as Litestar dependencies."""

    method: Method
    path: str
    name: str
    handle: Callable[..., Awaitable[Answer]]


def routes_of(tag: str, *routes: Route, mode: Mode | None = None) -> tuple[Route, ...]:
    """The routes of one resource; `tag` and `mode` are set on those that have none of their own."""
    return tuple(replace(route, tag=route.tag or tag, mode=route.mode or mode) for route in routes)


class Call:
    """An admitted request: the caller, the instant, the body. Not a struct, because the framework would convert a
    struct again for each handler."""

    __slots__ = ("at", "body", "caller", "fingerprint", "key", "request_id", "scope")

    def __init__(
        self,
        *,
        scope: Scope,
        request_id: str,
        at: datetime,
        caller: Caller,
        body: dict[str, Any],
        key: str,
        fingerprint: bytes,
    ) -> None:
        self.scope = scope
        self.request_id = request_id
        self.at = at
        """The real instant of arrival; idempotency keys, tokens, bank orders and webhooks are dated by it."""
        self.caller = caller
        self.body = body
        self.key = key
        self.fingerprint = fingerprint

    @property
    def now(self) -> datetime:
        """The instant for the caller's charges: `at`, or later in a sandbox whose clock was advanced."""
        return on_clock(self.at, self.caller.ahead_s)

    @property
    def key_name(self) -> KeyName:
        return (self.caller.owner, self.key)

    def path(self, name: str) -> str:
        value: str = self.scope["path_params"][name]
        return value

    def header(self, name: bytes) -> bytes | None:
        """The first header of that name."""
        return next(iter(header_values(self.scope, name)), None)


def header_values(scope: Scope, name: bytes) -> list[bytes]:
    """Every value of a header, in order; `name` is lower case."""
    return [value for each, value in scope["headers"] if each == name]
