"""The statement with the balance after each ledger entry, its daily closings, and the payments with their anomalies."""

from calendar import monthrange
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import date, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from litestar.response import Response

from domain.instants import day_of, parse_day
from readmodels.dashboard.overview import Day, closings
from readmodels.money.ledger import LedgerFilters, LedgerItem, find_balance, find_held_shares, ledger_page, ledger_sums
from readmodels.money.payment_list import PaymentFilters, payment_page, payment_sum
from readmodels.page import SequencePosition, TimePosition
from readmodels.reports.csv_lines import Cents
from readmodels.reports.merchant import first_day
from web.head import parameter_in
from web.painel.csv_export import Columns, FileAnswer, csv_answer
from web.painel.labels import ANOMALIES, ENTRY_TYPES, METHODS, MONTHS
from web.painel.list_page import ListPage
from web.painel.page_request import PageRequest
from web.painel.rows import ListedPayment, cents, instant, listed_payments
from web.painel.totals import totals_in_time
from web.painel.xlsx_export import xlsx_answer

_YEAR_MIN = 2020  # the year in which PIX began
_LEDGER_COLUMNS: Columns[LedgerItem] = {
    "numero": lambda item: item.sequence,
    "quando": lambda item: instant(item.created_at),
    "lancamento": lambda item: ENTRY_TYPES[item.type],
    "valor": lambda item: Cents(cents(item.amount) * (1 if item.direction == "credit" else -1)),
    "saldo_depois": lambda item: cents(item.balance_after),
    "referencia": lambda item: item.external_id,
    "charge_id": lambda item: item.charge_id,
    "payment_id": lambda item: item.payment_id,
    "refund_id": lambda item: item.refund_id,
    "withdrawal_id": lambda item: item.withdrawal_id,
    "entry_id": lambda item: item.entry_id,
}
_PAYMENT_COLUMNS: Columns[ListedPayment] = {
    "payment_id": lambda row: row.item.payment_id,
    "charge_id": lambda row: row.item.charge_id,
    "referencia": lambda row: row.item.external_id,
    "forma": lambda row: METHODS[row.item.payment_method],
    "meio": lambda row: METHODS[row.item.method],
    "pago_em": lambda row: instant(row.item.paid_at),
    "creditado_em": lambda row: instant(row.item.credited_at),
    "valor": lambda row: cents(row.item.amount),
    "tarifa": lambda row: cents(row.item.fee),
    "valor_liquido": lambda row: cents(row.item.net_amount),
    "juros": lambda row: cents(row.item.interest),
    "multa": lambda row: cents(row.item.fine),
    "desconto": lambda row: cents(row.item.discount),
    "valor_devolvido": lambda row: cents(row.item.refunded_amount),
    "pagador": lambda row: row.item.payer.name,
    "documento": lambda row: row.item.payer.document,
    "atrasado": lambda row: "sim" if row.item.late else "não",
    "divergencia": lambda row: None if row.item.anomaly is None else ANOMALIES[row.item.anomaly],
    "end_to_end_id": lambda row: row.item.end_to_end_id,
    "txid": lambda row: row.item.txid,
    "nosso_numero": lambda row: row.item.nosso_numero,
    "integrador": lambda row: row.item.integrador_code,
}

_CLOSING_COLUMNS: Columns[Day] = {
    "dia": lambda day: day.on,
    "lancamentos": lambda day: day.lines,
    "saldo_inicial": lambda day: Cents(day.opening_cents),
    "entrou": lambda day: Cents(day.in_cents),
    "saiu": lambda day: Cents(day.out_cents),
    "saldo_final": lambda day: Cents(day.closing_cents),
    "pagamentos": lambda day: day.payments,
    "recebido": lambda day: Cents(day.received_cents),
    "tarifas": lambda day: Cents(-day.fee_cents),
    "liquido": lambda day: Cents(day.net_cents),
}


async def show_ledger(request: PageRequest) -> Response[Any]:
    """Answers the statement, which exists in production only, as every balance of the dashboard."""
    account_id, test = request.owner.account_id, request.owner.test
    balance_cents = await request.reads.ask(partial(find_balance, account_id=account_id, test=test))
    held = await totals_in_time(request, partial(find_held_shares, account_id=account_id))
    days = timedelta(days=request.settings.partner_share_held_days)
    values = {
        "balance_cents": balance_cents,
        "held": held,
        "held_until": None if held is None or held.earliest is None else held.earliest + days,
    }
    return await LEDGER.page(request, LEDGER.query(request), values)


async def show_closings(request: PageRequest) -> Response[Any]:
    """Answers the days of a month up to today, the newest first, each with its opening and closing balance. Days are
    those of São Paulo and include their last second."""
    month_closings = await _closings(request)
    if month_closings is None:
        return request.go(request.here("/extrato/dias"))
    first, first_reported, days = month_closings
    today = day_of(request.now)
    length = monthrange(first.year, first.month)[1]
    day_before, day_after = first - timedelta(days=1), first + timedelta(days=length)
    values = {
        "month": first,
        "month_text": MONTHS[first.month - 1],
        "closings": days[::-1],
        "today": today,
        "in_cents": sum(each.in_cents for each in days),
        "out_cents": sum(each.out_cents for each in days),
        "received_cents": sum(each.received_cents for each in days),
        "fee_cents": sum(each.fee_cents for each in days),
        "fees": any(each.fee_cents for each in days),
        "file": f"?mes={first:%Y-%m}",
        "previous": f"?mes={day_before:%Y-%m}" if day_before >= first_reported else "",
        "next": f"?mes={day_after:%Y-%m}" if day_after <= today else "",
    }
    return request.show("closings.html", values)


async def closings_csv(request: PageRequest) -> Response[Any]:
    return await _closings_file(request, csv_answer)


async def closings_xlsx(request: PageRequest) -> Response[Any]:
    return await _closings_file(request, xlsx_answer)


async def _closings_file(request: PageRequest, answer: FileAnswer) -> Response[Any]:
    month_closings = await _closings(request)
    if month_closings is None:
        return request.go(request.here("/extrato/dias"))
    request.spend("files_per_min")
    first, _, days = month_closings

    async def one_page() -> AsyncIterator[Sequence[Day]]:
        yield days[::-1]

    return await answer(request, f"fechamento-{first:%Y-%m}", _CLOSING_COLUMNS, one_page())


async def _closings(request: PageRequest) -> tuple[date, date, list[Day]] | None:
    """Returns the first day of the month asked for, the first day on which the account has anything to report, and the
    month's days from then up to today, oldest first; None for a month that has no such day."""
    today = day_of(request.now)
    month_text = parameter_in(request.http.scope, "mes") or ""
    first = _first_of_month(month_text) if month_text else today.replace(day=1)
    if first is None or first > today:
        return None
    first_reported = min(today, await request.reads.ask(lambda conn: first_day(conn, request.owner)))
    length = monthrange(first.year, first.month)[1]
    days = [first.replace(day=number) for number in range(1, length + 1)]
    days = [day for day in days if first_reported <= day <= today]
    if not days:
        return None
    return first, first_reported, await request.reads.ask(lambda conn: closings(conn, request.owner, days))


def _first_of_month(text: str) -> date | None:
    """Returns the first day of `YYYY-MM`; None for any other text, and for a month before PIX began."""
    try:
        first = parse_day(f"{text}-01")
    except ValueError:
        return None
    return first if first.year >= _YEAR_MIN else None


async def _ledger_totals(request: PageRequest, filters: LedgerFilters) -> Mapping[str, object]:
    """Returns `sums` by type of entry; None instead of them when reading takes too long."""
    sums = await totals_in_time(request, lambda conn: ledger_sums(conn, request.owner, filters))
    if sums is None:
        return {"sums": None}
    return {"sums": sums, "lines": sum(each.lines for each in sums), "net_cents": sum(each.cents for each in sums)}


async def _payment_totals(request: PageRequest, filters: PaymentFilters) -> Mapping[str, object]:
    return {"total": await totals_in_time(request, lambda conn: payment_sum(conn, request.owner, filters))}


LEDGER = ListPage(
    name="ledger",
    path="/extrato",
    filters=LedgerFilters,
    fetch=lambda request: ledger_page,
    position=SequencePosition,
    at=lambda item: SequencePosition(item.sequence),
    columns=_LEDGER_COLUMNS,
    more=_ledger_totals,
)
PAYMENTS = ListPage(
    name="payments",
    path="/pagamentos",
    filters=PaymentFilters,
    fetch=lambda request: partial(payment_page, seal=request.seal),
    position=TimePosition,
    at=lambda item: TimePosition(instant(item.paid_at), UUID(item.payment_id)),
    rows=lambda conn, items, request: listed_payments(conn, items, request.owner, request.seal, request.payers),
    columns=_PAYMENT_COLUMNS,
    more=_payment_totals,
)
