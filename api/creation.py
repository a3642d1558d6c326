"""Create PIX charges: the door's side of it. Keys make each happen once (api/idempotency/guard.py), batches make it
cheap."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

from api.context import ApiContext, UsedKey
from api.idempotency.guard import IdempotencyGuard
from commands.charges.create_pix import CREATIONS_MAX, Creation, NewPix, compose_pix, create_pix
from domain.errors import Code, Refused
from readmodels.charges.charge import ChargeDoc
from runtime.batching import Batcher
from runtime.bell import BANK_ORDERS
from runtime.postgres import DB_UNAVAILABLE, session, when_back

# A restarting database is waited for this long before the caller is told to come back.
_DATABASE_BACK_S = 8.0


class Creations:
    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._guard = IdempotencyGuard(context)
        # One for each mode: a bank that hangs in one never holds the other up.
        self.batchers: dict[bool, Batcher[Creation, ChargeDoc | None]] = {
            test: Batcher(self._flush, lanes=1, most=CREATIONS_MAX, alone_s=_DATABASE_BACK_S) for test in (True, False)
        }

    async def close(self) -> None:
        for batcher in self.batchers.values():
            await batcher.close()

    async def create(self, creation: Creation) -> ChargeDoc | UsedKey:
        """The charge made, or the row of a key that made one before; Refused when neither can be."""

        async def work(deadline: float) -> ChargeDoc | UsedKey:
            return await self._make(creation)

        return await self._guard.run(creation.name, work)

    async def _make(self, creation: Creation) -> ChargeDoc | UsedKey:
        test = creation.issuer.test
        try:
            doc = await self.batchers[test].submit(creation)
        except Refused as refused:
            # The bank made no location. A replay needs none, and a suspension is the better answer.
            if (used := await self._context.keys.submit(creation.name)) is not None:
                return used
            if not test and await self._context.pix_suspended():
                raise Refused(Code.PIX_AVULSO_SUSPENDED) from None
            raise refused
        if doc is not None:
            return doc
        if (used := await self._context.keys.submit(creation.name)) is not None:
            return used
        raise Refused(Code.SERVICE_UNAVAILABLE if test else Code.PIX_AVULSO_SUSPENDED)

    async def _flush(self, creations: Sequence[Creation]) -> Sequence[ChargeDoc | BaseException | None]:
        """One statement for all, which are of one mode. None where the key was used already or PIX is suspended."""
        test = creations[0].issuer.test
        # Who came while those before waited for the bank has waited with them, and does not begin anew.
        waited_s = (self._context.now() - max(creation.now for creation in creations)).total_seconds()
        try:
            locations = await self._context.reserve.take(test, len(creations), waited_s=max(0.0, waited_s))
        except Refused as refused:
            return [refused] * len(creations)
        news = [compose_pix(creation, location) for creation, location in zip(creations, locations, strict=True)]
        created, certain = await self._write(news)
        if created:
            self._context.bell.ring(BANK_ORDERS[test])
        if certain:
            unused = [at for at, new in zip(locations, news, strict=True) if new.charge_id not in created]
            self._context.reserve.give_back(test, unused)
        return [new.doc if new.charge_id in created else None for new in news]

    async def _write(self, news: list[NewPix]) -> tuple[set[UUID], bool]:
        """Write them, over a restart of the database too: a charge written just before the connection was
        lost is recognised by its id.

        Answers those written, and whether the others certainly were not: after a lost connection an earlier
        attempt may still be on its way, and with it their locations.
        """
        deadline = asyncio.get_running_loop().time() + _DATABASE_BACK_S
        earlier: set[UUID] = set()
        certain = True
        while True:
            try:
                async with session(self._context.pool) as conn:
                    created = await create_pix(conn, [new for new in news if new.charge_id not in earlier])
                return earlier | created, certain
            except DB_UNAVAILABLE:
                certain = False
                left_s = deadline - asyncio.get_running_loop().time()
                if left_s <= 0:
                    raise
                await when_back(self._context.pool, most_s=left_s)
                names = [(new.account_id, new.test, new.key) for new in news]
                used = [await self._context.keys.submit(name) for name in names]
                earlier = {
                    new.charge_id
                    for new, row in zip(news, used, strict=True)
                    if row is not None and row.resource_id == new.charge_id
                }
                if len(earlier) == len(news):
                    return earlier, True
