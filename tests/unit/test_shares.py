"""The turns of one owner are few, and nobody else waits for them."""

import asyncio

import pytest

from domain.errors import Code, Refused
from runtime.limits.shares import Shares


class Held:
    """Who holds turns until told to let go."""

    def __init__(self, shares: Shares) -> None:
        self.inside = 0
        self.let_go = asyncio.Event()
        self._shares = shares

    async def take(self, owner: str) -> None:
        async with self._shares.of(owner):
            self.inside += 1
            await self.let_go.wait()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_so_many_at_once_and_the_rest_in_turn() -> None:
    shares = Shares(2)
    held = Held(shares)
    tasks = [asyncio.create_task(held.take("a")) for _ in range(5)]
    await settled()
    assert held.inside == 2
    async with shares.of("b"):
        pass
    held.let_go.set()
    await asyncio.gather(*tasks)
    assert (held.inside, len(shares)) == (5, 0)


async def test_who_would_wait_too_long_or_behind_too_many_is_refused() -> None:
    shares = Shares(1, waiting_max=1, wait_s_max=0.01)
    held = Held(shares)
    first = asyncio.create_task(held.take("a"))
    await settled()
    late = asyncio.create_task(held.take("a"))
    await settled()
    one_more = asyncio.create_task(held.take("a"))
    await settled()
    assert one_more.done(), "behind too many nobody begins to wait"
    for refused in (one_more, late):
        with pytest.raises(Refused) as told:
            await refused
        assert (told.value.code, told.value.retry_after_s) == (Code.RATE_LIMITED, 1)
    held.let_go.set()
    await first
    assert len(shares) == 0


async def test_who_leaves_the_queue_takes_no_turn_with_him() -> None:
    shares = Shares(1)
    held = Held(shares)
    tasks = [asyncio.create_task(held.take("a")) for _ in range(3)]
    await settled()
    tasks[1].cancel()
    held.let_go.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (held.inside, len(shares)) == (2, 0)


async def test_what_fails_in_a_turn_gives_it_back() -> None:
    shares = Shares(1)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with shares.of("a"):
                raise TimeoutError
    assert len(shares) == 0
