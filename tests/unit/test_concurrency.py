"""Concurrent execution of bank orders: a started order finishes although claiming fails, a slow answer delays no other
order, and a stopping worker claims nothing new."""

import asyncio
from collections.abc import Sequence

import pytest

from workers.concurrency import run_batched


async def test_a_started_order_finishes_while_claiming_fails_because_postgresql_is_down() -> None:
    rounds = 0
    finished: list[int] = []

    async def claim(limit: int) -> Sequence[int]:
        nonlocal rounds
        rounds += 1
        if rounds == 1:
            return [1]
        raise ConnectionRefusedError

    async def do(order: int) -> None:
        await asyncio.sleep(0.1)
        finished.append(order)

    with pytest.raises(ConnectionRefusedError):
        await run_batched(claim, begin=lambda orders: map(do, orders), at_once=4, stopping=asyncio.Event())
    assert finished == [1]
    assert rounds > 2  # it kept trying to claim meanwhile


async def test_one_slow_answer_does_not_delay_600_other_orders() -> None:
    many = 600
    slow_may_end = asyncio.Event()
    started = done = 0

    async def claim(limit: int) -> Sequence[int]:
        nonlocal started
        first, started = started, min(started + limit, many)
        return range(first + 1, started + 1)

    async def do(order: int) -> None:
        nonlocal done
        if order == 1:
            await slow_may_end.wait()
        done += 1
        if done == many - 1:
            slow_may_end.set()

    async with asyncio.timeout(30):
        executed = await run_batched(claim, begin=lambda orders: map(do, orders), at_once=4, stopping=asyncio.Event())
    assert executed == done == many


async def test_a_stopping_worker_claims_no_new_order_and_finishes_those_in_flight() -> None:
    stopping = asyncio.Event()
    started: list[int] = []
    finished: list[int] = []

    async def claim(limit: int) -> Sequence[int]:
        started.append(len(started))
        return started[-1:]

    async def do(order: int) -> None:
        await asyncio.sleep(0.05)
        stopping.set()
        await asyncio.sleep(0.1)
        finished.append(order)

    async with asyncio.timeout(30):
        executed = await run_batched(claim, begin=lambda orders: map(do, orders), at_once=100, stopping=stopping)
    assert executed == len(started) < 10  # one every 20 ms until it was stopped
    assert sorted(finished) == started
