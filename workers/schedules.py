"""Issue the charges that schedules are due for: find out what became of a number, do the next thing for it, and store
when to look again.

Accounts take turns (docs/decisions/0034-fair-share.md): most schedules of all merchants are due at six in the morning.
"""

import asyncio
from datetime import datetime
from typing import Final
from uuid import UUID

import structlog

from banks.choice import agreement_of
from commands.bank_orders.pix_locations import take_one
from commands.charges.control_numbers import ControlNumbers
from commands.schedules import (
    BOLETO_LOOK,
    CLAIMED_MAX,
    LEASE,
    PIX,
    DueCharge,
    advance,
    claim,
    fail,
    hold,
    issue_pix,
    obstacle,
    order_boleto,
    over,
    turn,
    wait,
)
from domain.errors import Code, Refused
from domain.mode import Mode
from runtime.coordination.lanes import BOLETO_ORDERS, LOCATION_POOL, PIX_ORDERS
from runtime.postgres import DB_UNAVAILABLE, session, transaction
from sql import Connection
from workers.context import Context

AT_ONCE: Final = 4
"""Schedules that one process works on at the same time: each holds a connection for a moment."""
WINDOW: Final = 200
"""While fewer schedules are due, the look reads all of their accounts, and need not search for any."""
SCAN_MAX: Final = 1_000
"""Accounts searched by one look when more schedules than that are due: some 10 ms."""
ORDERED_MAX: Final = 500
"""Scheduled boletos of one account at the bank at the same time. They share a queue with boletos that requests wait
for, ten seconds at most: at a bank that takes 200 ms, this many occupy the queue for one second."""
_BEFORE_ALL: Final = UUID(int=0)

_log = structlog.get_logger()


class ScheduleWorker:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._numbers = ControlNumbers(context.pool)
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._rotation_account_id = _BEFORE_ALL  # the account that the rotation has reached

    async def drain(self) -> int:
        """One round; returns how many schedules were taken up."""
        now = self._context.now()
        async with session(self._context.pool) as conn:
            account_ids = await self._next_accounts(conn, now)
            dues = await claim(
                conn,
                now=now,
                limit=CLAIMED_MAX,
                account_ids=account_ids,
                each=CLAIMED_MAX // max(len(account_ids), 1),
                lease_until=now + LEASE,
            )
        await asyncio.gather(*(self._issue_logging_faults(due) for due in dues))
        return len(dues)

    async def _next_accounts(self, conn: Connection, now: datetime) -> list[UUID]:
        """The accounts whose turn it is, CLAIMED_MAX at most."""
        looked_at = await turn(
            conn, now=now, after=self._rotation_account_id, window=WINDOW, scan_max=SCAN_MAX, ordered_max=ORDERED_MAX
        )
        scanned_looks = [each for each in looked_at if each.n]
        in_turn_ids = [each.account_id for each in scanned_looks if each.due][:CLAIMED_MAX]
        if len(in_turn_ids) == CLAIMED_MAX:
            self._rotation_account_id = in_turn_ids[-1]
        else:
            self._rotation_account_id = (
                scanned_looks[-1].account_id if scanned_looks and scanned_looks[-1].n == SCAN_MAX else _BEFORE_ALL
            )
        oldest_ids = [each.account_id for each in looked_at if not each.n and each.due]
        return list(dict.fromkeys([*in_turn_ids, *oldest_ids]))[:CLAIMED_MAX]

    async def _issue_logging_faults(self, due: DueCharge) -> None:
        async with self._slots:
            try:
                await self._issue_or_advance(due)
            except DB_UNAVAILABLE:
                raise
            except Exception:
                # The end of the lease brings this schedule back, and it holds up no other.
                _log.exception("schedule_failed_here", schedule_id=str(due.schedule_id), number=due.number)

    async def _issue_or_advance(self, due: DueCharge) -> None:
        now = self._context.now()
        if due.resource_id is not None:
            async with session(self._context.pool) as conn:
                if due.fingerprint == due.mark:
                    await advance(conn, due, state="issued", charge_id=due.resource_id, failure_code=None, now=now)
                else:
                    # The account itself used this very key for something else.
                    code = Code.IDEMPOTENCY_KEY_REUSED.name
                    await advance(conn, due, state="failed", charge_id=None, failure_code=code, now=now)
            return
        if due.under_way:
            async with session(self._context.pool) as conn:
                await wait(conn, due, look_at=now + BOLETO_LOOK, ordered=True)
            return
        if due.status != "active":
            # Stopped while its boleto was at the bank, which refused it: the number waits until the schedule goes on.
            async with session(self._context.pool) as conn:
                await wait(conn, due, look_at=now, ordered=False)
            return
        if over(due, now=now):
            async with session(self._context.pool) as conn:
                state = "skipped" if due.failure_code is None else "failed"
                await advance(conn, due, state=state, charge_id=None, failure_code=due.failure_code, now=now)
            _log.info("schedule_number_not_issued", schedule_id=str(due.schedule_id), number=due.number, state=state)
            return
        obstacle_code = Code.BANK_UNAVAILABLE if due.ordered else obstacle(due)
        if obstacle_code is None:
            obstacle_code = await (self._issue_pix(due) if due.payment_method == PIX else self._order_boleto(due))
        if obstacle_code is not None:
            async with session(self._context.pool) as conn:
                await fail(conn, due, obstacle_code, now=now)
            _log.warning("schedule_waits", schedule_id=str(due.schedule_id), number=due.number, code=obstacle_code.name)

    async def _issue_pix(self, due: DueCharge) -> Code | None:
        context = self._context
        try:
            async with transaction(context.pool) as conn:
                approved = await hold(conn, due)
                if not approved:  # None: not to be issued now; the end of the lease brings back a schedule that goes on
                    return None if approved is None else Code.KYC_REQUIRED
                location = await take_one(conn, test=False, bank=context.settings.bank)
                if location is None:
                    raise Refused(Code.BANK_UNAVAILABLE)
                if not await issue_pix(conn, due, location, now=context.now(), seal=context.seal):
                    # PIX is suspended, or the key was used just now, which the next look finds. The location stays.
                    raise Refused(Code.PIX_AVULSO_SUSPENDED)
        except Refused as refused:
            return refused.code
        finally:
            context.jobs.wake(LOCATION_POOL[Mode.PRODUCTION])
        context.jobs.wake(PIX_ORDERS[Mode.PRODUCTION])
        return None

    async def _order_boleto(self, due: DueCharge) -> Code | None:
        context = self._context
        agreement = agreement_of(context.settings, context.settings.bank)
        control_number = await self._numbers.next()
        async with transaction(context.pool) as conn:
            approved = await hold(conn, due)
            if not approved:
                return None if approved is None else Code.KYC_REQUIRED
            await order_boleto(conn, due, control_number, agreement=agreement, now=context.now(), seal=context.seal)
        context.jobs.wake(BOLETO_ORDERS[Mode.PRODUCTION])
        return None
