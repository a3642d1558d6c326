"""The dashboard's first page: the wallet's balance, recent receipts, open charges and open anomalies."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from uuid import UUID

from msgspec import Struct

import sql
from domain.charge import Status
from domain.instants import day_begins, day_of
from domain.mode import Owner
from readmodels import spans
from readmodels.charges.charge_list import ChargeFilters, StatusCents
from readmodels.charges.current_list import any_overdue, current_sums
from readmodels.money.anomalies import count_open_anomalies
from readmodels.money.ledger import ENTRY_TYPES, find_balance
from sql import Connection

DAYS = 30
CLOSINGS_MAX = 31

_OTHER_TYPES = [each for each in ENTRY_TYPES if each not in ("payment", "fee")]


class Day(Struct, frozen=True):
    """A São Paulo day of the statement, in cents: opening + in - out = closing. `received_cents` is the sum of its
    payments, `fee_cents` the sum of its fees net of fees given back, `lines` the number of its ledger lines."""

    on: date
    payments: int
    received_cents: int
    opening_cents: int
    in_cents: int
    out_cents: int
    closing_cents: int
    lines: int
    fee_cents: int

    @property
    def net_cents(self) -> int:
        return self.received_cents - self.fee_cents


class DashboardTotals(Struct, frozen=True):
    """The totals on the first page. `expired` covers the last DAYS days, today included; `anomalies` counts the open
    ones."""

    balance_cents: int
    open: StatusCents
    expired: StatusCents
    anomalies: int


class Made(Struct, frozen=True):
    """The resource that was created with an Idempotency-Key, and the fingerprint of the request."""

    resource_id: UUID
    fingerprint: bytes


class CreatedByKey(Struct, frozen=True):
    """The resource that was created with one of several Idempotency-Keys."""

    key: str
    resource_id: UUID


find_created_by_key = sql.maybe("idempotency.made", Made)
"""Takes `account_id, test, key`."""
find_created_by_keys = sql.many("idempotency.made_of", CreatedByKey)
"""Takes `account_id, test, keys`."""
_find_days = sql.many("dashboard.days", Day)


async def received_by_day(conn: Connection, owner: Owner, *, now: datetime) -> list[Day]:
    """The last DAYS days, today included, oldest first."""
    today = day_of(now)
    return await closings(conn, owner, [today - timedelta(days=days_ago) for days_ago in range(DAYS - 1, -1, -1)])


async def closings(conn: Connection, owner: Owner, days: Sequence[date]) -> list[Day]:
    """The statement of these consecutive days, at most CLOSINGS_MAX."""
    assert 0 < len(days) <= CLOSINGS_MAX
    edges = [day_begins(each) for each in (*days, days[-1] + timedelta(days=1))]
    return await _find_days(
        conn,
        account_id=owner.account_id,
        test=owner.test,
        edges=edges,
        other_types=_OTHER_TYPES,
        lag_rows_max=spans.LAG_ROWS_MAX,
    )


async def standing(conn: Connection, owner: Owner, *, now: datetime) -> DashboardTotals:
    since = day_begins(day_of(now) - timedelta(days=DAYS - 1))
    balance_cents = await find_balance(conn, account_id=owner.account_id, test=owner.test)
    pending, expired = str(Status.PENDING), str(Status.EXPIRED)
    overdue = await any_overdue(conn, owner, now)
    recently_expired = ChargeFilters(statuses=(expired,), created_from=since)
    open_sums = await current_sums(conn, owner, ChargeFilters(statuses=(pending,)), now=now, overdue=overdue)
    expired_sums = await current_sums(conn, owner, recently_expired, now=now, overdue=overdue)
    return DashboardTotals(
        balance_cents, open_sums[pending], expired_sums[expired], await count_open_anomalies(conn, owner)
    )


def received_cents_of_last(days: Sequence[Day], last: int) -> int:
    """The cents received in the last `last` days."""
    return sum(day.received_cents for day in days[-last:])
