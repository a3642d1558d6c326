"""Whether a process can do its work: PostgreSQL answers, with the schema that this version needs."""

import asyncio
from collections.abc import Sequence
from typing import Literal

import asyncpg

from runtime.postgres import DB_UNAVAILABLE, Pool, session
from sql.migrate import find_unfit
from sql.migration_files import read_migrations

ASK_S_MAX = 1.0
"""A probe that waits longer is no probe."""


class Readiness:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        # Read once: the files of a running process may be replaced by those of a later version.
        self._names: Sequence[str] = list(read_migrations())

    async def database(self) -> Literal["ready", "unreachable", "outdated", "outgrown"]:
        """`outdated`: a migration that this version has is missing. `outgrown`: a later version took away what this one
        may use. One that only adds is minded by nobody."""
        try:
            async with asyncio.timeout(ASK_S_MAX), session(self._pool) as conn:
                unfit = await find_unfit(conn, names=self._names)
        except asyncpg.UndefinedTableError:  # nothing was migrated at all
            return "outdated"
        except (*DB_UNAVAILABLE, asyncpg.PostgresError):  # also: no such database, no such user
            return "unreachable"
        if not unfit:
            return "ready"
        return "outdated" if any(each.missing for each in unfit) else "outgrown"
