"""Rebuild the read tables from the journal, with the statements that fill them live, while writers go on.

The work is cut into slices like a verification's (readmodels/verify_rows.py). For a few hundred charges at a time, the
rows that the journal implies are made in shadow tables, and rows of the read tables that differ are replaced in place.
A writer that changes one of these charges waits until the slice is committed; no other writer waits. A kill leaves
nothing half built: progress is stored after each slice, and a rebuild that was killed resumes from there.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

import asyncpg
import msgspec
from msgspec import Struct

import sql
from domain.mode import Mode
from readmodels import verify_rows, verify_totals
from readmodels.projector import Projection
from readmodels.reports.fold import Fold, find_horizon, fold_up_to, hold, settled_up_to
from readmodels.shadow import Shadows, real_first
from readmodels.verify import NothingToResume, plan_for_this
from readmodels.verify_scope import VerifyScope
from runtime.postgres import connect
from sql import Connection

CHARGES_MAX: Final = 500
"""Charges, or withdrawals, locked at once: for some tens of milliseconds."""
TOTALS_MAX: Final = 10_000
"""Charges of a slice of totals. Such a slice may be larger, because it delays only the worker that folds the totals."""
_TURNS_MAX: Final = 100
_TURN_S: Final = 0.1
KEPT: Final = 20
"""Rebuilds whose progress is kept for operators to read."""


class StillHeld(Exception):
    """A charge or withdrawal was locked by other transactions at every attempt for ten seconds."""


class _Standing(Struct):
    """The progress of a rebuild: the parts before `part` are done."""

    part: str = ""
    next: str | None = None
    """Where the part's next slice begins; None when only `again` is left to do."""
    again: list[tuple[UUID, UUID]] = []
    """Ranges of this part that failed because a row of another range holds a unique key that they need. They are
    repeated at the end of the part."""
    rows: dict[str, int] = {}
    """Rows the journal has produced so far, per table."""
    journaled: int = 0


class _Rebuilding(Struct, frozen=True):
    rebuild_id: int
    begun_at: datetime
    standing: bytes


class _Part(NamedTuple):
    """A walk along one table, in slices; `redo` repeats a range of ids that failed in its turn."""

    name: str
    first: str
    look: Callable[[str], Awaitable[str | None]]
    redo: Callable[[UUID, UUID], Awaitable[None]] | None = None


def _one(name: str) -> Callable[..., Awaitable[int]]:
    return sql.one(name, int)


_begin = sql.one("rebuild.begin", _Rebuilding)
_unfinished = sql.maybe("rebuild.unfinished", _Rebuilding)
_forget = sql.run("rebuild.forget")
_store = sql.run("rebuild.store")
_end = sql.run("rebuild.end")
_charges_between = sql.many("rebuild.charges_between", UUID)
_lock_charges = sql.many("rebuild.lock_charges", UUID)
_withdrawals_between = sql.many("rebuild.withdrawals_between", UUID)
_lock_withdrawals = sql.many("rebuild.lock_withdrawals", UUID)
_CHARGES = sql.for_each("rebuild.charges", _one)
_withdrawals = _one("rebuild.withdrawals")
_LINES = (sql.run("rebuild.clear_lines"), sql.run("rebuild.fill_lines"))
_EVENTS = (sql.run("rebuild.clear_events"), sql.run("rebuild.fill_events"))
_drop_lines = sql.run("rebuild.drop_lines")
_drop_events = sql.run("rebuild.drop_events")
_report_charges = _one("rebuild.report_charges")
_DAYS = sql.for_each("rebuild.days", _one)
_entry_days = _one("rebuild.entry_days")
_ISSUED = sql.for_each("rebuild.issued", _one)
_charge_days = _one("rebuild.charge_days")
_due = _one("rebuild.due")
_fill_together = sql.run("rebuild.fill_together")
_together = _one("rebuild.together")
_SPANS = sql.for_each("rebuild.spans", _one)


async def rebuild(database_url: str, *, progress: Callable[[int], None] = lambda done: None) -> dict[str, int]:
    """Replace the rows of read tables and daily totals that differ from the journal. Returns the number of rows that
    the journal implies, per table."""
    conn = await connect(database_url)
    try:
        begun_at = (await find_horizon(conn)).as_of
        begun = await _begin(conn, begun_at=begun_at, standing=msgspec.json.encode(_Standing()))
        await _forget(conn, kept=KEPT)
        return await _Rebuild(conn, begun, progress).run()
    finally:
        await conn.close()


async def resume_rebuild(database_url: str, *, progress: Callable[[int], None] = lambda done: None) -> dict[str, int]:
    """Resume the newest unfinished rebuild. Returns the numbers of rows as `rebuild` does, earlier runs included."""
    conn = await connect(database_url)
    try:
        left = await _unfinished(conn)
        if left is None:
            raise NothingToResume("every rebuild was finished")
        return await _Rebuild(conn, left, progress).run()
    finally:
        await conn.close()


class _Rebuild:
    def __init__(self, conn: Connection, begun: _Rebuilding, progress: Callable[[int], None]) -> None:
        self.conn = conn
        self.rebuild_id = begun.rebuild_id
        self.begun_at = begun.begun_at
        self.standing = msgspec.json.decode(begun.standing, type=_Standing)
        self.progress = progress

    async def run(self) -> dict[str, int]:
        parts = self._parts()
        names = [part.name for part in parts]
        at = names.index(self.standing.part) if self.standing.part else 0
        for part in parts[at:]:
            began: str | None = part.first
            if part.name == self.standing.part:
                began = self.standing.next
            while began is not None:
                began = await part.look(began)
                await self._stand(part.name, began)
            if part.redo is not None:
                while self.standing.again:
                    await part.redo(*self.standing.again[0])
                    del self.standing.again[0]
                    await self._stand(part.name, None)
        await _end(self.conn, rebuild_id=self.rebuild_id)
        return self.standing.rows

    def _parts(self) -> tuple[_Part, ...]:
        scope = VerifyScope(begun=self.begun_at, rows_max=CHARGES_MAX)
        totals = VerifyScope(begun=self.begun_at, rows_max=TOTALS_MAX)
        key, lowest = verify_rows.first_key(totals), str(scope.lowest_id)
        day, account_day = verify_totals.first_day(totals), verify_totals.first_account_day(totals)
        return (
            _Part("charges", lowest, self._range("charge_after", scope, self._charges), self._charges),
            _Part("others", lowest, self._range("other_after", scope, self._others), self._others),
            _Part("ledgers", key, self._slice(totals, self._ledgers)),
            _Part("feeds", key, self._slice(totals, self._feeds)),
            _Part("fold", "", self._fold),
            _Part(
                "report_charges",
                lowest,
                self._range("charge_after", totals, self._report_charges),
                self._report_charges,
            ),
            _Part("days", day, self._slice(totals, self._days)),
            _Part("issued", account_day, self._slice(totals, partial(self._issued, Mode.PRODUCTION))),
            _Part("issued_in_sandboxes", account_day, self._slice(totals, partial(self._issued, Mode.SANDBOX))),
            _Part("due", account_day, self._slice(totals, partial(self._due, Mode.PRODUCTION))),
            _Part("due_in_sandboxes", account_day, self._slice(totals, partial(self._due, Mode.SANDBOX))),
            _Part("together", day, self._slice(totals, self._all_together)),
            _Part("spans", str(totals.low), self._slice(totals, self._spans)),
        )

    async def _stand(self, part: str, following: str | None) -> None:
        """Stores the progress after the slice's commit, in a transaction of its own. A kill in between repeats one
        slice, which changes nothing."""
        self.standing.part, self.standing.next = part, following
        await _store(self.conn, rebuild_id=self.rebuild_id, standing=msgspec.json.encode(self.standing))
        self.progress(self.standing.journaled)

    def _slice(
        self, scope: VerifyScope, look: Callable[[VerifyScope, str], Awaitable[str | None]]
    ) -> Callable[[str], Awaitable[str | None]]:
        async def one(began: str) -> str | None:
            async with self.conn.transaction():
                await plan_for_this(self.conn)
                return await look(scope, began)

        return one

    def _range(
        self, after: str, scope: VerifyScope, work: Callable[[UUID, UUID], Awaitable[None]]
    ) -> Callable[[str], Awaitable[str | None]]:
        """Slices by ranges of ids. A range that meets a unique key held by a row of another range is repeated at the
        end of the part."""

        async def one(began: str) -> str | None:
            first, last, following = await verify_rows.next_range(self.conn, after, scope, began)
            try:
                await work(first, last)
            except asyncpg.UniqueViolationError:
                self.standing.again.append((first, last))
            return following

        return one

    # Charges and withdrawals, which are locked while they are compared

    async def _charges(self, first: UUID, last: UUID) -> None:
        left = set(await _charges_between(self.conn, first=first, last=last))
        once = ("read_ledger",)
        await self._in_turns(left, lambda held: self._charges_held(first, last, held), self._hold_charges, once)

    async def _others(self, first: UUID, last: UUID) -> None:
        left = set(await _withdrawals_between(self.conn, first=first, last=last))
        once = ("read_ledger", "read_event")
        await self._in_turns(left, lambda held: self._others_held(first, last, held), self._hold_withdrawals, once)

    async def _hold_charges(self, ids: list[UUID]) -> list[UUID]:
        return await _lock_charges(self.conn, charge_ids=ids)

    async def _hold_withdrawals(self, ids: list[UUID]) -> list[UUID]:
        return await _lock_withdrawals(self.conn, withdrawal_ids=ids)

    async def _in_turns(
        self,
        left: set[UUID],
        work: Callable[[list[UUID]], Awaitable[dict[str, int]]],
        hold_some: Callable[[list[UUID]], Awaitable[list[UUID]]],
        once: tuple[str, ...],
    ) -> None:
        """Work on the charges or withdrawals that can be locked now, and on the others in later turns. Each turn makes
        the rows of the tables `once`, which need no lock, for the whole range, and reads its whole journal."""
        before = self.standing.journaled
        for turn in range(_TURNS_MAX):
            self.standing.journaled = before
            async with self.conn.transaction():
                await plan_for_this(self.conn)
                # The journal is read after the locks are taken, so that it cannot grow for these ids before the commit.
                held = await hold_some(sorted(left))
                made = await work(held)
            self._count(made if turn == 0 else {name: rows for name, rows in made.items() if name not in once})
            left -= set(held)
            if not left:
                return
            await asyncio.sleep(_TURN_S)
        raise StillHeld(f"{len(left)} are held by others, {min(left)} is one")

    async def _charges_held(self, first: UUID, last: UUID, held: list[UUID]) -> dict[str, int]:
        shadows = await Shadows.make_to_write(self.conn, *verify_rows.READ)
        await verify_rows.fill_charges(self.conn, **_whole(first, last))
        self.standing.journaled += await shadows.project(tuple(Projection))
        made = {table: await repair(self.conn, first=first, last=last, held=held) for table, repair in _CHARGES.items()}
        for each in _LINES:
            await each(self.conn)
        return made | {"read_ledger": await shadows.count("read_ledger")}

    async def _others_held(self, first: UUID, last: UUID, held: list[UUID]) -> dict[str, int]:
        shadows = await Shadows.make_to_write(self.conn, *verify_rows.READ)
        await verify_rows.fill_others(self.conn, **_whole(first, last))
        self.standing.journaled += await shadows.project(tuple(Projection))
        made = {"read_withdrawal": await _withdrawals(self.conn, first=first, last=last, held=held)}
        for each in (*_LINES, *_EVENTS):
            await each(self.conn)
        return made | {table: await shadows.count(table) for table in ("read_ledger", "read_event")}

    # Ledger lines and events, which are written once and need no lock

    async def _ledgers(self, scope: VerifyScope, began: str) -> str | None:
        lines, following = await verify_rows.next_lines(self.conn, scope, began)
        await verify_rows.make_lines(await Shadows.make_to_write(self.conn, "read_ledger"), lines)
        await _drop_lines(self.conn, lines=lines)
        return following

    async def _feeds(self, scope: VerifyScope, began: str) -> str | None:
        events, following = await verify_rows.next_events(self.conn, scope, began)
        others = [event for event in events if event.journal_id is not None]
        await verify_rows.make_events(await Shadows.make_to_write(self.conn, "read_event"), others)
        await _drop_events(self.conn, events=others)
        return following

    # Totals: each slice locks the position of the daily totals, so the worker that folds them skips its round

    async def _fold(self, _: str) -> None:
        """Fold everything up to now into the daily totals, as the worker's duty does."""
        turns, horizon = 0, None
        while turns < _TURNS_MAX:
            horizon = horizon or await settled_up_to(self.conn)
            if horizon is not None:
                async with self.conn.transaction():
                    folded = await fold_up_to(self.conn, horizon)
                if folded == 0:
                    return
                if folded is not None:
                    continue
            turns += 1
            await asyncio.sleep(_TURN_S)

    async def _report_charges(self, first: UUID, last: UUID) -> None:
        async with self.conn.transaction():
            await plan_for_this(self.conn)
            at = await hold(self.conn)
            shadows = await Shadows.make_to_write(self.conn, *verify_rows.CHARGES_FOLDED)
            await verify_rows.fill_charges(self.conn, **_whole(first, last))
            await shadows.fold((Fold.CHARGES,), up_to=at.journal_id)
            made = await _report_charges(self.conn, first=first, last=last)
        self._count({"report_charge": made})

    async def _days(self, scope: VerifyScope, began: str) -> str | None:
        await hold(self.conn)
        day, until, following = await verify_totals.next_days(self.conn, scope, began)
        shadows = await Shadows.make_to_write(self.conn, *verify_totals.FOLDED)
        await verify_totals.fill_days(self.conn, day=day, until=until)
        await shadows.fold(verify_totals.DAYS)
        for table, repair in _DAYS.items():
            self._count({table: await repair(self.conn, day=day, until=until)})
        self._count({"span_entry": await _entry_days(self.conn, day=day, until=until)})
        return following

    async def _issued(self, mode: Mode, scope: VerifyScope, began: str) -> str | None:
        await hold(self.conn)
        at = await verify_totals.next_issued(self.conn, scope, began, test=mode.test)
        await Shadows.make_to_write(self.conn, *verify_totals.ISSUED)
        await verify_totals.fill_issued(self.conn, **verify_totals.given(at, scope), test=mode.test)
        await real_first(self.conn)
        await self._charge_days(mode, "issued", at)
        if mode is Mode.PRODUCTION:
            for table, repair in _ISSUED.items():
                self._count({table: await repair(self.conn, **msgspec.structs.asdict(at))})
        return at.next

    async def _due(self, mode: Mode, scope: VerifyScope, began: str) -> str | None:
        await hold(self.conn)
        at = await verify_totals.next_due(self.conn, scope, began, test=mode.test)
        await Shadows.make_to_write(self.conn, *verify_totals.DUE)
        await verify_totals.fill_due(self.conn, **verify_totals.given(at, scope), test=mode.test)
        await real_first(self.conn)
        await self._charge_days(mode, "due", at)
        if mode is Mode.PRODUCTION:
            self._count({"report_due": await _due(self.conn, **msgspec.structs.asdict(at))})
        return at.next

    async def _charge_days(self, mode: Mode, dated: str, at: verify_totals.AccountDays) -> None:
        made = await _charge_days(self.conn, **msgspec.structs.asdict(at), test=mode.test, dated=dated)
        self._count({"span_charge": made})

    async def _all_together(self, scope: VerifyScope, began: str) -> str | None:
        await hold(self.conn)
        day, until, following = await verify_totals.next_months(self.conn, scope, began)
        await Shadows.make_to_write(self.conn, "report_cohort", "report_due", "report_wait")
        await real_first(self.conn)
        await _fill_together(self.conn, day=day, until=until)
        await _together(self.conn, day=day, until=until)
        return following

    async def _spans(self, scope: VerifyScope, began: str) -> str | None:
        await hold(self.conn)
        first, last, following = await verify_totals.next_spans(self.conn, scope, began)
        await Shadows.make_to_write(self.conn, *_SPANS)
        await real_first(self.conn)
        await verify_totals.fill_spans(self.conn, first=first, last=last, since=scope.first, until=scope.after)
        for table, repair in _SPANS.items():
            self._count({table: await repair(self.conn, first=first, last=last)})
        return following

    def _count(self, made: dict[str, int]) -> None:
        for table, rows in made.items():
            self.standing.rows[table] = self.standing.rows.get(table, 0) + rows


def _whole(first: UUID, last: UUID) -> dict[str, Any]:
    scope = VerifyScope()
    return {"first": first, "last": last, "low": scope.low, "high": scope.high}
