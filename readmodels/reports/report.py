"""What a report is: how it is requested, what its columns hold, and how its rows are written in JSON and CSV.

REPORTS (readmodels/reports/reports.py) lists them.
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
from domain.instants import SAO_PAULO, iso
from domain.money import reais
from readmodels.reports.csv_lines import BasisPoints, Cents, Field
from sql import Connection

ALL_ACCOUNTS: Final = UUID(int=0)
"""Stands for all accounts in the daily totals."""
DAYS_MAX: Final = 731
_SETTLEMENT_DAYS_MAX = 92
_CALENDAR: Final = date(1900, 1, 1), date(9900, 12, 31)
"""Days are reckoned from those asked for: the day after, the period before. At the calendar's ends there are none."""


class ColumnKind(StrEnum):
    """What a column holds. None is nothing to show, in each."""

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
    """What a row of a dated report covers. Its day is the first of that; of `period` the first asked for."""

    DAY = "day"
    MONTH = "month"
    PERIOD = "period"


class Share(NamedTuple):
    """The total of a ratio: one column's total by another's."""

    part: str
    whole: str


class MeanOver(NamedTuple):
    """The total of a mean: its rows weighed by this column."""

    weight: str


class NoTotal(NamedTuple):
    """Rows of it say nothing together: balances, percentiles, numbers of lines."""


Total = Share | MeanOver | NoTotal | None
"""How a column's rows make a total; None is their sum, of money and counts."""


class Column(NamedTuple):
    name: str
    heading: str
    """In Portuguese."""
    kind: ColumnKind
    total: Total = None


class ReportQuery(Struct, frozen=True, kw_only=True):
    """São Paulo days, both inclusive; `today` is the day it is asked on. No account: all of them together."""

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
"""Lends a connection for one page of rows, so that none is held while a slow browser reads."""
Rows = Callable[[Lend, ReportQuery], AsyncIterator[Row]]


class Remade(NamedTuple):
    """Columns that cannot be added, and what they are made of again from several cells."""

    columns: tuple[str, ...]
    parts: Rows
    """Each begins with the key of the row that it is a part of."""
    make: Callable[[Sequence[Row]], Row]
    """The columns, of the parts of one row without their key."""


class Report(NamedTuple):
    name: str
    title: str
    about: str
    """A sentence in Portuguese on what is counted."""
    help: str
    """The command line's, in English."""
    columns: tuple[Column, ...]
    rows: Rows
    """The rows, each as long as the columns. A settlement may be long: take it row by row."""
    dated: bool = True
    """Whether it covers the days asked for; else it is of today."""
    of_one_account: bool = False
    live: bool = False
    """Read from the tables themselves and not from the totals: it does not lag."""
    plotted: str = ""
    """The column that a plot of it shows."""
    named_by: str = ""
    """The column that names a row of one that is not by day."""
    key: tuple[str, ...] = ()
    """The columns by which rows of several cells are one row. Without them a row stays its cell's."""
    remade: Remade | None = None
    spread: bool = False
    """Whether rows of one account may be in other cells than its own."""
    by: By = By.DAY
    """What a row covers unless something else is asked for."""

    @property
    def grouped(self) -> bool:
        """Whether `by` means something."""
        return not (self.named_by or self.of_one_account)


class Freshness(Struct, frozen=True):
    """Everything before `as_of` is in the totals; that was `lag_seconds` ago."""

    as_of: datetime
    lag_seconds: int


freshness = sql.maybe("report.freshness", Freshness)
"""How current the daily totals are; None before the first round of a worker."""
grant_views = sql.run("report.grant")


def keeping(conn: Connection) -> Lend:
    """Lends this one connection, for rows that are taken at once or of one snapshot."""
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
    """What is to be reported. Without days: the last thirty, of a settlement yesterday.

    Refused(DATE_RANGE_INVALID) for a range that ends before it begins, is too long or lies at an end of the calendar,
    Refused(VALIDATION_ERROR) when the report is of one account and none is named.
    """
    if report.of_one_account and account_id is None:
        raise Refused(Code.VALIDATION_ERROR, fields={"account_id": "this report is of one account"})
    least, most = _CALENDAR
    for name, each in (("from", first), ("to", last)):
        if each is not None and not least <= each <= most:
            raise Refused(Code.DATE_RANGE_INVALID, fields={name: f"must be between {least} and {most}"})
    most_days = days_max(report)
    last = last or (today - timedelta(days=1) if report.live and first is None else today)
    first = first or (last if report.live else last - timedelta(days=29))
    if not 0 <= (last - first).days < most_days:
        raise Refused(
            Code.DATE_RANGE_INVALID, fields={"from": f"must be 0 to {most_days - 1} days before the last day"}
        )
    return ReportQuery(first=first, last=last, today=today, account_id=account_id, by=by)


def days_max(report: Report) -> int:
    """Of a range that can be asked for."""
    return _SETTLEMENT_DAYS_MAX if report.live else DAYS_MAX


def as_csv(report: Report, row: Row) -> list[Field]:
    """For readmodels/reports/csv_lines.py."""
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
    """Money and ratios (in percent) as decimal strings, instants in UTC."""
    shown: dict[str, str | int | None] = {}
    for column, value in zip(report.columns, row, strict=True):
        match column.kind:
            case _ if value is None:
                shown[column.name] = None
            case ColumnKind.MONEY | ColumnKind.RATIO:
                shown[column.name] = reais(value)
            case ColumnKind.INSTANT:
                shown[column.name] = iso(value)
            case ColumnKind.DATE:
                shown[column.name] = value.isoformat()
            case _:
                shown[column.name] = value
    return shown


def today_at(now: datetime) -> date:
    """The São Paulo day of an instant."""
    return now.astimezone(SAO_PAULO).date()
