"""When each owner's next order is due, so that a burst of one owner does not stand before everybody else's orders."""

from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Final

AHEAD_S_MAX: Final = 60.0
"""How far behind the others an owner's orders are put at most: beyond it orders of several bursts go by their age."""
_OWNERS: Final = 1_000


class DueTimes:
    """Virtual start times of fair queueing: an owner's orders are due `per_s` a second, from this instant on, and the
    further ones after that, although they may be taken up before when nothing else is due. State is of one process:
    with several an owner has as many times as much.
    """

    def __init__(self, per_s: int) -> None:
        self._step_s = 1 / per_s
        self._free_s: dict[Hashable, float] = {}
        self._owners_max = _OWNERS

    def __len__(self) -> int:
        return len(self._free_s)

    def take(self, owner: Hashable, now: datetime) -> datetime:
        """When an order that `owner` places at `now` is due: `now`, or up to AHEAD_S_MAX later."""
        now_s = now.timestamp()
        ahead_s = min(self._free_s.get(owner, now_s) - now_s, AHEAD_S_MAX)
        if ahead_s <= 0:
            self._free_s[owner] = now_s + self._step_s
            if len(self._free_s) > self._owners_max:
                self._forget(now_s)
            return now
        self._free_s[owner] = now_s + ahead_s + self._step_s
        return now + timedelta(seconds=ahead_s)

    def _forget(self, now_s: float) -> None:
        """Leave out who may order at once, as somebody new may. The next time is at twice of what is left, so that one
        look at all is spread over as many owners."""
        self._free_s = {owner: free_s for owner, free_s in self._free_s.items() if free_s > now_s}
        self._owners_max = max(_OWNERS, 2 * len(self._free_s))
