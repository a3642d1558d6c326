"""A bank's list over a span of time, interval by interval, each interval whole."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final, TypeVar

from banks.lists import BankPage, TooWide
from banks.protocol import Done, Rejected, Unknown
from workers.incoming.intervals import PAGES_MAX

NARROWEST_PAGES_MAX: Final = 10 * PAGES_MAX
"""Pages of the narrowest interval, all of them in memory: 300,000 boletos of a day."""

Item = TypeVar("Item")
Fetch = Callable[[datetime, datetime, str | None], Awaitable[Done[BankPage[Item]] | TooWide | Rejected | Unknown]]


class BankSilent(Exception):
    """The bank did not answer, or its answer cannot be read: nothing can be said. `args[0]` names what was seen."""


class NoList(Exception):
    """The bank has no such list; `args[0]` is its code for that."""


async def slices(
    fetch: Fetch[Item], since: datetime, until: datetime, *, width_max: timedelta, width_min: timedelta
) -> AsyncIterator[tuple[datetime, datetime, list[BankPage[Item]]]]:
    """The whole span in intervals, each with all of its pages: PAGES_MAX at most, as reconcilers ask, while it can be
    narrower."""
    width = width_max
    while since < until:
        end = min(since + width, until)
        pages: list[BankPage[Item]] = []
        pages_max = PAGES_MAX if width > width_min else NARROWEST_PAGES_MAX
        after: str | None = None
        is_too_wide = False
        while not is_too_wide and (not pages or after is not None):
            answer = await fetch(since, end, after)
            if isinstance(answer, Rejected):
                raise NoList(answer.code)
            if isinstance(answer, Unknown):
                raise BankSilent(answer.detail)
            is_too_wide = isinstance(answer, TooWide) or len(pages) >= pages_max
            if isinstance(answer, Done):
                pages.append(answer.value)
                after = answer.value.following
        if is_too_wide:
            if width <= width_min:
                raise BankSilent("the bank lists no interval that is narrow enough")
            width = max(width_min, _round_down(width / 2, width_min))
            continue
        yield since, end, pages
        since = end
        width = min(width * 2, width_max) if len(pages) <= PAGES_MAX // 4 else width


def _round_down(width: timedelta, step: timedelta) -> timedelta:
    return step * int(width / step)
