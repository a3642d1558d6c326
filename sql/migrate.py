"""Bring a database to the newest schema: apply each file of sql/migrations once, in order; grant each role its rights;
and make the monthly partitions, which follow the calendar.

The baseline is one transaction. Each later file has a transaction of its own and never waits long for a lock: while it
waits, every request to that table queues behind it. So it gives up, lets the requests pass, and tries again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

import asyncpg
from msgspec import Struct

import sql
from runtime.servers.primary import Hosts
from sql import Connection
from sql.migration_files import MIGRATIONS, MigrationFile, index_of, read_migrations
from sql.roles import grant_all

# Advisory lock: two services that start at once migrate one after the other.
_LOCK: Final = 7_203_415_508
_LOCK_POLL_S: Final = 0.2
MONTHLY: Final = (
    "read_event_production", "read_event_sandbox", "bank_order_done", "bank_hint_done", "webhook_delivery_done",
    "webhook_attempt",
)  # fmt: skip
"""The tables partitioned by month (migration 0014_months)."""
MONTHS_AHEAD: Final = timedelta(days=184)
"""How far ahead partitions are made, at each start and by workers: half a year without either does no harm."""
_PROGRESS_S: Final = 2.0


class Patience(Struct, frozen=True):
    """How long a file waits for locks. Each try waits at most `lock_s`, which bounds how long requests are held up.
    The pause between tries begins at `pause_s` and doubles up to `pause_s_max`; after `tries_max` tries (some twelve
    minutes) the file is given up."""

    lock_s: float = 2.0
    pause_s: float = 1.0
    pause_s_max: float = 30.0
    tries_max: int = 24


PATIENCE: Final = Patience()


class OutdatedDatabase(Exception):
    """The database has migrations that this version does not know or has as other text: its tables may have any
    shape."""


class MigrationBlocked(Exception):
    """A file did not get its locks. The files before it stay applied; the next run continues with this one."""


class _Building(Struct, frozen=True):
    phase: str
    total: int
    done: int


find_unfit = sql.many("migration.unfit", bool)
"""`names`: for each migration that makes the database unfit, whether it is missing."""
find_read_only = sql.one("migration.read_only", bool)
_index_valid = sql.maybe("migration.index_valid", bool)
_building = sql.maybe("migration.building", _Building)

Tell = Callable[[str], None]


async def migrate(
    database_url: str,
    *,
    app_url: str | None = None,
    report_url: str | None = None,
    folder: Path = MIGRATIONS,
    patience: Patience = PATIENCE,
    tell: Tell = lambda _: None,
) -> list[str]:
    """Apply the missing files as the owner, whom `database_url` names, grant the other roles their rights
    (sql/roles.py), and return the names of the applied files. `tell` is called with each step and each wait. Raises
    OutdatedDatabase, MigrationBlocked, CannotGrant and whatever asyncpg raises."""
    conn = await Hosts(database_url).connect()
    try:
        async with _alone(conn, tell):
            files = read_migrations(folder)
            async with conn.transaction():
                done = await _applied(conn)
                _refuse_strangers(files, done)
                missing = [each for each in files.values() if each.name not in done]
                for each in missing:
                    if each.baseline:
                        await conn.execute(each.text)
                        await _note(conn, each)
                await grant_all(conn, app_url=app_url, report_url=report_url)
            for each in missing:
                if each.outside:
                    await _run_outside(conn, each, database_url, tell)
                elif not each.baseline:
                    await _run_patiently(conn, each, patience, tell, app_url=app_url, report_url=report_url)
        await _make_months(conn)
        await conn.execute("SELECT expect_few_values()")
        return [each.name for each in missing]
    finally:
        await conn.close()


@asynccontextmanager
async def _alone(conn: Connection, tell: Tell) -> AsyncIterator[None]:
    """Hold the lock that lets one process at a time migrate this database. The lock is polled: a statement that waits
    for it holds a snapshot, and CREATE INDEX CONCURRENTLY of the lock's holder would wait for that statement to end."""
    waited = False
    while not await conn.fetchval("SELECT pg_try_advisory_lock($1)", _LOCK):
        if not waited:
            tell("another process migrates this database; waiting for it")
        waited = True
        await asyncio.sleep(_LOCK_POLL_S)
    try:
        yield
    finally:
        if not conn.is_closed():
            await conn.execute("SELECT pg_advisory_unlock($1)", _LOCK)


async def _applied(conn: Connection) -> dict[str, tuple[bytes | None, str | None]]:
    """Return, for each applied file, its hash when it was applied, and the file that code must know to run after it."""
    await conn.execute(
        "CREATE TABLE IF NOT EXISTS migration ("
        "name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now(), sha256 bytea, needs text);"
        # For a table made before `needs` existed. The check comes first because even an ALTER that changes nothing
        # takes a lock that blocks every /readyz.
        "DO $$ BEGIN IF NOT EXISTS ("
        "SELECT FROM pg_attribute WHERE attrelid = 'migration'::regclass AND attname = 'needs'"
        ") THEN ALTER TABLE migration ADD COLUMN needs text; END IF; END $$"
    )
    return {row["name"]: (row["sha256"], row["needs"]) for row in await conn.fetch("TABLE migration")}


def _refuse_strangers(files: Mapping[str, MigrationFile], done: Mapping[str, tuple[bytes | None, str | None]]) -> None:
    newest = max(files)
    later = {name for name in done if name not in files and name > newest}
    if changed := [
        name
        for name, (sha256, _) in done.items()
        if name not in later and (name not in files or sha256 != files[name].sha256)
    ]:
        raise OutdatedDatabase(
            f"the database was made by another, unreleased state of this program (migration {min(changed)});"
            " remove $QUITA_HOME, or name an empty database in DATABASE_URL"
        )
    if lost := [name for name in later if (needs := done[name][1]) is not None and needs not in files]:
        raise OutdatedDatabase(
            f"the database is of a later release, which took away what this one uses (migration {min(lost)})"
        )


async def _note(conn: Connection, file: MigrationFile) -> None:
    await conn.execute(
        "INSERT INTO migration (name, sha256, needs) VALUES ($1, $2, $3)", file.name, file.sha256, file.needs
    )


async def _run_patiently(
    conn: Connection,
    file: MigrationFile,
    patience: Patience,
    tell: Tell,
    *,
    app_url: str | None,
    report_url: str | None,
) -> None:
    pause_s = patience.pause_s
    for tried in range(1, patience.tries_max + 1):
        try:
            async with conn.transaction():
                await conn.execute(f"SET LOCAL lock_timeout = {round(patience.lock_s * 1000)}")
                await conn.execute(file.text)
                await _note(conn, file)
                await grant_all(conn, app_url=app_url, report_url=report_url)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            tell(
                f"{file.name}: somebody holds a lock it needs (try {tried} of {patience.tries_max});"
                f" again in {pause_s:g} s"
            )
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, patience.pause_s_max)
        else:
            tell(f"{file.name}: applied")
            return
    raise MigrationBlocked(
        f"{file.name} did not get its locks in {patience.tries_max} tries: look for transactions that have been open"
        " for long (pg_stat_activity), and run this again"
    )


async def _run_outside(conn: Connection, file: MigrationFile, database_url: str, tell: Tell) -> None:
    """Run a file statement by statement. Each statement may run twice, so an interrupted run can be repeated. There is
    no lock timeout: requests do not queue behind these statements, and giving up would leave an invalid index."""
    for statement in file.statements:
        index = index_of(statement)
        if index is not None:
            valid = await _index_valid(conn, name=index)
            if valid:
                continue
            if valid is not None:
                tell(f"{file.name}: {index} was left invalid; it is dropped and built again")
                await conn.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {index}")
        telling = asyncio.create_task(
            _tell_building(database_url, conn.get_server_pid(), f"{file.name}: {index}", tell)
        )
        try:
            await conn.execute(statement)
        finally:
            telling.cancel()
            await asyncio.wait((telling,))
    await _note(conn, file)
    tell(f"{file.name}: applied")


async def _tell_building(database_url: str, pid: int, what: str, tell: Tell) -> None:
    """Report the progress of the index every two seconds, read on a second connection, until cancelled."""
    await asyncio.sleep(_PROGRESS_S)
    with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        conn = await Hosts(database_url).connect()
        try:
            while True:
                if (found := await _building(conn, pid=pid)) is not None:
                    tell(f"{what}: {found.phase}, {found.done} of {found.total}")
                await asyncio.sleep(_PROGRESS_S)
        finally:
            await conn.close()


async def _make_months(conn: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Make the monthly partitions ahead, and move the rows of the default partitions into them without a limit on their
    number: during a start no request waits for the move."""
    for table in MONTHLY:
        # Writers may hold the lock. A worker tries again within the hour; until then the default partition takes rows.
        with suppress(asyncpg.LockNotAvailableError):
            await conn.execute(
                "SELECT make_months($1, (now() AT TIME ZONE 'UTC')::date, ((now() + $2) AT TIME ZONE 'UTC')::date)",
                table,
                MONTHS_AHEAD,
            )
