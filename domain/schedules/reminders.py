"""When a payer is reminded of a pending charge: three days before it is due and on the day, at nine in São Paulo."""

from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import Final

from domain.instants import SAO_PAULO, day_ends


class Reminder(StrEnum):
    BEFORE_DUE = "before_due"
    DUE_DAY = "due_day"


DAYS_BEFORE: Final = {Reminder.BEFORE_DUE: 3, Reminder.DUE_DAY: 0}
AT: Final = time(9)
APART: Final = timedelta(hours=12)
"""From the first mail about the charge: not two on the same morning."""


def due_day(due_date: date | None, expires_at: datetime) -> date:
    """A boleto's due date; of a PIX charge, which has none, the day of its last moment."""
    return due_date or (expires_at - timedelta(milliseconds=1)).astimezone(SAO_PAULO).date()


def reminder_at(reminder: Reminder, due: date) -> datetime:
    """The instant (UTC)."""
    day = due - timedelta(days=DAYS_BEFORE[reminder])
    return datetime.combine(day, AT, SAO_PAULO).astimezone(UTC)


def reminder_now(due: date, *, begun_at: datetime, now: datetime) -> Reminder | None:
    """The reminder that is due at this moment. One that was missed is made up for until its day is over."""
    for reminder in Reminder:
        at = reminder_at(reminder, due)
        if at <= now < day_ends(at.astimezone(SAO_PAULO).date()) and at >= begun_at + APART:
            return reminder
    return None


def next_reminder_at(due: date, *, after: datetime) -> datetime | None:
    """The next instant at which there may be something to remind of."""
    coming = [at for at in (reminder_at(each, due) for each in Reminder) if at > after]
    return min(coming, default=None)
