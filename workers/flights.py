"""Do what is due as tasks that fly at once, so that one slow answer holds nobody else up."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

Order = TypeVar("Order")

BATCH: Final = 100
ROUNDS_MOST: Final = 2_000
LOOK_S: Final = 0.02
"""How soon new orders are looked for while others are under way."""


async def fly(
    claim: Callable[[int], Awaitable[Sequence[Order]]],
    do: Callable[[Order], Coroutine[Any, Any, None]],
    *,
    at_once: int,
) -> int:
    """Claim orders, at most `at_once` under way, until nothing is due and all have landed; answers how many."""
    flights: set[asyncio.Task[None]] = set()
    taken = 0
    try:
        for _ in range(ROUNDS_MOST):
            room = at_once - len(flights)
            claimed = await claim(min(BATCH, room)) if room > 0 else []
            taken += len(claimed)
            flights.update(asyncio.create_task(do(order)) for order in claimed)
            if not flights:
                return taken
            _, flights = await asyncio.wait(flights, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait(flights)
        return taken
    finally:
        for flight in flights:
            flight.cancel()  # only when this duty is cut short: the leases give the orders back
