"""Send withdrawals (workers/orders/outgoing.py), and begin the daily ones.

Before the bank is asked for the first time, the withdrawal becomes `processing`, in a transaction of its own. From then
on it cannot be cancelled. While an account is blocked, its pending withdrawals stay pending; those that are
`processing` are asked about, and not sent again.
"""

from collections.abc import Sequence
from functools import partial

import msgspec
import structlog

from banks.transfers import Transfer
from commands.bank_orders.kinds import OrderLane, SendOrder
from commands.money.withdraw import WithdrawalEnd, check_approved, daily_withdrawal, end_withdrawal, start_sending
from domain import errors
from domain.instants import SAO_PAULO, to_millisecond
from domain.mode import Mode
from domain.withdrawal import Withdrawal, WithdrawalFailure
from runtime.coordination.lanes import WEBHOOKS
from runtime.postgres import DB_UNAVAILABLE, session, transaction
from workers.context import Context
from workers.orders.lease import Later, LeaseLost, drain_lanes, read_request_id
from workers.orders.outgoing import (
    Answer,
    MoneyOrder,
    MoneyOutcome,
    claim_money,
    find_earlier_send,
    judge,
    last_unanswered_at,
    put_off_money,
    settle_money_orders,
)
from workers.orders.queue_head import QueueHead

_DAILY_ACCOUNTS_MAX = 50

_log = structlog.get_logger()
_read_request = msgspec.json.Decoder(SendOrder).decode


class WithdrawalOrderWorker:
    """Carries out the orders about withdrawals. Production only."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._queue_head = QueueHead()

    async def drain(self) -> int:
        at_once = self._context.settings.pace.bank_withdrawal_calls
        return await drain_lanes(self._context, self._claim, ask=self._ask, store=self._store, at_once=at_once)

    async def _claim(self, limit: int) -> Sequence[MoneyOrder]:
        return await claim_money(self._context, OrderLane.WITHDRAWAL, Mode.PRODUCTION, limit, self._queue_head)

    async def _ask(self, order: MoneyOrder) -> MoneyOutcome | Later:
        now = self._context.now()
        lost_at = last_unanswered_at(order, now=now)
        try:
            try:
                async with transaction(self._context.pool) as conn:
                    doc = await start_sending(conn, order.order_id, order.account_id, now=to_millisecond(now))
            except DB_UNAVAILABLE as error:
                return Later(detail=type(error).__name__, silent=True, lost_at=lost_at)
            if doc is None:
                raise LeaseLost  # the withdrawal and its order were cancelled before the bank was asked
            answer = await self._send(order, _read_request(order.request))
        except errors.Refused as refused:
            # The account is blocked, and nothing was sent by this attempt.
            return Later(detail=refused.code.name, lost_at=lost_at)
        return judge(order, answer, doc.amount_cents, lost_at, now=self._context.now())

    async def _send(self, order: MoneyOrder, request: SendOrder) -> Answer:
        """Raises errors.Refused(KYC_REQUIRED) when the bank has not sent it and the account has been blocked."""
        bank = self._context.banks.of(order.mode, order.bank)
        id = order.order_id.hex
        if earlier := await find_earlier_send(order, partial(bank.transfers.find_transfer, id)):
            return earlier
        if order.attempts > 1:
            # The account may have been blocked since the first attempt, and the bank has sent nothing.
            async with session(self._context.pool) as conn:
                await check_approved(conn, order.account_id)
        return await bank.transfers.send_pix(
            Transfer(
                id=id,
                pix_key=request.pix_key,
                document=request.document,
                amount_cents=request.amount_cents,
                description=request.description,
            )
        )

    async def _store(self, order: MoneyOrder, result: MoneyOutcome | Later) -> None:
        if isinstance(result, Later):
            await put_off_money(self._context, order, result)
            return
        now = self._context.now()
        async with transaction(self._context.pool) as conn:
            if await settle_money_orders(conn, [(order, result)], now=now):
                ended = WithdrawalEnd(
                    account_id=order.account_id,
                    withdrawal_id=order.order_id,
                    end_to_end_id=result.reference,
                    failure=None if result.failure is None else WithdrawalFailure(result.failure),
                    request_id=read_request_id(order.request),
                )
                await end_withdrawal(conn, ended, now=to_millisecond(now))
        self._context.jobs.wake(WEBHOOKS)


async def withdraw_daily(context: Context) -> int:
    """Begin the day's withdrawals, from the configured hour in Sao Paulo on; returns how many accounts were looked at.

    Each account keeps the day of its last daily withdrawal, and there is one for each account and day: two workers, a
    restart or a clock set back never make a second one.
    """
    now = to_millisecond(context.now())
    local_now = now.astimezone(SAO_PAULO)
    if local_now.hour < context.settings.daily_withdrawal_hour:
        return 0
    for accounts_done in range(_DAILY_ACCOUNTS_MAX):
        try:
            async with transaction(context.pool) as conn:
                withdrawal = await daily_withdrawal(
                    conn,
                    day=local_now.date(),
                    now=now,
                    bank=context.settings.bank,
                    grace_s=context.settings.withdrawal_grace_s,
                    fees=context.settings.fees,
                )
        except errors.Refused as refused:
            # The balance fell between two statements: the next round looks again.
            _log.info("daily_withdrawal_not_covered", code=refused.code.name)
            return accounts_done
        if withdrawal is False:
            return accounts_done
        if isinstance(withdrawal, Withdrawal):
            _log.info("daily_withdrawal_begun", withdrawal_id=str(withdrawal.withdrawal_id))
    return _DAILY_ACCOUNTS_MAX
