"""Move a cell to another server while it is in use, by PostgreSQL's logical replication.

1. The tables are created at the new server, and a subscription copies them and follows the writes made meanwhile.
2. Requests to the cell are held, and its old tables refuse every write: a process that did not learn of the move gets
   errors, and no acknowledged write is lost.
3. The new server reads the old one's log to the end, and the sequences are set. The directory names the new address,
   and the held requests continue there.

Until the directory is changed, every step can be reverted, and is when one fails. The old tables stay as they are,
refusing writes, until the operator drops them.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Final

import asyncpg
from msgspec import Struct

import sql
from commands.cells.add import HomeAddresses, addresses_at, alone, make_schema, wrong
from readmodels.reports.fold import wait_for_horizon
from runtime.cells.addresses import PUBLIC, as_role_of, schema_of, shown, with_search_path
from runtime.cells.directory import Cell, count_accounts, own_number, read_cells, seal_addresses
from runtime.postgres import connect
from runtime.seal import Seal
from sql import Connection
from sql.migrate import migrate

_LOOK_S: Final = 0.05
_PROGRESS_S: Final = 2.0
_ANNOUNCED_S: Final = 5.0
"""After this time every process has opened the cell at its new address, and checks ten times a second whether to hold
requests."""
_HOLD_S: Final = 0.3
"""After this time every process holds requests. Writes of a process that did not learn of it are refused, and not
acknowledged."""
_CATCH_UP_S: Final = 15.0
"""How long requests to the cell may be held; then the move is reverted, to be tried again when less is written."""
_LOCK_S: Final = 3.0
_FIRST_ID: Final = -(2**63)
_LAST_ID: Final = 2**63 - 1
_NOT_COPIED: Final = frozenset(("migration", "this_cell", "sealing_key"))
"""Tables whose rows the migrations at the new server, and processes that opened the cell there, write themselves."""

Tell = Callable[[str], None]


class CellMoved(Struct, frozen=True):
    """The result of a move. `held_s`: how long requests to the cell were held."""

    name: str
    number: int
    database: str
    tables: int
    journal_rows: int
    held_s: float


class _Table(Struct, frozen=True):
    name: str
    partitioned: bool
    part: bool
    keyed: bool
    schema: str


class _Sequence(Struct, frozen=True):
    """A sequence of the cell; `last_value` is None before its first value was taken."""

    name: str
    start_value: int
    min_value: int
    max_value: int
    last_value: int | None


class _LogPosition(Struct, frozen=True):
    lsn: str
    level: str


class _CopyProgress(Struct, frozen=True):
    waiting: int
    tables: int


class _JournalRows(Struct, frozen=True):
    last: int
    rows: int


_tables = sql.many("cell_owner.tables", _Table)
_sequences = sql.many("cell_owner.sequences", _Sequence)
_log_position = sql.one("cell_owner.position", _LogPosition)
_copy_progress = sql.one("cell_owner.copying", _CopyProgress)
_has_replayed = sql.maybe("cell_owner.replayed", bool)
_end_reader = sql.maybe("cell_owner.end_reader", bool)
_has_slot = sql.one("cell_owner.has_slot", bool)
_journal_between = sql.one("cell_owner.journal_between", _JournalRows)
_make_slot = sql.one("cell_owner.make_slot", str)
_drop_slot = sql.one("cell_owner.drop_slot", bool)
_set_sequence = sql.one("cell_owner.set_sequence", int)
_find_fenced = sql.many("cell_owner.fenced", str)
_set_own_number = sql.run("cell_owner.become")
_announce_move = sql.run("cell_owner.moving")
_hold_requests = sql.run("cell_owner.hold")
_release_requests = sql.run("cell_owner.let_go")
_moved = sql.run("cell_owner.moved")


async def move_cell(
    home: Connection,
    at: HomeAddresses,
    name: str,
    dsn: str,
    *,
    from_dsn: str | None = None,
    seal: Seal,
    now: Callable[[], datetime],
    tell: Tell = lambda _: None,
) -> CellMoved:
    """Move the cell to the database at `dsn`, whose role will own its tables; the schema keeps its name. `from_dsn` is
    the present address, with a role that owns the tables and may replicate; by default home's owner at that address.
    The old server must have wal_level = logical. Refused(VALIDATION_ERROR) with fields.name, fields.dsn or
    fields.from_dsn; also raises the errors of asyncpg and of migrations."""
    async with alone(home):
        cell = next((each for each in await read_cells(home, seal) if each.name == name), None)
        if cell is None:
            raise wrong("name", f"there is no cell {name}; home moves with DATABASE_URL")
        old_url = as_role_of(cell.addresses.database_url, from_dsn or at.owner_url)
        new_url = with_search_path(dsn, schema_of(old_url))
        addresses = addresses_at(at, new_url)
        if addresses == cell.addresses:
            await _end_subscription(new_url, cell.number)  # left by a run that was interrupted at its end
            raise wrong("dsn", f"the cell is at {shown(new_url)} already")
        old = await _connect_to_old(old_url)
        try:
            tell("making the tables")
            await _make_tables(dsn, new_url, addresses.database_url, addresses.report_url)
            new = await connect(new_url)
            try:
                sealed = seal_addresses(addresses, cell.number, seal)
                return await _Move(cell, old, new, home, tell).run(old_url, new_url, sealed, now)
            finally:
                await new.close()
        finally:
            await old.close()


async def _connect_to_old(url: str) -> Connection:
    try:
        return await connect(url)
    except asyncpg.InvalidAuthorizationSpecificationError as error:
        raise wrong("from_dsn", f"{error} at {shown(url)}: name the owner of its tables with --from-dsn") from None


async def _make_tables(dsn: str, new_url: str, app_url: str, report_url: str) -> None:
    conn = await connect(dsn)
    try:
        await make_schema(conn, schema_of(new_url))
    finally:
        await conn.close()
    await migrate(new_url, app_url=app_url, report_url=report_url)


async def _end_subscription(url: str, number: int) -> None:
    conn = await connect(url)
    try:
        await conn.execute(f"DROP SUBSCRIPTION IF EXISTS {_replication_name(number)}")
    finally:
        await conn.close()


def _replication_name(number: int) -> str:
    """Returns the name of the publication, the slot and the subscription."""
    return f"quita_cell_{number}"


class _Move:
    def __init__(self, cell: Cell, old: Connection, new: Connection, home: Connection, tell: Tell) -> None:
        self._cell = cell
        self._old = old
        self._new = new
        self._home = home
        self._tell = tell
        self._name = _replication_name(cell.number)
        self._schema = ""
        self._tables: list[_Table] = []

    async def run(self, old_url: str, new_url: str, addresses_sealed: bytes, now: Callable[[], datetime]) -> CellMoved:
        if (await _log_position(self._old)).level != "logical":
            raise wrong("name", "the cell's server does not log for logical decoding: set wal_level = logical there")
        if await own_number(self._new) not in (0, self._cell.number) or await count_accounts(self._new):
            raise wrong("dsn", f"{shown(new_url)} has accounts: drop the schema there, if a move was cut off")
        self._tables = await _tables(self._old)
        self._schema = self._tables[0].schema
        await self._revert()  # clean up after a run that was interrupted
        try:
            # The subscription's DSN is for libpq, which accepts no search_path in a URL.
            await self._copy_tables(with_search_path(old_url, PUBLIC))
            await _set_own_number(self._new, number=self._cell.number)
            compared_up_to, rows = await self._compare_standing_rows()
            await self._announce_and_hold(addresses_sealed)
            began = time.monotonic()
            await self._fence()
            rows += await self._catch_up(compared_up_to)
        except BaseException:
            self._tell("taking the move back")
            await asyncio.shield(self._revert())
            raise
        # Outside the try: if the answer to this statement is lost, the directory may have changed, and reverting would
        # let both servers accept writes. The old tables then go on refusing writes, and the next run finds out.
        await _moved(self._home, number=self._cell.number, now=now())
        held_s = round(time.monotonic() - began + _HOLD_S, 3)
        await self._end_replication()
        tables = sum(not table.part for table in self._tables)
        return CellMoved(self._cell.name, self._cell.number, shown(new_url), tables, rows, held_s)

    async def _copy_tables(self, old_dsn: str) -> None:
        roots = [table for table in self._tables if not table.part and table.name not in _NOT_COPIED]
        new_tables = {table.name for table in await _tables(self._new)}
        if missing := [table.name for table in roots if table.name not in new_tables]:
            raise wrong(
                "name", f"the new server would not have {', '.join(missing)}: months taken out of the feed; drop them"
            )
        # Delete the rows that migrations or an interrupted run wrote. User triggers are off, because the journal and
        # other append-only tables refuse TRUNCATE.
        names = [table.name for table in roots]
        async with self._new.transaction():
            await self._new.execute(";".join(f"ALTER TABLE {name} DISABLE TRIGGER USER" for name in names))
            await self._new.execute(f"TRUNCATE {', '.join(names)}")
            await self._new.execute(";".join(f"ALTER TABLE {name} ENABLE TRIGGER USER" for name in names))
        for table in self._tables:
            if not table.keyed and not table.partitioned:
                await self._old.execute(f"ALTER TABLE {table.name} REPLICA IDENTITY FULL")
        qualified = ", ".join(f"{self._schema}.{table.name}" for table in roots)
        await self._old.execute(
            f"CREATE PUBLICATION {self._name} FOR TABLE {qualified} WITH (publish_via_partition_root = true)"
        )
        await _make_slot(self._old, name=self._name)
        await self._new.execute(
            f"CREATE SUBSCRIPTION {self._name} CONNECTION '{_escape_quotes(old_dsn)}' PUBLICATION {self._name}"
            " WITH (create_slot = false)"
        )
        reported_at = 0.0
        while True:
            progress = await _copy_progress(self._new, name=self._name)
            if progress.tables and not progress.waiting:
                break
            if time.monotonic() - reported_at >= _PROGRESS_S:
                reported_at = time.monotonic()
                self._tell(f"copied {progress.tables - progress.waiting} of {progress.tables} tables")
            await asyncio.sleep(_LOOK_S)
        self._tell(f"copied {progress.tables} tables, and follows what is written")
        await self._new.execute("ANALYZE")
        await self._wait_replayed((await _log_position(self._old)).lsn, None)

    async def _announce_and_hold(self, next_sealed: bytes) -> None:
        """Announce the new address to every process, then hold the requests to the cell."""
        self._tell("every process opens the cell at its new address")
        await _announce_move(self._home, number=self._cell.number, next_sealed=next_sealed)
        await asyncio.sleep(_ANNOUNCED_S)
        self._tell("holding requests to the cell")
        await _hold_requests(self._home, number=self._cell.number)
        await asyncio.sleep(_HOLD_S)

    async def _fence(self) -> None:
        """Make every write to the old tables fail as on a standby. Each table is fenced in its own statement: the lock
        waits for the table's writers while no other table is locked, so there is no deadlock."""
        await self._old.execute(
            f"CREATE OR REPLACE FUNCTION {self._schema}.moved_away() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE EXCEPTION 'this cell has moved to another server' USING ERRCODE = 'read_only_sql_transaction';"
            " END $$"
        )
        await self._old.execute(f"SET lock_timeout = '{_LOCK_S}s'")
        for table in self._tables:
            await self._old.execute(
                f"CREATE OR REPLACE TRIGGER moved_away BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {table.name}"
                f" FOR EACH STATEMENT EXECUTE FUNCTION {self._schema}.moved_away()"
            )
        await self._old.execute("SET lock_timeout = 0")

    async def _catch_up(self, compared_up_to: int) -> int:
        """Returns the number of journal rows above `compared_up_to`, which both servers have."""
        self._tell("writes are refused at the old server; the new one reads what is left")
        position = await _log_position(self._old)
        await self._wait_replayed(position.lsn, time.monotonic() + _CATCH_UP_S)
        for sequence in await _sequences(self._old):
            # With its bounds: control numbers come from the cell's own block, which migrations do not know.
            await self._new.execute(
                f"ALTER SEQUENCE {sequence.name} MINVALUE {sequence.min_value} MAXVALUE {sequence.max_value}"
                f" START {sequence.start_value} RESTART {sequence.start_value}"
            )
            if sequence.last_value is not None:
                await _set_sequence(self._new, name=sequence.name, last_value=sequence.last_value)
        return await self._compare_journals(compared_up_to, _LAST_ID)

    async def _compare_standing_rows(self) -> tuple[int, int]:
        """Compare the journals up to an id below which no row can appear any more; returns that id and the number of
        rows. Counting all rows takes minutes for hundreds of millions, and requests do not wait yet."""
        while (horizon := await wait_for_horizon(self._old)) is None:
            self._tell("waits for a transaction that writes")
        await self._wait_replayed((await _log_position(self._old)).lsn, None)
        return horizon.journal_id, await self._compare_journals(_FIRST_ID, horizon.journal_id)

    async def _compare_journals(self, after: int, up_to: int) -> int:
        """Returns how many rows both servers have in this range."""
        rows = await _journal_between(self._old, after=after, up_to=up_to)
        if (copied := await _journal_between(self._new, after=after, up_to=up_to)) != rows:
            raise RuntimeError(f"the journal was not copied whole: {copied} instead of {rows}")
        return rows.rows

    async def _wait_replayed(self, lsn: str, deadline: float | None) -> None:
        while not await _has_replayed(self._old, lsn=lsn, name=self._name):
            if deadline is not None and time.monotonic() > deadline:
                raise wrong("name", "the new server did not catch up in time; try again when less is written")
            await asyncio.sleep(_LOOK_S)

    async def _revert(self) -> None:
        """Revert the move: the cell is served by the old server as before."""
        await self._old.execute("SET lock_timeout = 0")
        # Only fenced tables: dropping a trigger takes a lock that would delay users of the other tables.
        for name in await _find_fenced(self._old):
            await self._old.execute(f"DROP TRIGGER moved_away ON {name}")
        await _release_requests(self._home, number=self._cell.number)
        await self._end_replication()

    async def _end_replication(self) -> None:
        """End the replication and remove all parts of it that exist."""
        with suppress(asyncpg.UndefinedObjectError):
            await self._new.execute(f"ALTER SUBSCRIPTION {self._name} DISABLE")
            await self._new.execute(f"ALTER SUBSCRIPTION {self._name} SET (slot_name = NONE)")
            await self._new.execute(f"DROP SUBSCRIPTION {self._name}")
        await self._old.execute(f"DROP PUBLICATION IF EXISTS {self._name}")
        deadline = time.monotonic() + _CATCH_UP_S
        while await _has_slot(self._old, name=self._name):
            try:
                await _drop_slot(self._old, name=self._name)
            except asyncpg.ObjectInUseError:
                await _end_reader(self._old, name=self._name)
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(_LOOK_S)
        for table in self._tables:
            if not table.keyed and not table.partitioned:
                await self._old.execute(f"ALTER TABLE {table.name} REPLICA IDENTITY DEFAULT")


def _escape_quotes(text: str) -> str:
    return text.replace("'", "''")
