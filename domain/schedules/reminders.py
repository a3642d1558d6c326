"""Reminders of a pending charge to its payer: three days before the due date and on the day, at nine in São Paulo."""

from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import Final

from domain.instants import SAO_PAULO, day_ends, day_of


class Reminder(StrEnum):
    BEFORE_DUE = "before_due"
    DUE_DAY = "due_day"


DAYS_BEFORE: Final = {Reminder.BEFORE_DUE: 3, Reminder.DUE_DAY: 0}
AT: Final = time(9)
APART: Final = timedelta(hours=12)
"""The least time between the first mail about the charge and a reminder, so that they are not sent on one morning."""


def due_day(due_date: date | None, expires_at: datetime) -> date:
    """Returns a boleto's due date; for a PIX charge, which has none, the last day on which it can be paid."""
    return due_date or day_of(expires_at - timedelta(milliseconds=1))


def reminder_at(reminder: Reminder, due: date) -> datetime:
    """Returns the instant (UTC) of the reminder."""
    day = due - timedelta(days=DAYS_BEFORE[reminder])
    return datetime.combine(day, AT, SAO_PAULO).astimezone(UTC)


def reminder_now(due: date, *, begun_at: datetime, now: datetime) -> Reminder | None:
    """Returns the reminder that is due now. A missed reminder stays due until its day is over."""
    for reminder in Reminder:
        at = reminder_at(reminder, due)
        if at <= now < day_ends(day_of(at)) and at >= begun_at + APART:
            return reminder
    return None


def next_reminder_at(due: date, *, after: datetime) -> datetime | None:
    """Returns the next instant at which a reminder may be due; None after the last one."""
    coming = [at for at in (reminder_at(each, due) for each in Reminder) if at > after]
    return min(coming, default=None)
