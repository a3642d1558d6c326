"""Do what is due as tasks that run_concurrently at once, so that one slow answer holds nobody else up.

A bank that was asked is heard: while PostgreSQL is away nothing is claimed and what flies goes on, to be stored with
patience. Only a duty that is cut short leaves its flights behind, for their leases to give back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, TypeVar

from runtime.postgres import DB_UNAVAILABLE

Order = TypeVar("Order")

BATCH: Final = 100
LOOK_S: Final = 0.02
"""How soon new orders are looked for while others are under way."""
_AWAY_S: Final = 0.2
"""The same while PostgreSQL does not answer."""


async def run_concurrently(
    claim: Callable[[int], Awaitable[Sequence[Order]]],
    do: Callable[[Order], Coroutine[Any, Any, None]],
    *,
    at_once: int,
    stopping: asyncio.Event | None = None,
) -> int:
    """Claim orders, at most `at_once` under way, until nothing is due and all have landed; answers how many."""
    return await run_batched(claim, lambda orders: [do(order) for order in orders], at_once=at_once, stopping=stopping)


async def run_batched(
    claim: Callable[[int], Awaitable[Sequence[Order]]],
    begin: Callable[[Sequence[Order]], Iterable[Coroutine[Any, Any, None]]],
    *,
    at_once: int,
    look_s: float = LOOK_S,
    stopping: asyncio.Event | None = None,
) -> int:
    """As `run_concurrently`, where what is claimed together may be begun together.

    It goes on for as long as orders come. Once `stopping` is set it begins nothing new and ends when all have landed.
    """
    tasks: set[asyncio.Task[None]] = set()
    taken = 0
    try:
        # Not so many rounds and then a wait for all: under load those are over in a second, and the slowest answer of
        # them would hold everybody up.
        while True:
            room = at_once - len(tasks)
            claimed: Sequence[Order] = []
            wait_s = look_s
            if room > 0 and (stopping is None or not stopping.is_set()):
                try:
                    claimed = await claim(min(BATCH, room))
                except DB_UNAVAILABLE:
                    if not tasks:
                        raise
                    wait_s = _AWAY_S
            if claimed:
                taken += len(claimed)
                tasks.update(asyncio.create_task(each) for each in begin(claimed))
            if not tasks:
                return taken
            _, tasks = await asyncio.wait(tasks, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
