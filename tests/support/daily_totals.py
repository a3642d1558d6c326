"""Daily totals of reports by chance, as the fold leaves them, of all accounts of a database together."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from random import Random
from typing import Any, Final

import asyncpg

from readmodels.reports.report import ALL_ACCOUNTS

Key = tuple[Any, ...]
Totals = dict[str, dict[Key, Counter[str]]]
"""By table, by the key without the account."""

METHODS: Final = ("pix", "boleto", "pix_key")
CODES: Final = ("INTG-AAAAAA", "INTG-BBBBBB")
_STATUSES: Final = ("pending", "paid", "expired", "cancelled", "failed", "refunded")
_OUTCOMES: Final = ("delivered", "rejected", "timeout", "worker_lost", "refused")
# fmt: off
_TABLES: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "report_entry": (("day", "type", "method"), ("entries", "cents", "late", "anomalous")),
    "report_cohort": (("day", "payment_method", "status"), ("charges", "cents")),
    "report_wait": (("day", "payment_method", "bucket"), ("charges",)),
    "report_due": (("status", "due_date", "payment_method"), ("charges", "cents")),
    "report_refund": (("day", "method", "what"), ("refunds", "cents")),
    "report_integrator": (
        ("day", "integrador_code"),
        ("charges", "charge_cents", "payments", "payment_cents", "given_cents", "taken_back_cents"),
    ),
    "report_attempt": (("day", "outcome"), ("attempts", "duration_ms")),
}
# fmt: on


def by_chance(chance: Random, *, last: date, days: int) -> Totals:
    """Of some days, with days and methods that have nothing."""

    def key(name: str, day: date) -> Any:
        match name:
            case "day":
                return day
            case "due_date":
                return day + timedelta(days=chance.randint(-40, 40))
            case "type":
                return "payment"
            case "bucket":
                return chance.randint(0, 160)
            case "status":
                return chance.choice(_STATUSES)
            case "what":
                return chance.choice(("created", "succeeded", "failed"))
            case "outcome":
                return chance.choice(_OUTCOMES)
            case "integrador_code":
                return chance.choice(CODES)
            case _:
                return chance.choice(METHODS)

    totals: Totals = {table: {} for table in _TABLES}
    for table, (names, numbers) in _TABLES.items():
        for back in range(days):
            for _ in range(chance.randint(0, 8)):
                at = tuple(key(name, last - timedelta(days=back)) for name in names)
                totals[table][at] = Counter({name: chance.randint(1, 10 ** chance.randint(1, 7)) for name in numbers})
    return totals


def added(several: Iterable[Totals]) -> Totals:
    """As one database that has all of it."""
    whole: Totals = {table: {} for table in _TABLES}
    for totals in several:
        for table, rows in totals.items():
            for at, numbers in rows.items():
                whole[table].setdefault(at, Counter()).update(numbers)
    return whole


async def store(owner_url: str, totals: Totals) -> None:
    """In place of what there is. As current as now."""
    conn = await asyncpg.connect(owner_url)
    try:
        for table, (names, numbers) in _TABLES.items():
            await conn.execute(f"DELETE FROM {table}")  # noqa: S608 - names of our own
            columns = ("account_id", *names, *numbers)
            await conn.copy_records_to_table(table, records=_records(totals[table], numbers), columns=columns)
        await conn.execute("UPDATE report_position SET as_of = now()")
        for code in CODES:
            await conn.execute(
                "INSERT INTO integrator (integrador_code, name, active, created_at) VALUES ($1, $1, true, now())"
                " ON CONFLICT (integrador_code) DO NOTHING",
                code,
            )
    finally:
        await conn.close()


def _records(rows: dict[Key, Counter[str]], numbers: Sequence[str]) -> list[Key]:
    return [(ALL_ACCOUNTS, *at, *(counted[name] for name in numbers)) for at, counted in rows.items()]
