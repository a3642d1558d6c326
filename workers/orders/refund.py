"""Have the bank send money back, and ask about it until it is known whether it did.

As in workers/orders/boleto.py an order is claimed, the bank asked with no transaction open, and the outcome stored with
what it means for refund, charge and wallet in one transaction. What differs: nobody waits, and nothing is given up. The
first attempt sends; each later one asks first what became of it, and sends again, under the same id, only what the bank
says it does not have. Money on its way (EM_PROCESSAMENTO) is asked about for as long as that takes. A no is believed
only when no attempt can still turn out to have been a yes: with each outcome that is not known yet it is written down
when an attempt was last left without an answer.
"""

import asyncio
import random
from base64 import b64decode
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec
import structlog
from msgspec import Struct

import sql
from banks.protocol import Bank, Done, NotFound, Rejected, Unknown
from banks.scenario import acting
from banks.transfers import NO_TRANSFERS, PIX_UNKNOWN, Return, Sent, Transfer
from commands.bank_orders.kinds import OrderKind, RefundReturn, RefundTransfer
from commands.money.refund import Ending, TransferDestination, end_refunds
from domain.instants import to_millisecond
from domain.mode import Mode
from domain.refund import FailureCode
from runtime.batching import Batcher
from runtime.jobs import REFUND_ORDERS, WEBHOOKS
from runtime.postgres import DB_UNAVAILABLE, session, transaction
from workers.concurrency import run_concurrently
from workers.context import Context

AT_ONCE: Final = 32
"""Calls about refunds to one bank at the same time, per mode and process."""
LEASE: Final = timedelta(seconds=30)
CALL_S: Final = 25.0
"""Below the lease: an order is never with two workers."""
BACKOFF_S: Final = (0.5, 1.0, 2.0, 5.0, 15.0, 60.0, 300.0, 900.0)
SILENT_S: Final = 25.0
"""The most between two questions to a bank that said nothing, however long it was away: what is open is known within
half a minute of its return. The long waits are for money that the bank says is on its way."""
WATCH: Final = timedelta(seconds=60)
"""For this long after an attempt whose answer was lost, a no may be overtaken by the yes to that attempt; and the bank
may not know yet a PIX that it told us of. Longer than any call of ours lives."""
ATTEMPTS_LEAST: Final = 5
"""Before a PIX counts as unknown to the bank: time may have passed while nobody asked."""

_STORED_MAX = 50
_RING_S_MAX = 1.0
_STORE_WAITS_S: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0)
_DETAIL_CHARACTERS = 200

_log = structlog.get_logger()
_encode = msgspec.json.Encoder().encode
_READ: Final[dict[str, Callable[[bytes], "Request"]]] = {
    OrderKind.REFUND_RETURN: msgspec.json.Decoder(RefundReturn).decode,
    OrderKind.REFUND_TRANSFER: msgspec.json.Decoder(RefundTransfer).decode,
}
_read_destination = msgspec.json.Decoder(TransferDestination).decode


class ClaimedRefund(Struct, frozen=True, gc=False):
    """A claimed order."""

    order_id: UUID
    charge_id: UUID
    kind: str
    request: bytes
    attempts: int
    created_at: datetime
    outcome: bytes | None
    """Of the attempt before, a `LastAnswer`; it is an older attempt's, or none, when that one's worker was lost."""


class LastAnswer(Struct, frozen=True, gc=False, omit_defaults=True):
    """The outcome of an attempt after which nothing is known yet. `detail` names what was seen, never what was sent."""

    detail: str
    attempt: int = 0
    lost_at: datetime | None = None
    """When an attempt that may have sent the money was last left without an answer; None when none was."""


class _Settled(Struct, frozen=True, gc=False):
    order_id: UUID


class _Later(Struct, frozen=True):
    """Not known yet: to be asked about again. As in `LastAnswer`. `silent`: the bank said nothing about it."""

    detail: str
    lost_at: datetime | None
    silent: bool = False


class _Ended(Struct, frozen=True):
    ending: Ending
    detail: str | None = None
    """The bank's own words, for people."""


claim = sql.many("refund.claim", ClaimedRefund)
settle = sql.many("refund.settle_orders", _Settled)

_read_seen = msgspec.json.Decoder(LastAnswer).decode
Request = RefundReturn | RefundTransfer
Answer = Done[Sent] | Rejected | Unknown


class RefundOrderWorker:
    """Does the orders about refunds of one mode. What has ended is stored in batches."""

    def __init__(self, context: Context, mode: Mode, *, at_once: int = AT_ONCE) -> None:
        self._context = context
        self._mode = mode
        self._at_once = at_once
        self._bank = context.banks[mode]
        self._ending: Batcher[tuple[ClaimedRefund, _Ended], None] = Batcher(self._end, lanes=2, most=_STORED_MAX)

    async def drain(self) -> int:
        """Do what is due; answers how many orders were taken up. One slow answer holds nobody else up."""
        return await run_concurrently(self._claim, self._do, at_once=self._at_once, stopping=self._context.stopping)

    async def _claim(self, most: int) -> list[ClaimedRefund]:
        now = self._context.now()
        async with session(self._context.pool) as conn:
            return await claim(conn, test=self._mode.test, now=now, most=most, lease_until=now + LEASE)

    async def _do(self, order: ClaimedRefund) -> None:
        try:
            now = self._context.now()
            try:
                lost_at = lost_before(order.outcome, order.attempts, now=now)
                request = _READ[order.kind](order.request)
                acted = acting(self._bank, request.scenario, attempt=order.attempts)
                async with asyncio.timeout(CALL_S):
                    answer = await (
                        self._return(acted, order, request)
                        if isinstance(request, RefundReturn)
                        else self._transfer(acted, order, request)
                    )
                result = self._judge(order, request, answer, lost_at)
            except (*DB_UNAVAILABLE, TimeoutError) as gone:
                result = _Later(type(gone).__name__, now, silent=True)
            except Exception:
                _log.exception("refund_order_failed_here", order_id=str(order.order_id), kind=order.kind)
                result = _Later("failed here", now)
            await patiently(lambda: self._store(order, result))
        except Exception:
            _log.exception("refund_order_not_stored", order_id=str(order.order_id), kind=order.kind)

    # Ask the bank

    async def _return(self, bank: Bank, order: ClaimedRefund, request: RefundReturn) -> Answer:
        id = request.refund_id.hex
        if order.attempts > 1:
            found = await bank.find_return(request.end_to_end_id, id)
            if not isinstance(found, NotFound):
                return found if isinstance(found, Unknown) else Done(found)
        return await bank.return_pix(
            Return(
                id=id,
                end_to_end_id=request.end_to_end_id,
                amount_cents=request.amount_cents,
                description=request.description,
            )
        )

    async def _transfer(self, bank: Bank, order: ClaimedRefund, request: RefundTransfer) -> Answer:
        id = request.refund_id.hex
        if order.attempts > 1:
            found = await bank.find_transfer(id)
            if not isinstance(found, NotFound):
                return found if isinstance(found, Unknown) else Done(found)
        to = _read_destination(self._context.seal.open(b64decode(request.destination_sealed)))
        return await bank.send_pix(
            Transfer(
                id=id,
                pix_key=to.pix_key,
                document=to.document,
                amount_cents=request.amount_cents,
                description=request.description,
            )
        )

    def _judge(
        self, order: ClaimedRefund, request: Request, answer: Answer, lost_at: datetime | None
    ) -> _Ended | _Later:
        """What the bank's answer means; whatever is not for good is asked again. `lost_at` tells of attempts before."""
        transfer = isinstance(request, RefundTransfer)
        match answer:
            case Unknown(detail):
                return _Later(detail, self._context.now(), silent=True)
            case Done(Sent(amount_cents=cents)) if cents != request.amount_cents:
                # Nothing of ours sends another amount under this id: somebody has to look.
                _log.error("refund_of_another_amount", refund_id=str(request.refund_id))
                return _Later("another amount", self._context.now())
            case Done(Sent(status="processing")):
                return _Later("processing", self._context.now())
            case Done(Sent(status="not_done", detail=detail)):
                return self._failed(order, request, FailureCode.NOT_CARRIED_OUT, detail)
            case Done(Sent(reference=reference)):
                return _Ended(
                    Ending(
                        charge_id=order.charge_id,
                        refund_id=request.refund_id,
                        end_to_end_id=reference if transfer else None,
                        return_id=None if transfer else reference,
                    )
                )
            case Rejected(code, message):
                if self._may_be_overtaken(order, code, lost_at):
                    return _Later(f"refused: {code}", lost_at)
                failure = FailureCode.TRANSFER_UNAVAILABLE if code == NO_TRANSFERS else FailureCode.BANK_REFUSED
                return self._failed(order, request, failure, f"{code}: {message}")

    def _may_be_overtaken(self, order: ClaimedRefund, code: str, lost_at: datetime | None) -> bool:
        now = self._context.now()
        if code == NO_TRANSFERS and lost_at is not None:
            # Whoever sends nothing cannot say what became of what was sent before: somebody has to look.
            _log.error("refund_not_asked_about", order_id=str(order.order_id))
            return True
        if code == PIX_UNKNOWN and (now < order.created_at + WATCH or order.attempts < ATTEMPTS_LEAST):
            return True
        return lost_at is not None and now < lost_at + WATCH

    def _failed(self, order: ClaimedRefund, request: Request, failure: FailureCode, detail: str | None) -> _Ended:
        _log.warning("refund_failed", refund_id=str(request.refund_id), failure=failure, test=self._mode.test)
        return _Ended(Ending(charge_id=order.charge_id, refund_id=request.refund_id, failure=failure), detail)

    # Store

    async def _store(self, order: ClaimedRefund, result: _Ended | _Later) -> None:
        if isinstance(result, _Ended):
            await self._ending.submit((order, result))
            self._context.jobs.wake(WEBHOOKS)
            return
        _log.info(
            "refund_unknown",
            kind=order.kind,
            order_id=str(order.order_id),
            attempts=order.attempts,
            detail=result.detail,
        )
        wait_s = wait_after(order.attempts, silent=result.silent)
        async with session(self._context.pool) as conn:
            await settle(
                conn,
                order_ids=[order.order_id],
                attempts=[order.attempts],
                states=["waiting"],
                due_ats=[self._context.now() + timedelta(seconds=wait_s)],
                outcomes=[_encode(LastAnswer(result.detail, order.attempts, result.lost_at))],
            )
        if wait_s < _RING_S_MAX:
            # Most of what is unknown is known a moment later: the next round of looking by oneself would be too late.
            asyncio.get_running_loop().call_later(wait_s, self._context.jobs.wake, REFUND_ORDERS[self._mode])

    async def _end(self, ended: Sequence[tuple[ClaimedRefund, _Ended]]) -> list[None]:
        """Orders and refunds together. An order that is another lease's by now is passed over: that one ends it."""
        now = self._context.now()
        async with transaction(self._context.pool) as conn:
            settled = await settle(
                conn,
                order_ids=[order.order_id for order, _ in ended],
                attempts=[order.attempts for order, _ in ended],
                states=["done" if each.ending.failure is None else "refused" for _, each in ended],
                due_ats=[now] * len(ended),
                outcomes=[
                    None if each.detail is None else _encode({"detail": each.detail[:_DETAIL_CHARACTERS]})
                    for _, each in ended
                ],
            )
            ours = {row.order_id for row in settled}
            endings = [each.ending for order, each in ended if order.order_id in ours]
            if endings:
                await end_refunds(conn, endings, now=to_millisecond(now))
        return [None] * len(ended)


def lost_before(outcome: bytes | None, attempts: int, *, now: datetime) -> datetime | None:
    """When an attempt before this one was last left without an answer; `now` when the last one left nothing behind."""
    if attempts == 1:
        return None
    seen = None if outcome is None else _read_seen(outcome)
    return now if seen is None or seen.attempt != attempts - 1 else seen.lost_at


def wait_after(attempts: int, *, silent: bool) -> float:
    """Seconds until the next question."""
    base_s = BACKOFF_S[min(attempts, len(BACKOFF_S)) - 1]
    return (min(base_s, SILENT_S) if silent else base_s) * random.uniform(0.8, 1.2)  # noqa: S311 - spreads load


async def patiently(store: Callable[[], Awaitable[None]]) -> None:
    """Over a restart of PostgreSQL: the bank has been asked, and what it said is not thrown away."""
    for wait_s in (*_STORE_WAITS_S, None):
        try:
            return await store()
        except DB_UNAVAILABLE:
            if wait_s is None:
                raise
            await asyncio.sleep(wait_s)
