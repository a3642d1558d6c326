"""Summaries of a report's rows: their total, the total of the period before, and the points of a plot.

A total is read as one row of the whole period, so it is exact even where a page shows only part of the rows, and it
costs one more range of the same index.
"""

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

import sql
from domain.instants import day_begins
from readmodels.money.ledger import sums_from_totals
from readmodels.reports.remade import half_up
from readmodels.reports.report import (
    By,
    Column,
    ColumnKind,
    Lend,
    MeanOver,
    NoTotal,
    Report,
    ReportQuery,
    Row,
    Share,
)
from sql import Connection

PLOTTED_DAYS_MAX: Final = 92
"""A plot of more days has one bar a month: narrower bars cannot be told apart on a phone."""
PLOTTED_ROWS_MAX: Final = 40
_SUMMED_KINDS: Final = (ColumnKind.MONEY, ColumnKind.COUNT, ColumnKind.RATIO)


class Point(Struct, frozen=True):
    """One bar of a plot; `at` is the first day it covers, or a name."""

    at: date | str
    value: int


class _Balance(Struct, frozen=True, gc=False):
    sequence: int
    balance_cents: int


find_balances = sql.many("report.settled_at", _Balance)


def before(query: ReportQuery) -> ReportQuery:
    """The period of the same length that ends the day before this one begins. An undated report shows the present and
    has no earlier period, because its past values are not stored."""
    last = query.first - timedelta(days=1)
    return replace(query, first=last - (query.last - query.first), last=last)


def total_of(columns: Sequence[Column], rows: Iterable[Row]) -> Row:
    """The total row, with a value for each column: a sum, a ratio of sums or a weighted mean; None where a column has
    no total."""
    all_rows = list(rows)
    index_of = {column.name: index for index, column in enumerate(columns)}

    def sums(name: str) -> int:
        return sum(row[index_of[name]] or 0 for row in all_rows)

    def column_total(column: Column) -> int | None:
        match column.total:
            case Share(part, whole):
                divisor = sums(whole)
                return half_up(10_000 * sums(part), divisor) if divisor else None
            case MeanOver(weight):
                divisor = sums(weight)
                return (
                    half_up(sum((row[index_of[column.name]] or 0) * row[index_of[weight]] for row in all_rows), divisor)
                    if divisor
                    else None
                )
            case NoTotal():
                return None
            case None:
                return sums(column.name) if column.kind in _SUMMED_KINDS else None

    return tuple(column_total(column) for column in columns)


async def whole(report: Report, lend: Lend, query: ReportQuery) -> Row:
    """The total row of a dated report, however many rows the report has."""
    assert report.dated, "what is of now is added up where its rows are"
    if report.of_one_account:
        async with lend() as conn:
            return await _settlement_total(report, conn, query)
    return total_of(report.columns, [row async for row in report.rows(lend, once(query))])


def once(query: ReportQuery) -> ReportQuery:
    """The same query, for one row over the whole period."""
    return replace(query, by=By.PERIOD)


async def _settlement_total(report: Report, conn: Connection, query: ReportQuery) -> Row:
    """The total of a settlement: the amount moved, the number of lines and the closing balance, from the running
    balances at both ends; and the sums of payments and fees."""
    opening, closing = await _opening_balances(conn, query.account_id, [query.first, query.last + timedelta(days=1)])
    cents_by_type = await _cents_by_type(conn, query)
    totals_by_column = {
        "amount": closing.balance_cents - opening.balance_cents,
        "balance": closing.balance_cents,
        "entries": closing.sequence - opening.sequence,
        "received": cents_by_type.get("payment", 0),
        "fees": -cents_by_type.get("fee", 0),
        "net": cents_by_type.get("payment", 0) + cents_by_type.get("fee", 0),
    }
    return tuple(totals_by_column.get(column.name) for column in report.columns)


async def _opening_balances(conn: Connection, account_id: UUID | None, days: Sequence[date]) -> list[_Balance]:
    """The opening balance of each of these days."""
    assert account_id is not None, "checked by ask()"
    return await find_balances(conn, account_id=account_id, edges=[day_begins(each) for each in days])


async def _cents_by_type(conn: Connection, query: ReportQuery) -> dict[str, int]:
    """Signed cents by type of ledger line, over the days asked for."""
    assert query.account_id is not None, "checked by ask()"
    sums = await sums_from_totals(conn, query.account_id, query.first, query.last + timedelta(days=1))
    return {each.type: each.cents for each in sums}


async def plotted(report: Report, lend: Lend, query: ReportQuery) -> list[Point]:
    """The bars of a plot: one for each day of a dated report (each month, if the period is long), or one for each row
    of an undated report."""
    days = [query.first + timedelta(days=offset) for offset in range((query.last - query.first).days + 1)]
    if report.of_one_account:
        async with lend() as conn:
            ends = await _opening_balances(conn, query.account_id, [each + timedelta(days=1) for each in days])
        return [Point(on, end.balance_cents) for on, end in zip(days, ends, strict=True)]
    bars = bar_query(report, query)
    if not report.grouped:
        return named(report, [row async for row in report.rows(lend, bars)])
    groups: dict[date, list[Row]] = {each.replace(day=1) if bars.by is By.MONTH else each: [] for each in days}
    async for row in report.rows(lend, bars):
        groups[row[0]].append(row)
    value_index = [column.name for column in report.columns].index(report.plotted)
    return [Point(on, total_of(report.columns, rows)[value_index] or 0) for on, rows in groups.items()]


def bar_query(report: Report, query: ReportQuery) -> ReportQuery:
    """The query for the rows that a plot is made of."""
    if not report.grouped:
        return query
    return replace(query, by=By.MONTH if (query.last - query.first).days >= PLOTTED_DAYS_MAX else By.DAY)


def named(report: Report, rows: Iterable[Row]) -> list[Point]:
    """A bar for each row; of more than PLOTTED_ROWS_MAX rows, the highest bars only."""
    names = [column.name for column in report.columns]
    label_index, value_index = names.index(report.named_by), names.index(report.plotted)
    points = [Point(str(row[label_index] or ""), row[value_index] or 0) for row in rows]
    if len(points) > PLOTTED_ROWS_MAX:
        points = sorted(points, key=lambda point: point.value, reverse=True)[:PLOTTED_ROWS_MAX]
    return points
