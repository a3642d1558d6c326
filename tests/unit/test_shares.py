"""The concurrent turns of an owner are limited, and other owners do not wait for them."""

import asyncio

import pytest

from domain.errors import Code, Refused
from runtime.limits.shares import Shares


class TurnHolder:
    """Takes turns and holds them until `let_go` is set."""

    def __init__(self, shares: Shares) -> None:
        self.inside = 0
        self.let_go = asyncio.Event()
        self._shares = shares

    async def take(self, owner: str) -> None:
        async with self._shares.of(owner):
            self.inside += 1
            await self.let_go.wait()


async def let_tasks_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def assert_refused(turn: asyncio.Task[None]) -> None:
    with pytest.raises(Refused) as refusal:
        await turn
    assert (refusal.value.code, refusal.value.retry_after_s) == (Code.RATE_LIMITED, 1)


async def test_an_owner_has_at_most_two_turns_at_once_and_the_rest_wait() -> None:
    shares = Shares(2)
    holder = TurnHolder(shares)
    tasks = [asyncio.create_task(holder.take("a")) for _ in range(5)]
    await let_tasks_run()
    assert holder.inside == 2
    async with shares.of("b"):
        pass
    holder.let_go.set()
    await asyncio.gather(*tasks)
    assert (holder.inside, len(shares)) == (5, 0)


async def test_a_turn_behind_too_many_others_is_refused_at_once() -> None:
    shares = Shares(1, waiting_max=1, wait_s_max=600)
    holder = TurnHolder(shares)
    taken = [asyncio.create_task(holder.take("a")) for _ in range(2)]
    await let_tasks_run()
    one_more = asyncio.create_task(holder.take("a"))
    await let_tasks_run()
    assert one_more.done()
    await assert_refused(one_more)
    holder.let_go.set()
    await asyncio.gather(*taken)
    assert (holder.inside, len(shares)) == (2, 0)


async def test_a_turn_that_waits_too_long_is_refused() -> None:
    shares = Shares(1, wait_s_max=0.01)
    holder = TurnHolder(shares)
    first = asyncio.create_task(holder.take("a"))
    await let_tasks_run()
    await assert_refused(asyncio.create_task(holder.take("a")))
    holder.let_go.set()
    await first
    assert (holder.inside, len(shares)) == (1, 0)


async def test_a_cancelled_waiter_does_not_use_up_a_turn() -> None:
    shares = Shares(1)
    holder = TurnHolder(shares)
    tasks = [asyncio.create_task(holder.take("a")) for _ in range(3)]
    await let_tasks_run()
    tasks[1].cancel()
    holder.let_go.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (holder.inside, len(shares)) == (2, 0)


async def test_an_error_in_a_turn_gives_the_turn_back() -> None:
    shares = Shares(1)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with shares.of("a"):
                raise TimeoutError
    assert len(shares) == 0
