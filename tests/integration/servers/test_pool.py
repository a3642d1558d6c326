"""A pool's connection is returned clean, however the work on it ended."""

import asyncio
from typing import Any

import pytest

from runtime.postgres import Pool, open_pool, session

HELD = """
SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE application_name = $1 AND relation = 'lease'::regclass
"""
NAME = "a pool of one"


@pytest.mark.parametrize("ended_by", [asyncio.CancelledError, TimeoutError])
async def test_work_cancelled_before_its_statement_is_executed_leaves_no_lock(
    servers: Any, table_owner: Pool, ended_by: type[BaseException]
) -> None:
    """The work is cancelled between the two messages with which asyncpg prepares and executes a statement."""
    pool = await open_pool(servers.database_url, name=NAME, size=1)
    begun = asyncio.Event()

    async def ask() -> None:
        async with session(pool) as conn:
            begun.set()
            try:
                await conn.fetchval("SELECT count(*) FROM lease WHERE name = $1", "nobody's")
            except asyncio.CancelledError:
                raise ended_by from None  # as asyncio.timeout does

    try:
        asking: Any = asyncio.create_task(ask())
        await begun.wait()
        while asking._fut_waiter is None or not asking._fut_waiter.done():  # noqa: ASYNC110
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert await table_owner.fetchval(HELD, NAME) == 0
        async with session(pool) as conn:
            assert await conn.fetchval("SELECT 1") == 1
    finally:
        await pool.close()
