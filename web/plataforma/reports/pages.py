"""Reports, for the staff: each report of readmodels/reports/reports.py as a page and as a file, for production only."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, NamedTuple

from litestar.exceptions import NotFoundException
from litestar.response import Response, Stream

from domain.errors import Refused
from domain.instants import day_of
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
)
from readmodels.reports.reports import REPORTS
from runtime.postgres import session
from web.painel.lists import ListQuery
from web.painel.page_request import PAGE_HEADERS, PageRequest
from web.painel.xlsx_export import xlsx_file
from web.plataforma.cells.ask import CELLS_FIELD, is_over_cells
from web.plataforma.reports.account import FIELD, PickedAccount, find_account_in_cells, offered, pick
from web.plataforma.reports.figures import cells, compared, drawn, ends, heading, is_seen, plot_head
from web.plataforma.reports.sources import AllCells, one_instant

ROWS_MAX = 500
"""Rows on a page; the file has all rows."""
_FLUSH_BYTES = 64 * 1024
_SHEET_ROWS = 500
"""Rows written to a sheet at a time."""
_PARAMETERS = ("de", "ate", FIELD, "por")
BY = {By.DAY: "Por dia", By.MONTH: "Por mês", By.PERIOD: "O período inteiro"}


async def show_list(request: PageRequest) -> Response[Any]:
    async with session(request.report_pool) as conn:
        fresh = await freshness(conn)
    return request.show("plataforma/reports/list.html", {"reports": REPORTS.values(), "freshness": fresh})


async def show(request: PageRequest) -> Response[Any]:
    report = _requested_report(request)
    query = ListQuery(request.http, (*_PARAMETERS, CELLS_FIELD))
    if is_over_cells(request, query):
        return await _show_all_cells(request, report, query)
    async with one_instant(request.report_pool) as conn:
        picked = await pick(conn, query)
        report_query = _read_report_query(request, report, query, picked)
        names = await offered(conn)
        table_values = (
            {}
            if report_query is None
            else await _read_tables(_Tables(report, report, report), keeping(conn), report_query)
        )
        fresh = None if report.live else await freshness(conn)
    return _report_page(
        request, report, query, report_query, picked, {"names": names, "freshness": fresh, **table_values}
    )


async def _show_all_cells(request: PageRequest, report: Report, query: ListQuery) -> Response[Any]:
    """Answers the report over all cells as one table; a report about one account is read from the account's cell."""
    all_cells = AllCells(request.cells)
    picked = await find_account_in_cells(request.cells, query, all_cells.away)
    report_query = _read_report_query(request, report, query, picked)
    table_values: dict[str, Any] = {}
    if picked.cell is not None and report_query is not None and not report.spread:
        async with one_instant(picked.cell.state.report_pool) as conn:
            table_values = await _read_tables(_Tables(report, report, report), keeping(conn), report_query)
            table_values["freshness"] = None if report.live else await freshness(conn)
        return _report_page(request, report, query, report_query, picked, table_values)
    if report_query is not None:
        page = await all_cells.page(report, report_query)
        report = page.report
        table_values = await _read_tables(_Tables(report, page.totals, page.plot), _no_connection, report_query)
        table_values["freshness"] = page.freshness
    return _report_page(
        request, report, query, report_query, picked, {**table_values, "away": all_cells.away, "over": True}
    )


def _report_page(
    request: PageRequest,
    report: Report,
    query: ListQuery,
    report_query: ReportQuery | None,
    picked: PickedAccount,
    table_values: dict[str, Any],
) -> Response[Any]:
    columns = [each for each in report.columns if is_seen(each)]
    values = {
        "report": report,
        "asked": query,
        "wanted": report_query,
        "picked": picked,
        "before": before(report_query) if report_query and report.dated else None,
        "unfinished": report_query is not None and report.dated and report_query.last >= report_query.today,
        "rows_max": ROWS_MAX,
        "headings": [heading(each) for each in columns],
        "numbers": [each.kind.is_number for each in columns],
        "by": BY,
        "months": report.dated
        and report_query is not None
        and (report_query.last - report_query.first).days >= PLOTTED_DAYS_MAX,
        "file": f"/plataforma/relatorios/{report.name}/arquivo{_file_query(query, report_query)}",
        "sheet": f"/plataforma/relatorios/{report.name}/planilha{_file_query(query, report_query)}",
        **_EMPTY_VALUES,
    }
    return request.show("plataforma/reports/one.html", values | table_values, status=400 if query.faults else 200)


_EMPTY_VALUES: Final[dict[str, Any]] = {
    "rows": [], "more": False, "total": [], "compared": [], "plot": None,
    "names": [], "freshness": None, "away": [], "over": False,
}  # fmt: skip


class _Tables(NamedTuple):
    """The reports to read the rows from, their total, and a plot of them."""

    report: Report
    totals: Report
    plot: Report


async def _read_tables(tables: _Tables, lend: Lend, report_query: ReportQuery) -> dict[str, Any]:
    """Reads the rows that a page has room for, their total beside the previous period's, and a plot."""
    rows: list[Row] = []
    more = False
    report = tables.report
    async for row in report.rows(lend, report_query):
        if len(rows) == ROWS_MAX:
            more = True
            break
        rows.append(row)
    if report.dated:
        points = await plotted(tables.plot, lend, report_query)
        total = await whole(tables.totals, lend, report_query)
        earlier = await whole(tables.totals, lend, before(report_query))
    else:
        # A report of the present has no earlier period: its total is over the rows that were read.
        points, total, earlier = named(report, rows), total_of(report.columns, rows), None
    plot = drawn(report, points, today=report_query.today) if points else None
    return {
        "rows": [cells(report, row) for row in rows],
        "more": more,
        "total": cells(report, total) if rows else [],
        "compared": compared(report, total, earlier),
        "plot": plot,
        "plot_head": plot_head(report, points) if plot else None,
        "plot_ends": ends(points) if plot else None,
    }


async def download(request: PageRequest) -> Response[Any]:
    """Answers all rows as CSV, read while the file is sent: the process holds a page of rows at a time, and no
    connection while the browser reads slowly."""
    file = await _requested_file(request)
    headers = {**PAGE_HEADERS, "Content-Disposition": file.disposition("csv")}
    return Stream(_lines(file.lend, file.report, file.report_query), media_type=CONTENT_TYPE, headers=headers)


async def download_sheet(request: PageRequest) -> Response[Any]:
    """Answers all rows as an Excel sheet, in which amounts are numbers."""
    file = await _requested_file(request)
    columns = {each.heading: _field_of(at) for at, each in enumerate(file.report.columns)}
    return await xlsx_file(file.disposition("xlsx"), columns, _batches(file))


class _File(NamedTuple):
    """A report asked for as a file; `name` is the file's name without its extension."""

    report: Report
    report_query: ReportQuery
    lend: Lend
    name: str

    def disposition(self, kind: str) -> str:
        return f'attachment; filename="{self.name}.{kind}"'


async def _requested_file(request: PageRequest) -> _File:
    """Reads which file is asked for. Over all cells, the rows are read and added up first, and the file's name says
    which cells are missing."""
    report = _requested_report(request)
    query = ListQuery(request.http, (*_PARAMETERS, CELLS_FIELD))
    if is_over_cells(request, query):
        all_cells = AllCells(request.cells)
        picked = await find_account_in_cells(request.cells, query, all_cells.away)
    else:
        all_cells = None
        async with session(request.report_pool) as conn:
            picked = await pick(conn, query)
    report_query = _read_report_query(request, report, query, picked)
    if report_query is None or query.faults:
        raise NotFoundException
    account, missing_suffix = "todas" if report_query.account_id is None else str(report_query.account_id)[:8], ""
    if all_cells is not None and (picked.account is None or report.spread):
        report = await _read_ahead(all_cells.report(report), report_query)
        missing_suffix = f"-sem-{'-'.join(all_cells.away)}" if all_cells.away else ""
    all_cells_suffix = "-as-celulas" if all_cells is not None and picked.account is None else ""
    pool = request.report_pool if picked.cell is None else picked.cell.state.report_pool
    name = f"{report.name}-{report_query.first}-{report_query.last}-{account}{all_cells_suffix}{missing_suffix}"
    return _File(report, report_query, lambda: session(pool), name)


def _field_of(at: int) -> Callable[[Sequence[Field]], Field]:
    return lambda fields: fields[at]


async def _batches(file: _File) -> AsyncIterator[Sequence[Sequence[Field]]]:
    block: list[Sequence[Field]] = []
    async for row in file.report.rows(file.lend, file.report_query):
        block.append(as_csv(file.report, row))
        if len(block) >= _SHEET_ROWS:
            yield block
            block = []
    yield block


async def _read_ahead(report: Report, report_query: ReportQuery) -> Report:
    """Returns the report with its rows already read."""
    rows_read = [row async for row in report.rows(_no_connection, report_query)]

    async def rows(_: Lend, __: ReportQuery) -> AsyncIterator[Row]:
        for row in rows_read:
            yield row

    return report._replace(rows=rows)


def _no_connection() -> Any:
    raise AssertionError("a report over all cells borrows connections of its own")


async def _lines(lend: Lend, report: Report, report_query: ReportQuery) -> AsyncIterator[bytes]:
    block = bytearray(BOM + csv_line([each.heading for each in report.columns]))
    async for row in report.rows(lend, report_query):
        block += csv_line(as_csv(report, row))
        if len(block) >= _FLUSH_BYTES:
            yield bytes(block)
            block.clear()
    yield bytes(block)


def _requested_report(request: PageRequest) -> Report:
    report = REPORTS.get(request.text_of_path("name"))
    if report is None:
        raise NotFoundException
    return report


def _read_report_query(
    request: PageRequest, report: Report, query: ListQuery, picked: PickedAccount
) -> ReportQuery | None:
    """Returns the query; None when it is faulty or its account is not named yet. Faults are set beside the fields."""
    first, last = read_days(query, "de", "ate")
    by = By(read_choice(query, "por", list(BY)) or report.by)
    if query.faults:
        return None
    account_id = None if picked.account is None else picked.account.id
    if report.of_one_account and account_id is None:
        if query.filtered:
            query.faults[FIELD] = "Este relatório é de uma loja: diga qual."
        return None
    try:
        return ask(report, today=day_of(request.now), first=first, last=last, account_id=account_id, by=by)
    except Refused:
        query.faults["ate"] = f"O período termina antes de começar, ou passa de {days_max(report)} dias."
        return None


def _file_query(query: ListQuery, report_query: ReportQuery | None) -> str:
    """Returns the file's query string, with the account by its id: a name may be another account's tomorrow."""
    return query.link_with(FIELD, str(report_query.account_id) if report_query and report_query.account_id else "")
