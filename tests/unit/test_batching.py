"""The batcher flushes items together, gives each its own outcome, and bounds the time an item waits for the others."""

import asyncio
from collections.abc import Sequence

import pytest
import structlog

from runtime.batching import Batcher
from runtime.cells.number import current_cell, in_cell


class HandClock:
    """The time of the loop while the machine's own does not count: it passes in `advance` alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        self._now = loop.time()
        monkeypatch.setattr(loop, "time", lambda: self._now)

    def advance(self, seconds: float) -> None:
        self._now += seconds


async def test_items_submitted_during_a_flush_are_flushed_together_after_it() -> None:
    batches: list[list[int]] = []
    may_end = asyncio.Event()

    async def flush(items: Sequence[int]) -> list[int]:
        batches.append(list(items))
        await may_end.wait()
        return [item * 2 for item in items]

    batcher: Batcher[int, int] = Batcher(flush, lanes=1, batch_max=50)
    first = batcher.submit(0)
    await asyncio.sleep(0.01)
    waiting = [batcher.submit(item) for item in range(1, 51)]
    await asyncio.sleep(0.01)
    may_end.set()
    others = await asyncio.gather(*waiting)
    assert await first == 0
    assert others == [item * 2 for item in range(1, 51)]
    assert batches == [[0], list(range(1, 51))]


@pytest.mark.parametrize("lanes", [1, 2])
async def test_items_of_consecutive_loop_turns_share_a_flush_up_to_batch_max(lanes: int) -> None:
    batches: list[list[int]] = []

    async def flush(items: Sequence[int]) -> list[int]:
        batches.append(list(items))
        return list(items)

    batcher: Batcher[int, int] = Batcher(flush, lanes=lanes, batch_max=4)
    outcomes = []
    for item in range(10):
        outcomes.append(batcher.submit(item))
        await asyncio.sleep(0)
    assert await asyncio.gather(*outcomes) == list(range(10))
    assert batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


async def test_a_bad_item_does_not_fail_the_other_items_of_its_batch() -> None:
    async def flush(items: Sequence[int]) -> list[int]:
        if 7 in items:
            raise ValueError("seven")
        return list(items)

    batcher: Batcher[int, int] = Batcher(flush, lanes=1, batch_max=50)
    outcomes = await asyncio.gather(*(batcher.submit(item) for item in range(20)), return_exceptions=True)
    assert [outcome for outcome in outcomes if not isinstance(outcome, ValueError)] == [
        item for item in range(20) if item != 7
    ]
    assert isinstance(outcomes[7], ValueError)


async def test_when_every_flush_fails_all_items_get_an_error_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = HandClock(monkeypatch)
    tries = 0

    async def flush(items: Sequence[int]) -> list[int]:
        nonlocal tries
        tries += 1
        clock.advance(0.05)  # a database that does not answer
        raise ConnectionRefusedError

    batcher: Batcher[int, int] = Batcher(flush, lanes=1, batch_max=100, alone_s=1.0)
    loop = asyncio.get_running_loop()
    began = loop.time()
    outcomes = await asyncio.gather(*(batcher.submit(item) for item in range(100)), return_exceptions=True)
    assert tries < 30
    assert loop.time() - began < 4.5  # retrying all 100 one after the other takes 5 s or more
    assert {type(outcome) for outcome in outcomes} == {ConnectionRefusedError, TimeoutError}


async def test_an_error_of_the_whole_batch_is_not_the_outcome_of_an_item_not_retried_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Example: a balance does not cover the whole batch. An item that was not retried alone gets a TimeoutError."""
    clock = HandClock(monkeypatch)

    async def flush(items: Sequence[int]) -> list[int]:
        clock.advance(0.2)
        if sum(items) > 10:
            raise PermissionError
        return list(items)

    batcher: Batcher[int, int] = Batcher(flush, lanes=1, batch_max=100, alone_s=1.0)
    outcomes = await asyncio.gather(*(batcher.submit(item) for item in range(10)), return_exceptions=True)
    assert outcomes[0] == 0
    assert {type(outcome) for outcome in outcomes} == {int, TimeoutError}


async def test_a_full_batcher_refuses_further_items_at_once() -> None:
    may_end = asyncio.Event()

    async def flush(items: Sequence[int]) -> list[int]:
        await may_end.wait()
        return list(items)

    batcher: Batcher[int, int] = Batcher(flush, lanes=1, batch_max=1, waiting_max=3)
    flushing = batcher.submit(0)
    await asyncio.sleep(0.01)
    waiting = [batcher.submit(item) for item in range(1, 4)]
    await asyncio.sleep(0.01)
    with pytest.raises(OverflowError):
        await asyncio.wait_for(batcher.submit(4), 30)
    may_end.set()
    assert await asyncio.gather(flushing, *waiting) == [0, 1, 2, 3]
    await batcher.close()


async def test_a_flush_runs_in_the_cell_of_its_batcher_and_not_in_the_context_of_the_first_caller() -> None:
    """What a flush logs about the items of others must not name the first caller's request, nor the trace of it."""
    seen: list[tuple[int, dict[str, object]]] = []

    async def flush(items: Sequence[int]) -> list[int]:
        seen.append((current_cell(), structlog.contextvars.get_contextvars()))
        return list(items)

    with in_cell(5):
        batcher: Batcher[int, int] = Batcher(flush, lanes=1, batch_max=50)
    with structlog.contextvars.bound_contextvars(request_id="req_of_the_first"):
        first = batcher.submit(1)
    waiting = [first, batcher.submit(2)]
    assert await asyncio.gather(*waiting) == [1, 2]
    assert seen == [(5, {})]
