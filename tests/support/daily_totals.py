"""Random daily totals of reports, as the fold stores them, for all accounts of a database together."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from random import Random
from typing import Any, Final
from uuid import UUID

import asyncpg

from readmodels.reports.report import ALL_ACCOUNTS

Key = tuple[Any, ...]
Totals = dict[str, dict[Key, Counter[str]]]
"""Totals by table, then by key without the account."""

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
_CHARGED: Final = "span_entry"
_OF_CHARGED: Final = (("account_id", "span", "starts", "type", "method"), ("entries", "cents"))
# fmt: on


def random_totals(chance: Random, *, last: date, days: int) -> Totals:
    """Random totals of some days; some days and methods have none."""

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
    totals[_CHARGED] = _charged(chance, last=last, days=days)
    return totals


def _charged(chance: Random, *, last: date, days: int) -> dict[Key, Counter[str]]:
    """Payments, fees and refunds of two accounts, by day and by the longer spans that contain it."""
    rows: dict[Key, Counter[str]] = {}
    accounts = [UUID(int=chance.getrandbits(128)) for _ in range(2)]
    for back in range(days):
        day = last - timedelta(days=back)
        for account_id in accounts:
            for type in chance.sample(("payment", "fee", "refund"), chance.randint(0, 3)):
                cents = chance.randint(1, 10 ** chance.randint(1, 7)) * (1 if type == "payment" else -1)
                counted = Counter({"entries": chance.randint(1, 9), "cents": cents})
                method = chance.choice((*METHODS[:2], "") if type == "fee" else METHODS[:2])
                decade = day.replace(year=day.year // 10 * 10, month=1, day=1)
                spans = {"day": day, "month": day.replace(day=1), "year": day.replace(month=1, day=1), "decade": decade}
                for span, starts in spans.items():
                    rows.setdefault((account_id, span, starts, type, method), Counter()).update(counted)
    return rows


def added(several: Iterable[Totals]) -> Totals:
    """The sums of several totals, as one database with all of them has."""
    whole: Totals = {table: {} for table in (*_TABLES, _CHARGED)}
    for totals in several:
        for table, rows in totals.items():
            for at, numbers in rows.items():
                whole[table].setdefault(at, Counter()).update(numbers)
    return whole


async def store(owner_url: str, totals: Totals) -> None:
    """Replace the stored totals by these, and mark them as current."""
    conn = await asyncpg.connect(owner_url)
    try:
        for table, (names, numbers) in _TABLES.items():
            await conn.execute(f"DELETE FROM {table}")  # noqa: S608 - names of our own
            columns = ("account_id", *names, *numbers)
            await conn.copy_records_to_table(table, records=_records(totals[table], numbers), columns=columns)
        await conn.execute(f"DELETE FROM {_CHARGED}")  # noqa: S608
        names, numbers = _OF_CHARGED
        charged = totals[_CHARGED]
        records = [(*at, *(counted[name] for name in numbers)) for at, counted in charged.items()]
        await conn.copy_records_to_table(_CHARGED, records=records, columns=(*names, *numbers))
        await conn.execute(
            "INSERT INTO account (account_id, name, document, city, kyc, pix_key, created_at)"
            " SELECT id, 'Tarifada ' || left(id::text, 4), '12345678000190', 'Olinda', 'approved', id::text, now()"
            " FROM unnest($1::uuid[]) id ON CONFLICT DO NOTHING",
            list({at[0] for at in charged}),
        )
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
