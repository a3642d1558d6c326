"""Calls to banks and how they were answered, by hour, over the last days (workers/housekeeping/bank_calls.py)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

import sql
from domain.instants import SAO_PAULO
from sql import Connection

BANK_CALLS_KEPT: Final = timedelta(days=31)
HOURS_MAX: Final = timedelta(days=7)
"""For a longer time each row covers a day."""


class BankCalls(Struct, frozen=True):
    """Counts of calls. `unanswered`: the bank did not answer in time, or not readably; `rejected`: it refused."""

    calls: int
    rejected: int
    unanswered: int
    duration_ms: int
    slowest_ms: int

    @property
    def mean_ms(self) -> int | None:
        return round(self.duration_ms / self.calls) if self.calls else None

    @property
    def answered_bps(self) -> int | None:
        return round(10_000 * (self.calls - self.unanswered) / self.calls) if self.calls else None


class CallsAt(BankCalls, frozen=True):
    """The calls of the hour or day that begins at `at`."""

    at: datetime


class CallsOf(BankCalls, frozen=True):
    bank: str
    operation: str


_count_by_time = sql.many("bank_call.by_time", CallsAt)
_count_by_operation = sql.many("bank_call.by_operation", CallsOf)


async def calls_by_time(conn: Connection, length: timedelta, *, now: datetime) -> list[CallsAt]:
    """The calls of every hour, or day, until now; hours and days without calls are included."""
    hourly = length <= HOURS_MAX
    starts = _step_starts(length, hourly=hourly, now=now)
    calls_by_start = {
        row.at: row for row in await _count_by_time(conn, since=starts[0], by="hour" if hourly else "day")
    }
    # The database returns instants in UTC; the rows carry São Paulo time, so that a day has its São Paulo date.
    return [
        replace(calls_by_start[start], at=start) if start in calls_by_start else CallsAt(0, 0, 0, 0, 0, start)
        for start in starts
    ]


async def calls_by_operation(conn: Connection, length: timedelta, *, now: datetime) -> list[CallsOf]:
    since = _step_starts(length, hourly=length <= HOURS_MAX, now=now)[0]
    return await _count_by_operation(conn, since=since)


def _step_starts(length: timedelta, *, hourly: bool, now: datetime) -> Sequence[datetime]:
    """The beginnings of the hours or days. São Paulo has had no daylight saving time since 2019, so all days have 24
    hours."""
    local = now.astimezone(SAO_PAULO).replace(minute=0, second=0, microsecond=0)
    last, step = (local, timedelta(hours=1)) if hourly else (local.replace(hour=0), timedelta(days=1))
    count = length // step
    return [last - step * (count - 1 - number) for number in range(count)]
