"""Create PIX charges in batches: one statement writes all creations that wait at the same moment."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

from asyncpg import LockNotAvailableError

from api.idempotency.used_keys import UsedKeys
from commands.bank_orders.pix_locations import LocationReserve, PixLocation
from commands.charges.create_pix import CREATIONS_MAX, Creation, NewPix, compose_pix, create_pix
from domain.errors import Code, Refused
from domain.mode import Mode
from readmodels.charges.charge import ChargeDoc
from runtime.batching import Batcher
from runtime.coordination.due_times import DueTimes
from runtime.coordination.lanes import PIX_ORDERS
from runtime.jobs import Jobs
from runtime.postgres import DB_UNAVAILABLE, Pool, session, when_back

# How long a creation waits for a restarting database before it is refused with SERVICE_UNAVAILABLE.
_DATABASE_BACK_S = 8.0


class PixCreations:
    def __init__(
        self,
        pool: Pool,
        jobs: Jobs,
        reserve: LocationReserve,
        keys: UsedKeys,
        now: Callable[[], datetime],
        suspended: Callable[[], Awaitable[bool]],
        *,
        due_times: DueTimes,
        traced: bool,
        batch_max: int = CREATIONS_MAX,
    ) -> None:
        self._pool = pool
        self._jobs = jobs
        self._reserve = reserve
        self._keys = keys
        self._now = now
        self._is_suspended = suspended
        self._due_times = due_times
        self._traced = traced
        # Charges of batches under way for which the answer of a statement was lost: they may be stored.
        self._in_doubt: set[UUID] = set()
        # A batcher per mode: a bank that does not answer in one mode does not delay the other.
        self._batchers: dict[Mode, Batcher[tuple[Creation, PixLocation], ChargeDoc | None]] = {
            mode: Batcher(self._write_batch, lanes=1, batch_max=batch_max) for mode in Mode
        }

    async def close(self) -> None:
        for batcher in self._batchers.values():
            await batcher.close()

    async def create(self, creation: Creation) -> ChargeDoc | None:
        """Returns the created charge, or None when its key was used; Refused when neither is the case."""
        mode = creation.issuer.mode
        location = self._reserve.take_nowait(mode)
        if location is None:
            # A replay needs no location: look for the key before waiting for one.
            if await self._keys.find(creation.name) is not None:
                return None
            location = await self._wait_for_location(creation)
            if location is None:
                return None
        try:
            written = self._batchers[mode].submit((creation, location))
        except OverflowError:
            self._reserve.give_back(mode, [location])
            raise
        written.add_done_callback(partial(self._end_attempts, creation.charge_id))
        # A cancelled request does not end the attempt: the batch goes on, and must find its charge as before.
        doc = await asyncio.shield(written)
        if doc is not None or await self._keys.find(creation.name) is not None:
            return doc
        raise Refused(Code.SERVICE_UNAVAILABLE if mode.test else Code.PIX_AVULSO_SUSPENDED)

    def _end_attempts(self, charge_id: UUID, written: "asyncio.Future[ChargeDoc | None]") -> None:
        """Called after the last attempt at this charge. Retrieves the exception, since the request may be gone and
        asyncio would log it as never retrieved."""
        self._in_doubt.discard(charge_id)
        if not written.cancelled():
            written.exception()

    async def _wait_for_location(self, creation: Creation) -> PixLocation | None:
        """Waits for a location; None when the key was used meanwhile."""
        mode = creation.issuer.mode
        try:
            return await self._reserve.take(mode, creation.issuer.account_id)
        except Refused:
            if await self._keys.find(creation.name) is not None:
                return None
            # While PIX is suspended, that refusal is the better answer.
            if mode is Mode.PRODUCTION and await self._is_suspended():
                raise Refused(Code.PIX_AVULSO_SUSPENDED) from None
            raise

    async def _write_batch(
        self, batch: Sequence[tuple[Creation, PixLocation]]
    ) -> Sequence[ChargeDoc | BaseException | None]:
        """Writes a batch, all of one mode, in one statement. The result is None for a creation that was not stored: its
        key was used, or the statement found PIX suspended or the account not approved."""
        mode = batch[0][0].issuer.mode
        charges = [
            compose_pix(creation, location, traced=self._traced, due_times=self._due_times)
            for creation, location in batch
        ]
        # The time a creation has waited behind other batches counts towards _DATABASE_BACK_S.
        waited_s = (self._now() - max(creation.now for creation, _ in batch)).total_seconds()
        created, retried = await self._store(charges, wait_s=_DATABASE_BACK_S - waited_s)
        if len(created) < len(charges):
            created |= await self._settle_unwritten(mode, batch, charges, created, retried=retried)
        if created and any(charge.order_id is not None for charge in charges):
            self._jobs.wake(PIX_ORDERS[mode])
        return [charge.doc if charge.charge_id in created else None for charge in charges]

    async def _store(self, charges: list[NewPix], *, wait_s: float) -> tuple[set[UUID], bool]:
        """Stores the charges; waits up to `wait_s` for a database that restarts.

        Returns the ids stored by the last attempt, and whether there was an earlier attempt, whose outcome is unknown
        because its connection was lost.
        """
        deadline = asyncio.get_running_loop().time() + wait_s
        retried = False
        while True:
            try:
                async with session(self._pool) as conn:
                    return await create_pix(conn, charges), retried
            except LockNotAvailableError:
                raise  # a lock of one key: the batcher retries each creation alone, so that it delays no other
            except DB_UNAVAILABLE:
                retried = True
                self._in_doubt.update(charge.charge_id for charge in charges)
                left_s = deadline - asyncio.get_running_loop().time()
                if left_s <= 0:
                    raise
                await when_back(self._pool, timeout_s=left_s)

    async def _settle_unwritten(
        self,
        mode: Mode,
        batch: Sequence[tuple[Creation, PixLocation]],
        charges: Sequence[NewPix],
        created: set[UUID],
        *,
        retried: bool,
    ) -> set[UUID]:
        """Returns the ids that an earlier attempt of this call stored. Gives back the locations that no charge uses:
        those whose key belongs to another request, or to none while no attempt's outcome is in doubt."""
        unwritten = [
            (charge, location)
            for charge, (_, location) in zip(charges, batch, strict=True)
            if charge.charge_id not in created
        ]
        used = await asyncio.gather(*(self._keys.find((charge.owner, charge.key)) for charge, _ in unwritten))
        stored: set[UUID] = set()
        unused: list[PixLocation] = []
        for (charge, location), row in zip(unwritten, used, strict=True):
            if row is not None and row.resource_id == charge.charge_id:
                stored.add(charge.charge_id)
            elif row is not None or charge.charge_id not in self._in_doubt:
                unused.append(location)
        self._reserve.give_back(mode, unused)
        # Without an earlier attempt in this call, the charge was stored by an earlier call (a batch that then failed
        # and is retried one by one) with another public_id: the caller must read it by its key.
        return stored if retried else set()
