"""Send withdrawals, ask about them until it is known whether they went, and begin the daily ones.

As in workers/orders/refund.py nobody waits and nothing is given up: the first attempt sends, each later one asks first
what became of it, and sends again, under the same id, only what the bank says it does not have. What differs: before
the bank is asked at all the withdrawal becomes `processing`, in a transaction of its own. From then on it cannot be
cancelled. While an account is blocked what is pending stays so; what is `processing` is asked about, and not sent
again.

A no is believed only when no attempt can still turn out to have been a yes: with each outcome that is not known yet it
is written down when an attempt was last left without an answer.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec
import structlog
from msgspec import Struct

import sql
from banks.protocol import Done, NotFound, Rejected, Unknown
from banks.transfers import NO_TRANSFERS, Sent, Transfer
from commands.bank_orders.kinds import SendOrder
from commands.money.withdraw import Ended, check_approved, daily_withdrawal, end_withdrawal, start_sending
from domain import errors
from domain.instants import SAO_PAULO, to_millisecond
from domain.mode import Mode
from domain.withdrawal import Withdrawal, WithdrawalFailure
from readmodels.money.withdrawal import WithdrawalDoc
from runtime.jobs import WEBHOOKS, WITHDRAWAL_ORDERS
from runtime.postgres import DB_UNAVAILABLE, session, transaction
from workers.concurrency import run_concurrently
from workers.context import Context
from workers.orders.refund import CALL_S, LEASE, WATCH, LastAnswer, lost_before, patiently, wait_after

AT_ONCE: Final = 16
"""Withdrawals at the bank at the same time, per process."""

_DAILY_MAX = 50
_RING_S_MAX = 1.0
_DETAIL_CHARACTERS = 200

_log = structlog.get_logger()
_encode = msgspec.json.Encoder().encode
_read_request = msgspec.json.Decoder(SendOrder).decode


class ClaimedWithdrawal(Struct, frozen=True, gc=False):
    """A claimed order; its id is the withdrawal's."""

    order_id: UUID
    account_id: UUID
    request: bytes
    attempts: int
    outcome: bytes | None
    """Of the attempt before, a `LastAnswer`; it is an older attempt's, or none, when that one's worker was lost."""


class _Settled(Struct, frozen=True, gc=False):
    order_id: UUID


class _Later(Struct, frozen=True):
    """Not known yet: to be asked about again. `detail` names what was seen, never what was sent; `silent`: the bank
    said nothing about it."""

    detail: str
    lost_at: datetime | None
    silent: bool = False


class _Known(Struct, frozen=True):
    ended: Ended
    detail: str | None = None
    """The bank's own words, for people."""


claim = sql.many("withdrawal.claim_orders", ClaimedWithdrawal)
settle = sql.maybe("withdrawal.settle_order", _Settled)

Answer = Done[Sent] | Rejected | Unknown


class WithdrawalOrderWorker:
    """Does the orders about withdrawals. Production only."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def drain(self) -> int:
        """Do what is due; answers how many orders were taken up. One slow answer holds nobody else up."""
        return await run_concurrently(self._claim, self._do, at_once=AT_ONCE, stopping=self._context.stopping)

    async def _claim(self, most: int) -> Sequence[ClaimedWithdrawal]:
        now = self._context.now()
        async with session(self._context.pool) as conn:
            return await claim(conn, now=now, most=most, lease_until=now + LEASE)

    async def _do(self, order: ClaimedWithdrawal) -> None:
        try:
            before = lost_at = lost_before(order.outcome, order.attempts, now=self._context.now())
            try:
                async with asyncio.timeout(CALL_S):
                    doc = await self._start(order)
                    if doc is None:
                        return
                    lost_at = self._context.now()
                    result = self._judge(order, doc, await self._ask(order, _read_request(order.request)), before)
            except errors.Refused as held:
                # The account is blocked, and nothing was sent by this attempt.
                result = _Later(held.code.name, before)
            except (*DB_UNAVAILABLE, TimeoutError) as gone:
                result = _Later(type(gone).__name__, lost_at, silent=True)
            except Exception:
                _log.exception("withdrawal_order_failed_here", withdrawal_id=str(order.order_id))
                result = _Later("failed here", lost_at)
            await patiently(lambda: self._store(order, result))
        except Exception:
            _log.exception("withdrawal_order_not_stored", withdrawal_id=str(order.order_id))

    async def _start(self, order: ClaimedWithdrawal) -> WithdrawalDoc | None:
        """None: it was cancelled before the bank was asked, and its order with it."""
        async with transaction(self._context.pool) as conn:
            return await start_sending(conn, order.order_id, order.account_id, now=to_millisecond(self._context.now()))

    async def _ask(self, order: ClaimedWithdrawal, request: SendOrder) -> Answer:
        """Raises errors.Refused(KYC_REQUIRED) when the bank does not have it and the account is blocked by now."""
        bank = self._context.banks[Mode.PRODUCTION]
        id = order.order_id.hex
        if order.attempts > 1:
            found = await bank.find_transfer(id)
            if not isinstance(found, NotFound):
                return found if isinstance(found, Unknown) else Done(found)
            # It may have been blocked since it began, and the bank has not sent anything.
            async with session(self._context.pool) as conn:
                await check_approved(conn, order.account_id)
        return await bank.send_pix(
            Transfer(
                id=id,
                pix_key=request.pix_key,
                document=request.document,
                amount_cents=request.amount_cents,
                description=request.description,
            )
        )

    def _judge(
        self, order: ClaimedWithdrawal, doc: WithdrawalDoc, answer: Answer, lost_at: datetime | None
    ) -> _Known | _Later:
        """What the bank's answer means; whatever is not for good is asked again. `lost_at` tells of attempts before."""
        match answer:
            case Unknown(detail):
                return _Later(detail, self._context.now(), silent=True)
            case Done(Sent(amount_cents=cents)) if cents != doc.amount_cents:
                # Nothing of ours sends another amount under this id: somebody has to look.
                _log.error("withdrawal_of_another_amount", withdrawal_id=doc.withdrawal_id)
                return _Later("another amount", self._context.now())
            case Done(Sent(status="processing")):
                return _Later("processing", self._context.now())
            case Done(Sent(status="not_done", detail=detail)):
                return self._failed(order, WithdrawalFailure.NOT_CARRIED_OUT, detail)
            case Done(Sent(reference=reference)):
                ended = Ended(account_id=order.account_id, withdrawal_id=order.order_id, end_to_end_id=reference)
                return _Known(ended)
            case Rejected(code, message):
                if code == NO_TRANSFERS and lost_at is not None:
                    # Whoever sends nothing cannot say what became of what was sent before: somebody has to look.
                    _log.error("withdrawal_not_asked_about", withdrawal_id=doc.withdrawal_id)
                    return _Later(f"refused: {code}", lost_at)
                if code == NO_TRANSFERS:
                    return self._failed(order, WithdrawalFailure.TRANSFER_UNAVAILABLE, message)
                if lost_at is not None and self._context.now() < lost_at + WATCH:
                    # A no may be overtaken by the yes to an attempt whose answer was lost.
                    return _Later(f"refused: {code}", lost_at)
                return self._failed(order, WithdrawalFailure.BANK_REFUSED, f"{code}: {message}")

    def _failed(self, order: ClaimedWithdrawal, failure: WithdrawalFailure, detail: str | None) -> _Known:
        _log.warning("withdrawal_failed", withdrawal_id=str(order.order_id), failure=failure)
        return _Known(Ended(account_id=order.account_id, withdrawal_id=order.order_id, failure=failure), detail)

    async def _store(self, order: ClaimedWithdrawal, result: _Known | _Later) -> None:
        now = self._context.now()
        if isinstance(result, _Known):
            # ClaimedWithdrawal and withdrawal together. One that is another lease's by now is passed over: that one
            # ends it.
            async with transaction(self._context.pool) as conn:
                settled = await settle(
                    conn,
                    order_id=order.order_id,
                    attempts=order.attempts,
                    state="done" if result.ended.failure is None else "refused",
                    due_at=now,
                    outcome=None if result.detail is None else _encode({"detail": result.detail[:_DETAIL_CHARACTERS]}),
                )
                if settled is not None:
                    await end_withdrawal(conn, result.ended, now=to_millisecond(now))
            self._context.jobs.wake(WEBHOOKS)
            return
        _log.info(
            "withdrawal_unknown", withdrawal_id=str(order.order_id), attempts=order.attempts, detail=result.detail
        )
        wait_s = wait_after(order.attempts, silent=result.silent)
        async with session(self._context.pool) as conn:
            await settle(
                conn,
                order_id=order.order_id,
                attempts=order.attempts,
                state="waiting",
                due_at=now + timedelta(seconds=wait_s),
                outcome=_encode(LastAnswer(result.detail, order.attempts, result.lost_at)),
            )
        if wait_s < _RING_S_MAX:
            asyncio.get_running_loop().call_later(wait_s, self._context.jobs.wake, WITHDRAWAL_ORDERS[Mode.PRODUCTION])


async def withdraw_daily(context: Context) -> int:
    """From the hour set on, in Sao Paulo, begin the day's withdrawals; answers how many accounts were looked at.

    What decides is the day that is written down with each account, and one withdrawal for each account and day: two
    workers, a restart or a clock set back never make a second one.
    """
    now = to_millisecond(context.now())
    here = now.astimezone(SAO_PAULO)
    if here.hour < context.settings.daily_withdrawal_hour:
        return 0
    for done in range(_DAILY_MAX):
        try:
            async with transaction(context.pool) as conn:
                found = await daily_withdrawal(
                    conn, day=here.date(), now=now, grace_s=context.settings.withdrawal_grace_s
                )
        except errors.Refused as refused:
            # The balance fell between two statements: the next round looks again.
            _log.info("daily_withdrawal_not_covered", code=refused.code.name)
            return done
        if found is False:
            return done
        if isinstance(found, Withdrawal):
            _log.info("daily_withdrawal_begun", withdrawal_id=str(found.withdrawal_id))
    return _DAILY_MAX
