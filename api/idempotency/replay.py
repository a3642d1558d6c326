"""What a creation answers to a key that made something before (contract section 4), and the count of keys."""

from collections.abc import Awaitable, Callable
from uuid import UUID

from api.answers import Answer, encode
from api.context import ApiContext
from api.idempotency.used_keys import UsedKey
from api.route import Call
from domain.errors import Code, Refused
from runtime.metrics import idempotency_total

# Looked up once: finding a counter by its labels costs more than counting.
_first = idempotency_total.labels("first")
_replayed = idempotency_total.labels("replay")
_reused = idempotency_total.labels("reused")


def count_first() -> None:
    """A key that made something now."""
    _first.inc()


def check_same(call: Call, used: UsedKey) -> None:
    """Refused(IDEMPOTENCY_KEY_REUSED) when the key was used for another request."""
    if used.fingerprint != call.fingerprint:
        _reused.inc()
        raise Refused(Code.IDEMPOTENCY_KEY_REUSED)


async def replay(context: ApiContext, call: Call, used: UsedKey, find: Callable[[UUID], Awaitable[object]]) -> Answer:
    """200 with the resource the key made, as it is now: `find` answers it by its id. Refused as `check_same`."""
    check_same(call, used)
    await context.keys.count_replay(call.key_name)
    _replayed.inc()
    headers = [(b"idempotent-replayed", b"true"), (b"idempotency-key", call.key.encode())]
    return Answer(encode(await find(used.resource_id)), 200, headers)
