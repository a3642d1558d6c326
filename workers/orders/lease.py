"""The part that all workers of bank orders share: an order is leased, its bank is asked with no transaction open, and
the outcome is stored while the lease is still this worker's.

Whatever happens on the way, an order is asked again with the same identifiers until it has ended: a worker that dies
leaves a lease, a silent bank leaves a `Later`, and both make the order due again.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

import msgspec
import structlog
from msgspec import Struct

import sql
from commands.bank_orders.kinds import OrderKind, OrderLane
from domain.mode import Mode
from runtime.postgres import DB_UNAVAILABLE, session
from sql import Connection
from workers.concurrency import run_batched
from workers.context import Context

if TYPE_CHECKING:
    from opentelemetry.trace import Span

LEASE: Final = timedelta(seconds=30)
CALL_S: Final = 25.0
"""Shorter than the lease, so that no order is ever with two workers."""
LOST_CALL_WATCH: Final = timedelta(seconds=60)
"""For so long after a call whose answer was lost, the bank may still carry it out, or show the state from before it:
neither a refusal nor "not found" is believed. It exceeds the life of any call of ours and the age of any detail that
the bank shows."""

_LANES: Final[dict[str, OrderLane]] = {kind: kind.lane for kind in OrderKind}
_STORE_WAITS_S: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0)
_SWEEP_S = 1.0  # between rounds of a worker that nobody wakes
_RELEASE_MAX = 500

_log = structlog.get_logger()


class ClaimedOrder(Struct, frozen=True, gc=False):
    """The first columns of every lane's claim; a lane's own columns follow."""

    order_id: UUID
    test: bool
    bank: str
    kind: str
    request: bytes
    attempts: int
    created_at: datetime
    deadline: datetime | None
    reply_to: str | None
    due_at: datetime

    @property
    def mode(self) -> Mode:
        return Mode.of(self.test)

    def late(self, now: datetime) -> bool:
        """Whether its deadline has passed, after which no request waits for the outcome."""
        return self.deadline is not None and self.deadline <= now


class _RequestScenario(Struct, frozen=True, gc=False):
    scenario: str | None = None


class _RequestCause(Struct, frozen=True, gc=False):
    request_id: str | None = None
    request: "_RequestCause | None" = None
    """The request of the order that a reconciliation is about."""


def read_request_id(request: bytes) -> str | None:
    """The id of the merchant's request that caused this order; None when a bank, a worker or the calendar did."""
    cause = _read_request_cause(request)
    if cause.request_id is None and cause.request is not None:
        return cause.request.request_id
    return cause.request_id


def read_scenario(request: bytes) -> str | None:
    """The X-Sandbox-Bank header of the merchant's request, where the order keeps it."""
    return _read_request_scenario(request).scenario


class Later(Struct, frozen=True, kw_only=True):
    """Not known yet, or not possible yet: ask again. `detail` names what was seen, never what was sent."""

    detail: str
    at: datetime | None = None
    """None: after the lane's usual wait."""
    asked: bool = True
    """Whether the bank was asked."""
    silent: bool = False
    """Whether the bank gave no answer."""
    lost_at: datetime | None = None
    """When an attempt that the bank may have carried out was last left without an answer."""


class LeaseLost(Exception):
    """Another lease has the order by now, or it was given up: this worker must not end it."""


class _Released(Struct, frozen=True, gc=False):
    test: bool
    lane: str


_settle = sql.many("bank_order.settle", UUID)
_put_off = sql.run("bank_order.put_off")
_release = sql.many("bank_order.release", _Released)

_read_request_cause = msgspec.json.Decoder(_RequestCause).decode
_read_request_scenario = msgspec.json.Decoder(_RequestScenario).decode

Order = TypeVar("Order", bound=ClaimedOrder)
Result = TypeVar("Result")
Stored = TypeVar("Stored")


async def drain_lanes(
    context: Context,
    *claims: Callable[[int], Awaitable[Sequence[Order]]],
    ask: Callable[[Order], Awaitable[Result]],
    store: Callable[[Order, Result | Later], Awaitable[None]],
    at_once: int,
    call_s: float = CALL_S,
) -> int:
    """Do what is due in the lanes of these claims, at most `at_once` of each; returns how many orders were taken up.
    One slow answer holds up no other order."""
    clock = asyncio.get_running_loop().time
    until = 0.0

    async def claim_some(claim: Callable[[int], Awaitable[Sequence[Order]]], limit: int) -> Sequence[Order]:
        nonlocal until
        until = clock() + call_s  # taken before the claim, whose answer may come long after the lease has begun
        return await claim(limit)

    def begin(orders: Sequence[Order]) -> list[Coroutine[Any, Any, None]]:
        return [do_order(context, order, ask, store, until=until) for order in orders]

    return await run_batched(
        *(partial(claim_some, claim) for claim in claims),
        begin=begin,
        at_once=at_once,
        batch_max=context.settings.pace.orders_claimed,
        stopping=context.stopping,
    )


async def do_order(
    context: Context,
    order: Order,
    ask: Callable[[Order], Awaitable[Result]],
    store: Callable[[Order, Result | Later], Awaitable[None]],
    *,
    until: float,
) -> None:
    """Ask the bank until `until` (a time of the loop's clock), and store the outcome. Raises nothing: at worst the
    lease gives the order back.

    Every line that is logged meanwhile, also by the bank's adapter, names the request that caused the order.
    """
    request_id = read_request_id(order.request)
    with (
        structlog.contextvars.bound_contextvars(**({} if request_id is None else {"request_id": request_id})),
        order_span(context, order, request_id) as span,
    ):
        result = await _ask_and_store(context, order, ask, store, until=until)
        if span is not None:
            span.set_attribute("quita.outcome", "unknown" if isinstance(result, Later) else "known")


async def _ask_and_store(
    context: Context,
    order: Order,
    ask: Callable[[Order], Awaitable[Result]],
    store: Callable[[Order, Result | Later], Awaitable[None]],
    *,
    until: float,
) -> Result | Later | None:
    began = context.now()
    result: Result | Later | None = None
    clock = asyncio.get_running_loop().time
    if clock() >= until:
        return None  # this process was suspended: by now another worker has the order, or has ended it
    if order.deadline is not None and not order.late(began):
        # From then on no request waits, and a call that hangs would only keep others from the bank.
        until = min(until, clock() + (order.deadline - began).total_seconds())
    try:
        try:
            async with asyncio.timeout_at(until):
                result = await ask(order)
        except DB_UNAVAILABLE as error:
            result = Later(detail=type(error).__name__, silent=True, lost_at=context.now())
        except LeaseLost:
            raise
        except Exception:
            # A fault of ours. The order is tried again like any unknown outcome, ever more seldom, and the log has it.
            _log.exception("bank_order_failed_here", order_id=str(order.order_id), kind=order.kind)
            result = Later(detail="failed here", lost_at=context.now())
        if not isinstance(result, Later):  # a Later is logged when the order is put off
            _log.info(
                "bank_order_asked",
                kind=order.kind,
                order_id=str(order.order_id),
                test=order.test,
                attempts=order.attempts,
                duration_ms=round((context.now() - began).total_seconds() * 1000),
            )
        known = result
        await store_with_retry(lambda: store(order, known))
    except LeaseLost:
        pass
    except Exception:
        _log.exception("bank_order_not_stored", order_id=str(order.order_id), kind=order.kind)
    return result


def order_span(context: Context, order: ClaimedOrder, request_id: str | None) -> "AbstractContextManager[Span | None]":
    if context.traces is None:
        return nullcontext()
    return context.traces.span(
        f"order {order.kind}", request_id=request_id, own=str(order.order_id), attributes=span_attributes(order)
    )


def span_attributes(order: ClaimedOrder) -> dict[str, str | int | bool]:
    return {
        "quita.order_id": str(order.order_id),
        "quita.kind": order.kind,
        "quita.bank": order.bank,
        "quita.attempt": order.attempts,
        "quita.test": order.test,
    }


async def store_with_retry(store: Callable[[], Awaitable[Stored]]) -> Stored:
    """Store, with retries over a restart of PostgreSQL: the bank has been asked, and its answer must not be lost."""
    for wait_s in _STORE_WAITS_S:
        try:
            return await store()
        except DB_UNAVAILABLE:
            await asyncio.sleep(wait_s)
    return await store()


async def settle(
    conn: Connection, ended: Sequence[tuple[ClaimedOrder, str, bytes | None]], *, now: datetime
) -> set[UUID]:
    """End each order with its state and outcome; returns the ids of those that were still under this lease."""
    rows = await _settle(
        conn,
        order_ids=[order.order_id for order, _, _ in ended],
        attempts=[order.attempts for order, _, _ in ended],
        states=[state for _, state, _ in ended],
        outcomes=[outcome for _, _, outcome in ended],
        now=now,
    )
    return set(rows)


def backoff_s(waits_s: Sequence[float], attempts: int, *, wait_s_max: float = float("inf")) -> float:
    """Seconds until the next attempt."""
    return min(waits_s[min(attempts, len(waits_s)) - 1], wait_s_max) * random.uniform(0.8, 1.2)  # noqa: S311  spreads load


async def put_off(
    context: Context, order: ClaimedOrder, later: Later, wait_s: float, *, outcome: bytes | None = None
) -> None:
    """Have the order wait for its next attempt, until `later.at` or for `wait_s`."""
    log_unknown(order, later)
    async with session(context.pool) as conn:
        due_at = later.at or context.now() + timedelta(seconds=wait_s)
        await _put_off(conn, order_id=order.order_id, attempts=order.attempts, due_at=due_at, outcome=outcome)
    if later.at is None and wait_s < _SWEEP_S:
        # Most unknown outcomes are known a moment later; the next sweep would come too late.
        asyncio.get_running_loop().call_later(wait_s, context.jobs.wake, _LANES[order.kind].jobs[order.mode])


def log_unknown(order: ClaimedOrder, later: Later) -> None:
    _log.info(
        "bank_order_unknown",
        kind=order.kind,
        order_id=str(order.order_id),
        attempts=order.attempts,
        detail=later.detail,
    )


async def release_orders(context: Context) -> int:
    """Give back the orders that dead workers held; returns how many."""
    async with session(context.pool) as conn:
        released = await _release(conn, now=context.now(), limit=_RELEASE_MAX)
    for wake in {OrderLane(each.lane).jobs[Mode.of(each.test)] for each in released}:
        context.jobs.wake(wake)
    if released:
        _log.warning("bank_orders_lost_their_worker", count=len(released))
    return len(released)
