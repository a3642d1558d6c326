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


_count_lag_rows = sql.one("report_fold.lag", int)


async def totals_are_fresh(conn: Connection) -> bool:
    """Whether few enough journal rows are missing from the totals for sums to be read from the totals."""
    return await _count_lag_rows(conn) <= LAG_ROWS_MAX


def span_ranges(first: date, after: date, *, longest: str = "decade") -> list[SpanRange]:
    """Ranges that together hold each day from `first` on and before `after` once: at most seven, none with spans longer
    than `longest`."""
    ranges: list[SpanRange] = []
    for span, start_of in _SPAN_STARTS:
        if _SHORTER[span] == longest:
            break
        inner_first, inner_after = _start_at_or_after(first, span, start_of), _start_at_or_before(after, start_of)
        if inner_after < inner_first:
            break
        ranges += [SpanRange(_SHORTER[span], first, inner_first), SpanRange(_SHORTER[span], inner_after, after)]
        first, after = inner_first, inner_after
    else:
        span = ""
    ranges.append(SpanRange(_SHORTER[span], first, after))
    return [each for each in ranges if each.first < each.after]


def _month_start(day: date) -> date:
    return day.replace(day=1)


def _year_start(day: date) -> date:
    return day.replace(month=1, day=1)


def _decade_start(day: date) -> date:
    # There is no year 0.
    return date(max(day.year // 10 * 10, 1), 1, 1)


_SPAN_STARTS: Final = (("month", _month_start), ("year", _year_start), ("decade", _decade_start))
_SHORTER: Final = {"month": "day", "year": "month", "decade": "year", "": "decade"}
_DAYS_MAX: Final = {"month": 31, "year": 366, "decade": 3_653}


def _start_at_or_before(day: date, start_of: Callable[[date], date]) -> date:
    return day if day == date.max else start_of(day)


def _start_at_or_after(day: date, span: str, start_of: Callable[[date], date]) -> date:
    """The first beginning of such a span on or after the day; date.max when none follows."""
    start, longest = start_of(day), timedelta(days=_DAYS_MAX[span])
    if start == day:
        return day
    return start_of(start + longest) if start <= date.max - longest else date.max
