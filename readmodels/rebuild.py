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
from readmodels.reports.fold import Fold, find_horizon, fold_up_to, hold, wait_for_horizon
from readmodels.shadow import Shadows, prefer_real_tables
from readmodels.verify import NothingToResume, plan_slice_by_index
from readmodels.verify_scope import VerifyScope
from readmodels.verify_totals import DUE, ISSUED, ChargeTotals
from runtime.postgres import connect
from sql import Connection

CHARGES_MAX: Final = 500
"""Charges, or withdrawals, locked at once: for some tens of milliseconds."""
TOTALS_MAX: Final = 10_000
"""Charges of a slice of totals. Such a slice may be larger, because it delays only the worker that folds the totals."""
_TURNS_MAX: Final = 100
_TURN_S: Final = 0.1
REBUILDS_KEPT: Final = 20
"""Rebuilds whose progress is kept for operators to read."""


class StillHeld(Exception):
    """A charge or withdrawal was locked by other transactions at every attempt for ten seconds."""


class _RebuildProgress(Struct):
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


class _RebuildRow(Struct, frozen=True):
    rebuild_id: int
    begun_at: datetime
    standing: bytes


class _Part(NamedTuple):
    """A walk along one table, in slices; `redo` repeats a range of ids that failed in its turn."""

    name: str
    first: str
    rebuild_slice: Callable[[str], Awaitable[str | None]]
    redo: Callable[[UUID, UUID], Awaitable[None]] | None = None


def _counting_statement(name: str) -> Callable[..., Awaitable[int]]:
    return sql.one(name, int)


_begin_rebuild = sql.one("rebuild.begin", _RebuildRow)
_find_unfinished = sql.maybe("rebuild.unfinished", _RebuildRow)
_delete_old_rebuilds = sql.run("rebuild.forget")
_store_standing = sql.run("rebuild.store")
_end_rebuild = sql.run("rebuild.end")
_charges_between = sql.many("rebuild.charges_between", UUID)
_lock_charges = sql.many("rebuild.lock_charges", UUID)
_withdrawals_between = sql.many("rebuild.withdrawals_between", UUID)
_lock_withdrawals = sql.many("rebuild.lock_withdrawals", UUID)
_REPAIR_CHARGES = sql.for_each("rebuild.charges", _counting_statement)
_repair_withdrawals = _counting_statement("rebuild.withdrawals")
_REPAIR_LINES = (sql.run("rebuild.clear_lines"), sql.run("rebuild.fill_lines"))
_REPAIR_EVENTS = (sql.run("rebuild.clear_events"), sql.run("rebuild.fill_events"))
_delete_unknown_lines = sql.run("rebuild.drop_lines")
_delete_unknown_events = sql.run("rebuild.drop_events")
_repair_report_charges = _counting_statement("rebuild.report_charges")
_REPAIR_DAYS = sql.for_each("rebuild.days", _counting_statement)
_repair_entry_days = _counting_statement("rebuild.entry_days")
_repair_charge_days = _counting_statement("rebuild.charge_days")
_REPAIR_REPORTS = {
    "issued": sql.for_each("rebuild.issued", _counting_statement),
    "due": {"report_due": _counting_statement("rebuild.due")},
}
_fill_totals_of_all = sql.run("rebuild.fill_together")
_repair_totals_of_all = _counting_statement("rebuild.together")
_REPAIR_SPANS = sql.for_each("rebuild.spans", _counting_statement)


async def rebuild(database_url: str, *, progress: Callable[[int], None] = lambda done: None) -> dict[str, int]:
    """Replace the rows of read tables and daily totals that differ from the journal. Returns the number of rows that
    the journal implies, per table."""
    conn = await connect(database_url)
    try:
        begun_at = (await find_horizon(conn)).as_of
        begun = await _begin_rebuild(conn, begun_at=begun_at, standing=msgspec.json.encode(_RebuildProgress()))
        await _delete_old_rebuilds(conn, kept=REBUILDS_KEPT)
        return await _Rebuild(conn, begun, progress).run()
    finally:
        await conn.close()


async def resume_rebuild(database_url: str, *, progress: Callable[[int], None] = lambda done: None) -> dict[str, int]:
    """Resume the newest unfinished rebuild. Returns the numbers of rows as `rebuild` does, earlier runs included."""
    conn = await connect(database_url)
    try:
        unfinished = await _find_unfinished(conn)
        if unfinished is None:
            raise NothingToResume("every rebuild was finished")
        return await _Rebuild(conn, unfinished, progress).run()
    finally:
        await conn.close()


class _Rebuild:
    def __init__(self, conn: Connection, row: _RebuildRow, progress: Callable[[int], None]) -> None:
        self.conn = conn
        self.rebuild_id = row.rebuild_id
        self.begun_at = row.begun_at
        self.progress = msgspec.json.decode(row.standing, type=_RebuildProgress)
        self.report_progress = progress

    async def run(self) -> dict[str, int]:
        parts = self._parts()
        names = [part.name for part in parts]
        reached = names.index(self.progress.part) if self.progress.part else 0
        for part in parts[reached:]:
            start: str | None = part.first
            if part.name == self.progress.part:
                start = self.progress.next
            while start is not None:
                start = await part.rebuild_slice(start)
                await self._store_progress(part.name, start)
            if part.redo is not None:
                while self.progress.again:
                    await part.redo(*self.progress.again[0])
                    del self.progress.again[0]
                    await self._store_progress(part.name, None)
        await _end_rebuild(self.conn, rebuild_id=self.rebuild_id)
        return self.progress.rows

    def _parts(self) -> tuple[_Part, ...]:
        scope = VerifyScope(begun=self.begun_at, rows_max=CHARGES_MAX)
        totals = VerifyScope(begun=self.begun_at, rows_max=TOTALS_MAX)
        key, lowest = verify_rows.first_key(totals), str(scope.lowest_id)
        day, account_day = verify_totals.first_day(totals), verify_totals.first_account_day(totals)

        def charge_totals(of: ChargeTotals, mode: Mode) -> Callable[[str], Awaitable[str | None]]:
            return self._key_slices(totals, partial(self._rebuild_charge_totals, of, mode))

        return (
            _Part(
                "charges", lowest, self._id_slices("charge_after", scope, self._rebuild_charges), self._rebuild_charges
            ),
            _Part("others", lowest, self._id_slices("other_after", scope, self._rebuild_others), self._rebuild_others),
            _Part("ledgers", key, self._key_slices(totals, self._rebuild_ledgers)),
            _Part("feeds", key, self._key_slices(totals, self._rebuild_feeds)),
            _Part("fold", "", self._fold_totals),
            _Part(
                "report_charges",
                lowest,
                self._id_slices("charge_after", totals, self._rebuild_report_charges),
                self._rebuild_report_charges,
            ),
            _Part("days", day, self._key_slices(totals, self._rebuild_days)),
            _Part("issued", account_day, charge_totals(ISSUED, Mode.PRODUCTION)),
            _Part("issued_in_sandboxes", account_day, charge_totals(ISSUED, Mode.SANDBOX)),
            _Part("due", account_day, charge_totals(DUE, Mode.PRODUCTION)),
            _Part("due_in_sandboxes", account_day, charge_totals(DUE, Mode.SANDBOX)),
            _Part("together", day, self._key_slices(totals, self._rebuild_totals_of_all)),
            _Part("spans", str(totals.low), self._key_slices(totals, self._rebuild_spans)),
        )

    async def _store_progress(self, part: str, next_start: str | None) -> None:
        """Stores the progress after the slice's commit, in a transaction of its own. A kill in between repeats one
        slice, which changes nothing."""
        self.progress.part, self.progress.next = part, next_start
        await _store_standing(self.conn, rebuild_id=self.rebuild_id, standing=msgspec.json.encode(self.progress))
        self.report_progress(self.progress.journaled)

    def _key_slices(
        self, scope: VerifyScope, look: Callable[[VerifyScope, str], Awaitable[str | None]]
    ) -> Callable[[str], Awaitable[str | None]]:
        async def rebuild_slice(start: str) -> str | None:
            async with self.conn.transaction():
                await plan_slice_by_index(self.conn)
                return await look(scope, start)

        return rebuild_slice

    def _id_slices(
        self, after: str, scope: VerifyScope, work: Callable[[UUID, UUID], Awaitable[None]]
    ) -> Callable[[str], Awaitable[str | None]]:
        """Slices by ranges of ids. A range that meets a unique key held by a row of another range is repeated at the
        end of the part."""

        async def rebuild_slice(start: str) -> str | None:
            first, last, next_start = await verify_rows.next_range(self.conn, after, scope, start)
            try:
                await work(first, last)
            except asyncpg.UniqueViolationError:
                self.progress.again.append((first, last))
            return next_start

        return rebuild_slice

    # Charges and withdrawals, which are locked while they are compared

    async def _rebuild_charges(self, first: UUID, last: UUID) -> None:
        pending = set(await _charges_between(self.conn, first=first, last=last))
        once = ("read_ledger",)
        await self._repair_in_turns(
            pending, lambda held: self._repair_charges(first, last, held), self._hold_charges, once
        )

    async def _rebuild_others(self, first: UUID, last: UUID) -> None:
        pending = set(await _withdrawals_between(self.conn, first=first, last=last))
        once = ("read_ledger", "read_event")
        await self._repair_in_turns(
            pending, lambda held: self._repair_others(first, last, held), self._hold_withdrawals, once
        )

    async def _hold_charges(self, ids: list[UUID]) -> list[UUID]:
        return await _lock_charges(self.conn, charge_ids=ids)

    async def _hold_withdrawals(self, ids: list[UUID]) -> list[UUID]:
        return await _lock_withdrawals(self.conn, withdrawal_ids=ids)

    async def _repair_in_turns(
        self,
        pending: set[UUID],
        repair: Callable[[list[UUID]], Awaitable[dict[str, int]]],
        lock_free: Callable[[list[UUID]], Awaitable[list[UUID]]],
        once: tuple[str, ...],
    ) -> None:
        """Work on the charges or withdrawals that can be locked now, and on the others in later turns. Each turn reads
        the journal of the whole range and repairs the tables in `once`, which need no lock, for all of it, so only the
        first turn counts them."""
        before = self.progress.journaled
        for turn in range(_TURNS_MAX):
            self.progress.journaled = before
            async with self.conn.transaction():
                await plan_slice_by_index(self.conn)
                # The journal is read after the locks are taken, so that it cannot grow for these ids before the commit.
                held = await lock_free(sorted(pending))
                rows_by_table = await repair(held)
            self._count_rows(
                rows_by_table if turn == 0 else {name: rows for name, rows in rows_by_table.items() if name not in once}
            )
            pending -= set(held)
            if not pending:
                return
            await asyncio.sleep(_TURN_S)
        raise StillHeld(f"{len(pending)} are held by others, {min(pending)} is one")

    async def _repair_charges(self, first: UUID, last: UUID, held: list[UUID]) -> dict[str, int]:
        shadows = await Shadows.make_to_write(self.conn, *verify_rows.READ)
        await verify_rows.fill_charges(self.conn, **_range_parameters(first, last))
        self.progress.journaled += await shadows.project(tuple(Projection))
        rows_by_table = {
            table: await repair(self.conn, first=first, last=last, held=held)
            for table, repair in _REPAIR_CHARGES.items()
        }
        for repair_lines in _REPAIR_LINES:
            await repair_lines(self.conn)
        return rows_by_table | {"read_ledger": await shadows.count("read_ledger")}

    async def _repair_others(self, first: UUID, last: UUID, held: list[UUID]) -> dict[str, int]:
        shadows = await Shadows.make_to_write(self.conn, *verify_rows.READ)
        await verify_rows.fill_others(self.conn, **_range_parameters(first, last))
        self.progress.journaled += await shadows.project(tuple(Projection))
        rows_by_table = {"read_withdrawal": await _repair_withdrawals(self.conn, first=first, last=last, held=held)}
        for repair in (*_REPAIR_LINES, *_REPAIR_EVENTS):
            await repair(self.conn)
        return rows_by_table | {table: await shadows.count(table) for table in ("read_ledger", "read_event")}

    # Ledger lines and events, which are written once and need no lock

    async def _rebuild_ledgers(self, scope: VerifyScope, start: str) -> str | None:
        lines, next_start = await verify_rows.next_lines(self.conn, scope, start)
        await verify_rows.make_lines(await Shadows.make_to_write(self.conn, "read_ledger"), lines)
        await _delete_unknown_lines(self.conn, lines=lines)
        return next_start

    async def _rebuild_feeds(self, scope: VerifyScope, start: str) -> str | None:
        events, next_start = await verify_rows.next_events(self.conn, scope, start)
        others = [event for event in events if event.journal_id is not None]
        await verify_rows.make_events(await Shadows.make_to_write(self.conn, "read_event"), others)
        await _delete_unknown_events(self.conn, events=others)
        return next_start

    # Totals: each slice locks the position of the daily totals, so the worker that folds them skips its round

    async def _fold_totals(self, _: str) -> None:
        """Fold everything up to now into the daily totals, as the worker's duty does."""
        turns, horizon = 0, None
        while turns < _TURNS_MAX:
            horizon = horizon or await wait_for_horizon(self.conn)
            if horizon is not None:
                async with self.conn.transaction():
                    folded = await fold_up_to(self.conn, horizon)
                if folded == 0:
                    return
                if folded is not None:
                    continue
            turns += 1
            await asyncio.sleep(_TURN_S)

    async def _rebuild_report_charges(self, first: UUID, last: UUID) -> None:
        async with self.conn.transaction():
            await plan_slice_by_index(self.conn)
            position = await hold(self.conn)
            shadows = await Shadows.make_to_write(self.conn, *verify_rows.CHARGES_FOLDED)
            await verify_rows.fill_charges(self.conn, **_range_parameters(first, last))
            await shadows.fold((Fold.CHARGES,), up_to=position.journal_id)
            rows = await _repair_report_charges(self.conn, first=first, last=last)
        self._count_rows({"report_charge": rows})

    async def _rebuild_days(self, scope: VerifyScope, start: str) -> str | None:
        await hold(self.conn)
        day, until, next_start = await verify_totals.next_days(self.conn, scope, start)
        shadows = await Shadows.make_to_write(self.conn, *verify_totals.FOLDED)
        await verify_totals.fill_days(self.conn, day=day, until=until)
        await shadows.fold(verify_totals.DAYS)
        for table, repair in _REPAIR_DAYS.items():
            self._count_rows({table: await repair(self.conn, day=day, until=until)})
        self._count_rows({"span_entry": await _repair_entry_days(self.conn, day=day, until=until)})
        return next_start

    async def _rebuild_charge_totals(
        self, totals: ChargeTotals, mode: Mode, scope: VerifyScope, start: str
    ) -> str | None:
        await hold(self.conn)
        account_days = await totals.next_slice(self.conn, scope, start, test=mode.test)
        await Shadows.make_to_write(self.conn, *totals.tables)
        await totals.fill(self.conn, **verify_totals.given(account_days, scope), test=mode.test)
        await prefer_real_tables(self.conn)
        slice_ = msgspec.structs.asdict(account_days)
        rows = await _repair_charge_days(self.conn, **slice_, test=mode.test, dated=totals.dated)
        self._count_rows({"span_charge": rows})
        if mode is Mode.PRODUCTION:
            for table, repair in _REPAIR_REPORTS[totals.dated].items():
                self._count_rows({table: await repair(self.conn, **slice_)})
        return account_days.next

    async def _rebuild_totals_of_all(self, scope: VerifyScope, start: str) -> str | None:
        await hold(self.conn)
        day, until, next_start = await verify_totals.next_months(self.conn, scope, start)
        await Shadows.make_to_write(self.conn, "report_cohort", "report_due", "report_wait")
        await prefer_real_tables(self.conn)
        await _fill_totals_of_all(self.conn, day=day, until=until)
        await _repair_totals_of_all(self.conn, day=day, until=until)
        return next_start

    async def _rebuild_spans(self, scope: VerifyScope, start: str) -> str | None:
        await hold(self.conn)
        first, last, next_start = await verify_totals.next_spans(self.conn, scope, start)
        await Shadows.make_to_write(self.conn, *_REPAIR_SPANS)
        await prefer_real_tables(self.conn)
        await verify_totals.fill_spans(self.conn, first=first, last=last, since=scope.first, until=scope.after)
        for table, repair in _REPAIR_SPANS.items():
            self._count_rows({table: await repair(self.conn, first=first, last=last)})
        return next_start

    def _count_rows(self, rows_by_table: dict[str, int]) -> None:
        for table, rows in rows_by_table.items():
            self.progress.rows[table] = self.progress.rows.get(table, 0) + rows


def _range_parameters(first: UUID, last: UUID) -> dict[str, Any]:
    scope = VerifyScope()
    return {"first": first, "last": last, "low": scope.low, "high": scope.high}
