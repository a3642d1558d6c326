"""The definition of a report: how it is requested, what its columns hold, and how its rows are written in JSON and CSV.

REPORTS (readmodels/reports/reports.py) lists all reports.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

from msgspec import Struct

import sql
from domain.errors import Code, Refused
from domain.instants import iso
from domain.money import reais
from readmodels.reports.csv_lines import BasisPoints, Cents, Field
from sql import Connection

ALL_ACCOUNTS: Final = UUID(int=0)
"""The account under which the daily totals hold the sums of all accounts."""
DAYS_MAX: Final = 731
_SETTLEMENT_DAYS_MAX = 92
_CALENDAR: Final = date(1900, 1, 1), date(9900, 12, 31)
"""The days that may be asked for. Reports compute the day after and the period before, which do not exist at the ends
of Python's calendar."""


class ColumnKind(StrEnum):
    """The kind of value a column holds. In every kind None means nothing to show."""

    DATE = "date"  # date
    INSTANT = "instant"  # datetime
    TEXT = "text"  # str
    MONEY = "money"  # int, cents
    COUNT = "count"  # int
    RATIO = "ratio"  # int, basis points: 9750 is 97.50 %
    SECONDS = "seconds"  # int

    @property
    def is_number(self) -> bool:
        return self not in (ColumnKind.DATE, ColumnKind.INSTANT, ColumnKind.TEXT)


class By(StrEnum):
    """The time that a row of a dated report covers. The row is dated with the first day of that time."""

    DAY = "day"
    MONTH = "month"
    PERIOD = "period"


class Share(NamedTuple):
    """The total of a ratio: one column's total divided by another's."""

    part: str
    whole: str


class MeanOver(NamedTuple):
    """The total of a mean: the mean of its rows, weighted by this column."""

    weight: str


class NoTotal(NamedTuple):
    """The column has no total: balances, percentiles, sequences of ledger lines."""


Total = Share | MeanOver | NoTotal | None
"""How a column's total is computed; None is the sum, for money and counts."""


class Column(NamedTuple):
    name: str
    heading: str
    """The column's heading in Portuguese."""
    kind: ColumnKind
    total: Total = None


class ReportQuery(Struct, frozen=True, kw_only=True):
    """A request for a report. `first` and `last` are São Paulo days, both included; `today` is the day of the request.
    Without an account the report covers all accounts together."""

    first: date
    last: date
    today: date
    account_id: UUID | None = None
    by: By = By.DAY

    @property
    def totals_of(self) -> UUID:
        return self.account_id or ALL_ACCOUNTS


Row = tuple[Any, ...]
Lend = Callable[[], AbstractAsyncContextManager[Connection]]
"""Lends a connection for one page of rows, so that no connection is held while a slow browser reads."""
Rows = Callable[[Lend, ReportQuery], AsyncIterator[Row]]


class Remade(NamedTuple):
    """Columns that cannot be added over cells, and the parts from which they are computed anew."""

    columns: tuple[str, ...]
    parts: Rows
    """Reads the parts. Each begins with the key of the row to which it belongs."""
    make: Callable[[Sequence[Row]], Row]
    """Computes the columns from the parts of one row, given without their key."""


class Report(NamedTuple):
    name: str
    title: str
    about: str
    """A sentence in Portuguese that says what is counted."""
    help: str
    """The command line's help, in English."""
    columns: tuple[Column, ...]
    rows: Rows
    """Reads the rows, each with a value for every column. A settlement may be long: take it row by row."""
    dated: bool = True
    """Whether the report covers the days asked for; else it shows the present."""
    of_one_account: bool = False
    live: bool = False
    """Whether the report is read from the tables themselves, not from the totals, and so does not lag."""
    plotted: str = ""
    """The column that a plot of the report shows."""
    named_by: str = ""
    """The column that names a row, in a report whose rows are not by day."""
    key: tuple[str, ...] = ()
    """The columns whose equal values merge rows of several cells into one. Without a key each cell's rows stay
    apart."""
    remade: Remade | None = None
    spread: bool = False
    """Whether an account may have rows in other cells than its own."""
    by: By = By.DAY
    """The time that a row covers by default."""

    @property
    def grouped(self) -> bool:
        """Whether the report's rows can be grouped by day, month or period."""
        return not (self.named_by or self.of_one_account)


class Freshness(Struct, frozen=True):
    """How current the totals are: everything before `as_of`, which was `lag_seconds` ago, is in them."""

    as_of: datetime
    lag_seconds: int


freshness = sql.maybe("report.freshness", Freshness)
"""How current the daily totals are; None before a worker has first folded them."""
grant_views = sql.run("report.grant")


def keeping(conn: Connection) -> Lend:
    """Lends this one connection every time, for rows that are taken at once or must come from one snapshot."""
    return lambda: nullcontext(conn)


def ask(
    report: Report,
    *,
    today: date,
    first: date | None = None,
    last: date | None = None,
    account_id: UUID | None = None,
    by: By = By.DAY,
) -> ReportQuery:
    """Check a request for a report. Without days it covers the last thirty days; of a live report, yesterday.

    Refused(DATE_RANGE_INVALID) for a range that ends before it begins, is too long or lies at an end of the calendar,
    Refused(VALIDATION_ERROR) when the report needs an account and none is named.
    """
    if report.of_one_account and account_id is None:
        raise Refused(Code.VALIDATION_ERROR, fields={"account_id": "this report is of one account"})
    earliest, latest = _CALENDAR
    for name, day in (("from", first), ("to", last)):
        if day is not None and not earliest <= day <= latest:
            raise Refused(Code.DATE_RANGE_INVALID, fields={name: f"must be between {earliest} and {latest}"})
    days_limit = days_max(report)
    last = last or (today - timedelta(days=1) if report.live and first is None else today)
    first = first or (last if report.live else last - timedelta(days=29))
    if not 0 <= (last - first).days < days_limit:
        raise Refused(
            Code.DATE_RANGE_INVALID, fields={"from": f"must be 0 to {days_limit - 1} days before the last day"}
        )
    return ReportQuery(first=first, last=last, today=today, account_id=account_id, by=by)


def days_max(report: Report) -> int:
    """The longest range of days that can be asked for."""
    return _SETTLEMENT_DAYS_MAX if report.live else DAYS_MAX


def as_csv(report: Report, row: Row) -> list[Field]:
    """The row's fields for readmodels/reports/csv_lines.py."""
    fields: list[Field] = []
    for column, value in zip(report.columns, row, strict=True):
        if value is None:
            fields.append(None)
        elif column.kind is ColumnKind.MONEY:
            fields.append(Cents(value))
        elif column.kind is ColumnKind.RATIO:
            fields.append(BasisPoints(value))
        else:
            fields.append(value)
    return fields


def as_json(report: Report, row: Row) -> dict[str, str | int | None]:
    """The row as JSON: money and ratios (in percent) as decimal strings, instants in UTC."""
    fields: dict[str, str | int | None] = {}
    for column, value in zip(report.columns, row, strict=True):
        match column.kind:
            case _ if value is None:
                fields[column.name] = None
            case ColumnKind.MONEY | ColumnKind.RATIO:
                fields[column.name] = reais(value)
            case ColumnKind.INSTANT:
                fields[column.name] = iso(value)
            case ColumnKind.DATE:
                fields[column.name] = value.isoformat()
            case _:
                fields[column.name] = value
    return fields
