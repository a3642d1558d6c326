"""Whether a process can do its work: PostgreSQL answers with the schema that this version needs; Redis takes writes."""

import asyncio
from collections.abc import Sequence
from typing import Literal, TypeAlias

import asyncpg
from redis.asyncio import Redis

from runtime.postgres import DB_UNAVAILABLE, Pool, session
from runtime.redis import REDIS_UNAVAILABLE
from sql.migrate import find_read_only, find_unfit
from sql.migration_files import read_migrations

ASK_S_MAX = 1.0
"""The longest wait of a probe; a PostgreSQL that has not answered by then counts as unreachable."""


DatabaseState: TypeAlias = Literal["ready", "read_only", "unreachable", "outdated", "outgrown"]


class Readiness:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        # Read once: the files of a running process may be replaced by those of a later version.
        self._names: Sequence[str] = list(read_migrations())
        self._check: asyncio.Task[DatabaseState] | None = None

    async def database(self) -> DatabaseState:
        """`outdated`: a migration of this version is missing. `outgrown`: a later version removed something that this
        version may use; a later migration that only adds does no harm. `read_only`: it answers, and takes no writes."""
        # All probes wait for one question: a server that hangs keeps its connection busy for seconds after the timeout.
        check = self._check
        if check is None or check.done():
            check = self._check = asyncio.create_task(self._check_database())
        await asyncio.wait((check,), timeout=ASK_S_MAX)
        return check.result() if check.done() else "unreachable"

    async def _check_database(self) -> DatabaseState:
        try:
            async with asyncio.timeout(ASK_S_MAX), session(self._pool) as conn:
                unfit = await find_unfit(conn, names=self._names)
                read_only = await find_read_only(conn)
        except asyncpg.UndefinedTableError:  # nothing was migrated at all
            return "outdated"
        except (*DB_UNAVAILABLE, asyncpg.PostgresError):  # also: no such database, no such user
            return "unreachable"
        if not unfit:
            return "read_only" if read_only else "ready"
        return "outdated" if any(unfit) else "outgrown"


async def takes_writes(redis: Redis) -> bool:
    """Whether Redis takes writes. A Redis that answers and takes none counts as gone (runtime/redis.py)."""
    try:
        async with asyncio.timeout(ASK_S_MAX):
            await redis.set("ready", b"", ex=1)
    except REDIS_UNAVAILABLE:
        return False
    return True
