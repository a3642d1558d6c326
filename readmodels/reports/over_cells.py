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
_SUMMED_KINDS: Final = (ColumnKind.MONEY, ColumnKind.COUNT)


class CellRows(Struct, frozen=True):
    """The answer of one cell: its rows, and the parts of the columns that are computed anew."""

    cell: str
    rows: list[Row]
    parts: list[Row]


async def read_cell(report: Report, cell: str, lend: Lend, query: ReportQuery) -> CellRows:
    rows = [row async for row in report.rows(lend, query)]
    parts = [] if report.remade is None else [row async for row in report.remade.parts(lend, query)]
    return CellRows(cell, rows, parts)


def columns_of_cells(report: Report) -> tuple[Column, ...]:
    return report.columns if report.key else (CELL, *report.columns)


def merge_rows_of_cells(report: Report, answers: Sequence[CellRows]) -> list[Row]:
    """The merged rows, with the columns of `columns_of_cells`, in the order in which a single cell returns them."""
    if not report.key:
        return [(answer.cell, *row) for answer in answers for row in answer.rows]
    key_indexes = _column_indexes(report, report.key)
    groups: dict[Row, list[Row]] = {}
    parts: dict[Row, list[Row]] = {}
    for answer in answers:
        for row in answer.rows:
            groups.setdefault(tuple(row[index] for index in key_indexes), []).append(row)
        for part in answer.parts:
            parts.setdefault(part[: len(key_indexes)], []).append(part[len(key_indexes) :])
    # For an undated report every cell returns the same keys in the same order.
    keys = sorted(groups) if report.dated else list(groups)
    return [_merged_row(report, groups[key], parts.get(key, ())) for key in keys]


def _merged_row(report: Report, rows: Sequence[Row], parts: Sequence[Row]) -> Row:
    sums = {
        column.name: sum(row[index] or 0 for row in rows)
        for index, column in enumerate(report.columns)
        if column.kind in _SUMMED_KINDS
    }
    remade: Mapping[str, object] = {}
    if report.remade is not None:
        remade = dict(zip(report.remade.columns, report.remade.make(parts), strict=True))

    def merged_value(index: int, column: Column) -> object:
        if column.name in remade:
            return remade[column.name]
        if isinstance(column.total, Share):
            whole = sums[column.total.whole]
            return half_up(10_000 * sums[column.total.part], whole) if whole else None
        if column.name in sums:
            assert column.total is None, f"{column.name} of several cells is no sum"
            return sums[column.name]
        # A text is part of the key, or follows from the key and may not be known in every cell yet.
        return next((row[index] for row in rows if row[index] is not None), None)

    return tuple(merged_value(index, column) for index, column in enumerate(report.columns))


def _column_indexes(report: Report, names: Iterable[str]) -> list[int]:
    index_of = {column.name: index for index, column in enumerate(report.columns)}
    return [index_of[name] for name in names]


def oldest(answers: Iterable[Freshness | None]) -> Freshness | None:
    """The freshness of a table over several cells: that of its oldest part; None while a cell has no totals yet."""
    all_cells = list(answers)
    known = [each for each in all_cells if each is not None]
    return min(known, key=lambda each: each.as_of) if known and len(known) == len(all_cells) else None
