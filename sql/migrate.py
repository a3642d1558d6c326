"""Bring a database to the newest shape: each file of sql/migrations once, in order, whole or not at all; and the feed's
months, which are a shape that follows the calendar."""

from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import asyncpg

MIGRATIONS = Path(__file__).parent / "migrations"
# Any number will do as long as nobody else uses it: two services that start at once migrate one after the other.
_LOCK = 7_203_415_508
MONTHS_AHEAD = timedelta(days=184)
"""So far ahead there are months of the feed, at each start and wherever a worker runs: half a year without either."""


async def migrate(database_url: str) -> list[str]:
    """Apply what is missing and answer the names of the files applied; raises what asyncpg raises."""
    conn = await asyncpg.connect(database_url)
    try:
        async with conn.transaction():
            await conn.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
            await conn.execute(
                "CREATE TABLE IF NOT EXISTS migration ("
                "name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())"
            )
            done = {record["name"] for record in await conn.fetch("SELECT name FROM migration")}
            missing = [path for path in sorted(MIGRATIONS.glob("*.sql")) if path.stem not in done]
            for path in missing:
                await conn.execute(path.read_text(encoding="utf-8"))
                await conn.execute("INSERT INTO migration (name) VALUES ($1)", path.stem)
        await _make_months(conn)
        return [path.stem for path in missing]
    finally:
        await conn.close()


async def _make_months(conn: "asyncpg.Connection[asyncpg.Record]") -> None:
    """However many events lie where no month was: a start is the moment when nobody minds that they are moved."""
    # Somebody may be writing all the time. A worker tries again within the hour, and an event without a month is kept.
    with suppress(asyncpg.LockNotAvailableError):
        await conn.execute(
            "SELECT feed_make_months((now() AT TIME ZONE 'UTC')::date, ((now() + $1) AT TIME ZONE 'UTC')::date)",
            MONTHS_AHEAD,
        )
