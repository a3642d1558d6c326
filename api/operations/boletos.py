"""Issue and change boletos for API requests, which wait for the bank until their deadline.

How a request waits for an order, and what happens to an order that is given up: commands/bank_orders/boleto_issuer.py.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final
from uuid import UUID

from api.callers import Caller
from api.operations.charges import Charges
from commands.bank_orders.boleto_issuer import DEADLINE_S, RETRY_AFTER_S, BoletoIssuer
from commands.bank_orders.kinds import Pay, Redate, WriteOff
from commands.bank_orders.pix_locations import LocationReserve
from commands.charges.create_boleto import BoletoRequest
from domain.charge import Status
from domain.errors import Code, Refused
from readmodels.charges.charge import ChargeDoc
from runtime.coordination.lanes import WEBHOOKS
from runtime.ids import new_id
from runtime.jobs import Jobs
from runtime.postgres import Pool, session
from runtime.replies import Replies
from runtime.settings import Settings

_RECHECK_S: Final = 0.05
"""Wait between checks whether another change of the same boleto has ended."""


class Boletos:
    def __init__(
        self,
        settings: Settings,
        pool: Pool,
        jobs: Jobs,
        replies: Replies,
        reserve: LocationReserve,
        charges: Charges,
        now: Callable[[], datetime],
    ) -> None:
        self._pool = pool
        self._jobs = jobs
        self._charges = charges
        self._issuer = BoletoIssuer(settings, pool, jobs, replies, reserve, now)

    async def close(self) -> None:
        await self._issuer.close()

    async def create(self, request: BoletoRequest, deadline: float) -> ChargeDoc | None:
        """Returns the charge whose boleto the bank has registered; None when its key was used. `deadline` is in the
        loop's time.

        Refused(BANK_UNAVAILABLE) when the bank did not confirm in time: then nothing stays registered.
        """
        until = min(asyncio.get_running_loop().time() + DEADLINE_S, deadline)
        charge_id = await self._issuer.issue(request, until=until)
        # None: another request has used the key meanwhile, and the boleto of this one is being undone at the bank.
        return None if charge_id is None else await self._charges.look_up(charge_id, request.issuer.owner)

    async def change(
        self, charge_id: UUID, caller: Caller, request: WriteOff | Redate | Pay, *, pending_only: bool = True
    ) -> None:
        """Changes a pending boleto at the bank and here; changes of one boleto run one after another."""
        loop = asyncio.get_running_loop()
        until = loop.time() + DEADLINE_S
        while True:
            doc = await self._charges.find(charge_id, caller.owner)
            if pending_only and doc.status != Status.PENDING:
                raise Refused(Code.CHARGE_NOT_PENDING, status=doc.status)
            order_id = new_id()
            async with session(self._pool) as conn:
                placed = await self._issuer.place(
                    conn, order_id, charge_id, caller.owner, request, left_s=until - loop.time()
                )
            if placed:
                break
            if loop.time() >= until:
                raise Refused(Code.BANK_UNAVAILABLE, retry_after_s=RETRY_AFTER_S)
            await asyncio.sleep(_RECHECK_S)
        self._issuer.wake(caller.mode)
        try:
            await self._issuer.changed(order_id, until - loop.time())
        except Refused as refused:
            if refused.code is not Code.CHARGE_NOT_PENDING:
                raise
            raise _not_pending((await self._charges.find(charge_id, caller.owner)).status) from None
        self._jobs.wake(WEBHOOKS)


def _not_pending(status: str) -> Refused:
    """The refusal after the bank said that the boleto cannot be changed. It may still be pending here: the bank closes
    a boleto that was paid with too little."""
    if status == Status.PENDING:
        return Refused(Code.CHARGE_NOT_PENDING, message="The bank has closed this boleto: it can no longer be changed.")
    return Refused(Code.CHARGE_NOT_PENDING, status=status)
