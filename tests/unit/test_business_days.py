"""Bank business days, compared with the list of 2026, the feasts computed from Easter, and the Banco Central's own
examples."""

from datetime import UTC, date, datetime, timedelta

import pytest

from domain.boleto.business_days import effective_due_date, is_business_day
from domain.boleto.codes import FIRST_DUE, LAST_DUE
from domain.boleto.terms import expires_at

DAY = timedelta(days=1)
HOLIDAYS_2026 = {
    *("2026-01-01", "2026-02-16", "2026-02-17", "2026-04-03", "2026-04-21", "2026-05-01", "2026-06-04"),
    *("2026-09-07", "2026-10-12", "2026-11-02", "2026-11-15", "2026-11-20", "2026-12-25"),
}


def easter(year: int) -> date:
    """Meeus, Jones and Butcher: the Gregorian computus."""
    a, b, c = year % 19, year // 100, year % 100
    d, e = b // 4, b % 4
    g = (8 * b + 13) // 25
    h = (19 * a + b - d - g + 15) % 30
    i, k = c // 4, c % 4
    m = (32 + 2 * e + 2 * i - h - k) % 7
    n = (a + 11 * h + 22 * m) // 451
    month, day = divmod(h + m - 7 * n + 114, 31)
    return date(year, month, day + 1)


def bank_holidays(year: int) -> set[date]:
    fixed = ((1, 1), (4, 21), (5, 1), (9, 7), (10, 12), (11, 2), (11, 15), (11, 20), (12, 25))
    moving = (-48, -47, -2, 60)  # Carnival Monday and Tuesday, Good Friday, Corpus Christi
    return {date(year, month, day) for month, day in fixed} | {easter(year) + days * DAY for days in moving}


def test_the_holidays_of_2026_are_the_bank_holidays_of_that_year() -> None:
    days = [date(2026, 1, 1) + number * DAY for number in range(365)]
    closed = {day.isoformat() for day in days if not is_business_day(day) and day.weekday() < 5}
    assert closed == {text for text in HOLIDAYS_2026 if date.fromisoformat(text).weekday() < 5}
    assert is_business_day(date(2026, 2, 18)), "Ash Wednesday is open half a day, and is a business day"


def test_every_possible_due_date_is_a_business_day_or_not_as_the_computed_feasts_say() -> None:
    holidays = set().union(*(bank_holidays(year) for year in range(FIRST_DUE.year, LAST_DUE.year + 2)))
    last = following = date(2049, 10, 25)  # an ordinary Monday after the last due date; the loop goes backwards from it
    for back in range((last - FIRST_DUE).days + 1):
        day = last - back * DAY
        open_ = day.weekday() not in (5, 6) and day not in holidays
        assert is_business_day(day) is open_, day
        following = day if open_ else following
        assert effective_due_date(day) == following, day


@pytest.mark.parametrize(
    ("due", "effective"),
    [
        ("2026-11-24", "2026-11-24"),  # an ordinary Tuesday
        ("2026-11-21", "2026-11-23"),  # Saturday
        ("2026-11-22", "2026-11-23"),  # Sunday
        ("2026-11-20", "2026-11-23"),  # a holiday on Friday
        ("2026-02-14", "2026-02-18"),  # Saturday of Carnival
        ("2025-04-18", "2025-04-22"),  # Good Friday, weekend, Tiradentes
        ("2026-06-04", "2026-06-05"),  # Corpus Christi, a Thursday
        ("2026-12-31", "2026-12-31"),  # banks are closed to the public, but it is a business day
        ("2027-01-01", "2027-01-04"),
        ("2028-12-30", "2029-01-02"),  # crosses the end of the year: the holiday is in the next year
        ("2049-10-13", "2049-10-13"),  # the last day a barcode can carry
    ],
)
def test_the_effective_due_date_is_the_first_business_day_on_or_after_the_due_date(due: str, effective: str) -> None:
    assert effective_due_date(date.fromisoformat(due)) == date.fromisoformat(effective)


@pytest.mark.parametrize(
    ("due", "grace_days", "last_accepted"),
    [
        ("2020-10-20", 4, "2020-10-26"),
        ("2020-12-25", 0, "2020-12-28"),
        ("2020-12-25", 1, "2020-12-29"),
        ("2020-12-25", 3, "2020-12-31"),
        ("2020-12-25", 4, "2021-01-04"),
        ("2021-08-27", 5, "2021-09-01"),
        ("2021-08-28", 5, "2021-09-06"),
    ],
)
def test_the_last_day_to_pay_equals_the_banco_centrals_examples(due: str, grace_days: int, last_accepted: str) -> None:
    moved = effective_due_date(date.fromisoformat(due))
    assert effective_due_date(moved + grace_days * DAY) == date.fromisoformat(last_accepted)


@pytest.mark.parametrize(
    ("due", "expires"),
    [
        (date(2026, 11, 24), datetime(2026, 11, 25, 3, tzinfo=UTC)),
        (date(2026, 11, 20), datetime(2026, 11, 24, 3, tzinfo=UTC)),  # payable on Monday, until its last minute
        (date(2026, 12, 31), datetime(2027, 1, 1, 3, tzinfo=UTC)),
    ],
)
def test_a_boleto_expires_at_midnight_in_sao_paulo_after_its_last_day(due: date, expires: datetime) -> None:
    assert expires_at(None, due) == expires
    assert expires_at(None, due).utcoffset() == timedelta(0)
