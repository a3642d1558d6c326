"""Orders under way: a bank that was asked is heard, nobody waits for a slow answer but who asked, and stopping begins
nothing new."""

import asyncio
from collections.abc import Sequence

import pytest

from workers.concurrency import run_concurrently


async def test_a_bank_that_was_asked_is_heard_while_postgresql_is_away() -> None:
    rounds = 0
    landed: list[int] = []

    async def claim(limit: int) -> Sequence[int]:
        nonlocal rounds
        rounds += 1
        if rounds == 1:
            return [1]
        raise ConnectionRefusedError

    async def do(order: int) -> None:
        await asyncio.sleep(0.1)
        landed.append(order)

    with pytest.raises(ConnectionRefusedError):
        await run_concurrently(claim, do=do, at_once=4)
    assert landed == [1]
    assert rounds > 2  # it looked again meanwhile


async def test_one_slow_answer_holds_nobody_up_however_many_orders_come() -> None:
    many = 600
    slow_may_end = asyncio.Event()
    begun = done = 0

    async def claim(limit: int) -> Sequence[int]:
        nonlocal begun
        first, begun = begun, min(begun + limit, many)
        return range(first + 1, begun + 1)

    async def do(order: int) -> None:
        nonlocal done
        if order == 1:
            await slow_may_end.wait()
        done += 1
        if done == many - 1:
            slow_may_end.set()

    async with asyncio.timeout(30):
        assert await run_concurrently(claim, do=do, at_once=4) == many
    assert done == many


async def test_a_worker_that_stops_begins_nothing_new_and_lets_what_flies_land() -> None:
    stopping = asyncio.Event()
    begun: list[int] = []
    landed: list[int] = []

    async def claim(limit: int) -> Sequence[int]:
        begun.append(len(begun))
        return begun[-1:]

    async def do(order: int) -> None:
        await asyncio.sleep(0.05)
        stopping.set()
        await asyncio.sleep(0.1)
        landed.append(order)

    async with asyncio.timeout(30):
        taken = await run_concurrently(claim, do=do, at_once=100, stopping=stopping)
    assert taken == len(begun) < 10  # one each fiftieth of a second, until it was told
    assert sorted(landed) == begun
