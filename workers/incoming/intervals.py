"""The choice of the interval that a reconciler asks a bank about next. Decides on values: no clock, no I/O.

A pass goes from `until` to its `goal` in intervals, one after the other, and then begins anew for a later goal. All of
its state is stored after each page, so another worker continues where this one stopped.
"""

from datetime import UTC, date, datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from domain.instants import day_begins, day_of

PAGES_MAX: Final = 100
"""Pages of one interval, where the bank tells their number: late pages of a long list are slow, and may be refused."""
_GROW_PAGES_MAX: Final = PAGES_MAX // 4
"""An interval of at most so many pages is followed by one that is twice as wide."""
ENDLESS_PAGES: Final = 20_000
"""Pages of one interval after which a list has no end: 6 million boletos of a day."""
WIDTH: Final = timedelta(hours=6)
"""The widest interval of a list of PIX that is asked for at once; of those that went back there are few."""
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)


def days_of(since: datetime, until: datetime) -> tuple[date, date]:
    """The first and the last São Paulo day of an interval, whose end does not belong to it: for lists that go by
    days."""
    return day_of(since), day_of(max(until - _SECOND, since))


class Pass(Struct, frozen=True, kw_only=True):
    """One way of going through a list: as money arrives, or again later, because a list may show money late."""

    name: str
    behind: timedelta = timedelta(0)
    """How old the money it asks for is at least."""
    every: timedelta = _SECOND
    """Goals are multiples of this; with a day, they are midnights of São Paulo."""
    again: timedelta = timedelta(0)
    """How long before its last goal the pass begins anew. If set, the pass asks each time it is called."""
    reach: timedelta = timedelta(0)
    """It begins anew at least this long before the new goal."""
    first: timedelta = timedelta(0)
    """How long before its first goal it begins."""
    width_max: timedelta
    width_min: timedelta
    returned: bool = False
    """Whether it asks only for money that went back."""

    def goal(self, now: datetime) -> datetime:
        """The instant up to which it asks. The current second is included: banks are asked by whole seconds."""
        at = now - self.behind
        if self.every >= _DAY:
            return day_begins(day_of(at))
        steps = (at - datetime.fromtimestamp(0, UTC)) / self.every
        rounded_steps = -int(-steps // 1) if self.every <= _SECOND else int(steps)
        return datetime.fromtimestamp(0, UTC) + rounded_steps * self.every


class Progress(Struct, frozen=True):
    """How far a pass has got (bank_reconciled)."""

    until: datetime
    goal: datetime
    window_until: datetime | None
    after: str | None
    width_s: int


def begin(progress: Progress | None, list_pass: Pass, now: datetime) -> Progress | None:
    """The interval to continue with; None when the pass has nothing to ask for now."""
    goal = list_pass.goal(now)
    if progress is None:
        until = goal - max(list_pass.first, list_pass.reach)
        progress = Progress(until, goal, None, None, _seconds(list_pass.width_max))
    elif progress.window_until is not None:
        return progress
    elif progress.until >= progress.goal:
        if goal <= progress.goal and not list_pass.again:
            return None
        # When the clock was set back, the pass asks for no more than if the clock had stood still.
        until = min(min(progress.goal, goal) - list_pass.again, goal - list_pass.reach)
        progress = replace(progress, until=until, goal=goal)
    width = timedelta(seconds=min(progress.width_s, _seconds(list_pass.width_max)))
    if progress.until >= progress.goal:
        return None
    return replace(progress, window_until=min(progress.until + width, progress.goal), after=None)


def narrowed(progress: Progress, list_pass: Pass) -> Progress | None:
    """The first half of the interval; None when no narrower interval can be asked for."""
    assert progress.window_until is not None
    half_s = _seconds(progress.window_until - progress.until) // 2
    if half_s < _seconds(list_pass.width_min):
        return None
    return replace(progress, window_until=progress.until + timedelta(seconds=half_s), after=None, width_s=half_s)


def after_page(progress: Progress, next_after: str | None, pages: int, list_pass: Pass) -> Progress:
    """The progress after a page is booked: at the next page of the interval, or at the interval's end. `pages` is how
    many pages the interval had so far, or has in all."""
    assert progress.window_until is not None
    if next_after is not None:
        return replace(progress, after=next_after)
    grown_s = progress.width_s * 2 if pages <= _GROW_PAGES_MAX else progress.width_s
    width_s = min(grown_s, _seconds(list_pass.width_max))
    return Progress(progress.window_until, progress.goal, None, None, width_s)


def _seconds(width: timedelta) -> int:
    return int(width.total_seconds())
