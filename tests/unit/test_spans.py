"""Stored totals of days, months, years and decades cover any range of days, each day once."""

import random
from datetime import date, timedelta
from itertools import pairwise

import pytest

from readmodels.spans import SpanRange, span_ranges

NEXT = {
    "day": lambda day: day + timedelta(days=1),
    "month": lambda day: (day + timedelta(days=31)).replace(day=1),
    "year": lambda day: day.replace(year=day.year + 1),
    "decade": lambda day: day.replace(year=day.year + 10),
}


def covered(ranges: list[SpanRange]) -> list[date]:
    days = []
    for each in ranges:
        at = each.first
        while at < each.after:
            begins, at = at, NEXT[each.span](at)
            days += [begins + timedelta(days=n) for n in range((at - begins).days)]
        assert at == each.after, "whole spans only"
    return sorted(days)


def span_count(ranges: list[SpanRange]) -> int:
    count = 0
    for each in ranges:
        at = each.first
        while at < each.after:
            at, count = NEXT[each.span](at), count + 1
    return count


def test_few_spans_cover_each_day_of_a_range_once() -> None:
    rng = random.Random(1)
    for _ in range(300):
        first = date(2019, 12, 20) + timedelta(days=rng.randrange(9_000))
        after = first + timedelta(days=rng.choice((0, 1, 5, 31, 70, 400, 9_000)) + rng.randrange(40))
        ranges = span_ranges(first, after)
        assert covered(ranges) == [first + timedelta(days=n) for n in range((after - first).days)], (first, after)
        assert len(ranges) <= 7
        assert span_count(ranges) <= 30 + 30 + 11 + 11 + 9 + 9 + 3, (first, after)
        for longest, shorter in (("day", {"day"}), ("month", {"day", "month"}), ("year", {"day", "month", "year"})):
            bound = span_ranges(first, after, longest=longest)
            assert covered(bound) == covered(ranges)
            assert {each.span for each in bound} <= shorter


@pytest.mark.parametrize(
    ("first", "after", "expected"),
    [
        (date.min, date.max, [("decade", date.min, date.max)]),
        (date(2026, 1, 1), date(2027, 1, 1), [("year", date(2026, 1, 1), date(2027, 1, 1))]),
        (date(2026, 3, 1), date(2026, 4, 1), [("month", date(2026, 3, 1), date(2026, 4, 1))]),
        (date(2026, 3, 2), date(2026, 3, 4), [("day", date(2026, 3, 2), date(2026, 3, 4))]),
        (date(2026, 3, 2), date(2026, 3, 2), []),
        (
            date(2026, 1, 31), date.max,
            [("day", date(2026, 1, 31), date(2026, 2, 1)), ("month", date(2026, 2, 1), date(2027, 1, 1)),
             ("year", date(2027, 1, 1), date(2030, 1, 1)), ("decade", date(2030, 1, 1), date.max)],
        ),
        (
            date.min, date(2026, 2, 3),
            [("day", date(2026, 2, 1), date(2026, 2, 3)), ("month", date(2026, 1, 1), date(2026, 2, 1)),
             ("year", date(2020, 1, 1), date(2026, 1, 1)), ("decade", date.min, date(2020, 1, 1))],
        ),
    ],
)  # fmt: skip
def test_a_range_is_covered_by_the_longest_possible_spans(
    first: date, after: date, expected: list[tuple[str, date, date]]
) -> None:
    assert span_ranges(first, after) == [SpanRange(*each) for each in expected]


@pytest.mark.parametrize("first", [date.min, date(1, 1, 2), date(9, 12, 31), date(9_985, 2, 3), date(9_999, 12, 30)])
@pytest.mark.parametrize("after", [date(1, 1, 2), date(11, 5, 5), date(9_989, 1, 1), date(9_999, 12, 31), date.max])
def test_days_at_the_ends_of_the_calendar_are_covered_too(first: date, after: date) -> None:
    ranges = sorted(span_ranges(first, after), key=lambda each: each.first)
    if first < after:
        assert (ranges[0].first, ranges[-1].after) == (first, after)
        assert all(one.after == other.first for one, other in pairwise(ranges))
