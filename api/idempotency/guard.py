"""Let a financial operation happen once per Idempotency-Key, however many equal requests run at once.

One request works and the others wait for it: in this process on a future, across processes on the Redis lock, and
without Redis at the database, where the unique row of the key is the guarantee.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from api.idempotency.lock import IdempotencyLocks, KeyName, Lock
from api.idempotency.used_keys import UsedKey, UsedKeys
from domain.errors import Code, Refused

Made = TypeVar("Made")

WAIT_S: Final = 15.0
"""How long equal requests wait for the first one (contract section 4)."""
_LOOKUP_DELAYS_S: Final = (0.005, 0.01, 0.02, 0.04, 0.08)


class IdempotencyGuard:
    def __init__(self, keys: UsedKeys, locks: IdempotencyLocks) -> None:
        self._keys = keys
        self._locks = locks
        self._running: dict[KeyName, asyncio.Future[None]] = {}

    async def run(self, name: KeyName, operation: Callable[[], Awaitable[Made | None]]) -> Made | UsedKey:
        """Returns what the operation makes, or the row of a key that was already used.

        The operation returns None when another request took the key while it worked. The guard then looks for that
        request's row, and runs the operation again while there is none. Refused(IDEMPOTENCY_IN_PROGRESS) when other
        requests hold the key for longer than WAIT_S.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + WAIT_S
        while (running := self._running.get(name)) is not None:
            try:
                async with asyncio.timeout_at(deadline):
                    await asyncio.shield(running)
            except TimeoutError:
                raise Refused(Code.IDEMPOTENCY_IN_PROGRESS, retry_after_s=1) from None
            if (used := await self._keys.find(name)) is not None:
                return used
        done = self._running[name] = loop.create_future()
        try:
            return await self._run_locked(name, operation, deadline)
        finally:
            del self._running[name]
            done.set_result(None)

    async def _run_locked(
        self, name: KeyName, operation: Callable[[], Awaitable[Made | None]], deadline: float
    ) -> Made | UsedKey:
        lookups = 0
        lock, token = await self._locks.take(name)
        while lock is Lock.HELD:
            # The lock belongs to a request at work, or was left to expire after a success: then there is a row.
            if (used := await self._keys.find(name)) is not None:
                return used
            await _wait_to_look_up(lookups, deadline)
            lookups += 1
            lock, token = await self._locks.take(name)
        try:
            while True:
                made = await operation()
                if made is not None:
                    return made
                # Without Redis, two requests with the same key meet here.
                if (used := await self._keys.find(name)) is not None:
                    return used
                await _wait_to_look_up(lookups, deadline)
                lookups += 1
        except BaseException:
            if lock is Lock.TAKEN:
                await asyncio.shield(self._locks.release(name, token))
            raise


async def _wait_to_look_up(lookups: int, deadline: float) -> None:
    if asyncio.get_running_loop().time() > deadline:
        raise Refused(Code.IDEMPOTENCY_IN_PROGRESS, retry_after_s=1)
    await asyncio.sleep(_LOOKUP_DELAYS_S[min(lookups, len(_LOOKUP_DELAYS_S) - 1)])
