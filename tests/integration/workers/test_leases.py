"""A duty under a lease runs in one process at a time, and in another process once the first is gone."""

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from runtime.coordination.leases import release_lease, take_lease
from runtime.ids import new_id
from runtime.postgres import Pool, session
from tests.support.system import ROOT


@pytest.fixture
def name() -> str:
    return f"duty-{new_id()}"


async def take(pool: Pool, name: str, holder: str, lease_s: float = 60.0) -> bool:
    async with session(pool) as conn:
        return await take_lease(conn, name=name, holder=holder, lease_s=lease_s)


async def test_one_of_many_concurrent_processes_gets_the_lease(pool: Pool, name: str) -> None:
    assert sum(await asyncio.gather(*(take(pool, name, f"worker {number}") for number in range(20)))) == 1


async def test_the_holder_renews_a_lease_and_no_other_process_takes_it_meanwhile(pool: Pool, name: str) -> None:
    until = "SELECT until FROM lease WHERE name = $1"
    assert await take(pool, name, "one")
    first = await pool.fetchval(until, name)
    assert not await take(pool, name, "other")
    assert await take(pool, name, "one")
    assert await pool.fetchval(until, name) > first
    assert not await take(pool, name, "other")


async def test_two_workers_with_the_same_host_name_and_process_id_do_not_share_a_lease(pool: Pool, name: str) -> None:
    """Containers on their host's network share its host name, and each is process 1."""
    tell = (
        "import os, socket; os.getpid = lambda: 1; socket.gethostname = lambda: 'host'\n"
        "from workers.context import WORKER; print(WORKER)"
    )
    one, other = (
        subprocess.run([sys.executable, "-c", tell], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert await take(pool, name, one)
    assert not await take(pool, name, other)
    assert await take(pool, name, one)


async def test_an_expired_lease_goes_to_exactly_one_new_holder(pool: Pool, name: str) -> None:
    assert await take(pool, name, "died", lease_s=0.0)
    assert sum(await asyncio.gather(*(take(pool, name, f"worker {number}") for number in range(20)))) == 1
    assert not await take(pool, name, "died")


async def test_a_released_lease_is_free_at_once_and_only_its_holder_releases_it(pool: Pool, name: str) -> None:
    assert await take(pool, name, "one")
    async with session(pool) as conn:
        await release_lease(conn, name=name, holder="other")
    assert not await take(pool, name, "other")
    async with session(pool) as conn:
        await release_lease(conn, name=name, holder="one")
    assert await take(pool, name, "other")


async def test_a_refused_attempt_to_take_a_lease_writes_nothing(pool: Pool, name: str) -> None:
    row: Any = "SELECT xmin, xmax, ctid FROM lease WHERE name = $1"
    assert await take(pool, name, "one")
    before = await pool.fetchrow(row, name)
    assert not await take(pool, name, "other")
    assert await pool.fetchrow(row, name) == before


async def test_a_lease_runs_from_the_start_of_its_statement_not_of_its_transaction(pool: Pool, name: str) -> None:
    async with pool.acquire() as conn, conn.transaction():
        began = await conn.fetchval("SELECT now()")
        await conn.execute("SELECT pg_sleep(0.05)")
        assert await take_lease(conn, name=name, holder="one", lease_s=0.02)
        assert await conn.fetchval("SELECT until - $2 > interval '50 ms' FROM lease WHERE name = $1", name, began)
