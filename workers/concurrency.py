"""Process due orders in concurrent tasks, so that one slow answer holds up nothing else.

While PostgreSQL is away nothing is claimed; orders under way go on, and are stored with retries. Only a worker that is
cancelled leaves orders unfinished, which their leases give back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from banks.protocol import Unknown
from runtime.postgres import DB_UNAVAILABLE

Order = TypeVar("Order")
Answer = TypeVar("Answer")

BATCH: Final = 100
LOOK_S: Final = 0.02
"""How often new orders are looked for while others are under way."""
CLAIM_INTERVAL_S_MIN: Final = 0.01
"""The least time between two claims: at hundreds of answers a second, one claim fills the places that several freed."""
_DB_AWAY_LOOK_S: Final = 0.2
"""Takes the place of LOOK_S while PostgreSQL does not answer."""
_ASKED_AT_ONCE_MAX: Final = 16
_ANSWERS_TIMEOUT_S: Final = 45.0


async def run_batched(
    *claims: Callable[[int], Awaitable[Sequence[Order]]],
    begin: Callable[[Sequence[Order]], Iterable[Coroutine[Any, Any, None]]],
    at_once: int,
    batch_max: int = BATCH,
    look_s: float = LOOK_S,
    stopping: asyncio.Event,
) -> int:
    """Claim and do orders until nothing is due and all are done; returns how many. Orders that are claimed together may
    be begun together.

    It goes on for as long as orders come. Once `stopping` is set it claims nothing new and returns when all are done.
    Each claim has `at_once` places of its own: calls of one kind that hang keep no other kind from the bank.
    """
    tasks: dict[asyncio.Task[None], object] = {}  # with the claim that each came of
    claimed_count = 0
    clock = asyncio.get_running_loop().time
    claimed_at = clock() - CLAIM_INTERVAL_S_MIN
    empty_until = dict.fromkeys(claims, 0.0)

    def free(claim: object) -> int:
        return at_once - sum(of is claim and not task.done() for task, of in tasks.items())

    try:
        # No rounds that end by waiting for all: the slowest answer of a round would hold up the next round.
        while True:
            wait_s = look_s
            looks = [each for each in claims if free(each) > 0]
            if looks and tasks and (early_s := claimed_at + CLAIM_INTERVAL_S_MIN - clock()) > 0:
                await asyncio.sleep(early_s)
            claimed_at = clock()
            for claim in () if stopping.is_set() else looks:
                if tasks and clock() < empty_until[claim]:
                    continue
                try:
                    claimed = await claim(min(batch_max, free(claim)))
                except DB_UNAVAILABLE:
                    if not tasks:
                        raise
                    wait_s = _DB_AWAY_LOOK_S
                    break
                if claimed:
                    claimed_count += len(claimed)
                    tasks |= {asyncio.create_task(each): claim for each in begin(claimed)}
                else:
                    empty_until[claim] = clock() + LOOK_S
            if not tasks:
                return claimed_count
            ended, _ = await asyncio.wait(tasks, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                del tasks[task]
    finally:
        for task in tasks:
            task.cancel()


async def rest(stopping: asyncio.Event, rest_s: float) -> None:
    """Wait for `rest_s`, or until `stopping` is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(rest_s):
            await stopping.wait()


async def ask_all(ask: Callable[[str], Awaitable[Answer]], keys: Iterable[str]) -> dict[str, Answer | Unknown]:
    """Ask a bank about each key, _ASKED_AT_ONCE_MAX at a time; Unknown for a key without an answer in time."""
    slots = asyncio.Semaphore(_ASKED_AT_ONCE_MAX)

    async def ask_one(key: str) -> Answer:
        async with slots:
            return await ask(key)

    asking = {key: asyncio.create_task(ask_one(key)) for key in keys}
    if not asking:
        return {}
    _, late = await asyncio.wait(asking.values(), timeout=_ANSWERS_TIMEOUT_S)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    return {key: Unknown("no answer in time") if task in late else task.result() for key, task in asking.items()}
