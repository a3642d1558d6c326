"""When the charges of a schedule are due, and when they are issued.

Charges are numbered from 1. The day of the month is kept from the first due date: a month that lacks it gives its last
day, and the next month has it again (31 January, 28 February, 31 March).
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
"""In São Paulo: e-mails to payers arrive in the morning, not at midnight."""


class Recurrence(Struct, frozen=True, kw_only=True):
    """At most one of `end_date` (inclusive, at most LAST_DUE) and `max_charges`; with neither it goes on until it is
    cancelled."""

    frequency: Frequency
    first_due_date: date
    end_date: date | None = None
    max_charges: int | None = None

    def due_date(self, number: int) -> date | None:
        """The day charge `number` is due; None when the schedule has ended before it."""
        assert number >= 1, "charges are numbered from 1"
        if self.max_charges is not None and number > self.max_charges:
            return None
        due = _due_date(self.frequency, self.first_due_date, number)
        return None if due > (self.end_date or LAST_DUE) else due


def issue_at(due: date, *, days_before: int) -> datetime:
    """The instant (UTC) from which the charge that is due then is to be issued."""
    return datetime.combine(due - timedelta(days=days_before), ISSUED_AT, SAO_PAULO).astimezone(UTC)


def _due_date(frequency: Frequency, first: date, number: int) -> date:
    if frequency in DAYS:
        return first + timedelta(days=DAYS[frequency] * (number - 1))
    months = first.year * 12 + first.month - 1 + MONTHS[frequency] * (number - 1)
    year, month = divmod(months, 12)
    return date(year, month + 1, min(first.day, monthrange(year, month + 1)[1]))
