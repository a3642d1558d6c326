"""Slices of journal, read tables and books: each table is walked along its own key, in steps of some thousand rows.

For a range of charges, the rows of the read tables and the rows that the journal implies are compared both ways; the
same for a range of subjects without a charge (withdrawals, partner shares). Payments, refunds and reversals are walked
along their own tables too, so that one missing in the journal is found; ledgers and feeds are walked along their
sequences, so that a number that is missing, used twice or unknown to the journal is found.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from readmodels.page import BEGINNING
from readmodels.projector import Projection
from readmodels.reports.fold import Fold, position
from readmodels.shadow import Shadows
from readmodels.verify_scope import LOWEST, Difference, Look, Slice, VerifyPart, VerifyScope, differences
from sql import Connection

READ: Final = ("read_charge", "read_payment", "read_refund", "read_withdrawal", "read_event", "read_ledger")
CHARGES_FOLDED: Final = ("report_charge", "report_cohort", "report_due", "report_wait", "span_charge")


class LedgerLine(Struct, frozen=True, gc=False):
    account_id: UUID
    test: bool
    sequence: int
    charge_id: UUID | None
    subject: UUID
    missing: int
    broken: bool


class FeedEvent(Struct, frozen=True, gc=False):
    account_id: UUID
    test: bool
    sequence: int
    created_at: datetime
    step: int | None
    journal_id: int | None


class _ClockDifference(Struct, frozen=True, gc=False):
    account_id: UUID
    test: bool
    lines: int
    events: int
    otherwise: bool
    left_feed: int


class _LineKey(Struct, frozen=True, array_like=True):
    account_id: UUID = LOWEST
    test: bool = False
    sequence: int = -(2**63)
    created_at: datetime = BEGINNING


fill_charges = sql.run("verify.fill_charges")
fill_others = sql.run("verify.fill_others")
_fill_lines = sql.run("verify.fill_lines")
_fill_events = sql.run("verify.fill_events")
_find_lines = sql.many("verify.lines", LedgerLine)
_find_events = sql.many("verify.events", FeedEvent)
_compare_clocks = sql.many("verify_books.clocks", _ClockDifference)
_count_events_that_left = sql.one("verify.left_in_journal", int)


_CHARGE_CHECKS = (*sql.for_each("verify.differences_of_charges", differences).values(),
               differences("verify.lines_missing"), differences("verify_books.charges"))  # fmt: skip
_OTHER_CHECKS = tuple(
    differences(name)
    for name in (
        "verify.differences_of_withdrawals",
        "verify.lines_missing",
        "verify.events_missing",
        "verify_books.others",
    )
)
_find_unknown_lines = differences("verify.lines_unknown")
_find_unknown_events = differences("verify.events_unknown")


async def _check_charges(conn: Connection, range_: dict[str, Any]) -> Slice:
    shadows = await Shadows.make(conn, *READ, *CHARGES_FOLDED)
    await fill_charges(conn, **range_)
    rows = await shadows.project(tuple(Projection))
    await shadows.fold((Fold.CHARGES,), up_to=(await position(conn)).journal_id)
    return Slice(None, rows, await _run_checks(conn, _CHARGE_CHECKS, range_), await _count_events_that_left(conn))


async def _check_others(conn: Connection, range_: dict[str, Any]) -> Slice:
    shadows = await Shadows.make(conn, *READ)
    await fill_others(conn, **range_)
    rows = await shadows.project(tuple(Projection))
    return Slice(None, rows, await _run_checks(conn, _OTHER_CHECKS, range_), await _count_events_that_left(conn))


async def _check_books(name: str, conn: Connection, range_: dict[str, Any]) -> Slice:
    """The differences that one statement finds in a range of keys."""
    return Slice(None, 0, await _run_checks(conn, (_BOOK_CHECKS[name],), range_))


_BOOK_CHECKS = {name: differences(f"verify_books.{name}") for name in ("payments", "refunds", "reversals", "suspense")}


def _part_by_ids(
    name: str,
    after: str,
    check: Callable[[Connection, dict[str, Any]], Awaitable[Slice]],
) -> VerifyPart:
    async def check_slice(conn: Connection, scope: VerifyScope, start: str) -> Slice:
        first, last, next_start = await next_range(conn, after, scope, start)
        checked = await check(conn, {"first": first, "last": last, "low": scope.low, "high": scope.high})
        return checked._replace(next=next_start)

    return VerifyPart(name, lambda scope: str(scope.lowest_id), check_slice)


async def next_range(conn: Connection, after: str, scope: VerifyScope, start: str) -> tuple[UUID, UUID, str | None]:
    """The first and the last id of the slice that begins at `start`, and where the next slice begins."""
    first = UUID(start)
    live = first < scope.live_after and scope.live_first < scope.last_id
    end = UUID(int=scope.live_first.int - 1) if live else scope.last_id
    last = end
    key = await _FIND_NEXT_KEY[after](conn, first=first, last=last, count=scope.rows_max)
    # The next slice begins with the key `rows_max` rows on. If all those rows share one key, the rest is one slice.
    if key is not None and key > first:
        last = UUID(int=key.int - 1)
    next_start = UUID(int=last.int + 1) if last < end else scope.live_after if live else None
    return first, last, None if next_start is None or next_start > scope.last_id else str(next_start)


_FIND_NEXT_KEY = {
    name: sql.maybe(f"verify.{name}", UUID)
    for name in (
        "charge_after",
        "other_after",
        "payment_after",
        "refund_after",
        "reversal_after",
        "suspense_after",
    )
}


async def _run_checks(conn: Connection, checks: Sequence[Look], parameters: dict[str, Any]) -> list[Difference]:
    return [each for check in checks for each in await check(conn, **parameters) if each.rows]


def _decode_key(start: str) -> _LineKey:
    return msgspec.json.decode(start, type=_LineKey)


def first_key(scope: VerifyScope) -> str:
    return _encode_key(_LineKey(scope.low))


def _encode_key(key: _LineKey) -> str:
    return msgspec.json.encode(key).decode()


def _book_differences(counts: Mapping[str, int]) -> list[Difference]:
    return [Difference("books", what, rows) for what, rows in counts.items() if rows]


async def next_lines(conn: Connection, scope: VerifyScope, start: str) -> tuple[list[LedgerLine], str | None]:
    after = _decode_key(start)
    lines = await _find_lines(
        conn, account_id=after.account_id, test=after.test, sequence=after.sequence, **_scope_parameters(scope)
    )
    last = lines[-1] if len(lines) == scope.rows_max else None
    return lines, None if last is None else _encode_key(_LineKey(last.account_id, last.test, last.sequence))


async def make_lines(shadows: Shadows, lines: Sequence[LedgerLine]) -> None:
    """Project all ledger lines that the journal has for the charges and subjects of these lines."""
    await _fill_lines(
        shadows.conn,
        charge_ids=list({line.charge_id for line in lines if line.charge_id is not None}),
        subjects=list({line.subject for line in lines if line.charge_id is None}),
    )
    await shadows.project((Projection.ENTRIES,))


async def _check_ledgers(conn: Connection, scope: VerifyScope, start: str) -> Slice:
    lines, next_start = await next_lines(conn, scope, start)
    await make_lines(await Shadows.make(conn, "read_ledger"), lines)
    counts = {
        "numbers missing in a ledger": sum(line.missing for line in lines),
        "ledger lines whose balance_after is not the one before plus the amount": sum(line.broken for line in lines),
    }
    unknown = await _run_checks(conn, (_find_unknown_lines,), {"lines": lines})
    return Slice(next_start, len(lines), unknown + _book_differences(counts))


async def next_events(conn: Connection, scope: VerifyScope, start: str) -> tuple[list[FeedEvent], str | None]:
    after = _decode_key(start)
    events = await _find_events(
        conn,
        account_id=after.account_id,
        test=after.test,
        sequence=after.sequence,
        created_at=after.created_at,
        **_scope_parameters(scope),
    )
    last = events[-1] if len(events) == scope.rows_max else None
    key = None if last is None else _LineKey(last.account_id, last.test, last.sequence, last.created_at)
    return events, None if key is None else _encode_key(key)


async def make_events(shadows: Shadows, others: Sequence[FeedEvent]) -> None:
    """Project what the journal says of these events, which concern no charge."""
    await _fill_events(shadows.conn, journal_ids=[event.journal_id for event in others])
    await shadows.project((Projection.EVENTS,))


async def _check_feeds(conn: Connection, scope: VerifyScope, start: str) -> Slice:
    events, next_start = await next_events(conn, scope, start)
    others = [event for event in events if event.journal_id is not None]
    await make_events(await Shadows.make(conn, "read_event"), others)
    steps = [event.step for event in events if event.step is not None]
    counts = {
        "numbers missing in a feed": sum(step - 1 for step in steps if step > 1),
        "numbers twice in a feed": sum(step == 0 for step in steps),
    }
    unknown = await _run_checks(conn, (_find_unknown_events,), {"events": others})
    return Slice(next_start, len(events), unknown + _book_differences(counts))


def _scope_parameters(scope: VerifyScope) -> dict[str, Any]:
    return {
        "high": scope.high,
        "since": scope.begins_at,
        "until": scope.ends_at,
        "live_first": scope.live_first,
        "live_after": scope.live_after,
        "limit": scope.rows_max,
    }


async def _check_clocks(conn: Connection, scope: VerifyScope, start: str) -> Slice:
    after = _decode_key(start)
    # The statement begins after this key. The scope's first account belongs to the slice, so the key is the id before.
    before = UUID(int=max(after.account_id.int - 1, 0)) if start == first_key(scope) else after.account_id
    test = True if before != after.account_id else after.test
    clocks = await _compare_clocks(conn, account_id=before, test=test, high=scope.high, limit=scope.rows_max)
    counts = {
        "numbers missing in a ledger": sum(abs(clock.lines) for clock in clocks),
        "numbers missing in a feed": sum(abs(clock.events) for clock in clocks),
        "balances that are not the sum of their lines": sum(clock.otherwise for clock in clocks),
    }
    last = clocks[-1] if len(clocks) == scope.rows_max else None
    next_start = None if last is None else _encode_key(_LineKey(last.account_id, last.test))
    return Slice(next_start, len(clocks), _book_differences(counts), -sum(clock.left_feed for clock in clocks))


PARTS: Final = (
    _part_by_ids("charges", "charge_after", _check_charges),
    _part_by_ids("others", "other_after", _check_others),
    _part_by_ids("payments", "payment_after", partial(_check_books, "payments")),
    _part_by_ids("refunds", "refund_after", partial(_check_books, "refunds")),
    _part_by_ids("reversals", "reversal_after", partial(_check_books, "reversals")),
    _part_by_ids("suspense", "suspense_after", partial(_check_books, "suspense")),
    VerifyPart("ledgers", first_key, _check_ledgers),
    VerifyPart("feeds", first_key, _check_feeds),
    VerifyPart("clocks", first_key, _check_clocks),
)
