"""Rows of reports that are read from the daily totals (readmodels/reports/fold.py)."""

from collections.abc import AsyncIterator, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final

from msgspec import Struct, defstruct
from msgspec.structs import astuple

import sql
from readmodels.reports.report import Column, ColumnKind, Lend, ReportQuery, Row, Rows

_LONG_AGO, _FAR_OFF = date(1, 1, 1), date(9999, 12, 31)


class AgeSum(Struct, frozen=True, gc=False):
    """The number of boletos in one of AGES, and their amount in cents."""

    boletos: int
    amount: int


find_aging = sql.many("report.aging", AgeSum)
_PYTHON_TYPES: Final = {ColumnKind.DATE: date, ColumnKind.INSTANT: datetime, ColumnKind.TEXT: str}
"""The Python types of column kinds; values of other kinds are whole numbers."""


def totals(name: str, columns: Sequence[Column]) -> Rows:
    """Bind the statement report.<name>, which takes a range of days and returns these columns in their order."""
    row = defstruct(
        name, [(each.name, _PYTHON_TYPES.get(each.kind, int) | None) for each in columns], frozen=True, gc=False
    )
    find = sql.many(f"report.{name}", row)

    async def rows(lend: Lend, query: ReportQuery) -> AsyncIterator[Row]:
        async with lend() as conn:
            fetched = await find(
                conn, account_id=query.totals_of, first=query.first, last=query.last, by=query.by.value
            )
        for row in fetched:
            yield astuple(row)

    return rows


# A boleto expires at the end of its last day to pay (the effective due date, or later by its terms), so only expired
# boletos can be long past due. The numbers are days from today to the due date, both inclusive; None is without end.
AGES: Final = (
    ("open_31_or_more", "Em aberto, vence em mais de 30 dias", "pending", 31, None),
    ("open_8_to_30", "Em aberto, vence em 8 a 30 dias", "pending", 8, 30),
    ("open_1_to_7", "Em aberto, vence em 1 a 7 dias", "pending", 1, 7),
    ("open_today", "Em aberto, vence hoje", "pending", 0, 0),
    ("open_past_due", "Em aberto, vencido e ainda pagável", "pending", None, -1),
    ("expired_7_or_less", "Expirado, vencido há até 7 dias", "expired", -7, 0),
    ("expired_8_to_30", "Expirado, vencido há 8 a 30 dias", "expired", -30, -8),
    ("expired_31_to_90", "Expirado, vencido há 31 a 90 dias", "expired", -90, -31),
    ("expired_91_or_more", "Expirado, vencido há mais de 90 dias", "expired", None, -91),
)


def age_bounds(today: date) -> dict[str, Any]:
    """The parameters of a statement that returns a row for each of AGES."""

    def day_in(days: int | None, otherwise: date) -> date:
        return otherwise if days is None else today + timedelta(days=days)

    return {
        "statuses": [status for _, _, status, _, _ in AGES],
        "firsts": [day_in(first, _LONG_AGO) for _, _, _, first, _ in AGES],
        "lasts": [day_in(last, _FAR_OFF) for _, _, _, _, last in AGES],
    }


async def aging(lend: Lend, query: ReportQuery) -> AsyncIterator[Row]:
    async with lend() as conn:
        rows = await find_aging(conn, account_id=query.totals_of, **age_bounds(query.today))
    for (bucket, label, *_), row in zip(AGES, rows, strict=True):
        yield (bucket, label, row.boletos, row.amount)
