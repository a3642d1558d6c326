"""The report of fees: for each account with a fee in the period, by day, by month, or for the whole period."""

from collections.abc import AsyncIterator
from datetime import date, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import astuple

import sql
from readmodels.reports.report import By, Column, ColumnKind, Lend, Report, ReportQuery, Row, Share
from readmodels.spans import span_ranges

_LONGEST: Final = {By.DAY: "day", By.MONTH: "month", By.PERIOD: "decade"}
"""The longest span that may be added up for a row: no longer than the time that the row covers."""


class _Fees(Struct, frozen=True, gc=False):
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


_find = sql.many("report.fees", _Fees)
_find_charged = sql.many("report.charged", UUID)


async def _rows(lend: Lend, asked: ReportQuery) -> AsyncIterator[Row]:
    ranges = span_ranges(asked.first, asked.last + timedelta(days=1), longest=_LONGEST[asked.by])
    async with lend() as conn:
        ids = [asked.account_id] if asked.account_id is not None else await _find_charged(conn, ranges=ranges)
        rows = await _find(conn, account_ids=ids, ranges=ranges, first=asked.first, by=asked.by.value)
    for row in rows:
        yield astuple(row)


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
    _rows,
    plotted="fees",
    key=("day", "account", "account_id"),
    by=By.MONTH,
)
