"""The report of fees: for each account with a fee in the period, by day, by month, or for the whole period."""

from collections.abc import AsyncIterator, Iterator
from datetime import date, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import astuple

import sql
from readmodels.reports.report import DAYS_MAX, By, Column, ColumnKind, Lend, Report, ReportQuery, Row, Share
from readmodels.spans import span_ranges

_LONGEST_SPAN: Final = {By.DAY: "day", By.MONTH: "month", By.PERIOD: "decade"}
"""The longest span that may be added up for a row: no longer than the time that the row covers."""
ROWS_AT_ONCE: Final = 5_000
"""Rows that one statement returns: with many accounts, a report by day has hundreds of times as many."""


class _FeeRow(Struct, frozen=True, gc=False):
    """A row of the report, in cents. Fees are net of fees given back."""

    day: date
    account: str
    payments: int
    amount: int
    pix: int
    boleto: int
    withdrawal: int
    fees: int
    rate: int | None
    account_id: str


_find_fees = sql.list_of("report.fees", _FeeRow)
_find_charged_accounts = sql.many("report.charged", UUID)


async def _fee_rows(lend: Lend, query: ReportQuery) -> AsyncIterator[Row]:
    if query.account_id is not None:
        account_ids = [query.account_id]
    else:
        async with lend() as conn:
            account_ids = await _find_charged_accounts(
                conn, ranges=span_ranges(query.first, query.last + timedelta(days=1))
            )
    for first, after in _slices(query, len(account_ids)):
        async with lend() as conn:
            rows = await _find_fees(
                conn,
                account_ids=account_ids,
                asked_for=query.account_id,
                ranges=span_ranges(first, after, longest=_LONGEST_SPAN[query.by]),
                first=query.first,
                by=query.by.value,
            )
        for row in rows:
            yield astuple(row)


def _slices(query: ReportQuery, accounts: int) -> Iterator[tuple[date, date]]:
    """The days of the query in parts of about ROWS_AT_ONCE rows, each from its first day on and before the second. No
    part ends within the time that one row covers."""
    first, end = query.first, query.last + timedelta(days=1)
    at_once = min(max(1, ROWS_AT_ONCE // max(accounts, 1)), DAYS_MAX)
    while first < end:
        match query.by:
            case By.DAY:
                after = first + timedelta(days=at_once)
            case By.MONTH:
                after = (first + timedelta(days=31 * at_once)).replace(day=1)
            case By.PERIOD:
                after = end
        yield first, min(after, end)
        first = after


FEES: Final = Report(
    "fees",
    "Tarifas por loja e mês",
    "O que cada loja pagou de tarifas, e sobre quanto recebido. Só as lojas com alguma tarifa no período.",
    "what accounts were charged, and of how much",
    (
        Column("day", "Dia", ColumnKind.DATE),
        Column("account", "Loja", ColumnKind.TEXT),
        Column("payments", "Pagamentos", ColumnKind.COUNT),
        Column("amount", "Recebido", ColumnKind.MONEY),
        Column("pix", "Por Pix", ColumnKind.MONEY),
        Column("boleto", "Por boletos", ColumnKind.MONEY),
        Column("withdrawal", "Por saques", ColumnKind.MONEY),
        Column("fees", "Tarifas", ColumnKind.MONEY),
        Column("rate", "Do recebido (%)", ColumnKind.RATIO, Share("fees", "amount")),
        Column("account_id", "account_id", ColumnKind.TEXT),
    ),
    _fee_rows,
    plotted="fees",
    key=("day", "account", "account_id"),
    by=By.MONTH,
)
