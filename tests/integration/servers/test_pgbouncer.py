"""Behind PgBouncer in transaction mode the system works, or a process refuses to start and says why."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
import pytest_asyncio

from runtime.postgres import open_pool, session
from runtime.servers.role_settings import SETTINGS, SettingsMissing, others
from sql.migrate import migrate
from tests.support.database import own_database, owner_of
from tests.support.merchant import assert_books_are_clean, new_merchant, until_answer
from tests.support.pgbouncer import PROGRAM, pgbouncer
from tests.support.system import System, remove_home, temporary_home

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="PgBouncer is not installed (apt-get install pgbouncer)")

CHARGES = 40


@pytest_asyncio.fixture
async def url(servers: Any) -> AsyncIterator[str]:
    async with own_database(servers, "pooled") as made:
        yield made


async def test_the_whole_system_runs_behind_pgbouncer(servers: Any, url: str, home: Path) -> None:
    with pgbouncer(url, home) as pooled:
        pooler = {"DATABASE_URL": pooled, "DATABASE_OWNER_URL": owner_of(servers, url), "DATABASE_PREPARED": "0"}
        system = System(temporary_home(), env=pooler)
        try:
            await asyncio.to_thread(system.start)
            async with new_merchant(system) as merchant:
                clients = merchant.sandbox, merchant.production
                made = await asyncio.gather(*(client.created() for client in clients for _ in range(CHARGES)))
                paid = await asyncio.gather(*(merchant.sandbox.pay(each["charge_id"]) for each in made[:CHARGES]))
                assert {answer.status for answer in paid} == {200}
                cancelled = await asyncio.gather(
                    *(merchant.production.cancel(each["charge_id"]) for each in made[CHARGES:])
                )
                assert {answer.status for answer in cancelled} == {200}
                assert len(await merchant.sandbox.events()) == CHARGES
                assert len(await merchant.production.all("/v1/charges", status="cancelled")) == CHARGES
            await until_answer(lambda: orders_ended(url))
            assert_books_are_clean(system)
            logs = "".join(path.read_text(encoding="utf-8") for path in (system.home / "logs").glob("*.log"))
            assert [
                line for line in logs.splitlines() if "prepared statement" in line or "request_broken" in line
            ] == []
            assert await asyncio.to_thread(system.stop) == 0
        finally:
            if system.running():
                system.kill()
            remove_home(system.home)


async def orders_ended(url: str) -> bool:
    conn = await asyncpg.connect(url)
    try:
        return not await conn.fetchval("SELECT count(*) FROM bank_order")
    finally:
        await conn.close()


async def test_the_settings_that_statements_rely_on_hold_in_every_session_behind_pgbouncer(
    url: str, home: Path
) -> None:
    with pgbouncer(url, home) as pooled:
        pool = await open_pool(pooled, name="tests", size=6, statements_kept=0)
        # Behind PgBouncer a connection cannot set another time limit; the client enforces it.
        hurried = await open_pool(pooled, name="tests", size=1, statement_s=0.2, statements_kept=0)
        try:

            async def look() -> set[str]:
                async with session(pool) as conn, conn.transaction():
                    return await others(conn, SETTINGS)

            assert await asyncio.gather(*(look() for _ in range(30))) == [set()] * 30
            with pytest.raises(TimeoutError):
                async with session(hurried) as conn:
                    await conn.execute("SELECT pg_sleep(5)")
        finally:
            await hurried.close()
            await pool.close()


@pytest.mark.parametrize("ignored", ["", "jit, enable_seqscan, enable_bitmapscan, statement_timeout, lock_timeout"])
async def test_a_process_refuses_to_start_behind_pgbouncer_and_names_the_missing_setting(
    servers: Any, url: str, home: Path, ignored: str
) -> None:
    role = urlsplit(url).username
    owner = await asyncpg.connect(owner_of(servers, url))
    try:
        name = await owner.fetchval("SELECT current_database()")
        await owner.execute(f'ALTER ROLE {role} IN DATABASE "{name}" RESET enable_seqscan')
    finally:
        await owner.close()
    settings = {"ignore_startup_parameters": ignored} if ignored else {}
    with pgbouncer(url, home, **settings) as pooled:
        with pytest.raises(SettingsMissing, match="lacks enable_seqscan=off: "):
            await open_pool(pooled, name="tests", size=1, statements_kept=0)
        pool = await open_pool(url, name="tests", size=1)  # without a pooler in between, a connection sets it itself
        async with session(pool) as conn:
            assert await others(conn, SETTINGS) == set()
        await pool.close()
    await migrate(owner_of(servers, url), app_url=url)
    with pgbouncer(url, home, **settings) as pooled:  # a new PgBouncer has new sessions
        await (await open_pool(pooled, name="tests", size=1, statements_kept=0)).close()
