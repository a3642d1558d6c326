"""The point in a lane's queue where the open orders begin.

The index keeps a row that left the queue for as long as any snapshot of the database is that old: a dump's, an
export's, an analyst's query's. A claim that began at the oldest order would walk all rows that have left since, some
hundred thousand for each claim. So claims begin a little before the order claimed last, and at the oldest order once
every few seconds. The same holds for orders that are due and cannot be taken: withdrawals of blocked accounts.
"""

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeAlias, TypeVar

from commands.bank_orders.kinds import OrderLane

LATE: Final = timedelta(seconds=30)
"""An order is due by the clock of the process that writes it, and visible once it is committed. One that appears later
than this after its due time is found by the next look at all orders."""
UNTAKEN: Final = timedelta(minutes=5)
"""Orders that have been due for so long, and that a look at all orders did not take, are left to the next such look."""
_FULL_LOOK_INTERVAL_S: Final = 5.0
_FULL_LOOK_TIME_DIVISOR: Final = 20
"""Looks at all orders take a twentieth of the time at most."""


class _Due(Protocol):
    @property
    def due_at(self) -> datetime: ...


Order = TypeVar("Order", bound=_Due)


class QueueHead:
    """The head of the queue of one lane and mode, as one process knows it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: datetime | None = None
        self._full_look_at = 0.0

    async def claim(
        self, orders_since: Callable[[datetime | None], Awaitable[Sequence[Order]]], *, now: datetime
    ) -> Sequence[Order]:
        """Claim with `orders_since`, which takes orders due since the instant it is given, or all orders for None."""
        began = self._clock()
        is_full_look = began >= self._full_look_at
        claimed = await orders_since(None if is_full_look else self._since)
        if is_full_look:
            ended = self._clock()
            self._full_look_at = ended + max(_FULL_LOOK_INTERVAL_S, _FULL_LOOK_TIME_DIVISOR * (ended - began))
        # Orders beyond their account's share are taken before they are due; `since` must not skip those due earlier.
        if due_instants := [each.due_at for each in claimed if each.due_at <= now]:
            self._since = max(due_instants) - LATE
        elif is_full_look:
            self._since = max(self._since or now - UNTAKEN, now - UNTAKEN)
        return claimed


QueueHeads: TypeAlias = defaultdict[OrderLane, QueueHead]
"""The heads of the lanes of one worker."""
