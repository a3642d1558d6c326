"""Reports, for the staff: each report of readmodels/reports/reports.py as a page and as a file, for production only."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, NamedTuple

from litestar.exceptions import NotFoundException
from litestar.response import Response, Stream

from domain.errors import Refused
from readmodels.filters import read_choice, read_days
from readmodels.reports.compare import (
    PLOTTED_DAYS_MAX,
    before,
    named,
    plotted,
    total_of,
    whole,
)
from readmodels.reports.csv_lines import BOM, CONTENT_TYPE, Field, csv_line
from readmodels.reports.report import (
    By,
    Lend,
    Report,
    ReportQuery,
    Row,
    as_csv,
    ask,
    days_max,
    freshness,
    keeping,
    today_at,
)
from readmodels.reports.reports import REPORTS
from runtime.postgres import session
from web.painel.lists import ListQuery
from web.painel.page_request import PAGE_HEADERS, PageRequest
from web.painel.xlsx_export import xlsx_file
from web.plataforma.cells.ask import CELLS_FIELD, is_over_cells
from web.plataforma.reports.account import FIELD, Picked, offered, pick, pick_over
from web.plataforma.reports.figures import cells, compared, drawn, ends, heading, is_seen, plot_head
from web.plataforma.reports.sources import AllCells, one_instant

ROWS_MAX = 500
"""Rows on a page; the file has all rows."""
_FLUSH_BYTES = 64 * 1024
_SHEET_ROWS = 500
"""Rows written to a sheet at a time."""
_NAMES = ("de", "ate", FIELD, "por")
BY = {By.DAY: "Por dia", By.MONTH: "Por mês", By.PERIOD: "O período inteiro"}


async def show_list(request: PageRequest) -> Response[Any]:
    async with session(request.report_pool) as conn:
        fresh = await freshness(conn)
    return request.show("plataforma/reports/list.html", {"reports": REPORTS.values(), "freshness": fresh})


async def show(request: PageRequest) -> Response[Any]:
    report = _report(request)
    asked = ListQuery(request.http, (*_NAMES, CELLS_FIELD))
    if is_over_cells(request, asked):
        return await _show_over(request, report, asked)
    async with one_instant(request.report_pool) as conn:
        picked = await pick(conn, asked)
        wanted = _wanted(request, report, asked, picked)
        names = await offered(conn)
        found = {} if wanted is None else await _read(_Tables(report, report, report), keeping(conn), wanted)
        fresh = None if report.live else await freshness(conn)
    return _shown(request, report, asked, wanted, picked, {"names": names, "freshness": fresh, **found})


async def _show_over(request: PageRequest, report: Report, asked: ListQuery) -> Response[Any]:
    """Answers the report over all cells as one table; a report about one account is read from the account's cell."""
    cells = AllCells(request.cells)
    picked = await pick_over(request.cells, asked, cells.away)
    wanted = _wanted(request, report, asked, picked)
    found: dict[str, Any] = {}
    if picked.cell is not None and wanted is not None and not report.spread:
        async with one_instant(picked.cell.state.report_pool) as conn:
            found = await _read(_Tables(report, report, report), keeping(conn), wanted)
            found["freshness"] = None if report.live else await freshness(conn)
        return _shown(request, report, asked, wanted, picked, found)
    if wanted is not None:
        page = await cells.page(report, wanted)
        report = page.report
        found = await _read(_Tables(report, page.totals, page.plot), _no_connection, wanted)
        found["freshness"] = page.freshness
    return _shown(request, report, asked, wanted, picked, {**found, "away": cells.away, "over": True})


def _shown(
    request: PageRequest,
    report: Report,
    asked: ListQuery,
    wanted: ReportQuery | None,
    picked: Picked,
    found: dict[str, Any],
) -> Response[Any]:
    columns = [each for each in report.columns if is_seen(each)]
    values = {
        "report": report,
        "asked": asked,
        "wanted": wanted,
        "picked": picked,
        "before": before(wanted) if wanted and report.dated else None,
        "unfinished": wanted is not None and report.dated and wanted.last >= wanted.today,
        "rows_max": ROWS_MAX,
        "headings": [heading(each) for each in columns],
        "numbers": [each.kind.is_number for each in columns],
        "by": BY,
        "months": report.dated and wanted is not None and (wanted.last - wanted.first).days >= PLOTTED_DAYS_MAX,
        "file": f"/plataforma/relatorios/{report.name}/arquivo{_file_query(asked, wanted)}",
        "sheet": f"/plataforma/relatorios/{report.name}/planilha{_file_query(asked, wanted)}",
        **_NOTHING,
    }
    return request.show("plataforma/reports/one.html", values | found, status=400 if asked.faults else 200)


_NOTHING: Final[dict[str, Any]] = {
    "rows": [], "more": False, "total": [], "compared": [], "plot": None,
    "names": [], "freshness": None, "away": [], "over": False,
}  # fmt: skip


class _Tables(NamedTuple):
    """The reports to read the rows from, their total, and a plot of them."""

    report: Report
    totals: Report
    plot: Report


async def _read(of: _Tables, lend: Lend, wanted: ReportQuery) -> dict[str, Any]:
    """Reads the rows that a page has room for, their total beside the previous period's, and a plot."""
    kept: list[Row] = []
    more = False
    report = of.report
    async for row in report.rows(lend, wanted):
        if len(kept) == ROWS_MAX:
            more = True
            break
        kept.append(row)
    if report.dated:
        points = await plotted(of.plot, lend, wanted)
        total = await whole(of.totals, lend, wanted)
        earlier = await whole(of.totals, lend, before(wanted))
    else:
        # A report of the present has no earlier period: its total is over the rows that were read.
        points, total, earlier = named(report, kept), total_of(report.columns, kept), None
    plot = drawn(report, points, today=wanted.today) if points else None
    return {
        "rows": [cells(report, row) for row in kept],
        "more": more,
        "total": cells(report, total) if kept else [],
        "compared": compared(report, total, earlier),
        "plot": plot,
        "plot_head": plot_head(report, points) if plot else None,
        "plot_ends": ends(points) if plot else None,
    }


async def download(request: PageRequest) -> Response[Any]:
    """Answers all rows as CSV, read while the file is sent: the process holds a page of rows at a time, and no
    connection while the browser reads slowly."""
    file = await _file(request)
    headers = {**PAGE_HEADERS, "Content-Disposition": file.named("csv")}
    return Stream(_lines(file.lend, file.report, file.wanted), media_type=CONTENT_TYPE, headers=headers)


async def download_sheet(request: PageRequest) -> Response[Any]:
    """Answers all rows as an Excel sheet, in which amounts are numbers."""
    file = await _file(request)
    columns = {each.heading: _field_of(at) for at, each in enumerate(file.report.columns)}
    return await xlsx_file(file.named("xlsx"), columns, _batches(file))


class _File(NamedTuple):
    """A report asked for as a file; `name` is the file's name without its extension."""

    report: Report
    wanted: ReportQuery
    lend: Lend
    name: str

    def named(self, kind: str) -> str:
        return f'attachment; filename="{self.name}.{kind}"'


async def _file(request: PageRequest) -> _File:
    """Reads which file is asked for. Over all cells, the rows are read and added up first, and the file's name says
    which cells are missing."""
    report = _report(request)
    asked = ListQuery(request.http, (*_NAMES, CELLS_FIELD))
    if is_over_cells(request, asked):
        all_cells = AllCells(request.cells)
        picked = await pick_over(request.cells, asked, all_cells.away)
    else:
        all_cells = None
        async with session(request.report_pool) as conn:
            picked = await pick(conn, asked)
    wanted = _wanted(request, report, asked, picked)
    if wanted is None or asked.faults:
        raise NotFoundException
    account, missing = "todas" if wanted.account_id is None else str(wanted.account_id)[:8], ""
    if all_cells is not None and (picked.account is None or report.spread):
        report = await _gathered(all_cells.report(report), wanted)
        missing = f"-sem-{'-'.join(all_cells.away)}" if all_cells.away else ""
    every = "-as-celulas" if all_cells is not None and picked.account is None else ""
    pool = request.report_pool if picked.cell is None else picked.cell.state.report_pool
    name = f"{report.name}-{wanted.first}-{wanted.last}-{account}{every}{missing}"
    return _File(report, wanted, lambda: session(pool), name)


def _field_of(at: int) -> Callable[[Sequence[Field]], Field]:
    return lambda fields: fields[at]


async def _batches(file: _File) -> AsyncIterator[Sequence[Sequence[Field]]]:
    block: list[Sequence[Field]] = []
    async for row in file.report.rows(file.lend, file.wanted):
        block.append(as_csv(file.report, row))
        if len(block) >= _SHEET_ROWS:
            yield block
            block = []
    yield block


async def _gathered(report: Report, wanted: ReportQuery) -> Report:
    """Returns the report with its rows already read."""
    found = [row async for row in report.rows(_no_connection, wanted)]

    async def rows(_: Lend, __: ReportQuery) -> AsyncIterator[Row]:
        for row in found:
            yield row

    return report._replace(rows=rows)


def _no_connection() -> Any:
    raise AssertionError("a report over all cells borrows connections of its own")


async def _lines(lend: Lend, report: Report, wanted: ReportQuery) -> AsyncIterator[bytes]:
    block = bytearray(BOM + csv_line([each.heading for each in report.columns]))
    async for row in report.rows(lend, wanted):
        block += csv_line(as_csv(report, row))
        if len(block) >= _FLUSH_BYTES:
            yield bytes(block)
            block.clear()
    yield bytes(block)


def _report(request: PageRequest) -> Report:
    found = REPORTS.get(request.text_of_path("name"))
    if found is None:
        raise NotFoundException
    return found


def _wanted(request: PageRequest, report: Report, asked: ListQuery, picked: Picked) -> ReportQuery | None:
    """Returns the query; None when it is faulty or its account is not named yet. Faults are set beside the fields."""
    first, last = read_days(asked, "de", "ate")
    by = By(read_choice(asked, "por", list(BY)) or report.by)
    if asked.faults:
        return None
    account_id = None if picked.account is None else picked.account.id
    if report.of_one_account and account_id is None:
        if asked.filtered:
            asked.faults[FIELD] = "Este relatório é de uma loja: diga qual."
        return None
    try:
        return ask(report, today=today_at(request.now), first=first, last=last, account_id=account_id, by=by)
    except Refused:
        asked.faults["ate"] = f"O período termina antes de começar, ou passa de {days_max(report)} dias."
        return None


def _file_query(asked: ListQuery, wanted: ReportQuery | None) -> str:
    """Returns the file's query string, with the account by its id: a name may be another account's tomorrow."""
    return asked.link_with(FIELD, str(wanted.account_id) if wanted and wanted.account_id else "")
