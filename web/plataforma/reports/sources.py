"""What a report is read from: all cells at once, as one table (readmodels/reports/over_cells.py)."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar

from readmodels.reports.compare import before, by_bar, once
from readmodels.reports.over_cells import CellRows, columns_over, oldest, read_cell, rows_over
from readmodels.reports.report import Freshness, Lend, MeanOver, Report, ReportQuery, Row, freshness, keeping
from runtime.postgres import Pool, session
from sql import Connection
from web.cells import CellPages
from web.plataforma.cells.ask import ask_cells

T = TypeVar("T")


class AllCells:
    """`away`: the names of those that did not answer; they are asked no more, and what is read is without them."""

    def __init__(self, cells: Sequence[CellPages]) -> None:
        self._cells = cells
        self.away: list[str] = []

    def report(self, report: Report) -> Report:
        """The report over them, whose rows borrow no connection of whoever asks."""

        async def rows(_: Lend, wanted: ReportQuery) -> AsyncIterator[Row]:
            async def of_cell(cell: CellPages) -> CellRows:
                return await read_cell(report, cell.name, lambda: session(cell.state.report_pool), wanted)

            for row in rows_over(report, await self._ask(of_cell)):
                yield row

        return report._replace(columns=columns_over(report), rows=rows)

    async def page(self, report: Report, wanted: ReportQuery) -> "PageOfCells":
        """All that a page shows of it: of each cell at one instant, so that rows add up to their total."""
        asked = [_Asked(report.remade is not None, wanted)]
        if report.dated:
            # Of what is made anew a plot shows nothing, and totals need the means.
            means = any(isinstance(each.total, MeanOver) for each in report.columns)
            asked += [_Asked(False, by_bar(report, wanted))]
            asked += [_Asked(means, once(wanted)), _Asked(means, once(before(wanted)))]

        async def of_cell(cell: CellPages) -> _OfCell:
            async with one_instant(cell.state.report_pool) as conn:
                found = {}
                for each in asked:
                    of = report if each.parts else report._replace(remade=None)
                    found[each] = await read_cell(of, cell.name, keeping(conn), each.query)
                return _OfCell(found, None if report.live else await freshness(conn))

        return PageOfCells(report, asked[0].parts, asked[-1].parts, await self._ask(of_cell))

    async def _ask(self, ask: Callable[[CellPages], Awaitable[T]]) -> list[T]:
        found = await ask_cells([each for each in self._cells if each.name not in self.away], ask)
        self.away += found.away
        return [answer for _, answer in found.answers]


class _Asked(NamedTuple):
    """Rows, with the parts of what is made anew or without."""

    parts: bool
    query: ReportQuery


class _OfCell(NamedTuple):
    found: Mapping[_Asked, CellRows]
    fresh: Freshness | None


class PageOfCells:
    """What all cells answered for one page: a report for its rows, for their total and for a plot of them."""

    def __init__(self, report: Report, parts: bool, means: bool, answers: Sequence[_OfCell]) -> None:
        self._answers = answers
        self.report = self._over(report, parts=parts)
        self.totals = self._over(report, parts=means)
        self.plot = self._over(report, parts=False)
        self.freshness = None if report.live else oldest([each.fresh for each in answers])

    def _over(self, report: Report, *, parts: bool) -> Report:
        async def rows(_: Lend, wanted: ReportQuery) -> AsyncIterator[Row]:
            for row in rows_over(report, [each.found[_Asked(parts, wanted)] for each in self._answers]):
                yield row

        return report._replace(columns=columns_over(report), rows=rows)


@asynccontextmanager
async def one_instant(pool: Pool) -> AsyncIterator[Connection]:
    """Rows, their total, a plot and how current they are, each read by a statement of its own: totals are brought up to
    date between two of these."""
    async with session(pool) as conn, conn.transaction(isolation="repeatable_read", readonly=True):
        yield conn
