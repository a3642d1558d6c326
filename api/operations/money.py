"""Begin refunds and withdrawals. Each kind gets two connections per process: requests for one busy charge or account
wait for each other's locks, and must not take the connections of all other requests."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

from commands.money.program_payouts import REFUND, WITHDRAWAL, ProgramPayout, note_payouts
from commands.money.refund import REFUNDS_MAX, NewRefund, begin_refunds
from commands.money.withdraw import NewWithdrawal, create_withdrawal
from domain.errors import Code, Refused
from domain.merchants.fees import FeeTerms
from domain.mode import Mode, Owner
from domain.money import PIX_CENTS_MAX, parse_amount
from readmodels.money.ledger import balance
from readmodels.money.refund import RefundProjection
from readmodels.money.withdrawal import WithdrawalDoc
from runtime.batching import Batcher
from runtime.coordination.lanes import REFUND_ORDERS
from runtime.jobs import Jobs
from runtime.postgres import Pool, session, transaction

BALANCE_SCOPE: Final = "payments:read"
CONNECTIONS_MAX: Final = 2


@asynccontextmanager
async def _with_balance(pool: Pool, owner: Owner, scopes: Collection[str]) -> AsyncIterator[None]:
    """Adds the balance to Refused(INSUFFICIENT_BALANCE), for callers with the scope to read it. The balance is read
    after the transaction and may have changed since the refusal."""
    try:
        yield
    except Refused as refused:
        if refused.code is not Code.INSUFFICIENT_BALANCE or BALANCE_SCOPE not in scopes:
            raise
        async with session(pool) as conn:
            current = await balance(conn, owner)
        raise Refused(Code.INSUFFICIENT_BALANCE, balance=current.balance) from None


class Refunds:
    """Begins refunds in batches: those that wait at the same moment share one transaction."""

    def __init__(self, pool: Pool, jobs: Jobs, now: Callable[[], datetime], *, transfers_cents_max: int) -> None:
        self._pool = pool
        self._jobs = jobs
        self._now = now
        self._transfers_cents_max = transfers_cents_max
        # A batch that a balance does not cover is rolled back, and each of its refunds is tried again alone.
        # A batcher per mode: a lock on an account of the sandbox does not delay production.
        self._batchers: dict[Mode, Batcher[NewRefund, RefundProjection | None]] = {
            mode: Batcher(self._begin_batch, lanes=CONNECTIONS_MAX, batch_max=REFUNDS_MAX) for mode in Mode
        }

    async def close(self) -> None:
        for batcher in self._batchers.values():
            await batcher.close()

    async def create(self, refund: NewRefund, *, scopes: Collection[str]) -> RefundProjection | None:
        """Returns the pending refund, or None when its key was used; else Refused. `scopes` are the caller's."""
        async with _with_balance(self._pool, refund.owner, scopes):
            return await self._batchers[refund.owner.mode].submit(refund)

    async def _begin_batch(self, refunds: Sequence[NewRefund]) -> list[RefundProjection | Refused | None]:
        async with transaction(self._pool) as conn:
            now = self._now()
            outcomes = await begin_refunds(conn, refunds, now=now, transfers_cents_max=self._transfers_cents_max)
            transfers = [
                ProgramPayout(
                    refund.owner.account_id, parse_amount(outcome.amount, cents_max=PIX_CENTS_MAX), refund.actor
                )
                for refund, outcome in zip(refunds, outcomes, strict=True)
                # Only transfers to a PIX key. A refund with an end_to_end_id is a devolucao of the PIX that paid.
                if isinstance(outcome, RefundProjection) and outcome.end_to_end_id is None and not refund.owner.test
            ]
            await note_payouts(conn, REFUND, transfers, now=now)
        for mode in {refund.owner.mode for refund in refunds}:
            self._jobs.wake(REFUND_ORDERS[mode])
        return outcomes


class Withdrawals:
    """Creates withdrawals. They are not batched: withdrawals of one account wait for its clock in any case."""

    def __init__(self, pool: Pool, now: Callable[[], datetime], *, bank: str, grace_s: float, fees: FeeTerms) -> None:
        self._pool = pool
        self._now = now
        self._bank = bank
        self._grace_s = grace_s
        self._fees = fees
        self._connections = asyncio.Semaphore(CONNECTIONS_MAX)

    async def create(self, withdrawal: NewWithdrawal, *, scopes: Collection[str]) -> WithdrawalDoc | None:
        """Returns the pending withdrawal, or None when its key was used; else Refused. `scopes` are the caller's."""
        owner = Owner.of(withdrawal.account_id, test=False)
        async with _with_balance(self._pool, owner, scopes), self._connections, transaction(self._pool) as conn:
            now = self._now()
            doc = await create_withdrawal(
                conn, withdrawal, now=now, bank=self._bank, grace_s=self._grace_s, fees=self._fees
            )
            if doc is not None:
                payout = ProgramPayout(withdrawal.account_id, withdrawal.amount_cents, withdrawal.actor)
                await note_payouts(conn, WITHDRAWAL, [payout], now=now)
            return doc
