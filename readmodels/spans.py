"""A range of days as few kept totals: decades, and of what they leave at both ends years, months and days.

Totals of each of these are kept (span_charge, span_entry in migration 0012_reports), so a sum over all there is reads
as much of a history of ten years as of one of a month.
"""

from collections.abc import Callable
from datetime import date, timedelta
from typing import Final

from msgspec import Struct

import sql
from sql import Connection

LAG_ROWS_MAX = 50_000
"""Rows of the journal that are not in the totals yet, each of which is read: with more of them, charges and lines are
counted one by one."""


class SpanRange(Struct, frozen=True):
    """Spans of one length that begin from `first` on and before `after`, whole; date.min and date.max are without
    bound."""

    span: str
    first: date
    after: date


_lag = sql.one("report_fold.lag", int)


async def totals_serve(conn: Connection) -> bool:
    """Whether the totals are near enough to what has happened."""
    return await _lag(conn) <= LAG_ROWS_MAX


def span_ranges(first: date, after: date, *, longest: str = "decade") -> list[SpanRange]:
    """All days from `first` on and before `after`, each once; at most seven ranges, of no longer spans than said."""
    ranges: list[SpanRange] = []
    for span, begin in _LONGER:
        if _SHORTER[span] == longest:
            break
        up, down = _at_or_after(first, span, begin), _at_or_before(after, begin)
        if down < up:
            break
        ranges += [SpanRange(_SHORTER[span], first, up), SpanRange(_SHORTER[span], down, after)]
        first, after = up, down
    else:
        span = ""
    ranges.append(SpanRange(_SHORTER[span], first, after))
    return [each for each in ranges if each.first < each.after]


def _month(day: date) -> date:
    return day.replace(day=1)


def _year(day: date) -> date:
    return day.replace(month=1, day=1)


def _decade(day: date) -> date:
    # There is no year 0.
    return date(max(day.year // 10 * 10, 1), 1, 1)


_LONGER: Final = (("month", _month), ("year", _year), ("decade", _decade))
_SHORTER: Final = {"month": "day", "year": "month", "decade": "year", "": "decade"}
_DAYS_MAX: Final = {"month": 31, "year": 366, "decade": 3_653}


def _at_or_before(day: date, begin: Callable[[date], date]) -> date:
    return day if day == date.max else begin(day)


def _at_or_after(day: date, span: str, begin: Callable[[date], date]) -> date:
    """date.max when there is no later one."""
    begun, longest = begin(day), timedelta(days=_DAYS_MAX[span])
    if begun == day:
        return day
    return begin(begun + longest) if begun <= date.max - longest else date.max
