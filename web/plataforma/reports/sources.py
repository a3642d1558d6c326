"""What a report is read from: all cells at once, as one table (readmodels/reports/over_cells.py)."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, TypeVar

from readmodels.reports.over_cells import CellRows, columns_over, oldest, read_cell, rows_over
from readmodels.reports.report import Freshness, Lend, MeanOver, Report, ReportQuery, Row, freshness
from runtime.postgres import session
from web.cells import CellPages
from web.plataforma.cells.ask import ask_cells

T = TypeVar("T")
FIELD: Final = "celulas"
ALL: Final = "todas"


class AllCells:
    """`away`: the names of those that did not answer; they are asked no more, and what is read is without them."""

    def __init__(self, cells: Sequence[CellPages]) -> None:
        self._cells = cells
        self.away: list[str] = []

    def report(self, report: Report, *, parts: bool = True) -> Report:
        """The report over them, whose rows borrow no connection of whoever asks. Without `parts` what is made anew
        from them stays empty, and each cell is asked once."""
        asked = report if parts else report._replace(remade=None)

        async def rows(_: Lend, wanted: ReportQuery) -> AsyncIterator[Row]:
            async def of_cell(cell: CellPages) -> CellRows:
                return await read_cell(asked, cell.name, lambda: session(cell.state.report_pool), wanted)

            for row in rows_over(report, await self._ask(of_cell)):
                yield row

        return report._replace(columns=columns_over(report), rows=rows)

    def totals(self, report: Report) -> Report:
        """For totals: of what is made anew they need the means."""
        return self.report(report, parts=any(isinstance(each.total, MeanOver) for each in report.columns))

    async def freshness(self) -> Freshness | None:
        async def of_cell(cell: CellPages) -> Freshness | None:
            async with session(cell.state.report_pool) as conn:
                return await freshness(conn)

        return oldest(await self._ask(of_cell))

    async def _ask(self, ask: Callable[[CellPages], Awaitable[T]]) -> list[T]:
        found = await ask_cells([each for each in self._cells if each.name not in self.away], ask)
        self.away += found.away
        return [answer for _, answer in found.answers]
