"""The door's side of slips: keys make each happen once, and what is asked at the same moment is ordered together.

How an order is waited for, and what a request leaves that gives one up: commands/slip_desk.py.
"""

import asyncio
from collections.abc import Sequence
from datetime import date
from typing import Final
from uuid import UUID

from msgspec import Struct

from api.callers import Caller
from api.door import Door, UsedKey
from api.once import Once
from commands.create_slip import MOST_ORDERED, RegistrationOrder, order_slips
from commands.slip_desk import DEADLINE_S, RETRY_AFTER_S, SlipDesk, Wanted
from commands.slip_orders import PAY, REDATE, WRITE_OFF, Pay, Redate, WriteOff
from domain.charge import Status
from domain.errors import Code, Refused
from readmodels.charge import ChargeDoc
from runtime.batching import Batcher
from runtime.bell import WEBHOOKS
from runtime.ids import new_id
from runtime.postgres import session

_TURN_S: Final = 0.05
"""Between looks whether another change of the same slip is over."""


class Slips:
    def __init__(self, door: Door) -> None:
        self._door = door
        self._once = Once(door)
        self._desk = SlipDesk(door.settings, door.pool, door.bell, door.replies, door.reserve, door.now)
        self._orders: Batcher[RegistrationOrder, bool] = Batcher(self._write, lanes=2, most=MOST_ORDERED)

    async def close(self) -> None:
        await self._orders.close()

    async def issue(self, wanted: Wanted) -> ChargeDoc | UsedKey:
        """The charge the bank registered a slip for, or the row of a key that made one before.

        Refused(BANK_UNAVAILABLE) when the bank did not say yes in time: then nothing stays registered.
        """

        async def work(deadline: float) -> ChargeDoc | None:
            return await self._issue(wanted, deadline)

        return await self._once.run((*wanted.issuer.owner, wanted.key), work)

    async def cancel(
        self, charge_id: UUID, caller: Caller, *, reason: str, request_id: str, scenario: str | None
    ) -> None:
        """Have the slip written off and its charge cancelled."""
        request = WriteOff(reason=reason, actor=caller.client_id, request_id=request_id, scenario=scenario)
        await self._change(WRITE_OFF, charge_id, caller, request)

    async def redate(
        self, charge_id: UUID, caller: Caller, due_on: date, *, request_id: str, scenario: str | None
    ) -> None:
        request = Redate(due_date=due_on.isoformat(), actor=caller.client_id, request_id=request_id, scenario=scenario)
        await self._change(REDATE, charge_id, caller, request)

    async def simulate_payment(self, charge_id: UUID, caller: Caller, *, request_id: str, scenario: str | None) -> None:
        """A sandbox payer pays the whole slip at the simulated bank, which decides whether it can still be paid."""
        request = Pay(actor=caller.client_id, request_id=request_id, scenario=scenario)
        await self._change(PAY, charge_id, caller, request)

    async def sandbox_pay(self, charge_id: UUID, caller: Caller, pay: Pay) -> None:
        """Money that was on its way arrives, whatever has become of the slip."""
        await self._change(PAY, charge_id, caller, pay, pending_only=False)

    async def sandbox_fail(self, charge_id: UUID, caller: Caller, *, request_id: str, scenario: str | None) -> None:
        """Have the slip written off and its charge failed."""
        request = WriteOff(
            reason="cancelled", fail=True, actor=caller.client_id, request_id=request_id, scenario=scenario
        )
        await self._change(WRITE_OFF, charge_id, caller, request)

    async def _issue(self, wanted: Wanted, deadline: float) -> ChargeDoc | None:
        until = min(asyncio.get_running_loop().time() + DEADLINE_S, deadline)
        charge_id = await self._desk.issue(wanted, self._orders.submit, until=until)
        if charge_id is None:
            return None
        # None: the key was used by another meanwhile, and the slip is being undone.
        found = await self._door.charges.submit((charge_id, *wanted.issuer.owner))
        return None if found is None else found.doc

    async def _write(self, orders: Sequence[RegistrationOrder]) -> list[bool]:
        async with session(self._door.pool) as conn:
            written = await order_slips(conn, orders)
        for test in {order.test for order in orders if order.order_id in written}:
            self._desk.ring(test)
        return [order.order_id in written for order in orders]

    async def _change(
        self, kind: str, charge_id: UUID, caller: Caller, request: Struct, *, pending_only: bool = True
    ) -> None:
        """Have a pending slip changed at the bank and here; changes of one slip take turns."""
        loop = asyncio.get_running_loop()
        until = loop.time() + DEADLINE_S
        while True:
            doc = await self._door.charge(charge_id, caller.owner)
            if pending_only and doc.status != Status.PENDING:
                raise Refused(Code.CHARGE_NOT_PENDING, status=doc.status)
            order_id = new_id()
            async with session(self._door.pool) as conn:
                placed = await self._desk.place(
                    conn, order_id, kind, charge_id, caller.owner, request, left_s=until - loop.time()
                )
            if placed:
                break
            if loop.time() >= until:
                raise Refused(Code.BANK_UNAVAILABLE, retry_after_s=RETRY_AFTER_S)
            await asyncio.sleep(_TURN_S)
        self._desk.ring(caller.test)
        await self._desk.changed(order_id, until - loop.time())
        self._door.bell.ring(WEBHOOKS)
