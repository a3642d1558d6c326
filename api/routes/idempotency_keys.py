"""GET /v1/idempotency-keys/{key}: tells a merchant whether a call that timed out has worked."""

from urllib.parse import unquote_to_bytes
from uuid import UUID

from msgspec import Struct

import sql
from api.answers import Answer, encode
from api.context import ApiContext
from api.idempotency.lock import read_key
from api.route import Call, Route, routes_of
from domain.errors import Code
from domain.instants import iso
from runtime.postgres import session


class KeyState(Struct, frozen=True, kw_only=True):
    """The result of an Idempotency-Key. `state` is completed (it created the resource named here), in_progress (a
    request is still running: ask again) or unknown (it created nothing)."""

    key: str
    state: str
    resource_type: str | None = None
    resource_id: str | None = None
    first_used_at: str | None = None
    replay_count: int = 0


find_ordered = sql.maybe("idempotency.ordered", UUID)


async def look_up(context: ApiContext, call: Call) -> Answer:
    # From the raw path: a key may contain encoded slashes, which the framework would decode into path separators.
    raw_path: bytes = call.scope["raw_path"]
    key = read_key([unquote_to_bytes(raw_path.partition(b"/idempotency-keys/")[2])])
    name = (call.caller.owner, key)
    # Lock and order are read before the used key: a creation that ends in between is then found as completed, while
    # the other order could see neither and report a running creation as unknown.
    in_progress = await context.locks.held(name)
    if not in_progress:
        async with session(context.pool) as conn:
            caller = call.caller
            in_progress = await find_ordered(conn, account_id=caller.account_id, test=caller.test, key=key) is not None
    used = await context.keys.find(name)
    if used is not None:
        state = KeyState(
            key=key,
            state="completed",
            resource_type=used.resource_type,
            resource_id=str(used.resource_id),
            first_used_at=iso(used.first_used_at),
            replay_count=used.replay_count,
        )
    else:
        state = KeyState(key=key, state="in_progress" if in_progress else "unknown")
    return Answer(encode(state))


ROUTES = routes_of(
    "Charges",
    Route(
        method="GET",
        path="/v1/idempotency-keys/{key:path}",
        name="getIdempotencyKey",
        summary="Find out which resource an Idempotency-Key created",
        handle=look_up,
        scopes=("charges:read",),
        answers={200: KeyState},
        errors=(Code.IDEMPOTENCY_KEY_INVALID,),
    ),
)
