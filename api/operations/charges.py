"""Current charges, read and changed in batches together with those of other requests."""

from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

from asyncpg import LockNotAvailableError

from commands.charges.change import COMMANDS_MAX, ChargeCommand, Outcome, change_charges
from commands.charges.expire import expire_account, expiry
from domain.errors import Code, Refused
from domain.mode import Mode, Owner
from readmodels.charges.charge import ChargeDoc, CurrentCharge, current_charges
from runtime.batching import Batcher
from runtime.coordination.lanes import PIX_ORDERS, WEBHOOKS
from runtime.jobs import Jobs
from runtime.postgres import DB_UNAVAILABLE, Pool, session, transaction

LOOKUPS_MAX = 200

ChargeLookup = tuple[UUID, Owner]
"""A charge's id, and the owner that it must have."""


class Charges:
    def __init__(self, pool: Pool, jobs: Jobs, now: Callable[[], datetime]) -> None:
        self._pool = pool
        self._jobs = jobs
        self._now = now
        # A batcher per mode: neither a flood in the sandbox nor a lock held there delays production.
        self._lookups: dict[Mode, Batcher[ChargeLookup, CurrentCharge | None]] = {
            mode: Batcher(self._read_batch, lanes=1, batch_max=LOOKUPS_MAX) for mode in Mode
        }
        self._changes: dict[Mode, Batcher[ChargeCommand, Outcome]] = {
            mode: Batcher(self._change_batch, lanes=2, batch_max=COMMANDS_MAX) for mode in Mode
        }

    async def close(self) -> None:
        for batcher in self._changes.values():
            await batcher.close()

    async def find(self, charge_id: UUID, owner: Owner) -> ChargeDoc:
        """The owner's charge, expired first if its time has passed; Refused(CHARGE_NOT_FOUND)."""
        charge = await self._lookups[owner.mode].submit((charge_id, owner))
        if charge is None:
            raise Refused(Code.CHARGE_NOT_FOUND)
        if charge.overdue(self._now()):
            await self._changes[owner.mode].submit(expiry(charge_id, owner, actor="read"))
            charge = await self._lookups[owner.mode].submit((charge_id, owner))
            assert charge is not None, "charges are never deleted"
        return charge.doc

    async def look_up(self, charge_id: UUID, owner: Owner) -> ChargeDoc | None:
        """The owner's charge as stored, even if it is overdue; None when there is none."""
        charge = await self._lookups[owner.mode].submit((charge_id, owner))
        return None if charge is None else charge.doc

    async def change(self, command: ChargeCommand) -> None:
        """Executes a command on a charge, or raises its refusal. Wakes the workers that send webhooks and the orders to
        banks."""
        assert command.owner is not None, "a program changes charges of its own account"
        outcome = await self._changes[command.owner.mode].submit(command)
        if isinstance(outcome, Refused):
            raise outcome

    async def expire_overdue(self, owner: Owner) -> None:
        """Expires the owner's overdue charges. Called before lists are read, so that status, feed and filters agree."""
        if await expire_account(self._pool, owner, now=self._now()):
            self._jobs.wake(WEBHOOKS)

    async def _read_batch(self, lookups: Sequence[ChargeLookup]) -> list[CurrentCharge | None]:
        async with session(self._pool) as conn:
            return await current_charges(conn, lookups)

    async def _change_batch(self, commands: Sequence[ChargeCommand]) -> Sequence[Outcome]:
        try:
            async with transaction(self._pool) as conn:
                outcomes = await change_charges(conn, commands, now=self._now())
        except DB_UNAVAILABLE as error:
            if isinstance(error, LockNotAvailableError) and len(commands) > 1:
                raise  # a lock of one charge or account: the batcher retries each command alone
            # The outcome is unknown; a client that asks again sees it in the charge's state.
            return [Refused(Code.SERVICE_UNAVAILABLE, retry_after_s=1)] * len(commands)
        self._jobs.wake(WEBHOOKS)
        for mode in {outcome.owner.mode for outcome in outcomes if not isinstance(outcome, Refused)}:
            self._jobs.wake(PIX_ORDERS[mode])
        return outcomes
