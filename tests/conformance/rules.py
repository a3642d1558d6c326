"""Rules that hold for every operation of a kind, tested once for each row of the table of routes.

A rule says which routes it applies to, what is sent, and which code must be answered. A new route gets its cases by
being in the table of routes.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final
from unittest.mock import patch

import msgspec
from msgspec import Struct
from structlog.testing import capture_logs

from api.admission import BYTES_MAX
from api.app import ROUTES
from api.route import Route
from domain.errors import Code
from domain.mode import Mode
from tests.conformance.requests import BODIES, GRANTED, ONE_MODE, PLACES, RESOURCES
from tests.conformance.world import JSON, NOBODY, World, mode_of
from tests.support.in_process import Reply

Ask = Callable[[World, Route], Awaitable[Reply]]

_SCOPES: Final = ("charges:read", "payments:read", "refunds:create", "schedules:write")
_METHODS: Final = ("DELETE", "PUT")
_PARAMETER: Final = re.compile(r"\{([a-z_]+):[a-z]+\}")
_TEXT: Final = (b"content-type", b"text/plain")
_TRIES: Final = 8
_PAUSE_S: Final = 0.4
_BAD_KEY: Final = "\x01"


class Rule(Struct, frozen=True, kw_only=True):
    """A rule: `where` is its place in the spec or contract, `of` tells which routes it applies to."""

    name: str
    where: str
    says: str
    code: Code
    of: Callable[[Route], bool]
    ask: Ask


def plain(route: Route) -> str:
    """The route's path as the OpenAPI document writes it."""
    return _PARAMETER.sub(r"{\1}", route.path)


def path_of(route: Route, name: str = NOBODY) -> str:
    """Returns the route's path with `name` as its identifier."""
    return _PARAMETER.sub(name, route.path)


def identifier_of(route: Route) -> str | None:
    found = _PARAMETER.search(route.path)
    return found[1] if found else None


def body_of(route: Route, world: World) -> Any:
    if route.body is None:
        return None
    given = BODIES.get(route.name)
    return {} if given is None else given(world, world.mine)


async def good(world: World, route: Route, *, path: str = "", body: Any = None, **more: Any) -> Reply:
    """Sends a request that is valid except for the arguments given here; its resource may not exist."""
    if "token" not in more:
        more["token"] = await world.token_for(route)
    if route.key and "key" not in more:
        more["key"] = World.new_key()
    given = body_of(route, world) if body is None else body
    return await world.send(route.method, path or path_of(route), given, **more)


async def _no_bearer(world: World, route: Route) -> Reply:
    return await good(world, route, token=None)


async def _bad_bearer(world: World, route: Route) -> Reply:
    return await good(world, route, token="nobody")


async def _rate_limited(world: World, route: Route) -> Reply:
    """Sends the request again when it was admitted: on a busy machine a second may pass, which refills the bucket, or
    Redis may be too slow to be asked."""
    for _ in range(_TRIES):
        reply = await good(world, route, token=await world.token_without_requests_left())
        if reply.status == Code.RATE_LIMITED.status:
            break
        await asyncio.sleep(_PAUSE_S)
    return reply


async def _wrong_mode(world: World, route: Route) -> Reply:
    """Sends wrong identifiers, body, key and scope, because the mode is checked before all of them."""
    mode = "test" if route.mode is Mode.PRODUCTION else "production"
    token = await world.token(mode, scope="refunds:create")
    body = None if route.body is None else b"{"
    return await world.send(route.method, path_of(route, "no-id"), body, token=token, key=_BAD_KEY)


async def _missing_scope(world: World, route: Route) -> Reply:
    """Sends a wrong key and a wrong body, because the scope is checked before both."""
    scope = next(each for each in _SCOPES if each not in route.scopes)
    token = await world.token(mode_of(route), scope=scope)
    body = None if route.body is None else b"{"
    return await world.send(route.method, path_of(route, "no-id"), body, token=token, key=_BAD_KEY)


async def _too_large(world: World, route: Route) -> Reply:
    return await world.send(route.method, path_of(route), b"x" * (BYTES_MAX + 1), token=None)


async def _no_json_type(world: World, route: Route) -> Reply:
    return await world.send(route.method, path_of(route), b"{}", token=None, headers=[_TEXT])


async def _no_json(world: World, route: Route) -> Reply:
    return await good(world, route, body=b'{"amount":')


async def _no_object(world: World, route: Route) -> Reply:
    return await good(world, route, body=b"[]")


async def _no_key(world: World, route: Route) -> Reply:
    return await good(world, route, key=None)


async def _bad_key(world: World, route: Route) -> Reply:
    return await good(world, route, key="k" * 256)


async def _no_such_parameter(world: World, route: Route) -> Reply:
    return await good(world, route, path=f"{path_of(route)}?no_such_filter=1")


async def _limit_of_zero(world: World, route: Route) -> Reply:
    return await _own_resource_with_query(world, route, "limit=0")


async def _limit_of_no_number(world: World, route: Route) -> Reply:
    return await _own_resource_with_query(world, route, "limit=1.5")


async def _cursor_by_hand(world: World, route: Route) -> Reply:
    return await _own_resource_with_query(world, route, "cursor=eyJhIjoxfQ")


async def _nonexistent_day(world: World, route: Route) -> Reply:
    return await _own_resource_with_query(world, route, f"{_days(route)[0]}=2026-02-30")


async def _no_such_scenario(world: World, route: Route) -> Reply:
    return await good(world, route, headers=[JSON, (b"x-sandbox-bank", b"nonsense")])


async def _unknown_id(world: World, route: Route) -> Reply:
    """Asserts too that a resource of another merchant or of the other mode, and text that is no identifier, get
    the same answer to the byte."""
    name = identifier_of(route)
    assert name is not None
    mode = mode_of(route)
    unknown = await good(world, route)
    others: list[str] = ["no-id"]
    if name == "account_id":
        others += [str(world.theirs.account_id), str(world.mine.account_id).upper()]
    else:
        _, made = RESOURCES[name]
        others.append(await made(world, mode, world.theirs))
        if name not in ONE_MODE:
            others.append(await made(world, "production" if mode == "test" else "test", world.mine))
    for other in others:
        reply = await good(world, route, path=path_of(route, other))
        assert _but_for_the_request_id(reply) == _but_for_the_request_id(unknown), (other, reply)
    return unknown


async def _key_with_another_body(world: World, route: Route) -> Reply:
    key = World.new_key()
    path, body = await created(world, route, key)
    return await good(world, route, path=path, body={**body, "another": 1}, key=key)


async def _key_in_progress(world: World, route: Route) -> Reply:
    """Sends the request again when it was admitted: without a lock, because Redis was too slow, no request waits."""
    path = await path_to_create(world, route)
    for _ in range(_TRIES):
        key = World.new_key()
        async with world.key_in_progress(mode_of(route), key):
            reply = await good(world, route, path=path, key=key)
        if reply.status == Code.IDEMPOTENCY_IN_PROGRESS.status:
            break
        await asyncio.sleep(_PAUSE_S)
    return reply


async def unapproved(world: World, route: Route) -> Reply:
    """Sends a production request of an account whose registration is not approved."""
    third = world.api.third
    given = BODIES.get(route.name)
    token = await world.token("production", of=third)
    return await good(world, route, body=None if given is None else given(world, third), token=token)


async def _broken(world: World, route: Route) -> Reply:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret of the house")

    token = await world.token_for(route)
    # Captured, because printing forty tracebacks takes longer than everything else here.
    with patch.object(world.api.app.state.context.callers, "authenticate", broken), capture_logs():
        reply = await good(world, route, token=token)
    assert b"secret" not in reply.body
    return reply


async def _no_database(world: World, route: Route) -> Reply:
    async def gone(*_: object, **__: object) -> None:
        raise ConnectionRefusedError("no database at 10.0.0.1")

    token = await world.token_for(route)
    with patch.object(world.api.app.state.context.callers, "authenticate", gone):
        reply = await good(world, route, token=token)
    assert int(str(reply.header("retry-after"))) >= 1
    assert b"10.0.0.1" not in reply.body
    return reply


async def _wrong_method(world: World, route: Route) -> Reply:
    taken = {each.method for each in ROUTES if each.path == route.path}
    reply = await world.send(next(each for each in _METHODS if each not in taken), path_of(route), token=None)
    assert route.method in str(reply.header("allow")).split(", ")
    return reply


async def path_to_create(world: World, route: Route) -> str:
    place = PLACES.get(route.name)
    return path_of(route) if place is None else await place(world)


async def created(world: World, route: Route, key: str) -> tuple[str, Any]:
    """Creates a resource; returns the path and the body of the request."""
    path = await path_to_create(world, route)
    body = body_of(route, world)
    first = await good(world, route, path=path, key=key)
    assert first.status == 201, first
    return path, body


async def granted(world: World, route: Route) -> Reply:
    """Sends a valid request for a resource that exists."""
    if (asked := GRANTED.get(route.name)) is not None:
        path, body = await asked(world)
        return await good(world, route, path=path, body=body)
    return await good(world, route, path=path_of(route, await _own_id(world, route)))


async def replayed(world: World, route: Route) -> tuple[Reply, Reply]:
    """Sends a creation, and the same request again with its JSON written differently: 201, then 200."""
    key = World.new_key()
    path = await path_to_create(world, route)
    body = body_of(route, world)
    first = await good(world, route, path=path, body=body, key=key)
    spelled = msgspec.json.format(msgspec.json.encode(dict(reversed(body.items()))), indent=2)
    return first, await good(world, route, path=path, body=spelled, key=key)


async def _own_id(world: World, route: Route) -> str:
    """Returns the identifier of a resource of `mine` that the route's path may name."""
    name = identifier_of(route)
    if name is None:
        return ""
    if name == "account_id":
        return str(world.mine.account_id)
    return await RESOURCES[name][1](world, mode_of(route), world.mine)


async def _own_resource_with_query(world: World, route: Route, query: str) -> Reply:
    """Sends `query` for a resource that exists, because its existence may be checked before the query."""
    own = await _own_id(world, route)
    return await good(world, route, path=f"{path_of(route, own)}?{query}")


def _days(route: Route) -> list[str]:
    return [each.name for each in route.query if each.name.endswith(("_from", "_to"))]


def _but_for_the_request_id(reply: Reply) -> tuple[int, bytes, str | None]:
    return (
        reply.status,
        reply.body.replace(str(reply.header("x-request-id")).encode(), b""),
        reply.header("content-type"),
    )


def _has(parameter: str) -> Callable[[Route], bool]:
    return lambda route: any(each.name == parameter for each in route.query)


def _declares(code: Code) -> Callable[[Route], bool]:
    return lambda route: code in route.errors


def _names(code: Code) -> Callable[[Route], bool]:
    """Matches routes whose path names a resource whose absence is answered with this code."""

    def of(route: Route) -> bool:
        name = identifier_of(route)
        if name == "account_id":
            return code is Code.WALLET_ACCOUNT_NOT_FOUND
        return name is not None and name in RESOURCES and RESOURCES[name][0] == code.name

    return of


def _every(route: Route) -> bool:
    return True


# fmt: off
RULES: Final = (
    Rule(name="no_bearer", where="Authentication 1", code=Code.UNAUTHENTICATED, of=_every, ask=_no_bearer,
         says="No bearer token: 401 with WWW-Authenticate."),
    Rule(name="bad_bearer", where="Authentication 1", code=Code.UNAUTHENTICATED, of=_every, ask=_bad_bearer,
         says="A bearer token nobody issued: 401."),
    Rule(name="too_often", where="Errors, 429; contract 14", code=Code.RATE_LIMITED, of=_every, ask=_rate_limited,
         says="The credential's bucket is empty: 429 with Retry-After."),
    Rule(name="wrong_mode", where="Sandbox-only errors; contract 1, 13", code=Code.SANDBOX_ONLY,
         of=lambda route: route.mode is not None, ask=_wrong_mode,
         says="A credential of the other mode: 403 before identifiers, body, key and scope are looked at."),
    Rule(name="missing_scope", where="Authentication 4", code=Code.INSUFFICIENT_SCOPE,
         of=lambda route: bool(route.scopes), ask=_missing_scope,
         says="A token without the scope: 403, before the key and the body."),
    Rule(name="too_large", where="contract 2", code=Code.PAYLOAD_TOO_LARGE, of=lambda route: route.method != "GET",
         ask=_too_large, says="A body over 256 KiB: 413, before everything else."),
    Rule(name="no_json_type", where="contract 1, 2", code=Code.UNSUPPORTED_MEDIA_TYPE,
         of=lambda route: route.body is not None, ask=_no_json_type,
         says="A Content-Type other than application/json: 415, before the token."),
    Rule(name="no_json", where="contract 2", code=Code.MALFORMED_JSON, of=lambda route: route.body is not None,
         ask=_no_json, says="A body that is no JSON: 400."),
    Rule(name="no_object", where="contract 2", code=Code.VALIDATION_ERROR, of=lambda route: route.body is not None,
         ask=_no_object, says="JSON that is no object: 400."),
    Rule(name="no_such_scenario", where="contract 14", code=Code.VALIDATION_ERROR,
         of=lambda route: any(each.name == "X-Sandbox-Bank" for each in route.headers), ask=_no_such_scenario,
         says="An X-Sandbox-Bank that names no scenario: 400."),
    Rule(name="no_key", where="Idempotency", code=Code.IDEMPOTENCY_KEY_REQUIRED, of=lambda route: route.key,
         ask=_no_key, says="A financial operation without Idempotency-Key: 400."),
    Rule(name="bad_key", where="contract 2", code=Code.IDEMPOTENCY_KEY_INVALID, of=lambda route: route.key,
         ask=_bad_key, says="An Idempotency-Key over 255 characters: 400."),
    Rule(name="key_reused", where="Idempotency", code=Code.IDEMPOTENCY_KEY_REUSED, of=lambda route: route.key,
         ask=_key_with_another_body, says="The same key with a different body: 409."),
    Rule(name="key_at_work", where="contract 4", code=Code.IDEMPOTENCY_IN_PROGRESS,
         of=_declares(Code.IDEMPOTENCY_IN_PROGRESS), ask=_key_in_progress,
         says="The same key while the first is at work for too long: 409 with Retry-After."),
    Rule(name="not_approved", where="contract 14", code=Code.KYC_REQUIRED, of=_declares(Code.KYC_REQUIRED),
         ask=unapproved, says="Production, and the account's registration is not approved: 403."),
    Rule(name="no_such_parameter", where="contract 2", code=Code.VALIDATION_ERROR, of=lambda route: bool(route.query),
         ask=_no_such_parameter, says="A query parameter that the list does not know: 400."),
    Rule(name="limit_of_zero", where="Limits 2", code=Code.LIMIT_INVALID, of=_has("limit"), ask=_limit_of_zero,
         says="A limit of 0: 400."),
    Rule(name="limit_of_no_number", where="Limits 2", code=Code.LIMIT_INVALID, of=_has("limit"),
         ask=_limit_of_no_number, says="A limit that is no whole number: 400."),
    Rule(name="cursor_by_hand", where="Limits 1, 2", code=Code.CURSOR_INVALID, of=_has("cursor"), ask=_cursor_by_hand,
         says="A cursor that the list did not write: 400."),
    Rule(name="no_such_day", where="contract 2", code=Code.DATE_RANGE_INVALID, of=lambda route: bool(_days(route)),
         ask=_nonexistent_day, says="A range whose day does not exist: 400."),
    *(
        Rule(name=f"unknown_{name}", where="What the service does 9", code=Code[code], of=_names(Code[code]),
             ask=_unknown_id,
             says="Not there, somebody else's, of the other mode, or no identifier: one and the same 404, to the byte.")
        for name, code in [*((name, code) for name, (code, _) in RESOURCES.items()),
                           ("account_id", Code.WALLET_ACCOUNT_NOT_FOUND.name)]
    ),
    Rule(name="wrong_method", where="contract 2", code=Code.METHOD_NOT_ALLOWED, of=_every, ask=_wrong_method,
         says="Another method: 405, and Allow names the right one."),
    Rule(name="broken", where="contract 2", code=Code.INTERNAL_ERROR, of=_every, ask=_broken,
         says="What we got wrong: 500, without a word of why."),
    Rule(name="no_database", where="contract 2", code=Code.SERVICE_UNAVAILABLE, of=_every, ask=_no_database,
         says="The database is away: 503 with Retry-After."),
)
# fmt: on


def rules_of(route: Route) -> list[Rule]:
    return [rule for rule in RULES if rule.of(route)]
