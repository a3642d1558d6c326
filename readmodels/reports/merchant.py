"""Reports of one account for its own people: the outcome of its charges, its open boletos, and each month's settlement.

They are read from the stored totals and the journal rows not yet in them, so they are exact at once, in both modes
(docs/decisions/0051).
"""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct

import sql
from domain.instants import day_begins, day_ends
from domain.mode import Owner
from readmodels.reports.remade import half_up
from readmodels.reports.report import By
from readmodels.reports.totals import AGES, AgeSum, age_bounds
from readmodels.spans import span_ranges, totals_are_fresh
from sql import Connection

MONTHS_MAX: Final = 120
"""Months of the settlement, counted from the newest: ten years."""


class CohortOutcome(Struct, frozen=True, gc=False):
    """The outcome of the charges issued on a day, or in the month that begins with it. Refunded charges count as
    paid."""

    day: date
    issued: int
    issued_cents: int
    paid: int
    paid_cents: int
    open: int
    expired: int
    cancelled: int
    failed: int

    @property
    def conversion(self) -> int:
        """The paid share of the charges issued, in basis points."""
        return half_up(10_000 * self.paid, self.issued) if self.issued else 0


class Age(Struct, frozen=True, gc=False):
    """The boletos of one of AGES: days until, or since, the due date."""

    bucket: str
    label: str
    boletos: int
    cents: int


class SettledMonth(Struct, frozen=True):
    """The settlement of a month. `moved` holds the signed cents of each type of ledger line, from the totals; opening
    and closing are the statement's own balances."""

    month: date
    opening_cents: int
    closing_cents: int
    lines: int
    moved: Mapping[str, int]

    @property
    def off_cents(self) -> int:
        """The difference between opening plus all movements and the closing balance; 0 unless our books are wrong."""
        return self.opening_cents + sum(self.moved.values()) - self.closing_cents


class _AgeRange(Struct, frozen=True):
    """One of the ranges of spans that make up a bucket of AGES."""

    bucket: int
    status: str
    span: str
    first: date
    after: date


class _MonthTypeRow(Struct, frozen=True, gc=False):
    month: date
    opening_cents: int
    closing_cents: int
    type: str | None
    lines: int
    cents: int


_find_first_day = sql.one("merchant_report.begins", date)
_outcomes_from_totals = sql.many("merchant_report.outcomes", CohortOutcome)
_outcomes_from_charges = sql.many("merchant_report.outcomes_counted", CohortOutcome)
_aging_from_totals = sql.many("merchant_report.aging", AgeSum)
_aging_from_charges = sql.many("merchant_report.aging_counted", AgeSum)
_find_months = sql.many("merchant_report.months", _MonthTypeRow)


async def first_day(conn: Connection, owner: Owner) -> date:
    """The São Paulo day before which there is nothing to report."""
    return await _find_first_day(conn, account_id=owner.account_id, test=owner.test)


async def outcomes(conn: Connection, owner: Owner, first: date, last: date, by: By) -> list[CohortOutcome]:
    """The outcomes by day or month, newest first; days and months without a charge are left out."""
    parameters = {"account_id": owner.account_id, "test": owner.test, "by": by.value}
    if await totals_are_fresh(conn):
        return await _outcomes_from_totals(conn, **parameters, first=first, last=last)
    return await _outcomes_from_charges(conn, **parameters, created_from=day_begins(first), created_to=day_ends(last))


async def ages(conn: Connection, owner: Owner, today: date) -> list[Age]:
    """Open boletos by the days until they are due, and expired boletos by the days since."""
    bounds = age_bounds(today)
    parameters = {"account_id": owner.account_id, "test": owner.test}
    if await totals_are_fresh(conn):
        rows = await _aging_from_totals(conn, **parameters, **bounds, ranges=_age_ranges(**bounds))
    else:
        rows = await _aging_from_charges(conn, **parameters, **bounds)
    return [Age(bucket, label, row.boletos, row.amount) for (bucket, label, *_), row in zip(AGES, rows, strict=True)]


def _age_ranges(statuses: Sequence[str], firsts: Sequence[date], lasts: Sequence[date]) -> list[_AgeRange]:
    return [
        _AgeRange(bucket, status, each.span, each.first, each.after)
        for bucket, (status, first, last) in enumerate(zip(statuses, firsts, lasts, strict=True), 1)
        for each in span_ranges(first, last + timedelta(days=1) if last < date.max else last)
    ]


async def settled_months(conn: Connection, account_id: UUID, first: date, today: date) -> list[SettledMonth]:
    """The settlements of production's months from the month of `first` to the current month, newest first."""
    months = _months_between(first, today)[-MONTHS_MAX:]
    after = _next_month(months[-1])
    rows = await _find_months(conn, account_id=account_id, edges=[day_begins(each) for each in (*months, after)])
    return [_settled_month(month, [row for row in rows if row.month == month]) for month in reversed(months)]


def _settled_month(month: date, rows: Sequence[_MonthTypeRow]) -> SettledMonth:
    return SettledMonth(
        month,
        rows[0].opening_cents,
        rows[0].closing_cents,
        sum(each.lines for each in rows),
        {each.type: each.cents for each in rows if each.type is not None},
    )


def _months_between(first: date, last: date) -> list[date]:
    months = [first.replace(day=1)]
    while months[-1] < last.replace(day=1):
        months.append(_next_month(months[-1]))
    return months


def _next_month(first: date) -> date:
    return (first + timedelta(days=31)).replace(day=1)
