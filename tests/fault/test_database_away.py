"""While PostgreSQL stays away everybody is told so within seconds, however many asked together; then all goes on."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from runtime.local.embedded import EmbeddedPostgres
from runtime.postgres import connect
from sql.migrate import migrate
from tests.support.in_process import Api, open_api

TOGETHER = 60
TOLD_S = 15.0
"""A creation waits 8 s for a restart of the database (api/operations/pix.py)."""


@pytest.fixture
def postgres(home: Path) -> Iterator[EmbeddedPostgres]:
    """A server of the test's own, which it may stop."""
    started = EmbeddedPostgres()
    started.start(home, fsync=False)
    yield started
    started.stop()


async def test_creations_are_told_to_come_back_together_and_succeed_then(
    servers: Any, postgres: EmbeddedPostgres
) -> None:
    await migrate(postgres.dsn, app_url=postgres.app_dsn, report_url=postgres.report_dsn)
    async with open_api(postgres.app_dsn, servers.redis_url) as api:
        token = await api.token()
        keys = [str(uuid4()) for _ in range(TOGETHER)]
        assert {reply.status for reply in await _create(api, token, keys[:1])} == {201}
        # All have looked their keys up and are about to be written when it goes.
        lock = await connect(postgres.dsn)
        await lock.execute("BEGIN")
        await lock.execute("LOCK TABLE charge IN ACCESS EXCLUSIVE MODE")
        creating = asyncio.create_task(_create(api, token, keys[1:]))
        await asyncio.sleep(0.5)
        began = time.monotonic()
        await asyncio.to_thread(postgres.stop)
        lock.terminate()
        replies = await asyncio.wait_for(creating, TOLD_S * 3)
        took_s = time.monotonic() - began
        assert {(reply.status, reply.code()) for reply in replies} == {(503, "SERVICE_UNAVAILABLE")}
        assert {reply.header("retry-after") for reply in replies} == {"1"}
        assert took_s < TOLD_S
        await asyncio.to_thread(postgres.restart)
        assert [reply.status for reply in await _create(api, token, keys)] == [200, *[201] * (TOGETHER - 1)]


async def _create(api: Api, token: str, keys: list[str]) -> list[Any]:
    given = {"account_id": str(api.first.account_id), "amount": "10.00"}
    return await asyncio.gather(*(api.post("/v1/charges/pix", given, token=token, key=key) for key in keys))
