"""Whether a process can do its work: PostgreSQL answers, with the schema that this version needs."""

import asyncio
from collections.abc import Sequence
from typing import Literal

import asyncpg

import sql
from runtime.postgres import DB_UNAVAILABLE, Pool, session
from sql.migrate import MIGRATIONS

ASK_S_MAX = 1.0
"""A probe that waits longer is no probe."""

_missing = sql.many("migration.missing", str)


class Readiness:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        # Read once: the files of a running process may be replaced by those of a later version.
        self._names: Sequence[str] = sorted(path.stem for path in MIGRATIONS.glob("*.sql"))
        self._migrated = False

    async def database(self) -> Literal["ready", "unreachable", "outdated"]:
        """`outdated`: a migration that this version has is missing. One that it does not know is a later version's."""
        try:
            async with asyncio.timeout(ASK_S_MAX), session(self._pool) as conn:
                if self._migrated:  # and stays so: migrations are never taken back
                    await conn.execute("SELECT 1")
                else:
                    self._migrated = not await _missing(conn, names=self._names)
        except asyncpg.UndefinedTableError:  # nothing was migrated at all
            return "outdated"
        except (*DB_UNAVAILABLE, asyncpg.PostgresError):  # also: no such database, no such user
            return "unreachable"
        return "ready" if self._migrated else "outdated"
