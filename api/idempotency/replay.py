"""The answer to a creation whose key was already used (contract section 4), and the metrics of keys."""

from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID

from api.answers import Answer, encode
from api.context import ApiContext
from api.idempotency.used_keys import UsedKey
from api.route import Call
from domain.errors import Code, Refused
from runtime.metrics import BufferedCounter, idempotency_total

Made = TypeVar("Made")

_first_uses = BufferedCounter(idempotency_total.labels("first"))
_replays = BufferedCounter(idempotency_total.labels("replay"))
_reuses = BufferedCounter(idempotency_total.labels("reused"))


def check_same_request(call: Call, used: UsedKey) -> None:
    """Refused(IDEMPOTENCY_KEY_REUSED) when the key was used for another request."""
    if used.fingerprint != call.fingerprint:
        _reuses.inc()
        raise Refused(Code.IDEMPOTENCY_KEY_REUSED)


async def replay(context: ApiContext, call: Call, used: UsedKey, find: Callable[[UUID], Awaitable[object]]) -> Answer:
    """Answers 200 with the resource that the key made, as it is now; `find` reads it by its id. Refused as
    `check_same_request`."""
    check_same_request(call, used)
    await context.keys.count_replay(call.key_name)
    _replays.inc()
    headers = [(b"idempotent-replayed", b"true"), (b"idempotency-key", call.key.encode())]
    return Answer(encode(await find(used.resource_id)), 200, headers)


async def create_once(
    context: ApiContext,
    call: Call,
    operation: Callable[[], Awaitable[Made | None]],
    find: Callable[[UUID], Awaitable[object]],
    present: Callable[[Made], object],
    location: Callable[[Made], str],
) -> Answer:
    """Answers 201 with what the operation makes and its location, or replays what the key made before. `operation` is
    run by IdempotencyGuard.run."""
    made = await context.guard.run(call.key_name, operation)
    if isinstance(made, UsedKey):
        return await replay(context, call, made, find)
    return answer_created(present(made), location(made))


def answer_created(made: object, location: str) -> Answer:
    """Answers 201 with a new resource; `location` is the resource's path (RFC 9110 section 15.3.2)."""
    _first_uses.inc()
    return Answer(encode(made), 201, ((b"location", location.encode()),))
