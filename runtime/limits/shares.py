"""The share of one account in a process's connections and processor: how many of its requests may be at work at the
same time. Its further requests wait for these, and those of other accounts do not.
"""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Final

from domain.errors import Code, Refused

WAITING_MAX: Final = 1_000
"""Requests of one account that may wait: a second's worth at the usual rate limit."""
WAIT_S_MAX: Final = 5.0


class _Share:
    __slots__ = ("admitted", "slots")

    def __init__(self, at_once_max: int) -> None:
        self.slots = asyncio.Semaphore(at_once_max)
        self.admitted = 0  # waiting ones included


class Shares:
    def __init__(self, at_once_max: int, *, waiting_max: int = WAITING_MAX, wait_s_max: float = WAIT_S_MAX) -> None:
        self._at_once_max = at_once_max
        self._admitted_max = at_once_max + waiting_max
        self._wait_s_max = wait_s_max
        self._shares: dict[Hashable, _Share] = {}

    def __len__(self) -> int:
        """How many owners have requests that are at work or wait."""
        return len(self._shares)

    @asynccontextmanager
    async def of(self, owner: Hashable) -> AsyncIterator[None]:
        """Wait for one of the owner's turns, and hold it; Refused(RATE_LIMITED) when too many wait, or for too long."""
        share = self._shares.get(owner)
        if share is None:
            share = self._shares[owner] = _Share(self._at_once_max)
        if share.admitted >= self._admitted_max:
            raise Refused(Code.RATE_LIMITED, retry_after_s=1)
        share.admitted += 1
        try:
            try:
                async with asyncio.timeout(self._wait_s_max):
                    await share.slots.acquire()
            except TimeoutError:
                raise Refused(Code.RATE_LIMITED, retry_after_s=1) from None
            try:
                yield
            finally:
                share.slots.release()
        finally:
            share.admitted -= 1
            if not share.admitted:
                del self._shares[owner]
