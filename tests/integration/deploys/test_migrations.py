"""A release is rolled out beside the previous one: its migrations block no request, may be interrupted anywhere, and
leave a schema on which the running code works."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import asyncpg
import pytest

from sql.migrate import MigrationBlocked, OutdatedDatabase, Patience, migrate
from sql.migration_files import MIGRATIONS
from tests.support.api_process import api_process, prepared_merchants
from tests.support.database import own_database, owner_of
from tests.support.system import until

_QUICK = Patience(lock_s=0.2, pause_s=0.1, pause_s_max=0.1, tries_max=200)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The migrations of a later release: the present ones and those that a test adds."""
    made = tmp_path / "migrations"
    made.mkdir()
    (made / "baseline").symlink_to(MIGRATIONS / "baseline")
    for path in MIGRATIONS.glob("*.sql"):
        (made / path.name).symlink_to(path)
    return made


@pytest.fixture
async def database(servers: Any) -> AsyncIterator[str]:
    async with own_database(servers, "migrated") as url:
        yield url


@pytest.fixture
async def owner(servers: Any, database: str) -> AsyncIterator[Any]:
    conn = await asyncpg.connect(owner_of(servers, database))
    yield conn
    await conn.close()


class _Load:
    """A merchant's program: it creates charges one after the other, looks each up, and pays every tenth."""

    def __init__(self, base_url: str, account_id: str, token: str) -> None:
        self._base_url, self._account_id, self._token = base_url, account_id, token
        self.done = 0
        self.failed: list[str] = []

    async def run(self) -> None:
        headers = {"Authorization": f"Bearer {self._token}"}
        body = {"account_id": self._account_id, "amount": "3.20"}
        async with aiohttp.ClientSession(self._base_url, headers=headers) as http:
            while True:
                async with http.post("/v1/charges/pix", json=body, headers={"Idempotency-Key": str(uuid4())}) as made:
                    charge = await made.json()
                    if made.status != 201:
                        self.failed.append(f"{made.status} {charge}")
                        continue
                path = f"/v1/charges/{charge['charge_id']}"
                asked = [("GET", path), ("GET", "/v1/charges")]
                if self.done % 10 == 0:
                    asked.append(("POST", f"{path}/simulate-payment"))
                for method, each in asked:
                    async with http.request(method, each) as answer:
                        if answer.status != 200:
                            self.failed.append(f"{method} {each} {answer.status} {await answer.text()}")
                self.done += 1


@contextlib.asynccontextmanager
async def _load(servers: Any, url: str, tmp_path: Path) -> AsyncIterator[_Load]:
    class Servers:
        database_url, redis_url = url, servers.redis_url

    async with prepared_merchants(Servers, 1) as (merchant,):
        with api_process(Servers, tmp_path, HOST="127.0.0.1") as api:
            load = _Load(api.base_url, str(merchant.account_id), api.token(merchant))
            running = asyncio.create_task(load.run())
            try:
                yield load
                assert not running.done(), running
            finally:
                running.cancel()
                await asyncio.wait((running,))


async def _until(true: Any) -> None:
    await asyncio.to_thread(until, true)


async def test_a_migration_that_waits_for_a_long_transaction_blocks_no_request(
    servers: Any, database: str, owner: Any, folder: Path, tmp_path: Path
) -> None:
    """The transaction stays open until the migration has tried six times; requests succeed all the while."""
    (folder / "0016_note.sql").write_text(
        "-- expand\nALTER TABLE charge ADD COLUMN note text NOT NULL DEFAULT '', ADD COLUMN noted_at timestamptz;\n"
    )
    (folder / "0017_read.sql").write_text("-- expand\nALTER TABLE read_charge ADD COLUMN note text;\n")
    (folder / "0018_index.sql").write_text(
        "-- outside a transaction\nCREATE INDEX CONCURRENTLY charge_note ON charge (note, charge_id);\n"
    )
    told: list[str] = []
    async with _load(servers, database, tmp_path) as load:
        await _until(lambda: load.done > 3)
        async with owner.transaction():
            await owner.execute("SELECT FROM charge LIMIT 1")  # Stands for a report that runs for an hour.
            going = asyncio.create_task(
                migrate(owner_of(servers, database), folder=folder, patience=_QUICK, tell=told.append)
            )
            await _until(lambda: len(told) >= 3)
            before = load.done
            await _until(lambda: len(told) >= 6 and load.done > before + 3)
            assert not going.done()
        assert await going == ["0016_note", "0017_read", "0018_index"]
        assert told[-3:] == [f"{name}: applied" for name in ("0016_note", "0017_read", "0018_index")]
        before = load.done
        await _until(lambda: load.done > before + 12)  # The old code, with its prepared statements, on the new schema.
        assert load.failed == []
    assert await owner.fetchval("SELECT count(*) FROM charge WHERE note = ''") >= load.done


async def test_a_migration_that_gets_no_lock_fails_and_the_next_run_continues_with_it(
    servers: Any, database: str, owner: Any, folder: Path
) -> None:
    (folder / "0016_first.sql").write_text("-- expand\nALTER TABLE account ADD COLUMN first int;\n")
    (folder / "0017_second.sql").write_text("-- expand\nALTER TABLE charge ADD COLUMN second int;\n")
    url, once = owner_of(servers, database), Patience(lock_s=0.05, pause_s=0.01, tries_max=2)
    async with owner.transaction():
        await owner.execute("LOCK TABLE charge IN ACCESS SHARE MODE")
        with pytest.raises(MigrationBlocked, match="0017_second"):
            await migrate(url, folder=folder, patience=once)
    assert await migrate(url, folder=folder, patience=once) == ["0017_second"]


async def test_an_index_whose_build_was_interrupted_is_built_again(
    servers: Any, database: str, owner: Any, folder: Path
) -> None:
    (folder / "0016_index.sql").write_text(
        "-- outside a transaction\nCREATE INDEX CONCURRENTLY account_one ON account (name);\n"
        "CREATE UNIQUE INDEX CONCURRENTLY account_two ON account (created_at);\n"
    )
    url, told = owner_of(servers, database), list[str]()
    other = await asyncpg.connect(url)
    async with other.transaction():
        await other.execute("LOCK TABLE account IN ROW EXCLUSIVE MODE")  # The index build waits for this writer.
        going = asyncio.create_task(migrate(url, folder=folder, tell=told.append))
        building = (  # A build has a row here before its index is in the catalogue, so only a waiting build is killed.
            "SELECT pid FROM pg_stat_progress_create_index WHERE datname = current_database()"
            " AND phase = 'waiting for writers before build'"
        )
        async with asyncio.timeout(30):
            while not (pid := await owner.fetchval(building)):  # noqa: ASYNC110 - a view
                await asyncio.sleep(0.01)
        await owner.execute("SELECT pg_terminate_backend($1)", pid)
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await going
    await other.close()
    valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)"
    assert await owner.fetchval(valid, "account_one") is False
    assert await migrate(url, folder=folder, tell=told.append) == ["0016_index"]
    assert "0016_index: account_one was left invalid; it is dropped and built again" in told
    assert [await owner.fetchval(valid, name) for name in ("account_one", "account_two")] == [True, True]


async def test_concurrent_migrations_run_one_after_the_other(servers: Any, database: str, folder: Path) -> None:
    """Also when an index is built concurrently, which waits for every transaction that has a snapshot."""
    (folder / "0016_index.sql").write_text(
        "-- outside a transaction\nCREATE INDEX CONCURRENTLY account_one ON account (name);\n"
    )
    url = owner_of(servers, database)
    async with asyncio.timeout(30):
        done = await asyncio.gather(*(migrate(url, folder=folder) for _ in range(3)))
    assert sorted(done) == [[], [], ["0016_index"]]


async def test_an_older_release_is_refused_only_after_a_migration_that_removes_what_it_uses(
    servers: Any, database: str, folder: Path
) -> None:
    url = owner_of(servers, database)
    (folder / "0016_note.sql").write_text("-- expand\nALTER TABLE account ADD COLUMN note text;\n")
    assert await migrate(url, folder=folder) == ["0016_note"]
    assert await migrate(url) == []
    (folder / "0017_gone.sql").write_text("-- contract after 0016_note\nALTER TABLE account DROP COLUMN note;\n")
    assert await migrate(url, folder=folder) == ["0017_gone"]
    with pytest.raises(OutdatedDatabase, match=r"later release.*0017_gone"):
        await migrate(url)
