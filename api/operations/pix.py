"""Create PIX charges in batches: one statement writes all that wait at the same moment."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from uuid import UUID

from api.idempotency.used_keys import UsedKeys
from commands.bank_orders.pix_locations import LocationReserve, PixLocation
from commands.charges.create_pix import CREATIONS_MAX, Creation, NewPix, compose_pix, create_pix
from domain.errors import Code, Refused
from domain.mode import Mode
from readmodels.charges.charge import ChargeDoc
from runtime.batching import Batcher
from runtime.coordination.due_times import DueTimes
from runtime.jobs import PIX_ORDERS, Jobs
from runtime.postgres import DB_UNAVAILABLE, Pool, session, when_back

# A restarting database is waited for this long before the caller is told to come back.
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
        self._suspended = suspended
        self._due_times = due_times
        self._traced = traced
        # One for each mode: a bank that does not answer in one does not delay the other.
        self._batchers: dict[Mode, Batcher[tuple[Creation, PixLocation], ChargeDoc | None]] = {
            mode: Batcher(self._write, lanes=1, batch_max=batch_max, alone_s=_DATABASE_BACK_S) for mode in Mode
        }

    async def close(self) -> None:
        for batcher in self._batchers.values():
            await batcher.close()

    async def create(self, creation: Creation) -> ChargeDoc | None:
        """The charge made; None when its key was used. Refused when neither can be."""
        mode = creation.issuer.mode
        location = self._reserve.at_hand(mode)
        if location is None:
            # A replay needs none.
            if await self._keys.find(creation.name) is not None:
                return None
            location = await self._location(creation)
            if location is None:
                return None
        doc = await self._batchers[mode].submit((creation, location))
        if doc is not None or await self._keys.find(creation.name) is not None:
            return doc
        raise Refused(Code.SERVICE_UNAVAILABLE if mode.test else Code.PIX_AVULSO_SUSPENDED)

    async def _location(self, creation: Creation) -> PixLocation | None:
        """Waited for; None when the key was used meanwhile."""
        mode = creation.issuer.mode
        try:
            return await self._reserve.take(mode, creation.issuer.account_id)
        except Refused:
            if await self._keys.find(creation.name) is not None:
                return None
            # The better answer.
            if mode is Mode.PRODUCTION and await self._suspended():
                raise Refused(Code.PIX_AVULSO_SUSPENDED) from None
            raise

    async def _write(
        self, placed: Sequence[tuple[Creation, PixLocation]]
    ) -> Sequence[ChargeDoc | BaseException | None]:
        """One statement for all, which are of one mode. None where the key was used already or PIX is suspended."""
        mode = placed[0][0].issuer.mode
        news = [
            compose_pix(creation, location, traced=self._traced, due_times=self._due_times)
            for creation, location in placed
        ]
        # Who waited behind others while the database was away has used that part of the time.
        waited_s = (self._now() - max(creation.now for creation, _ in placed)).total_seconds()
        created, certain = await self._store(news, wait_s=_DATABASE_BACK_S - waited_s)
        if created and any(new.order_id is not None for new in news):
            self._jobs.wake(PIX_ORDERS[mode])
        if certain and len(created) < len(news):
            unused = [location for creation, location in placed if creation.charge_id not in created]
            self._reserve.give_back(mode, unused)
        return [
            new.doc if creation.charge_id in created else None for (creation, _), new in zip(placed, news, strict=True)
        ]

    async def _store(self, news: list[NewPix], *, wait_s: float) -> tuple[set[UUID], bool]:
        """Store them, over a restart of the database too, which is waited for `wait_s` at most: a charge stored just
        before the connection was lost is recognised by its id.

        Answers the ids stored, and whether the others certainly were not: after a lost connection an earlier attempt
        may still be under way, and with it their locations.
        """
        deadline = asyncio.get_running_loop().time() + wait_s
        earlier: set[UUID] = set()
        certain = True
        while True:
            try:
                async with session(self._pool) as conn:
                    missing = [new for new in news if new.charge_id not in earlier] if earlier else news
                    created = await create_pix(conn, missing)
                return earlier | created, certain
            except DB_UNAVAILABLE:
                certain = False
                left_s = deadline - asyncio.get_running_loop().time()
                if left_s <= 0:
                    raise
                await when_back(self._pool, timeout_s=left_s)
                used = [await self._keys.find((new.owner, new.key)) for new in news]
                earlier = {
                    new.charge_id
                    for new, row in zip(news, used, strict=True)
                    if row is not None and row.resource_id == new.charge_id
                }
                if len(earlier) == len(news):
                    return earlier, True
