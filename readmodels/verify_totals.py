"""Slices of the daily totals of reports: by day of what happened, and by account and day of issue or due date."""

from collections.abc import Awaitable, Callable
from datetime import date
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from readmodels.reports.fold import Fold
from readmodels.shadow import Shadows
from readmodels.verify_scope import Difference, Slice, VerifyPart, VerifyScope
from sql import Connection

_FOLDED: Final = ("report_entry", "report_refund", "report_integrator")
_DAYS: Final = (Fold.ENTRIES, Fold.REFUNDS, Fold.INTEGRATORS)


class _Day(Struct, frozen=True):
    key: date | None


class _AccountDay(Struct, frozen=True, array_like=True):
    account_id: UUID
    day: date


def _differences(name: str) -> Callable[..., Awaitable[list[Difference]]]:
    return sql.many(name, Difference)


_next_day = sql.one("verify_totals.next_day", _Day)
_next_month = sql.one("verify_totals.next_month", _Day)
_fill_days = sql.run("verify_totals.fill_days")
_IN_DAYS = sql.for_each("verify_totals.differences_of_days", _differences)
_of_all = _differences("verify_totals.of_all")


async def _days(conn: Connection, scope: VerifyScope, began: str) -> Slice:
    day = date.fromisoformat(began)
    until = min((await _next_day(conn, day=day)).key or date.max, scope.after)
    shadows = await Shadows.make(conn, *_FOLDED)
    given = {"day": day, "until": until, "low": scope.low, "high": scope.high}
    await _fill_days(conn, day=day, until=until)
    rows = await shadows.fold(_DAYS)
    found = [each for look in _IN_DAYS.values() for each in await look(conn, **given) if each.rows]
    return Slice(None if until >= scope.after else until.isoformat(), rows, found)


def _by_account(name: str) -> VerifyPart:
    """Along the accounts and the days of each; one account's charges of one day are never divided."""
    find_after = sql.maybe(f"verify_totals.{name}_after", _AccountDay)
    find_differences = _differences(f"verify_totals.{name}")

    async def look(conn: Connection, scope: VerifyScope, began: str) -> Slice:
        at = msgspec.json.decode(began, type=_AccountDay)
        days = {"since": scope.first, "until": scope.after}
        to = await find_after(conn, account_id=at.account_id, day=at.day, high=scope.high, count=scope.rows_max, **days)
        if to == at:
            to = await find_after(conn, account_id=at.account_id, day=_after(at.day), high=scope.high, count=0, **days)
        ends = _AccountDay(scope.high, date.max) if to is None else to
        differences = await find_differences(
            conn, account_id=at.account_id, day=at.day, to_account_id=ends.account_id, to_day=ends.day, **days
        )
        following = None if to is None else msgspec.json.encode(to).decode()
        return Slice(following, 0, [each for each in differences if each.rows])

    def first(scope: VerifyScope) -> str:
        return msgspec.json.encode(_AccountDay(scope.low, date.min)).decode()

    return VerifyPart(name, first, look)


async def _together(conn: Connection, scope: VerifyScope, began: str) -> Slice:
    day = date.fromisoformat(began)
    if scope.account_id is not None:
        return Slice(None, 0, [])
    until = min((await _next_month(conn, day=day)).key or date.max, scope.after)
    found = await _of_all(conn, day=day, until=until)
    return Slice(None if until >= scope.after else until.isoformat(), 0, [each for each in found if each.rows])


def _after(day: date) -> date:
    return date.fromordinal(day.toordinal() + 1)


def _first_day(scope: VerifyScope) -> str:
    return scope.first.isoformat()


PARTS: Final = (
    VerifyPart("days", _first_day, _days),
    _by_account("issued"),
    _by_account("due"),
    VerifyPart("together", _first_day, _together),
)
