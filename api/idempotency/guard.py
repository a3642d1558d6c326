"""Let a financial operation happen once per Idempotency-Key, whoever asks how often at the same time.

Of equal requests that run at once one works and the others wait for it: in this process on a future, across processes
on the Redis lock, and without Redis at the database, where the key's row is the promise.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from api.context import ApiContext, UsedKey
from api.idempotency.lock import KeyName, Lock
from domain.errors import Code, Refused

Made = TypeVar("Made")

WAIT_S: Final = 15.0
"""Contract section 4: equal requests wait for the first one this long."""
_LOOK_EVERY_S: Final = (0.005, 0.01, 0.02, 0.04, 0.08)


class IdempotencyGuard:
    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._running: dict[KeyName, asyncio.Future[None]] = {}

    async def run(self, name: KeyName, work: Callable[[float], Awaitable[Made | None]]) -> Made | UsedKey:
        """What `work(deadline)` makes, or the row of the key that made something before.

        `work` answers None when the key was taken by another while it worked: then its row, or its being under way, is
        what counts. Refused(IDEMPOTENCY_IN_PROGRESS) when others are at it for longer than WAIT_S.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + WAIT_S
        while (twin := self._running.get(name)) is not None:
            try:
                async with asyncio.timeout_at(deadline):
                    await asyncio.shield(twin)
            except TimeoutError:
                raise Refused(Code.IDEMPOTENCY_IN_PROGRESS, retry_after_s=1) from None
            if (used := await self._context.keys.submit(name)) is not None:
                return used
        done = self._running[name] = loop.create_future()
        try:
            return await self._locked(name, work, deadline)
        finally:
            del self._running[name]
            done.set_result(None)

    async def _locked(
        self, name: KeyName, work: Callable[[float], Awaitable[Made | None]], deadline: float
    ) -> Made | UsedKey:
        looks = 0
        lock, token = await self._context.locks.take(name)
        while lock is Lock.HELD:
            # Held by a twin at work, or left by one of long ago: the row tells which.
            if (used := await self._context.keys.submit(name)) is not None:
                return used
            await self._rest(looks, deadline)
            looks += 1
            lock, token = await self._context.locks.take(name)
        try:
            while True:
                made = await work(deadline)
                if made is not None:
                    return made
                # Without Redis the twin is met here.
                if (used := await self._context.keys.submit(name)) is not None:
                    return used
                await self._rest(looks, deadline)
                looks += 1
        except BaseException:
            if lock is Lock.TAKEN:
                await asyncio.shield(self._context.locks.let_go(name, token))
            raise

    async def _rest(self, looks: int, deadline: float) -> None:
        if asyncio.get_running_loop().time() > deadline:
            raise Refused(Code.IDEMPOTENCY_IN_PROGRESS, retry_after_s=1)
        await asyncio.sleep(_LOOK_EVERY_S[min(looks, len(_LOOK_EVERY_S) - 1)])
