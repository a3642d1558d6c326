"""Slices of the totals of reports and summaries: totals of what happened by day, totals of charges by account and day
of issue or due date, and the sums of months, years and decades by account."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import date
from functools import partial
from typing import Final
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
ISSUED: Final = ("report_cohort", "report_wait", "span_charge")
DUE: Final = ("report_due", "span_charge")
SPANS: Final = ("span_charge", "span_entry")
DAYS: Final = (Fold.ENTRIES, Fold.REFUNDS, Fold.INTEGRATORS)


class _Day(Struct, frozen=True):
    key: date | None


class _AccountDay(Struct, frozen=True, array_like=True):
    account_id: UUID
    day: date


_next_day = sql.one("verify_totals.next_day", _Day)
_next_month = sql.one("verify_totals.next_month", _Day)
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
    until = min((await _next_day(conn, day=day)).key or date.max, scope.after)
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


next_issued, next_due = _slice_finder("issued"), _slice_finder("due")
fill_issued = sql.run("verify_totals.fill_issued")
fill_due = sql.run("verify_totals.fill_due")
_ISSUED_CHECKS = tuple(sql.for_each("verify_totals.differences_of_issued", differences).values())
_compare_charge_days = differences("verify_totals.differences_of_charge_days")
_DUE_CHECKS = tuple(sql.for_each("verify_totals.differences_of_due", differences).values())


async def _check_issued(mode: Mode, conn: Connection, scope: VerifyScope, start: str) -> Slice:
    account_days = await next_issued(conn, scope, start, test=mode.test)
    await Shadows.make(conn, *ISSUED)
    await fill_issued(conn, **given(account_days, scope), test=mode.test)
    return await _compare_slice(
        conn, scope, account_days, [_charge_day_check(mode, "issued"), *_report_checks(mode, _ISSUED_CHECKS)]
    )


async def _check_due(mode: Mode, conn: Connection, scope: VerifyScope, start: str) -> Slice:
    account_days = await next_due(conn, scope, start, test=mode.test)
    await Shadows.make(conn, *DUE)
    await fill_due(conn, **given(account_days, scope), test=mode.test)
    return await _compare_slice(
        conn, scope, account_days, [_charge_day_check(mode, "due"), *_report_checks(mode, _DUE_CHECKS)]
    )


def _charge_day_check(mode: Mode, dated: str) -> Look:
    return partial(_compare_charge_days, test=mode.test, dated=dated)


def _report_checks(mode: Mode, checks: Sequence[Look]) -> Sequence[Look]:
    """The comparisons with the reports' tables, which hold production only."""
    return checks if mode is Mode.PRODUCTION else ()


async def _compare_slice(
    conn: Connection, scope: VerifyScope, account_days: AccountDays, checks: Sequence[Look]
) -> Slice:
    await prefer_real_tables(conn)
    return Slice(
        account_days.next,
        0,
        [each for check in checks for each in await check(conn, **given(account_days, scope)) if each.rows],
    )


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
    until = min((await _next_month(conn, day=day)).key or date.max, scope.after)
    return day, until, None if until >= scope.after else until.isoformat()


class _Account(Struct, frozen=True):
    key: UUID | None


_find_next_account = sql.one("verify_totals.spans_after", _Account)
fill_spans = sql.run("verify_totals.fill_spans")
_compare_spans = differences("verify_totals.differences_of_spans")


async def next_spans(conn: Connection, scope: VerifyScope, start: str) -> tuple[UUID, UUID, str | None]:
    """The first and the last account of the slice that begins at `start`, and where the next slice begins. The spans of
    one account are never divided between slices."""
    first = UUID(start)
    to = (await _find_next_account(conn, first=first, high=scope.high, count=scope.rows_max)).key
    if to == first:
        to = (await _find_next_account(conn, first=UUID(int=first.int + 1), high=scope.high, count=0)).key
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
    VerifyPart("issued", first_account_day, partial(_check_issued, Mode.PRODUCTION)),
    VerifyPart("issued_in_sandboxes", first_account_day, partial(_check_issued, Mode.SANDBOX)),
    VerifyPart("due", first_account_day, partial(_check_due, Mode.PRODUCTION)),
    VerifyPart("due_in_sandboxes", first_account_day, partial(_check_due, Mode.SANDBOX)),
    VerifyPart("together", first_day, _check_totals_of_all),
    VerifyPart("spans", lambda scope: str(scope.low), _check_spans),
)
