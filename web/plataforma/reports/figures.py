"""A report's values as the page shows them: table cells, the total beside the previous period's, and a plot."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta

from msgspec import Struct

from domain.brazilian import day, moment, signed_brl, span, thousands
from readmodels.reports.compare import Point
from readmodels.reports.report import Column, ColumnKind, Report, Row
from web.painel.plot import BarValue, Plot, bars
from web.plataforma.labels import CELLS


class Compared(Struct, frozen=True):
    """One number of the total, as text. `was` and `change` are empty without a previous period to compare with."""

    heading: str
    now: str
    was: str = ""
    change: str = ""


def heading(column: Column) -> str:
    """Returns the column's heading on the page, without the unit of a duration, which the table's cells show."""
    return column.heading.removesuffix(" (s)") if column.kind is ColumnKind.SECONDS else column.heading


def is_seen(column: Column) -> bool:
    """Whether the page shows the column. A code beside its words is for programs: it is in the file only."""
    return column.name != "bucket"


def cells(report: Report, row: Row) -> list[str]:
    return [_cell_text(column, value) for column, value in zip(report.columns, row, strict=True) if is_seen(column)]


def compared(report: Report, now: Row, was: Row | None) -> list[Compared]:
    """Returns the comparison for each column that has a total."""
    rows = []
    for column, value, old in zip(report.columns, now, was or (None,) * len(now), strict=True):
        if not column.kind.is_number or (value is None and old is None):
            continue
        shown = _cell_text(column, value) or "–"
        if was is None:
            rows.append(Compared(heading(column), shown))
        else:
            rows.append(
                Compared(heading(column), shown, _cell_text(column, old) or "–", _change_text(column, value, old))
            )
    return rows


def _change_text(column: Column, value: int | None, old: int | None) -> str:
    """Returns the change in percent; for a percentage in percentage points, because percent of percent is misread."""
    if value is None or old is None:
        return "–"
    if column.kind is ColumnKind.RATIO:
        return f"{_signed(value - old, places=2)} p.p."
    if old == 0:
        return "novo" if value else "igual"
    return f"{_signed(round(1_000 * (value - old) / abs(old)), places=1)} %"


def _signed(number: int, *, places: int) -> str:
    """Returns the number as text with `places` decimal places: -45 with one place is "−4,5"."""
    sign = "+" if number > 0 else "−" if number < 0 else ""
    whole, rest = divmod(abs(number), 10**places)
    return f"{sign}{thousands(whole)},{rest:0{places}}"


def drawn(report: Report, points: Sequence[Point], *, today: date) -> Plot | None:
    """Returns the plot; None when all values are zero."""
    if not any(each.value for each in points):
        return None
    column = next(each for each in report.columns if each.name == report.plotted)
    ratio = column.kind is ColumnKind.RATIO
    values = [
        BarValue(
            each.value,
            f"{_point_text(each)}: {_cell_text(column, each.value)}{' %' if ratio else ''}",
            each.at == today,
        )
        for each in points
    ]
    highest = _cell_text(column, max(each.value for each in points))
    first, last = ends(points)
    label = f"{heading(column)}, {len(points)} barras de {first} a {last}; a mais alta é {highest}."
    return bars(values, label, top=10_000 if ratio else 0)


def plot_head(report: Report, points: Sequence[Point]) -> tuple[str, str]:
    """Returns the heading of the plotted column and its highest value."""
    column = next(each for each in report.columns if each.name == report.plotted)
    return heading(column), _cell_text(column, max(each.value for each in points))


def _point_text(point: Point) -> str:
    return day(point.at) if isinstance(point.at, date) else point.at


def ends(points: Sequence[Point]) -> tuple[str, str]:
    return _point_text(points[0]), _point_text(points[-1])


def _cell_text(column: Column, value: date | datetime | str | int | None) -> str:
    match column.kind, value:
        case _, None:
            return ""
        case ColumnKind.MONEY, int():
            return signed_brl(value)
        case ColumnKind.RATIO, int():
            return f"{'−' if value < 0 else ''}{abs(value) // 100},{abs(value) % 100:02}"
        case ColumnKind.INSTANT, datetime():
            return moment(value)
        case ColumnKind.DATE, date():
            return day(value)
        case ColumnKind.SECONDS, int():
            return span(timedelta(seconds=value))
        case ColumnKind.COUNT, int():
            return thousands(value)
        case _:
            return CELLS.get(column.name, {}).get(str(value), str(value))
