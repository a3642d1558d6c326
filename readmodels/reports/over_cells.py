"""One table of a report over several cells.

Counts and cents of rows with the same key are added. Ratios are computed from the sums; percentiles and means are
computed anew from their parts (readmodels/reports/remade.py). A report without a key, whose rows belong to accounts and
not to days, shows each row with its cell instead.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from readmodels.reports.remade import half_up
from readmodels.reports.report import Column, ColumnKind, Freshness, Lend, Report, ReportQuery, Row, Share

CELL: Final = Column("cell", "Célula", ColumnKind.TEXT)
_NUMBERS: Final = (ColumnKind.MONEY, ColumnKind.COUNT)


class CellRows(Struct, frozen=True):
    """The answer of one cell: its rows, and the parts of the columns that are computed anew."""

    cell: str
    rows: list[Row]
    parts: list[Row]


async def read_cell(report: Report, cell: str, lend: Lend, asked: ReportQuery) -> CellRows:
    rows = [row async for row in report.rows(lend, asked)]
    parts = [] if report.remade is None else [row async for row in report.remade.parts(lend, asked)]
    return CellRows(cell, rows, parts)


def columns_over(report: Report) -> tuple[Column, ...]:
    return report.columns if report.key else (CELL, *report.columns)


def rows_over(report: Report, answers: Sequence[CellRows]) -> list[Row]:
    """The merged rows, with the columns of `columns_over`, in the order in which a single cell returns them."""
    if not report.key:
        return [(answer.cell, *row) for answer in answers for row in answer.rows]
    key_at = _places(report, report.key)
    groups: dict[Row, list[Row]] = {}
    parts: dict[Row, list[Row]] = {}
    for answer in answers:
        for row in answer.rows:
            groups.setdefault(tuple(row[at] for at in key_at), []).append(row)
        for part in answer.parts:
            parts.setdefault(part[: len(key_at)], []).append(part[len(key_at) :])
    # For an undated report every cell returns the same keys in the same order.
    keys = sorted(groups) if report.dated else list(groups)
    return [_added(report, groups[key], parts.get(key, ())) for key in keys]


def _added(report: Report, rows: Sequence[Row], parts: Sequence[Row]) -> Row:
    names = [column.name for column in report.columns]
    sums = {
        column.name: sum(row[at] or 0 for row in rows)
        for at, column in enumerate(report.columns)
        if column.kind in _NUMBERS
    }
    remade: Mapping[str, object] = {}
    if report.remade is not None:
        remade = dict(zip(report.remade.columns, report.remade.make(parts), strict=True))

    def one(at: int, column: Column) -> object:
        if column.name in remade:
            return remade[column.name]
        if isinstance(column.total, Share):
            whole = sums[column.total.whole]
            return half_up(10_000 * sums[column.total.part], whole) if whole else None
        if column.name in sums:
            assert column.total is None, f"{names[at]} of several cells is no sum"
            return sums[column.name]
        # A text is part of the key, or follows from the key and may not be known in every cell yet.
        return next((row[at] for row in rows if row[at] is not None), None)

    return tuple(one(at, column) for at, column in enumerate(report.columns))


def _places(report: Report, names: Iterable[str]) -> list[int]:
    at = {column.name: place for place, column in enumerate(report.columns)}
    return [at[name] for name in names]


def oldest(answers: Iterable[Freshness | None]) -> Freshness | None:
    """The freshness of a table over several cells: that of its oldest part; None while a cell has no totals yet."""
    found = list(answers)
    known = [each for each in found if each is not None]
    return min(known, key=lambda each: each.as_of) if known and len(known) == len(found) else None
