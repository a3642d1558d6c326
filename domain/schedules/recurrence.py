"""The due dates of a schedule's charges, and the instants at which they are issued.

Charges are numbered from 1. The day of the month is kept from the first due date: in a month without that day the last
day is used, and the next month has the kept day again (31 January, 28 February, 31 March).
"""

from calendar import monthrange
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import Final

from msgspec import Struct

from domain.boleto.codes import LAST_DUE
from domain.instants import SAO_PAULO


class Frequency(StrEnum):
    WEEKLY = "weekly"
    BIWEEKLY = "biweekly"
    MONTHLY = "monthly"
    QUARTERLY = "quarterly"
    SEMIANNUAL = "semiannual"
    YEARLY = "yearly"


DAYS: Final = {Frequency.WEEKLY: 7, Frequency.BIWEEKLY: 14}
MONTHS: Final = {Frequency.MONTHLY: 1, Frequency.QUARTERLY: 3, Frequency.SEMIANNUAL: 6, Frequency.YEARLY: 12}
CHARGES_MAX: Final = 1_000
ISSUE_DAYS_BEFORE_MAX: Final = 30
ISSUED_AT: Final = time(6)
"""The time in São Paulo: payers get the e-mail about the charge in the morning, not at midnight."""


class Recurrence(Struct, frozen=True, kw_only=True):
    """The rule of a schedule's due dates. At most one of `end_date` (inclusive, at most LAST_DUE) and `max_charges` is
    given; with neither the schedule goes on until it is cancelled."""

    frequency: Frequency
    first_due_date: date
    end_date: date | None = None
    max_charges: int | None = None

    def due_date(self, number: int) -> date | None:
        """Returns the due date of charge `number`; None when the schedule ends before it."""
        assert number >= 1, "charges are numbered from 1"
        if self.max_charges is not None and number > self.max_charges:
            return None
        due = _due_date(self.frequency, self.first_due_date, number)
        return None if due > (self.end_date or LAST_DUE) else due


def issue_at(due: date, *, days_before: int) -> datetime:
    """Returns the instant (UTC) from which the charge with this due date is issued."""
    return datetime.combine(due - timedelta(days=days_before), ISSUED_AT, SAO_PAULO).astimezone(UTC)


def _due_date(frequency: Frequency, first: date, number: int) -> date:
    if frequency in DAYS:
        return first + timedelta(days=DAYS[frequency] * (number - 1))
    months = first.year * 12 + first.month - 1 + MONTHS[frequency] * (number - 1)
    year, month = divmod(months, 12)
    return date(year, month + 1, min(first.day, monthrange(year, month + 1)[1]))
