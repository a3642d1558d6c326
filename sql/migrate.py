"""Bring a database to the newest schema: each file of sql/migrations once, in order, all or none; what each role
may do; and the monthly partitions, which follow the calendar."""

import hashlib
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import asyncpg

from sql.roles import grant_all

MIGRATIONS = Path(__file__).parent / "migrations"
# Advisory lock: two services that start at once migrate one after the other.
_LOCK = 7_203_415_508
MONTHLY = ("read_event", "bank_order_done", "bank_hint_done", "webhook_delivery_done", "webhook_attempt")
"""The tables partitioned by month (migration 0014_months)."""
MONTHS_AHEAD = timedelta(days=184)
"""How far ahead months are made, at each start and by workers: half a year without either is survived."""


class OutdatedDatabase(Exception):
    """It has migrations that this version does not know, or as other files, so its tables may be of any shape."""


async def migrate(database_url: str, *, app_url: str | None = None, report_url: str | None = None) -> list[str]:
    """Apply what is missing, as the owner whom `database_url` names, and grant the others their rights (sql/roles.py);
    the names of the files applied. Raises what asyncpg raises, OutdatedDatabase and CannotGrant."""
    conn = await asyncpg.connect(database_url)
    try:
        async with conn.transaction():
            await conn.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
            await conn.execute(
                "CREATE TABLE IF NOT EXISTS migration ("
                "name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now());"
                # Of the file as it was applied.
                "ALTER TABLE migration ADD COLUMN IF NOT EXISTS sha256 bytea"
            )
            done = {record["name"]: record["sha256"] for record in await conn.fetch("TABLE migration")}
            files = {path.stem: path.read_bytes() for path in sorted(MIGRATIONS.glob("*.sql"))}
            if changed := [
                name for name, applied in done.items() if name not in files or applied != _sha256(files[name])
            ]:
                raise OutdatedDatabase(
                    f"the database was made by another, unreleased state of this program (migration {min(changed)});"
                    " remove $QUITA_HOME, or name an empty database in DATABASE_URL"
                )
            missing = [name for name in files if name not in done]
            for name in missing:
                await conn.execute(files[name].decode())
                await conn.execute("INSERT INTO migration (name, sha256) VALUES ($1, $2)", name, _sha256(files[name]))
            await grant_all(conn, app_url=app_url, report_url=report_url)
        await _make_months(conn)
        return missing
    finally:
        await conn.close()


def _sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


async def _make_months(conn: "asyncpg.Connection[asyncpg.Record]") -> None:
    """However many rows lie in the default partitions: at a start no request waits while they are moved."""
    for table in MONTHLY:
        # Others may be writing. A worker tries again within the hour, and the default partition keeps the rows.
        with suppress(asyncpg.LockNotAvailableError):
            await conn.execute(
                "SELECT make_months($1, (now() AT TIME ZONE 'UTC')::date, ((now() + $2) AT TIME ZONE 'UTC')::date)",
                table,
                MONTHS_AHEAD,
            )
