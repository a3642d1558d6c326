"""Places orders about boletos: writes the order, wakes a worker, and awaits the outcome until a deadline, at which the
order is given up.

A request whose order is given up is answered BANK_UNAVAILABLE, and nothing stays at the bank: the statement that gives
it up writes an order to undo what the bank may have done (sql/queries/charges/boleto.sql, give_up). No transaction is
open during the wait.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec
import structlog

from banks.boletos import NUMBER_TAKEN
from banks.choice import agreement_of
from commands.bank_orders.boleto_orders import Outcome, give_up, look, place_change
from commands.bank_orders.kinds import Pay, Redate, WriteOff, kind_of
from commands.bank_orders.pix_locations import LocationReserve, PixLocation
from commands.charges.control_numbers import ControlNumbers
from commands.charges.create_boleto import (
    ORDERED_MAX,
    BoletoRequest,
    RegistrationOrder,
    compose_boleto,
    order_boletos,
)
from domain.charge import DUAL
from domain.errors import Code, Refused
from domain.mode import Mode, Owner
from runtime.batching import Batcher
from runtime.coordination.due_times import DueTimes
from runtime.coordination.lanes import BOLETO_ORDERS
from runtime.ids import new_id
from runtime.jobs import Jobs
from runtime.postgres import Pool, session, transaction
from runtime.replies import Replies
from runtime.settings import Settings
from sql import Connection

DEADLINE_S: Final = 10.0
"""How long a request waits for the bank."""
RETRY_AFTER_S: Final = 2
_NUMBERS_MAX = 3  # control numbers tried for one boleto

_log = structlog.get_logger()
_encode = msgspec.json.Encoder().encode
_read_outcome = msgspec.json.Decoder(Outcome).decode


class BoletoIssuer:
    """Issues and changes boletos for waiting requests; one instance for each process that places orders."""

    def __init__(
        self,
        settings: Settings,
        pool: Pool,
        jobs: Jobs,
        replies: Replies,
        reserve: LocationReserve,
        now: Callable[[], datetime],
    ) -> None:
        self._agreement = agreement_of(settings, settings.bank)
        self._pool = pool
        self._jobs = jobs
        self._replies = replies
        self._reserve = reserve
        self._now = now
        self._numbers = ControlNumbers(pool)
        self._due_times = DueTimes(settings.pace.bank_share_per_s)
        self._change_due_times = DueTimes(settings.pace.bank_share_per_s)
        # One batcher for each mode, so that a flood in the sandbox does not delay production.
        self._orders: dict[Mode, Batcher[RegistrationOrder, bool]] = {
            mode: Batcher(self._write_orders, lanes=2, batch_max=ORDERED_MAX) for mode in Mode
        }

    async def close(self) -> None:
        for batcher in self._orders.values():
            await batcher.close()

    async def issue(self, request: BoletoRequest, *, until: float) -> UUID | None:
        """Have the bank register the boleto; returns the id of its charge, or None when the idempotency key was used
        before or has an order under way.

        `until` is in the event loop's time. Refused(BANK_UNAVAILABLE) when the bank did not confirm in time; nothing
        stays registered then.
        """
        location = None
        if request.kind == DUAL and request.terms is None:
            # Not given back once the order is written: the boleto of a failed creation may still be paid by the QR Code
            # of this location.
            location = await self._reserve.take(
                request.issuer.mode, request.issuer.account_id, wait_s=until - asyncio.get_running_loop().time()
            )
        order = await self.compose(request, location, until=until)
        if not await self._orders[request.issuer.mode].submit(order):
            if location is not None:
                self._reserve.give_back(request.issuer.mode, [location])
            return None
        return await self.registered(request, order, location, until=until)

    async def compose(
        self, request: BoletoRequest, location: PixLocation | None = None, *, until: float
    ) -> RegistrationOrder:
        """Returns the order for a boleto with the next control number, for a caller that writes the order in its own
        transaction and then awaits `registered`."""
        now = self._now()
        return compose_boleto(
            request,
            await self._numbers.next(),
            location,
            agreement=self._agreement,
            now=now,
            due_at=self._due_times.take(request.issuer.owner, now),
            deadline=now + timedelta(seconds=max(until - asyncio.get_running_loop().time(), 0.0)),
            reply_to=self._replies.reply_to,
        )

    async def registered(
        self, request: BoletoRequest, order: RegistrationOrder, location: PixLocation | None = None, *, until: float
    ) -> UUID | None:
        """Await an order that is written; returns what `issue` returns. When the bank has given the number to another
        issuer under the same convenio, an order with the next number follows."""
        for tries_left in reversed(range(_NUMBERS_MAX)):
            outcome = await self.wait(order.order_id, until - asyncio.get_running_loop().time())
            if not outcome.refused:
                return order.charge_id
            if outcome.refused != NUMBER_TAKEN or not tries_left:
                break
            number, request_id = order.request.payload.charge.nosso_numero, order.request.request_id
            _log.warning("boleto_number_taken", number=number, request_id=request_id)
            order = await self.compose(request, location, until=until)
            if not await self._orders[request.issuer.mode].submit(order):
                return None
        raise Refused(Code.BANK_UNAVAILABLE, retry_after_s=RETRY_AFTER_S)

    async def place(
        self,
        conn: Connection,
        order_id: UUID,
        charge_id: UUID,
        owner: Owner,
        request: WriteOff | Redate | Pay,
        *,
        left_s: float,
    ) -> bool:
        """Order a change of a boleto, with a deadline in `left_s`; False while another change of it is under way.

        The caller wakes BOLETO_ORDERS after the commit.
        """
        now = self._now()
        placed = await place_change(
            conn,
            order_id=order_id,
            kind=kind_of(request),
            charge_id=charge_id,
            account_id=owner.account_id,
            test=owner.test,
            request=_encode(request),
            now=now,
            due_at=self._change_due_times.take(owner, now),
            deadline=now + timedelta(seconds=max(left_s, 0.0)),
            reply_to=self._replies.reply_to,
        )
        return placed is not None

    async def changed(self, order_id: UUID, left_s: float) -> None:
        """Wait for the end of a change; raises the Refused that the bank or the charge's status caused."""
        outcome = await self.wait(order_id, left_s)
        if not outcome.refused:
            return
        code = Code[outcome.refused]
        retry_after_s = outcome.retry_after_s or RETRY_AFTER_S
        raise Refused(code, retry_after_s=retry_after_s if code is Code.BANK_UNAVAILABLE else None)

    def wake(self, mode: Mode) -> None:
        """Wake the worker of boleto orders."""
        self._jobs.wake(BOLETO_ORDERS[mode])

    async def wait(self, order_id: UUID, left_s: float) -> Outcome:
        """Returns the outcome of the order, which is given up at the deadline."""
        outcome = await self._replies.wait(order_id, deadline_s=left_s, look=look)
        if outcome is None:
            outcome = await self._give_up(order_id)
        return _read_outcome(outcome)

    async def _give_up(self, order_id: UUID) -> bytes:
        unavailable = _encode(Outcome(refused=Code.BANK_UNAVAILABLE.name))
        async with transaction(self._pool) as conn:
            if await give_up(conn, order_id, reconcile_id=new_id(), outcome=unavailable, now=self._now()):
                return unavailable
            return await look(conn, order_id) or unavailable

    async def _write_orders(self, orders: Sequence[RegistrationOrder]) -> list[bool]:
        async with session(self._pool) as conn:
            written = await order_boletos(conn, orders)
        for mode in {Mode.of(order.test) for order in orders if order.order_id in written}:
            self.wake(mode)
        return [order.order_id in written for order in orders]
