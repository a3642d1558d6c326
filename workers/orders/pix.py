"""Orders of the PIX lane: cobs to register, remove and revise, and the sandbox's payers.

Many orders for the simulated bank are carried out together; a real bank is asked order by order.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import date, datetime
from functools import partial
from typing import Any, Final

import msgspec
import structlog
from msgspec import Struct

import sql
from banks.protocol import Bank, Done, NotFound, Rejected, Unknown
from banks.scenario import acting
from commands.bank_orders.kinds import CobRevision, OrderKind, OrderLane
from commands.charges.change import Outcome
from commands.charges.fail import fail_charge
from commands.journal import BANK
from domain.charge import Charge, Status
from domain.mode import Mode
from domain.sandbox_clock import on_clock
from runtime.batching import Batcher
from runtime.coordination.lanes import BOLETO_ORDERS, WEBHOOKS
from runtime.postgres import DB_UNAVAILABLE, session, transaction
from runtime.tracing.traces import Traces
from workers.concurrency import run_batched
from workers.context import Context
from workers.orders.callback_keys import CallbackKeys
from workers.orders.lease import (
    CALL_S,
    LEASE,
    LOST_CALL_WATCH,
    Later,
    backoff_s,
    do_order,
    put_off,
    read_request_id,
    read_scenario,
    settle,
    span_attributes,
    store_with_retry,
)
from workers.orders.pix_requests import (
    PixOrder,
    cob_to_register,
    cobv_to_register,
    read_terms,
    simulated_pix,
)
from workers.orders.queue_head import QueueHead, QueueHeads

BACKOFF_S: Final = (0.5, 1.0, 2.0, 5.0, 15.0, 25.0)
FAILURE_CODE = "BANK_REFUSED"

_LOOK_S = 0.1
_DONE_STORED_MAX = 200
_BATCHED_KINDS = (OrderKind.COB_REGISTER, OrderKind.PIX_SIMULATE)
_MESSAGE_MAX = 200  # characters
_PAID_STATUSES: Final = (Status.PAID, Status.REFUNDED)

_log = structlog.get_logger()
_encode = msgspec.json.Encoder().encode


class _ChargeEnds(Struct, frozen=True, gc=False):
    expires_at: datetime
    due_on: date


claim = sql.many("bank_order.claim_pix", PixOrder)
find_charge_end = sql.one("bank_order.ends", _ChargeEnds)

_read_revision = msgspec.json.Decoder(CobRevision).decode

Answer = Done[None] | Rejected | Unknown  # of an order
DONE: Final = Done(None)


class PixOrderWorker:
    """Carries out the orders of the PIX lanes of one mode. Orders that are done are stored in batches."""

    def __init__(self, context: Context, mode: Mode) -> None:
        self._context = context
        self._mode = mode
        self._queue_heads: QueueHeads = defaultdict(QueueHead)
        self._callback_keys = CallbackKeys(context)
        self._done_batcher: Batcher[PixOrder, None] = Batcher(self._store_done, lanes=2, batch_max=_DONE_STORED_MAX)
        self._until = 0.0
        """The loop's time until which the bank is asked for the orders claimed last."""

    async def drain(self) -> int:
        """Do what is due; returns how many orders were taken up. One slow answer holds up no other order, and a bank
        that removes no cob still registers them."""
        pace = self._context.settings.pace
        return await run_batched(
            *(partial(self._claim, lane) for lane in (OrderLane.PIX, OrderLane.PIX_CHANGE)),
            begin=self._begin,
            at_once=pace.bank_pix_calls,
            batch_max=pace.orders_claimed,
            look_s=_LOOK_S,
            stopping=self._context.stopping,
        )

    async def _claim(self, lane: OrderLane, limit: int) -> Sequence[PixOrder]:
        self._until = asyncio.get_running_loop().time() + CALL_S  # taken before the claim, as in drain_lanes
        now, test = self._context.now(), self._mode.test
        async with session(self._context.pool) as conn:
            return await self._queue_heads[lane].claim(
                lambda since: claim(conn, lane=lane, test=test, since=since, now=now, limit=limit, lease=LEASE), now=now
            )

    def _begin(self, orders: Sequence[PixOrder]) -> list[Coroutine[Any, Any, None]]:
        if self._mode is Mode.PRODUCTION:
            keys = self._callback_keys.to_register(orders)
            registering = [self._callback_keys.register(bank, keys_of_bank) for bank, keys_of_bank in keys.items()]
            return [*(self._carry_out(each, self._until) for each in orders), *registering]
        batch = [
            each
            for each in orders
            if each.kind in _BATCHED_KINDS and each.terms is None and read_scenario(each.request) is None
        ]
        batched_ids = {each.order_id for each in batch}
        begun = [self._carry_out(each, self._until) for each in orders if each.order_id not in batched_ids]
        return [self._carry_out_batch(batch, self._until), *begun] if batch else begun

    # One order

    async def _carry_out(self, order: PixOrder, until: float) -> None:
        await do_order(self._context, order, self._ask, self._store, until=until)

    async def _ask(self, order: PixOrder) -> Answer:
        bank = self._context.banks.of(order.mode, order.bank)
        scenario_bank = acting(bank, read_scenario(order.request), attempt=order.attempts)
        return await _ASK_BY_KIND[order.kind](self._context, scenario_bank, order)

    async def _store(self, order: PixOrder, answer: Answer | Later) -> None:
        if isinstance(answer, Done):
            await self._done_batcher.submit(order)  # stored together with orders whose answers came at the same moment
        else:
            await _store_not_done(self._context, order, answer)

    # Many orders at the simulated bank: one statement there, one here

    async def _carry_out_batch(self, orders: Sequence[PixOrder], until: float) -> None:
        context = self._context
        bank, now, began_ns = context.banks.sandbox, context.now(), time.time_ns()
        try:
            cobs = [
                order for order in orders if order.kind == OrderKind.COB_REGISTER and _needs_registration(order, now)
            ]
            refused: list[tuple[PixOrder, Rejected]] = []
            if cobs:
                answers = await bank.put_cobs([cob_to_register(context, order) for order in cobs])
                refused = [
                    (order, answer)
                    for order, answer in zip(cobs, answers, strict=True)
                    if isinstance(answer, Rejected) and not _was_registered(order, answer)
                ]
            payments = [simulated_pix(order) for order in orders if order.kind == OrderKind.PIX_SIMULATE]
            if payments:
                await bank.receive(payments, tell=False)
        except Exception as error:
            if not isinstance(error, DB_UNAVAILABLE):
                _log.warning("bank_batch_failed", count=len(orders), error=type(error).__name__)
            # Then each order on its own: one bad order must not fail its neighbours.
            await asyncio.gather(*(self._carry_out(order, until) for order in orders))
            return
        if context.traces is not None:
            _trace_batch(context.traces, orders, began_ns)
        refused_ids = {order.order_id for order, _ in refused}
        done = [order for order in orders if order.order_id not in refused_ids]
        if done:
            await store_with_retry(partial(self._store_done, done))
        for order, answer in refused:
            await store_with_retry(partial(_store_not_done, context, order, answer))

    async def _store_done(self, orders: Sequence[PixOrder]) -> list[None]:
        async with session(self._context.pool) as conn:
            await settle(conn, [(order, "done", None) for order in orders], now=self._context.now())
        return [None] * len(orders)


# The kinds of order: ask the bank


async def _register_cob(context: Context, bank: Bank, order: PixOrder) -> Answer:
    if not _needs_registration(order, context.now()):
        return DONE
    if order.terms is not None:
        cobv = cobv_to_register(context, order, order.terms)
        if cobv is None:
            return DONE
        answer = await bank.cobvs.put_cobv(cobv)
    else:
        answer = await bank.pix.put_cob(cob_to_register(context, order))
    return DONE if _was_registered(order, answer) else answer


async def _remove_cob(context: Context, bank: Bank, order: PixOrder) -> Answer:
    if order.registering:
        # The cob might otherwise be registered right after the bank said that there is nothing to remove.
        return Unknown("its registration is under way")
    assert order.charge_id is not None
    remove = bank.pix.remove_cob if order.terms is None else bank.cobvs.remove_cobv
    match await remove(order.charge_id.hex):
        case Done() | NotFound():
            return DONE
        case answer:
            return answer


async def _revise_cob(context: Context, bank: Bank, order: PixOrder) -> Answer:
    """Make the PIX leg of a dual charge end with its boleto, as the boleto ends when the bank is asked and not when
    this was ordered. Several revisions may be under way at once, so each checks afterwards that what it told the bank
    still holds."""
    if order.registering:
        return Unknown("its registration is under way")
    assert order.charge_id is not None
    until = _read_revision(order.request).until
    if not _is_payable(order, context.now()) or (until is not None and until <= on_clock(context.now(), order.ahead_s)):
        return DONE
    assert order.expires_at is not None
    assert order.due_on is not None, "a dual charge has a boleto"
    txid = order.charge_id.hex
    if order.terms is None:
        answer = await bank.pix.revise_cob(txid, min(order.expires_at, until or order.expires_at))
    else:
        answer = await bank.cobvs.revise_cobv(txid, order.due_on, read_terms(order.terms))
    if isinstance(answer, NotFound):
        _log.error("cob_not_at_bank", charge_id=str(order.charge_id))
        return DONE
    if not isinstance(answer, Done):
        return answer
    async with session(context.pool) as conn:
        ends = await find_charge_end(conn, charge_id=order.charge_id)
    return DONE if ends == _ChargeEnds(order.expires_at, order.due_on) else Unknown("re-dated again")


async def _simulate_pix(context: Context, bank: Bank, order: PixOrder) -> Answer:
    # The bank without the scenario: payers are not part of the port, and a scenario is about what we ask.
    await context.banks.sandbox.receive([simulated_pix(order)], tell=False)
    return DONE


_ASK_BY_KIND: Final[dict[str, Callable[[Context, Bank, PixOrder], Awaitable[Answer]]]] = {
    OrderKind.COB_REGISTER: _register_cob,
    OrderKind.COB_REMOVE: _remove_cob,
    OrderKind.COB_REVISE: _revise_cob,
    OrderKind.PIX_SIMULATE: _simulate_pix,
}


def _is_payable(order: PixOrder, now: datetime) -> bool:
    """Whether the cob can still be paid; if not, it is not worth registering."""
    at = on_clock(now, order.ahead_s)
    return order.status == Status.PENDING and (order.expires_at is None or order.expires_at > at)


def _needs_registration(order: PixOrder, now: datetime) -> bool:
    """Whether the cob is payable, or in the sandbox already paid: the location in its QR Code answers all the same."""
    return _is_payable(order, now) or (order.test and order.status in _PAID_STATUSES)


def _was_registered(order: PixOrder, answer: Answer) -> bool:
    """Whether the first PUT succeeded and its reply was lost: once the charge is paid, the cob takes no second PUT."""
    return isinstance(answer, Rejected) and order.status in _PAID_STATUSES


def _may_still_succeed(order: PixOrder, now: datetime) -> bool:
    """Whether an earlier registration, whose answer was lost, may still go through: the charge would fail here while
    its cob can be paid at the bank. The sandbox's bank is in this process, so nothing is on its way there."""
    may_be_lost = order.kind == OrderKind.COB_REGISTER and order.attempts > 1 and not order.test
    return may_be_lost and now < order.created_at + LOST_CALL_WATCH


async def _store_not_done(context: Context, order: PixOrder, answer: Rejected | Unknown | Later) -> None:
    now = context.now()
    if isinstance(answer, Rejected) and _may_still_succeed(order, now):
        answer = Unknown(f"refused: {answer.code}")
    if isinstance(answer, Unknown):
        answer = Later(detail=answer.detail)
    if isinstance(answer, Later):
        await put_off(context, order, answer, backoff_s(BACKOFF_S, order.attempts))
        return
    fail_outcome: Outcome | None = None
    outcome = _encode({"code": answer.code, "message": answer.message})
    _log.warning("bank_refused", kind=order.kind, order_id=str(order.order_id), code=answer.code)
    async with transaction(context.pool) as conn:
        still_leased = await settle(conn, [(order, "refused", outcome)], now=now)
        if still_leased and order.kind == OrderKind.COB_REGISTER:
            assert order.charge_id is not None
            fail_outcome = await fail_charge(
                conn,
                charge_id=order.charge_id,
                code=FAILURE_CODE,
                message=f"The bank refused the charge: {answer.message}"[:_MESSAGE_MAX],
                now=now,
                actor=BANK,
                request_id=read_request_id(order.request),
            )
    if fail_outcome is not None:
        context.jobs.wake(WEBHOOKS)
    if isinstance(fail_outcome, Charge) and fail_outcome.dual:
        context.jobs.wake(BOLETO_ORDERS[order.mode])  # its boleto still stands, and is to be written off


def _trace_batch(traces: Traces, orders: Sequence[PixOrder], began_ns: int) -> None:
    ended_ns = time.time_ns()
    for order in orders:
        traces.add(
            f"order {order.kind}",
            request_id=read_request_id(order.request),
            own=str(order.order_id),
            attributes={**span_attributes(order), "quita.outcome": "known"},
            began_ns=began_ns,
            ended_ns=ended_ns,
        )
