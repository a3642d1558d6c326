"""Due times by fair queueing, so that a burst of one owner does not stand before the orders of all other owners."""

from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Final

AHEAD_S_MAX: Final = 60.0
"""How far behind the others an owner's orders are put at most. Beyond it, orders of several bursts go by their age."""
_OWNERS_KEPT_MIN: Final = 1_000


class DueTimes:
    """Virtual start times of fair queueing: an owner's orders become due at `per_s` a second. An order may be taken up
    before it is due when nothing else is due. The state is of one process: with several processes, an owner gets as
    many times as much.
    """

    def __init__(self, per_s: int) -> None:
        self._step_s = 1 / per_s
        self._next_free_s: dict[Hashable, float] = {}
        self._owners_max = _OWNERS_KEPT_MIN

    def __len__(self) -> int:
        return len(self._next_free_s)

    def take(self, owner: Hashable, now: datetime) -> datetime:
        """The due time of an order that `owner` places at `now`: `now`, or up to AHEAD_S_MAX later."""
        now_s = now.timestamp()
        ahead_s = min(self._next_free_s.get(owner, now_s) - now_s, AHEAD_S_MAX)
        if ahead_s <= 0:
            self._next_free_s[owner] = now_s + self._step_s
            if len(self._next_free_s) > self._owners_max:
                self._forget_free_owners(now_s)
            return now
        self._next_free_s[owner] = now_s + ahead_s + self._step_s
        return now + timedelta(seconds=ahead_s)

    def _forget_free_owners(self, now_s: float) -> None:
        """Drop owners that may order at once, as a new owner may. The next pass comes at twice the number that is left,
        so that one pass over all is spread over as many new owners."""
        self._next_free_s = {owner: free_s for owner, free_s in self._next_free_s.items() if free_s > now_s}
        self._owners_max = max(_OWNERS_KEPT_MIN, 2 * len(self._next_free_s))


class LateDueTimes:
    """Due times of orders that nobody waits for: behind the orders that are placed in the next `delay`."""

    def __init__(self, delay: timedelta) -> None:
        self._delay = delay

    def take(self, owner: Hashable, now: datetime) -> datetime:
        return now + self._delay
