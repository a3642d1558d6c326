"""Reads a report from all cells as one table (readmodels/reports/over_cells.py)."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar

from readmodels.reports.compare import bar_query, before, once
from readmodels.reports.over_cells import CellRows, columns_of_cells, merge_rows_of_cells, oldest, read_cell
from readmodels.reports.report import Freshness, Lend, MeanOver, Report, ReportQuery, Row, freshness, keeping
from runtime.postgres import Pool, session
from sql import Connection
from web.cells import CellPages
from web.plataforma.cells.ask import ask_cells

T = TypeVar("T")


class AllCells:
    """All cells as the source of a report. `away` has the names of cells that did not answer: they are not asked again,
    and what is read is without them."""

    def __init__(self, cells: Sequence[CellPages]) -> None:
        self._cells = cells
        self.away: list[str] = []

    def report(self, report: Report) -> Report:
        """Returns the report over all cells; its rows use connections of the cells and ignore the caller's."""

        async def rows(_: Lend, report_query: ReportQuery) -> AsyncIterator[Row]:
            async def read_cell_rows(cell: CellPages) -> CellRows:
                return await read_cell(report, cell.name, lambda: session(cell.state.report_pool), report_query)

            for row in merge_rows_of_cells(report, await self._ask_reachable(read_cell_rows)):
                yield row

        return report._replace(columns=columns_of_cells(report), rows=rows)

    async def page(self, report: Report, report_query: ReportQuery) -> "PageOfCells":
        """Reads all that a page shows. Each cell is read at one instant, so that rows add up to their total."""
        queries = [_CellQuery(report.remade is not None, report_query)]
        if report.dated:
            # Recomputed columns (`remade`) are not plotted, and totals need their parts for means only.
            means = any(isinstance(each.total, MeanOver) for each in report.columns)
            queries += [_CellQuery(False, bar_query(report, report_query))]
            queries += [_CellQuery(means, once(report_query)), _CellQuery(means, once(before(report_query)))]

        async def answer_page(cell: CellPages) -> _CellAnswer:
            async with one_instant(cell.state.report_pool) as conn:
                rows_by_query = {}
                for each in queries:
                    cell_report = report if each.parts else report._replace(remade=None)
                    rows_by_query[each] = await read_cell(cell_report, cell.name, keeping(conn), each.query)
                return _CellAnswer(rows_by_query, None if report.live else await freshness(conn))

        return PageOfCells(report, queries[0].parts, queries[-1].parts, await self._ask_reachable(answer_page))

    async def _ask_reachable(self, ask: Callable[[CellPages], Awaitable[T]]) -> list[T]:
        outcome = await ask_cells([each for each in self._cells if each.name not in self.away], ask)
        self.away += outcome.away
        return [answer for _, answer in outcome.answers]


class _CellQuery(NamedTuple):
    """A query, with or without the parts from which columns are recomputed (`remade`)."""

    parts: bool
    query: ReportQuery


class _CellAnswer(NamedTuple):
    rows_by_query: Mapping[_CellQuery, CellRows]
    fresh: Freshness | None


class PageOfCells:
    """The answers of all cells for one page: the report for its rows, for their total and for a plot of them."""

    def __init__(self, report: Report, parts: bool, means: bool, answers: Sequence[_CellAnswer]) -> None:
        self._answers = answers
        self.report = self._report_over(report, parts=parts)
        self.totals = self._report_over(report, parts=means)
        self.plot = self._report_over(report, parts=False)
        self.freshness = None if report.live else oldest([each.fresh for each in answers])

    def _report_over(self, report: Report, *, parts: bool) -> Report:
        async def rows(_: Lend, report_query: ReportQuery) -> AsyncIterator[Row]:
            for row in merge_rows_of_cells(
                report, [each.rows_by_query[_CellQuery(parts, report_query)] for each in self._answers]
            ):
                yield row

        return report._replace(columns=columns_of_cells(report), rows=rows)


@asynccontextmanager
async def one_instant(pool: Pool) -> AsyncIterator[Connection]:
    """Lends a connection whose statements all see one instant. A page reads rows, total, plot and freshness by separate
    statements, and the reports' totals may be updated between two of these."""
    async with session(pool) as conn, conn.transaction(isolation="repeatable_read", readonly=True):
        yield conn
