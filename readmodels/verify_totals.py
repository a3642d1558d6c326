"""Slices of the totals of reports and summaries: totals of what happened by day, totals of charges by account and day
of issue or due date, and the sums of months, years and decades by account."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import date
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from domain.mode import Mode
from readmodels.reports.fold import Fold
from readmodels.shadow import Shadows, prefer_real_tables
from readmodels.verify_scope import Look, Slice, VerifyPart, VerifyScope, differences
from sql import Connection

FOLDED: Final = ("report_entry", "report_refund", "report_integrator", "span_entry")
SPANS: Final = ("span_charge", "span_entry")
DAYS: Final = (Fold.ENTRIES, Fold.REFUNDS, Fold.INTEGRATORS)


class _AccountDay(Struct, frozen=True, array_like=True):
    account_id: UUID
    day: date


_next_day = sql.maybe("verify_totals.next_day", date)
_next_month = sql.maybe("verify_totals.next_month", date)
fill_days = sql.run("verify_totals.fill_days")
_DAY_CHECKS = (
    *sql.for_each("verify_totals.differences_of_days", differences).values(),
    differences("verify_totals.differences_of_entry_days"),
)
_compare_totals_of_all = differences("verify_totals.of_all")


async def _check_days(conn: Connection, scope: VerifyScope, start: str) -> Slice:
    day, until, next_start = await next_days(conn, scope, start)
    shadows = await Shadows.make(conn, *FOLDED)
    parameters = {"day": day, "until": until, "low": scope.low, "high": scope.high}
    await fill_days(conn, day=day, until=until)
    rows = await shadows.fold(DAYS)
    found = [each for check in _DAY_CHECKS for each in await check(conn, **parameters) if each.rows]
    return Slice(next_start, rows, found)


async def next_days(conn: Connection, scope: VerifyScope, start: str) -> tuple[date, date, str | None]:
    """The slice's first day, the next day with totals (which ends the slice), and where the next slice begins."""
    day = date.fromisoformat(start)
    until = min(await _next_day(conn, day=day) or date.max, scope.after)
    return day, until, None if until >= scope.after else until.isoformat()


class AccountDays(Struct, frozen=True):
    """The beginning and end of a slice along accounts and their days."""

    account_id: UUID
    day: date
    to_account_id: UUID
    to_day: date
    last: bool

    @property
    def next(self) -> str | None:
        return None if self.last else _encode_account_day(_AccountDay(self.to_account_id, self.to_day))


def _slice_finder(name: str) -> Callable[..., Awaitable[AccountDays]]:
    find_after = sql.maybe(f"verify_totals.{name}_after", _AccountDay)

    async def find(conn: Connection, scope: VerifyScope, start: str, **mode_parameters: bool) -> AccountDays:
        first = msgspec.json.decode(start, type=_AccountDay)
        days = {"high": scope.high, "since": scope.first, "until": scope.after, **mode_parameters}
        to = await find_after(conn, account_id=first.account_id, day=first.day, count=scope.rows_max, **days)
        if to == first:  # the charges of one account and day are never divided between slices
            to = await find_after(conn, account_id=first.account_id, day=_day_after(first.day), count=0, **days)
        ends = to or _AccountDay(scope.high, date.max)
        return AccountDays(first.account_id, first.day, ends.account_id, ends.day, to is None)

    return find


class ChargeTotals(NamedTuple):
    """The totals of charges by account and day: the day of their issue, or their due date."""

    dated: str
    tables: tuple[str, ...]
    next_slice: Callable[..., Awaitable[AccountDays]]
    fill: Callable[..., Awaitable[str]]
    report_checks: Sequence[Look]
    """The comparisons with the reports' tables, which hold production only."""


def _charge_totals(dated: str, *tables: str) -> ChargeTotals:
    checks = sql.for_each(f"verify_totals.differences_of_{dated}", differences)
    return ChargeTotals(
        dated, tables, _slice_finder(dated), sql.run(f"verify_totals.fill_{dated}"), tuple(checks.values())
    )


ISSUED: Final = _charge_totals("issued", "report_cohort", "report_wait", "span_charge")
DUE: Final = _charge_totals("due", "report_due", "span_charge")
_compare_charge_days = differences("verify_totals.differences_of_charge_days")


async def _check_charge_totals(
    totals: ChargeTotals, mode: Mode, conn: Connection, scope: VerifyScope, start: str
) -> Slice:
    account_days = await totals.next_slice(conn, scope, start, test=mode.test)
    parameters = given(account_days, scope)
    await Shadows.make(conn, *totals.tables)
    await totals.fill(conn, **parameters, test=mode.test)
    await prefer_real_tables(conn)
    found = await _compare_charge_days(conn, **parameters, test=mode.test, dated=totals.dated)
    if mode is Mode.PRODUCTION:
        found += [each for check in totals.report_checks for each in await check(conn, **parameters)]
    return Slice(account_days.next, 0, [each for each in found if each.rows])


def given(at: AccountDays, scope: VerifyScope) -> dict[str, object]:
    return {
        "account_id": at.account_id,
        "day": at.day,
        "to_account_id": at.to_account_id,
        "to_day": at.to_day,
        "since": scope.first,
        "until": scope.after,
    }


def _encode_account_day(account_day: _AccountDay) -> str:
    return msgspec.json.encode(account_day).decode()


def first_account_day(scope: VerifyScope) -> str:
    return _encode_account_day(_AccountDay(scope.low, date.min))


async def _check_totals_of_all(conn: Connection, scope: VerifyScope, start: str) -> Slice:
    if scope.account_id is not None:
        return Slice(None, 0, [])
    day, until, next_start = await next_months(conn, scope, start)
    found = await _compare_totals_of_all(conn, day=day, until=until)
    return Slice(next_start, 0, [each for each in found if each.rows])


async def next_months(conn: Connection, scope: VerifyScope, start: str) -> tuple[date, date, str | None]:
    """The slice's first day, the beginning of the next month with totals (which ends it), and where the next begins."""
    day = date.fromisoformat(start)
    until = min(await _next_month(conn, day=day) or date.max, scope.after)
    return day, until, None if until >= scope.after else until.isoformat()


_find_next_account = sql.maybe("verify_totals.spans_after", UUID)
fill_spans = sql.run("verify_totals.fill_spans")
_compare_spans = differences("verify_totals.differences_of_spans")


async def next_spans(conn: Connection, scope: VerifyScope, start: str) -> tuple[UUID, UUID, str | None]:
    """The first and the last account of the slice that begins at `start`, and where the next slice begins. The spans of
    one account are never divided between slices."""
    first = UUID(start)
    to = await _find_next_account(conn, first=first, high=scope.high, count=scope.rows_max)
    if to == first:
        to = await _find_next_account(conn, first=UUID(int=first.int + 1), high=scope.high, count=0)
    return (first, scope.high, None) if to is None else (first, UUID(int=to.int - 1), str(to))


async def _check_spans(conn: Connection, scope: VerifyScope, start: str) -> Slice:
    first, last, next_start = await next_spans(conn, scope, start)
    await Shadows.make(conn, *SPANS)
    await prefer_real_tables(conn)
    parameters = {"first": first, "last": last, "since": scope.first, "until": scope.after}
    await fill_spans(conn, **parameters)
    return Slice(next_start, 0, [each for each in await _compare_spans(conn, **parameters) if each.rows])


def _day_after(day: date) -> date:
    return date.fromordinal(day.toordinal() + 1)


def first_day(scope: VerifyScope) -> str:
    return scope.first.isoformat()


PARTS: Final = (
    VerifyPart("days", first_day, _check_days),
    VerifyPart("issued", first_account_day, partial(_check_charge_totals, ISSUED, Mode.PRODUCTION)),
    VerifyPart("issued_in_sandboxes", first_account_day, partial(_check_charge_totals, ISSUED, Mode.SANDBOX)),
    VerifyPart("due", first_account_day, partial(_check_charge_totals, DUE, Mode.PRODUCTION)),
    VerifyPart("due_in_sandboxes", first_account_day, partial(_check_charge_totals, DUE, Mode.SANDBOX)),
    VerifyPart("together", first_day, _check_totals_of_all),
    VerifyPart("spans", lambda scope: str(scope.low), _check_spans),
)
