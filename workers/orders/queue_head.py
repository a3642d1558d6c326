"""Where a lane's orders begin that are still to be done.

A row that left the queue stays in its index while any snapshot of the database is as old: of a dump, an export, an
analyst's query. Claims that began at the oldest order would walk all that has left since, some hundred thousand rows
for each claim. So they begin a little before what was claimed last, and at the oldest order once in some seconds.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeVar

LATE: Final = timedelta(seconds=30)
"""Orders are due by the clocks of whoever writes them, and are there when they are committed: of one that is later than
this the next look at all orders takes notice."""
_ALL_S: Final = 5.0
_ALL_SHARE: Final = 20
"""Looks at all orders take a twentieth of the time at most."""


class _Due(Protocol):
    @property
    def due_at(self) -> datetime: ...


Order = TypeVar("Order", bound=_Due)


class QueueHead:
    """Of one lane and mode, in one process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: datetime | None = None
        self._all_at = 0.0

    async def claim(
        self, orders_since: Callable[[datetime | None], Awaitable[Sequence[Order]]], *, now: datetime
    ) -> Sequence[Order]:
        """What `orders_since` claims of the orders that are due since the instant it is given; None: of all."""
        began = self._clock()
        every = began >= self._all_at
        claimed = await orders_since(None if every else self._since)
        if every:
            ended = self._clock()
            self._all_at = ended + max(_ALL_S, _ALL_SHARE * (ended - began))
        # Those beyond their account's share are taken before they are due, and others come before them.
        if due := [each.due_at for each in claimed if each.due_at <= now]:
            self._since = max(due) - LATE
        return claimed
