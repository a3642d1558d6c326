"""Reports for the merchant, as pages and files: conversion, unpaid boletos by due date, the closing of each month."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import date
from typing import Any, Final

from litestar.response import Response
from msgspec import Struct

from domain.brazilian import day, signed_brl, thousands
from domain.errors import Refused
from domain.instants import day_of
from readmodels.filters import read_choice, read_days
from readmodels.reports.csv_lines import BasisPoints, Cents, Field
from readmodels.reports.merchant import CohortOutcome, SettledMonth, ages, first_day, outcomes, settled_months
from readmodels.reports.report import By, ReportQuery, ask
from readmodels.reports.reports import REPORTS
from sql import Connection
from web.painel.charges.charge_list import settle
from web.painel.csv_export import FileAnswer, csv_answer
from web.painel.lists import ListQuery
from web.painel.page_request import PageRequest
from web.painel.totals import totals_in_time
from web.painel.xlsx_export import xlsx_answer

BY: Final = {By.DAY: "Por dia", By.MONTH: "Por mês"}
Line = Sequence[Field]


Read = Callable[[Connection, PageRequest, ReportQuery], Awaitable[Sequence[Line]]]


class Sheet(Struct, frozen=True):
    """A report. `columns` maps each heading of the file, which never changes, to the heading on the page. `summed`: the
    last line is the total. `dated`: the report covers the days asked for."""

    path: str
    title: str
    about: str
    columns: dict[str, str]
    read: Read
    dated: bool = False
    summed: bool = False

    async def show(self, request: PageRequest) -> Response[Any]:
        query, report_query = _read_query(request, self)
        lines = None
        if report_query is not None:
            await settle(request)  # so that a report of charges agrees with their list
            lines = await totals_in_time(request, lambda conn: self.read(conn, request, report_query))
        values = {
            "sheet": self,
            "asked": query,
            "wanted": report_query,
            "lines": None if lines is None else [[shown(each, report_query) for each in line] for line in lines],
            "numbers": [
                bool(lines) and not isinstance((lines or [[]])[0][at], date | str) for at in range(len(self.columns))
            ],
            "by": BY,
        }
        return request.show("report.html", values, status=400 if query.faults else 200)

    async def csv(self, request: PageRequest) -> Response[Any]:
        return await self._answer_file(request, csv_answer)

    async def xlsx(self, request: PageRequest) -> Response[Any]:
        return await self._answer_file(request, xlsx_answer)

    async def _answer_file(self, request: PageRequest, answer: FileAnswer) -> Response[Any]:
        query, report_query = _read_query(request, self)
        if report_query is None:
            return request.go(request.here(self.path) + query.link())
        request.spend("files_per_min")
        await settle(request)  # so that a report of charges agrees with their list
        lines = await request.reads.ask(lambda conn: self.read(conn, request, report_query))
        columns = {name: (lambda line, at=at: line[at]) for at, name in enumerate(self.columns)}
        return await answer(request, self.path.rpartition("/")[2], columns, _single_page(lines))


async def _single_page(lines: Sequence[Line]) -> AsyncIterator[Sequence[Line]]:
    yield lines


async def show_list(request: PageRequest) -> Response[Any]:
    sheets = [each for each in SHEETS if request.may(f"GET {request.here(each.path)}")]
    closings = request.may(f"GET {request.here('/extrato/dias')}")
    return request.show("reports.html", {"sheets": sheets, "closings": closings})


def shown(value: Field, query: ReportQuery | None = None) -> str:
    match value:
        case None:
            return ""
        case Cents():
            return signed_brl(value)
        case BasisPoints():
            return f"{value // 100},{value % 100:02}%"
        case date():
            return f"{value.month:02}/{value.year}" if query is not None and query.by is By.MONTH else day(value)
        case int():
            return thousands(value)
        case _:
            return str(value)


def _read_query(request: PageRequest, sheet: Sheet) -> tuple[ListQuery, ReportQuery | None]:
    """Returns the parameters and the query; None instead of the query when a parameter cannot be read."""
    query = ListQuery(request.http, ("de", "ate", "por") if sheet.dated else ())
    today = day_of(request.account_now)
    first, last = read_days(query, "de", "ate")
    by = By(read_choice(query, "por", list(BY)) or By.DAY) if sheet.dated else By.MONTH
    if query.faults:
        return query, None
    try:
        return query, ask(REPORTS["conversion"], today=today, first=first, last=last, by=by)
    except Refused:
        query.faults["ate"] = "O período termina antes de começar, ou passa de dois anos."
        return query, None


async def _conversion_lines(conn: Connection, request: PageRequest, report_query: ReportQuery) -> Sequence[Line]:
    rows = await outcomes(conn, request.owner, report_query.first, report_query.last, report_query.by)
    if not rows:
        return []
    names = ("issued", "issued_cents", "paid", "paid_cents", "open", "expired", "cancelled", "failed")
    total = CohortOutcome(report_query.first, *(sum(getattr(row, name) for row in rows) for name in names))
    lines: list[Line] = [(row.day, *_outcome_fields(row)) for row in rows]
    return [*lines, ("Total", *_outcome_fields(total))]


def _outcome_fields(row: CohortOutcome) -> Line:
    return (
        row.issued, Cents(row.issued_cents), row.paid, Cents(row.paid_cents), BasisPoints(row.conversion), row.open,
        row.expired, row.cancelled, row.failed,
    )  # fmt: skip


async def _age_lines(conn: Connection, request: PageRequest, report_query: ReportQuery) -> Sequence[Line]:
    return [
        (each.label, each.boletos, Cents(each.cents)) for each in await ages(conn, request.owner, report_query.today)
    ]


async def _month_lines(conn: Connection, request: PageRequest, report_query: ReportQuery) -> Sequence[Line]:
    first = await first_day(conn, request.owner)
    rows = await settled_months(conn, request.owner.account_id, min(first, report_query.today), report_query.today)
    return [_month_line(row) for row in rows]


def _month_line(row: SettledMonth) -> Line:
    def moved(*types: str) -> Cents:
        return Cents(sum(row.moved.get(each, 0) for each in types))

    return (
        row.month, row.lines, Cents(row.opening_cents), moved("payment"), moved("refund", "refund_reversal"),
        moved("withdrawal", "withdrawal_reversal"), moved("fee"), moved("payment", "fee"), moved("partner_share"),
        moved("adjustment"), Cents(row.closing_cents),
        "confere" if row.off_cents == 0 else f"difere em {shown(Cents(row.off_cents))}",
    )  # fmt: skip


CONVERSION: Final = Sheet(
    path="/relatorios/conversao",
    title="Conversão",
    about="Das cobranças emitidas em cada dia ou mês, quantas foram pagas, venceram ou foram canceladas até agora. "
    "As devolvidas contam como pagas.",
    columns={
        "dia": "Emitidas em", "emitidas": "Emitidas", "valor_emitido": "Valor emitido", "pagas": "Pagas",
        "valor_pago": "Valor pago", "conversao": "Conversão", "em_aberto": "Em aberto", "vencidas": "Vencidas",
        "canceladas": "Canceladas", "nao_concluidas": "Não concluídas",
    },
    read=_conversion_lines,
    dated=True,
    summed=True,
)  # fmt: skip
AGES: Final = Sheet(
    path="/relatorios/vencimentos",
    title="Boletos por vencimento",
    about="Boletos em aberto pelos dias que faltam, e vencidos sem pagamento pelos dias que passaram. "
    "Cobranças Pix não têm vencimento e não entram.",
    columns={"faixa": "Faixa", "boletos": "Boletos", "valor": "Valor"},
    read=_age_lines,
)
MONTHS: Final = Sheet(
    path="/relatorios/meses",
    title="Fechamento por mês",
    about="O que entrou e saiu em cada mês, por tipo; líquido são os pagamentos menos as tarifas. A conferência soma o "
    "saldo inicial e os tipos e compara com o saldo que o extrato tinha no fim do mês.",
    columns={
        "mes": "Mês", "lancamentos": "Lançamentos", "saldo_inicial": "Saldo inicial", "pagamentos": "Pagamentos",
        "devolucoes": "Devoluções", "saques": "Saques", "tarifas": "Tarifas", "liquido": "Líquido",
        "partes_de_parceiros": "Parceiros", "ajustes": "Ajustes", "saldo_final": "Saldo final",
        "conferencia": "Conferência",
    },
    read=_month_lines,
)  # fmt: skip
SHEETS: Final = (CONVERSION, AGES, MONTHS)
