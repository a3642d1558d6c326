"""While PostgreSQL stays away, all requests are refused within seconds, however many arrive together; they succeed once
it is back."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from cli.answer import connected, reaching_postgres
from cli.run.child import CannotRun
from runtime.local.embedded import EmbeddedPostgres
from runtime.postgres import DB_UNAVAILABLE, connect
from sql.migrate import migrate
from tests.support.hanging import hanging
from tests.support.in_process import Api, open_api

CONCURRENT = 60
REFUSED_S_MAX = 15.0
"""A creation waits 8 s for a restart of the database (api/operations/pix.py)."""


@pytest.fixture
def postgres(home: Path) -> Iterator[EmbeddedPostgres]:
    """A server for the test only, which it may stop."""
    started = EmbeddedPostgres()
    started.start(home, fsync=False)
    yield started
    started.stop()


async def test_concurrent_creations_get_503_while_postgres_is_away_and_succeed_afterwards(
    servers: Any, postgres: EmbeddedPostgres
) -> None:
    await migrate(postgres.dsn, app_url=postgres.app_dsn, report_url=postgres.report_dsn)
    async with open_api(postgres.app_dsn, servers.redis_url) as api:
        token = await api.token()
        keys = [str(uuid4()) for _ in range(CONCURRENT)]
        assert {reply.status for reply in await _create(api, token, keys[:1])} == {201}
        # The creations have looked up their keys and are about to be written when PostgreSQL stops.
        lock = await connect(postgres.dsn)
        await lock.execute("BEGIN")
        await lock.execute("LOCK TABLE charge IN ACCESS EXCLUSIVE MODE")
        creating = asyncio.create_task(_create(api, token, keys[1:]))
        await asyncio.sleep(0.5)
        began = time.monotonic()
        await asyncio.to_thread(postgres.stop)
        lock.terminate()
        replies = await asyncio.wait_for(creating, REFUSED_S_MAX * 3)
        took_s = time.monotonic() - began
        # The lock may end some milliseconds before a batch that waits for it; that batch is written then.
        refused = [reply for reply in replies if reply.status != 201]
        assert {(reply.status, reply.code(), reply.header("retry-after")) for reply in refused} == {
            (503, "SERVICE_UNAVAILABLE", "1")
        }
        assert took_s < REFUSED_S_MAX
        await asyncio.to_thread(postgres.restart)
        expected = [200 if reply.status == 201 else 201 for reply in replies]
        assert [reply.status for reply in await _create(api, token, keys)] == [200, *expected]


@pytest.mark.parametrize("in_transaction", [False, True])
async def test_a_command_ends_at_its_timeout_although_postgres_hangs(
    servers: Any, monkeypatch: pytest.MonkeyPatch, in_transaction: bool
) -> None:
    """asyncpg waits until the server has cancelled the running statement, which a server that hangs never does."""
    async with hanging(servers.database_url) as (url, hangs):
        monkeypatch.setenv("DATABASE_URL", url)

        async def ask() -> None:
            async with (
                asyncio.timeout(0.5),
                connected() as conn,
                conn.transaction() if in_transaction else nullcontext(),
            ):
                hangs.set()
                await conn.fetchval("SELECT 1")

        async with asyncio.timeout(30) as patience:
            with pytest.raises(DB_UNAVAILABLE):
                await ask()
        assert not patience.expired()


async def test_an_api_closes_although_postgres_hangs(servers: Any) -> None:
    """A connection waits for the server to close it as well. Pool after pool, a process took longer to end than its
    supervisor waits; and the first pool that gave up left the others of a cell that was moved away open."""
    async with (
        hanging(servers.database_url) as (url, hangs),
        asyncio.timeout(30),
        open_api(url, servers.redis_url) as api,
    ):
        assert (await api.get("/readyz", token=None)).status == 200
        hangs.set()


def test_a_timeout_of_the_database_is_reported_as_no_answer() -> None:
    with pytest.raises(CannotRun, match="PostgreSQL cannot be reached: it does not answer"), reaching_postgres():
        raise TimeoutError


async def _create(api: Api, token: str, keys: list[str]) -> list[Any]:
    given = {"account_id": str(api.first.account_id), "amount": "10.00"}
    return await asyncio.gather(*(api.post("/v1/charges/pix", given, token=token, key=key) for key in keys))
