"""The dashboard's first page: what is in the wallet, what came in, what is open, what is odd."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from uuid import UUID

from msgspec import Struct

import sql
from domain.charge import Anomaly
from domain.instants import SAO_PAULO, day_begins
from domain.mode import Owner
from readmodels.charges.charge_list import METHODS
from readmodels.money.ledger import ENTRY_TYPES
from sql import Connection

DAYS = 30
CLOSINGS_MAX = 31
COUNT_MAX = 1_000
"""Counts and sums of charges go no further; a page that reaches it says "more than"."""

_OTHER_TYPES = [each for each in ENTRY_TYPES if each != "payment"]


class Day(Struct, frozen=True):
    """What was credited on a São Paulo day, in cents."""

    on: date
    payments: int
    received_cents: int


class Closing(Struct, frozen=True):
    """A São Paulo day of the statement, in cents: opening + in - out = closing. `lines` are its entries."""

    on: date
    opening_cents: int
    in_cents: int
    out_cents: int
    closing_cents: int
    lines: int


class DashboardTotals(Struct, frozen=True):
    """Cents. Expired charges and anomalies are those of the last DAYS days."""

    balance_cents: int
    open_charges: int
    open_cents: int
    expired_charges: int
    expired_cents: int
    anomalies: int


class Made(Struct, frozen=True):
    """What an Idempotency-Key made."""

    resource_type: str
    resource_id: UUID


class _Closing(Struct, frozen=True):
    opening_cents: int
    in_cents: int
    out_cents: int
    closing_cents: int
    lines: int


class _Day(Struct, frozen=True):
    payments: int
    received_cents: int


made_with = sql.maybe("idempotency.made", Made)
"""`account_id, test, key`."""
_days = sql.many("dashboard.days", _Day)
_closings = sql.many("dashboard.closings", _Closing)
_standing = sql.one("dashboard.standing", DashboardTotals)


async def received_by_day(conn: Connection, owner: Owner, *, now: datetime) -> list[Day]:
    """The last DAYS days, today included, oldest first."""
    today = now.astimezone(SAO_PAULO).date()
    days = [today - timedelta(days=back) for back in range(DAYS - 1, -1, -1)]
    edges = [day_begins(each) for each in (*days, today + timedelta(days=1))]
    rows = await _days(conn, account_id=owner.account_id, test=owner.test, edges=edges, other_types=_OTHER_TYPES)
    return [Day(on, row.payments, row.received_cents) for on, row in zip(days, rows, strict=True)]


async def closings(conn: Connection, owner: Owner, days: Sequence[date]) -> list[Closing]:
    """Of these days, which follow one another; at most CLOSINGS_MAX."""
    assert 0 < len(days) <= CLOSINGS_MAX
    edges = [day_begins(each) for each in (*days, days[-1] + timedelta(days=1))]
    rows = await _closings(conn, account_id=owner.account_id, test=owner.test, edges=edges, other_types=_OTHER_TYPES)
    return [
        Closing(on, row.opening_cents, row.in_cents, row.out_cents, row.closing_cents, row.lines)
        for on, row in zip(days, rows, strict=True)
    ]


async def standing(conn: Connection, owner: Owner, *, now: datetime) -> DashboardTotals:
    return await _standing(
        conn,
        account_id=owner.account_id,
        test=owner.test,
        anomalies=[str(each) for each in Anomaly],
        methods=list(METHODS),
        since=now - timedelta(days=DAYS),
        limit=COUNT_MAX,
    )


def received_in(days: Sequence[Day], last: int) -> int:
    """Cents of the last so many days."""
    return sum(day.received_cents for day in days[-last:])
