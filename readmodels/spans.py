"""A range of days split into few stored totals: decades, and at both ends years, months and days for the rest.

Totals are stored for each of these spans (span_charge, span_entry in migration 0012_reports), so a sum over the whole
history reads about as many rows for ten years as for one month.
"""

from collections.abc import Callable
from datetime import date, timedelta
from typing import Final

from msgspec import Struct

import sql
from sql import Connection

LAG_ROWS_MAX = 50_000
"""Journal rows not yet in the totals. A sum reads each of them beside the totals; when there are more than this,
charges and ledger lines are counted one by one instead."""


class SpanRange(Struct, frozen=True):
    """Whole spans of one length that begin on or after `first` and before `after`; date.min and date.max mean
    unbounded."""

    span: str
    first: date
    after: date


_lag = sql.one("report_fold.lag", int)


async def totals_serve(conn: Connection) -> bool:
    """Whether few enough journal rows are missing from the totals for sums to be read from the totals."""
    return await _lag(conn) <= LAG_ROWS_MAX


def span_ranges(first: date, after: date, *, longest: str = "decade") -> list[SpanRange]:
    """Ranges that together hold each day from `first` on and before `after` once: at most seven, none with spans longer
    than `longest`."""
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
    """The first beginning of such a span on or after the day; date.max when none follows."""
    begun, longest = begin(day), timedelta(days=_DAYS_MAX[span])
    if begun == day:
        return day
    return begin(begun + longest) if begun <= date.max - longest else date.max
