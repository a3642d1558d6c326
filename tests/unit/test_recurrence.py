"""Due dates of schedules: examples to check with a calendar, and properties that hold for all of them."""

from calendar import monthrange
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.boleto.codes import LAST_DUE
from domain.instants import SAO_PAULO
from domain.schedules.recurrence import CHARGES_MAX, DAYS, MONTHS, Frequency, Recurrence, issue_at
from domain.schedules.reminders import APART, Reminder, due_day, next_reminder_at, reminder_at, reminder_now
from domain.schedules.terms import RelativeDiscount, ScheduleTerms, terms_of_charge, wrong_schedule_terms

frequencies = st.sampled_from(Frequency)
first_dates = st.dates(date(2020, 1, 1), date(2060, 12, 31))
numbers = st.integers(1, CHARGES_MAX)


def due_dates(frequency: Frequency, first: str, count: int) -> list[str]:
    recurrence = Recurrence(frequency=frequency, first_due_date=date.fromisoformat(first))
    return [str(recurrence.due_date(number)) for number in range(1, count + 1)]


@pytest.mark.parametrize(
    ("frequency", "expected"),
    [
        (Frequency.WEEKLY, ["2027-01-31", "2027-02-07", "2027-02-14"]),
        (Frequency.BIWEEKLY, ["2027-01-31", "2027-02-14", "2027-02-28"]),
        (Frequency.MONTHLY, ["2027-01-31", "2027-02-28", "2027-03-31", "2027-04-30", "2027-05-31"]),
        (Frequency.QUARTERLY, ["2027-01-31", "2027-04-30", "2027-07-31"]),
        (Frequency.SEMIANNUAL, ["2027-01-31", "2027-07-31", "2028-01-31"]),
        (Frequency.YEARLY, ["2027-01-31", "2028-01-31"]),
    ],
)
def test_due_dates_follow_the_calendar_from_the_first_one(frequency: Frequency, expected: list[str]) -> None:
    assert due_dates(frequency, expected[0], len(expected)) == expected


def test_a_yearly_schedule_due_on_29_february_keeps_it_in_leap_years() -> None:
    assert due_dates(Frequency.YEARLY, "2024-02-29", 5) == [
        "2024-02-29", "2025-02-28", "2026-02-28", "2027-02-28", "2028-02-29",
    ]  # fmt: skip


def test_a_schedule_ends_at_its_last_day_or_number() -> None:
    first = date(2027, 1, 31)
    until = Recurrence(frequency=Frequency.MONTHLY, first_due_date=first, end_date=date(2027, 3, 31))
    assert [until.due_date(number) for number in (3, 4)] == [date(2027, 3, 31), None]
    count = Recurrence(frequency=Frequency.MONTHLY, first_due_date=first, max_charges=2)
    assert [count.due_date(number) for number in (2, 3)] == [date(2027, 2, 28), None]
    forever = Recurrence(frequency=Frequency.YEARLY, first_due_date=first)
    assert forever.due_date(CHARGES_MAX) is None  # no barcode can carry so late a due date


@pytest.mark.parametrize("frequency", [Frequency.WEEKLY, Frequency.MONTHLY])
def test_the_last_day_a_barcode_carries_is_the_last_due_date(frequency: Frequency) -> None:
    first = LAST_DUE - timedelta(days=DAYS.get(frequency, 30))
    endless = Recurrence(frequency=frequency, first_due_date=first)
    assert [endless.due_date(number) for number in (2, 3)] == [LAST_DUE, None]


@given(frequencies, first_dates, numbers)
def test_each_due_date_is_later_than_the_previous_one_and_keeps_the_day_of_the_month(
    frequency: Frequency, first: date, number: int
) -> None:
    recurrence = Recurrence(frequency=frequency, first_due_date=first)
    due, following = recurrence.due_date(number), recurrence.due_date(number + 1)
    if due is None:
        assert following is None
        return
    assert first <= due <= LAST_DUE
    if following is not None:
        assert due < following
    if frequency in DAYS:
        assert (due - first).days == DAYS[frequency] * (number - 1)
    else:
        assert (due.year - first.year) * 12 + due.month - first.month == MONTHS[frequency] * (number - 1)
        assert due.day == min(first.day, monthrange(due.year, due.month)[1])


@given(frequencies, first_dates, numbers, st.integers(1, CHARGES_MAX))
def test_a_schedule_has_as_many_charges_as_max_charges(
    frequency: Frequency, first: date, number: int, charges_max: int
) -> None:
    endless = Recurrence(frequency=frequency, first_due_date=first)
    limited = Recurrence(frequency=frequency, first_due_date=first, max_charges=charges_max)
    assert limited.due_date(number) == (endless.due_date(number) if number <= charges_max else None)


@given(first_dates, st.integers(0, 30))
def test_a_charge_is_issued_at_06_00_the_agreed_days_before_its_due_date(due: date, days_before: int) -> None:
    local = issue_at(due, days_before=days_before).astimezone(SAO_PAULO)
    assert (due - local.date()).days == days_before
    assert (local.hour, local.minute) == (6, 0)


DUE = date(2026, 12, 10)


def at(day: int, hour: int) -> datetime:
    return datetime(2026, 12, day, hour, tzinfo=SAO_PAULO).astimezone(UTC)


def test_payers_are_reminded_three_days_before_and_on_the_day_at_nine() -> None:
    begun_at = at(1, 10)
    reminders = {
        (now.day, now.hour): reminder
        for now in (datetime(2026, 12, 1, tzinfo=SAO_PAULO) + timedelta(hours=n) for n in range(24 * 14))
        if (reminder := reminder_now(DUE, begun_at=begun_at, now=now.astimezone(UTC)))
    }
    assert {key for key, value in reminders.items() if value is Reminder.BEFORE_DUE} == {(7, n) for n in range(9, 24)}
    assert {key for key, value in reminders.items() if value is Reminder.DUE_DAY} == {(10, n) for n in range(9, 24)}
    assert next_reminder_at(DUE, after=begun_at) == at(7, 9)
    assert next_reminder_at(DUE, after=at(7, 9)) == at(10, 9)
    assert next_reminder_at(DUE, after=at(10, 9)) is None


def test_no_reminder_follows_shortly_after_the_charges_own_mail() -> None:
    assert reminder_now(DUE, begun_at=at(7, 6), now=at(7, 9)) is None
    assert reminder_now(DUE, begun_at=at(7, 9) - APART, now=at(7, 9)) is Reminder.BEFORE_DUE


def test_the_due_day_of_a_pix_charge_is_the_day_of_its_last_moment() -> None:
    midnight = datetime(2026, 12, 11, tzinfo=SAO_PAULO).astimezone(UTC)
    assert due_day(None, midnight) == DUE
    assert due_day(date(2026, 12, 9), midnight) == date(2026, 12, 9)
    assert reminder_at(Reminder.DUE_DAY, DUE) == at(10, 9)


def test_a_schedules_discount_lasts_through_its_last_day_even_if_issued_on_it() -> None:
    due, before = date(2027, 3, 10), RelativeDiscount(days_before=5, percent_bps=100)
    terms = ScheduleTerms(discounts=(before,))
    agreed = terms_of_charge(terms, due, issued_on=date(2027, 3, 5))
    assert agreed is not None
    assert [each.until for each in agreed.discounts] == [date(2027, 3, 5)]
    assert terms_of_charge(terms, due, issued_on=date(2027, 3, 6)) is None
    for issue_days_before, wrong in ((5, set()), (4, {"discounts.0.days_before_due"})):
        found = wrong_schedule_terms(terms, amount_cents=10_000, issue_days_before=issue_days_before, company=False)
        assert set(found) == wrong
