"""Routes without an access token: health, the OpenAPI document, the bank's callbacks."""

import hmac
from collections.abc import Sequence
from typing import Any

import msgspec
import structlog
from litestar import Request
from litestar.datastructures import State
from litestar.di import NamedDependency

from api.admission import read_body
from api.answers import Answer
from api.context import ApiContext
from api.route import OpenRoute
from banks.choice import CALLBACKS
from banks.received import BOLETO_HINT
from commands.bank_orders.callback import by_cell, store_hints
from domain.errors import Code, Refused
from runtime.cells.directory import NumberBlock, find_blocks
from runtime.cells.number import HOME
from runtime.coordination.lanes import BOLETO_HINTS, PIX_HINTS
from runtime.postgres import DB_UNAVAILABLE, session, transaction
from runtime.readiness import takes_writes

_CELL_RETRY_S = 30
_RETRY_SOON = ((b"retry-after", b"1"),)

_log = structlog.get_logger()


async def healthy() -> Answer:
    """Liveness: the event loop answers. No dependency is checked."""
    return Answer(b'{"status":"ok"}')


async def ready(context: NamedDependency[ApiContext], state: State) -> Answer:
    """Readiness: 200 when PostgreSQL answers with a schema that this version supports, and the process is not draining.
    Without Redis, or with one that takes no writes, it is `degraded` but ready: no promise depends on Redis. The same
    holds for a PostgreSQL that takes no writes (`writes`): reads are answered, and writes get our 503 instead of that
    of a load balancer without targets."""
    if state.draining:
        return Answer(b'{"status":"draining"}', 503, _RETRY_SOON)
    database = await context.readiness.database()
    if database not in ("ready", "read_only"):
        causes = b'"postgres":false' if database == "unreachable" else b'"postgres":true,"schema":false'
        return Answer(b'{"status":"unavailable",%b}' % causes, 503, _RETRY_SOON)
    redis = await takes_writes(context.redis)
    facts = {"postgres": True, **({} if database == "ready" else {"writes": False}), "redis": redis}
    return Answer(msgspec.json.encode({"status": "ok" if all(facts.values()) else "degraded", **facts}))


async def openapi(state: State) -> Answer:
    document: bytes = state.openapi
    return Answer(document)


async def bank_callback(context: NamedDependency[ApiContext], request: Request[Any, Any, Any]) -> Answer:
    """Stores a bank's callback as a hint and answers. Workers then ask the bank: a callback alone never moves money."""
    token = request.scope["path_params"]["token"].encode("utf-8", "surrogateescape")
    if not hmac.compare_digest(token, context.settings.bank_callback_token.encode()):
        raise Refused(Code.ROUTE_NOT_FOUND)
    context.spend("callbacks_per_min", request.scope)
    body = await read_body(request)
    bank, read = CALLBACKS[request.scope["path"].rpartition("/bank/")[2].partition("/")[2]]
    hints, other_cells = read(body), context.other_cells()
    request_id = request.scope["state"]["exchange"].request_id
    if not other_cells:
        await _store_hints(context, hints, bank, request_id)
        return Answer(b"{}")
    blocks: Sequence[NumberBlock] = ()
    if any(about.startswith(BOLETO_HINT) for about in hints):  # a txid names its cell, also while home is away
        async with session(context.pool) as conn:
            blocks = await find_blocks(conn)
    hints_by_cell = by_cell(hints, bank, blocks, other_cells)
    unavailable = False
    for number, cell_hints in hints_by_cell.items():
        try:
            cell_context = context if number == HOME else other_cells[number]
            if cell_context is None:
                raise Refused(Code.SERVICE_UNAVAILABLE)
            await _store_hints(cell_context, cell_hints, bank, request_id)
        except (Refused, *DB_UNAVAILABLE):
            unavailable = True
    if unavailable:  # the bank resends the whole callback; hints that are already stored are not stored twice
        raise Refused(Code.SERVICE_UNAVAILABLE, retry_after_s=_CELL_RETRY_S)
    return Answer(b"{}")


async def _store_hints(context: ApiContext, hints: dict[str, str], bank: str, request_id: str) -> None:
    async with transaction(context.pool) as conn:
        stored = await store_hints(conn, hints, bank=bank, now=context.now(), request_id=request_id)
    _log.info("bank_callback", bank=bank, hints=len(hints), new=stored, request_id=request_id)
    for lane in {BOLETO_HINTS if subject.startswith(BOLETO_HINT) else PIX_HINTS for subject in hints}:
        context.jobs.wake(lane)


ROUTES = (
    OpenRoute("GET", "/healthz", "healthz", healthy),
    OpenRoute("GET", "/readyz", "readyz", ready),
    OpenRoute("GET", "/v1/openapi.json", "openapi", openapi),
    *(
        OpenRoute("POST", f"/bank/{{token:str}}/{path}".rstrip("/"), f"bankCallback{path.title()}", bank_callback)
        for path in CALLBACKS
    ),
)
