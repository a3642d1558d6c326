"""Reports, for the staff: every one of readmodels/reports/reports.py as a page and as a file, over production only."""

from collections.abc import AsyncIterator
from datetime import date, datetime
from typing import Any

from litestar.exceptions import NotFoundException
from litestar.response import Response, Stream

from domain.brazilian import brl, day, moment
from domain.errors import Refused
from readmodels.filters import read_choice, read_days, read_id
from readmodels.reports.csv_lines import BOM, CONTENT_TYPE, csv_line
from readmodels.reports.report import (
    By,
    Column,
    ColumnKind,
    Report,
    ReportQuery,
    as_csv,
    ask,
    freshness,
    keeping,
    today_at,
)
from readmodels.reports.reports import REPORTS
from runtime.postgres import session
from web.painel.lists import ListQuery
from web.painel.page_request import PAGE_HEADERS, PageRequest
from web.plataforma.labels import CELLS

ROWS_MAX = 500
"""On a page; the file has all of them."""
_FLUSH_BYTES = 64 * 1024
BY = {By.DAY: "Por dia", By.MONTH: "Por mês", By.PERIOD: "O período inteiro"}


async def show_list(request: PageRequest) -> Response[Any]:
    async with session(request.report_pool) as conn:
        fresh = await freshness(conn)
    return request.show("plataforma/reports.html", {"reports": REPORTS.values(), "freshness": fresh})


async def show(request: PageRequest) -> Response[Any]:
    report = _report(request)
    asked, wanted = _asked(request, report)
    columns = [each for each in report.columns if _seen(each)]
    rows: list[list[str]] = []
    more = False
    async with session(request.report_pool) as conn:
        if wanted is not None:
            async for row in report.rows(keeping(conn), wanted):
                if len(rows) == ROWS_MAX:
                    more = True
                    break
                rows.append(
                    [_shown(column, value) for column, value in zip(report.columns, row, strict=True) if _seen(column)]
                )
        fresh = None if report.live else await freshness(conn)
    values = {
        "report": report,
        "asked": asked,
        "wanted": wanted,
        "rows": rows,
        "more": more,
        "rows_max": ROWS_MAX,
        "columns": columns,
        "numbers": [each.kind in (ColumnKind.MONEY, ColumnKind.COUNT, ColumnKind.RATIO) for each in columns],
        "freshness": fresh,
        "by": BY,
        "file": f"/plataforma/relatorios/{report.name}/arquivo{asked.link()}",
    }
    return request.show("plataforma/report.html", values, status=400 if asked.faults else 200)


async def download(request: PageRequest) -> Response[Any]:
    """The same rows, all of them, as CSV. It is read while it is sent: a page of rows at a time is held, and no
    connection while the browser takes its time."""
    report = _report(request)
    asked, wanted = _asked(request, report)
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


def _asked(request: PageRequest, report: Report) -> tuple[ListQuery, ReportQuery | None]:
    """The form's fields, and what is asked for; None where that cannot be reported (yet)."""
    asked = ListQuery(request.http, ("de", "ate", "conta", "por"))
    first, last = read_days(asked, "de", "ate")
    account_id = read_id(asked, "conta")
    by = By(read_choice(asked, "por", list(BY)) or By.DAY)
    if asked.faults:
        return asked, None
    if report.of_one_account and account_id is None:
        if asked.filtered:
            asked.faults["conta"] = "Este relatório é de uma conta: informe o account_id."
        return asked, None
    try:
        return asked, ask(report, today=today_at(request.now), first=first, last=last, account_id=account_id, by=by)
    except Refused:
        asked.faults["ate"] = "O período termina antes de começar, ou é longo demais."
        return asked, None


def _seen(column: Column) -> bool:
    """A code that stands beside its words is for programs: it is in the file and not on the page."""
    return column.name != "bucket"


def _shown(column: Column, value: date | datetime | str | int | None) -> str:
    match column.kind, value:
        case _, None:
            return ""
        case ColumnKind.MONEY, int():
            return f"−{brl(-value)}" if value < 0 else brl(value)
        case ColumnKind.RATIO, int():
            return f"{value // 100},{value % 100:02}"
        case ColumnKind.INSTANT, datetime():
            return moment(value)
        case ColumnKind.DATE, date():
            return day(value)
        case ColumnKind.COUNT, int():
            return f"{value:,}".replace(",", ".")
        case _:
            return CELLS.get(column.name, {}).get(str(value), str(value))
