"""A duty under a lease is done by one process at a time, and by another one when that is gone."""

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


async def test_of_many_that_ask_at_once_one_holds_it(pool: Pool, name: str) -> None:
    assert sum(await asyncio.gather(*(take(pool, name, f"worker {number}") for number in range(20)))) == 1


async def test_its_holder_renews_it_and_nobody_else_takes_it_meanwhile(pool: Pool, name: str) -> None:
    until = "SELECT until FROM lease WHERE name = $1"
    assert await take(pool, name, "one")
    first = await pool.fetchval(until, name)
    assert not await take(pool, name, "other")
    assert await take(pool, name, "one")
    assert await pool.fetchval(until, name) > first
    assert not await take(pool, name, "other")


async def test_of_two_workers_with_one_host_name_and_process_number_one_holds_it(pool: Pool, name: str) -> None:
    """As containers on their host's network have, each of which is process 1."""
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


async def test_a_lease_that_ended_goes_to_whoever_asks_first(pool: Pool, name: str) -> None:
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


async def test_who_asks_for_a_lease_that_is_held_writes_nothing(pool: Pool, name: str) -> None:
    row: Any = "SELECT xmin, xmax, ctid FROM lease WHERE name = $1"
    assert await take(pool, name, "one")
    before = await pool.fetchrow(row, name)
    assert not await take(pool, name, "other")
    assert await pool.fetchrow(row, name) == before


async def test_a_lease_is_counted_from_the_statement_and_not_from_its_transaction(pool: Pool, name: str) -> None:
    async with pool.acquire() as conn, conn.transaction():
        began = await conn.fetchval("SELECT now()")
        await conn.execute("SELECT pg_sleep(0.05)")
        assert await take_lease(conn, name=name, holder="one", lease_s=0.02)
        assert await conn.fetchval("SELECT until - $2 > interval '50 ms' FROM lease WHERE name = $1", name, began)
