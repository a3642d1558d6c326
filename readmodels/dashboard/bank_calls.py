"""How banks answered, by the hour, over the last days (workers/housekeeping/bank_calls.py)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

import sql
from domain.instants import SAO_PAULO
from sql import Connection

KEPT: Final = timedelta(days=31)
HOURS_MAX: Final = timedelta(days=7)
"""Of a longer time a row is a day."""


class BankCalls(Struct, frozen=True):
    """`unanswered`: the bank said nothing in time, or nothing that can be read; `rejected`: it said no."""

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
    """Of the hour or day that begins then."""

    at: datetime


class CallsOf(BankCalls, frozen=True):
    bank: str
    operation: str


_by_time = sql.many("bank_call.by_time", CallsAt)
_by_operation = sql.many("bank_call.by_operation", CallsOf)


async def calls_by_time(conn: Connection, length: timedelta, *, now: datetime) -> list[CallsAt]:
    """Every hour, or day, until now; also those in which no bank was called."""
    hours = length <= HOURS_MAX
    steps = _steps(length, hours=hours, now=now)
    found = {row.at: row for row in await _by_time(conn, since=steps[0], by="hour" if hours else "day")}
    # The database answers instants in UTC; a day is called as it is in São Paulo.
    return [replace(found[at], at=at) if at in found else CallsAt(0, 0, 0, 0, 0, at) for at in steps]


async def calls_by_operation(conn: Connection, length: timedelta, *, now: datetime) -> list[CallsOf]:
    since = _steps(length, hours=length <= HOURS_MAX, now=now)[0]
    return await _by_operation(conn, since=since)


def _steps(length: timedelta, *, hours: bool, now: datetime) -> Sequence[datetime]:
    """São Paulo has had no summer time since 2019: days are as long as each other."""
    local = now.astimezone(SAO_PAULO).replace(minute=0, second=0, microsecond=0)
    last, step = (local, timedelta(hours=1)) if hours else (local.replace(hour=0), timedelta(days=1))
    count = length // step
    return [last - step * (count - 1 - number) for number in range(count)]
