"""Reports, for the staff: every one of readmodels/reports/reports.py as a page and as a file, over production only."""

from collections.abc import AsyncIterator
from typing import Any, Final

from litestar.exceptions import NotFoundException
from litestar.response import Response, Stream

from domain.errors import Refused
from readmodels.filters import read_choice, read_days
from readmodels.reports.compare import (
    PLOTTED_DAYS_MAX,
    before,
    compares,
    named,
    plotted,
    total_of,
    whole,
)
from readmodels.reports.csv_lines import BOM, CONTENT_TYPE, csv_line
from readmodels.reports.report import (
    By,
    Report,
    ReportQuery,
    Row,
    as_csv,
    ask,
    freshness,
    keeping,
    today_at,
)
from readmodels.reports.reports import REPORTS
from runtime.postgres import session
from sql import Connection
from web.painel.lists import ListQuery
from web.painel.page_request import PAGE_HEADERS, PageRequest
from web.plataforma.reports.account import FIELD, Picked, offered, pick
from web.plataforma.reports.figures import cells, compared, drawn, ends, is_number, is_seen, plot_head

ROWS_MAX = 500
"""On a page; the file has all of them."""
_FLUSH_BYTES = 64 * 1024
BY = {By.DAY: "Por dia", By.MONTH: "Por mês", By.PERIOD: "O período inteiro"}


async def show_list(request: PageRequest) -> Response[Any]:
    async with session(request.report_pool) as conn:
        fresh = await freshness(conn)
    return request.show("plataforma/reports/list.html", {"reports": REPORTS.values(), "freshness": fresh})


async def show(request: PageRequest) -> Response[Any]:
    report = _report(request)
    async with session(request.report_pool) as conn:
        asked, wanted, picked = await _asked(request, conn, report)
        names = await offered(conn)
        found = _NOTHING if wanted is None else await _read(conn, report, wanted)
        fresh = None if report.live else await freshness(conn)
    columns = [each for each in report.columns if is_seen(each)]
    values = {
        "report": report,
        "asked": asked,
        "wanted": wanted,
        "picked": picked,
        "names": names,
        "before": before(wanted) if wanted and compares(report) else None,
        "unfinished": wanted is not None and report.dated and wanted.last >= wanted.today,
        "rows_max": ROWS_MAX,
        "columns": columns,
        "numbers": [is_number(each) for each in columns],
        "freshness": fresh,
        "by": BY,
        "months": report.dated and wanted is not None and (wanted.last - wanted.first).days >= PLOTTED_DAYS_MAX,
        "file": f"/plataforma/relatorios/{report.name}/arquivo{_file_query(asked, wanted)}",
    }
    return request.show("plataforma/reports/one.html", values | found, status=400 if asked.faults else 200)


_NOTHING: Final[dict[str, Any]] = {"rows": [], "more": False, "total": [], "compared": [], "plot": None}


async def _read(conn: Connection, report: Report, wanted: ReportQuery) -> dict[str, Any]:
    """The rows that a page has room for, their total beside that of the period before, and a plot."""
    kept: list[Row] = []
    more = False
    async for row in report.rows(keeping(conn), wanted):
        if len(kept) == ROWS_MAX:
            more = True
            break
        kept.append(row)
    if report.dated:
        points = await plotted(report, conn, wanted)
        total = await whole(report, conn, wanted)
        earlier = await whole(report, conn, before(wanted)) if compares(report) else None
    else:
        # Of now: what is shown is all there is, or as much of it as is read.
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
    """The same rows, all of them, as CSV. It is read while it is sent: a page of rows at a time is held, and no
    connection while the browser takes its time."""
    report = _report(request)
    async with session(request.report_pool) as conn:
        asked, wanted, _ = await _asked(request, conn, report)
    if wanted is None or asked.faults:
        raise NotFoundException
    account = "todas" if wanted.account_id is None else str(wanted.account_id)[:8]
    name = f"{report.name}-{wanted.first}-{wanted.last}-{account}.csv"
    headers = {**PAGE_HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return Stream(_lines(request, report, wanted), media_type=CONTENT_TYPE, headers=headers)


async def _lines(request: PageRequest, report: Report, wanted: ReportQuery) -> AsyncIterator[bytes]:
    block = bytearray(BOM + csv_line([each.heading for each in report.columns]))
    async for row in report.rows(lambda: session(request.report_pool), wanted):
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


async def _asked(
    request: PageRequest, conn: Connection, report: Report
) -> tuple[ListQuery, ReportQuery | None, Picked]:
    """The form's fields, what is asked for, and of which account; None where that cannot be reported (yet)."""
    asked = ListQuery(request.http, ("de", "ate", FIELD, "por"))
    first, last = read_days(asked, "de", "ate")
    by = By(read_choice(asked, "por", list(BY)) or By.DAY)
    picked = await pick(conn, asked)
    if asked.faults:
        return asked, None, picked
    account_id = None if picked.account is None else picked.account.id
    if report.of_one_account and account_id is None:
        if asked.filtered:
            asked.faults[FIELD] = "Este relatório é de uma loja: diga qual."
        return asked, None, picked
    try:
        wanted = ask(report, today=today_at(request.now), first=first, last=last, account_id=account_id, by=by)
    except Refused:
        asked.faults["ate"] = "O período termina antes de começar, ou é longo demais."
        return asked, None, picked
    return asked, wanted, picked


def _file_query(asked: ListQuery, wanted: ReportQuery | None) -> str:
    """The account by its id: a name may be another's tomorrow."""
    return asked.link_with(FIELD, str(wanted.account_id) if wanted and wanted.account_id else "")
