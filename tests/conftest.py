"""The fixtures of all tests: servers, a migrated database, and the whole system.

Servers and system are started once per run (once per process under xdist), when the first test needs them.
"""

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from runtime.local.embedded import EmbeddedPostgres, EmbeddedRedis
from tests.support.database import drop_template
from tests.support.in_process import Api, open_api
from tests.support.merchant import ApiMerchant, Books, database_of, new_merchant
from tests.support.system import TWO_APIS, System, remove_home, temporary_home

# Hypothesis generates the same examples in every run and has no deadline, so that a run fails only because of a change.
# To search for more, name another profile (--hypothesis-profile=default).
settings.register_profile(
    "same_every_run", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same_every_run")

# Modules and tests, half a million objects, stay until the run ends. Garbage collection while they are loaded takes a
# third of the loading time, in each process.
gc.disable()


_SYSTEM_FILES = pytest.StashKey[set[Path]]()
"""Files with a test that uses the whole system."""
_SYSTEM = pytest.StashKey[System]()
"""The system that is running."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Orders the tests, and deselects heavy ones unless `make fault` runs or the command line names their file.

    Files that use the whole system come first, so that it can be stopped afterwards: idle, it takes 3 s of a core per
    minute, in each process. Within both groups, files with slow tests come first: otherwise one process would run them
    at the end while the others have nothing left to do."""
    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    config.stash[_SYSTEM_FILES] = {
        item.path for item in items if isinstance(item, pytest.Function) and "system" in item.fixturenames
    }
    items.sort(key=lambda item: (item.path not in config.stash[_SYSTEM_FILES], item.path not in slow))
    if os.environ.get("FAULT") == "full" or any("::" in each or each.endswith(".py") for each in config.args):
        return
    heavy = [item for item in items if item.get_closest_marker("heavy") is not None]
    if heavy:
        config.hook.pytest_deselected(items=heavy)
        items[:] = [item for item in items if item.get_closest_marker("heavy") is None]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    yield
    if nextitem is not None and nextitem.path not in item.config.stash[_SYSTEM_FILES]:
        _stop_system(item.config)


def _stop_system(config: pytest.Config) -> None:
    """Stop the system once no test needs it; it must stop cleanly, and its logs must not contain secrets or personal
    data."""
    if (whole := config.stash.get(_SYSTEM, None)) is None:
        return
    del config.stash[_SYSTEM]
    code = whole.stop()
    assert code == 0, f"quita up ended with {code}:\n{whole.said()[-4000:]}"
    # Checked after all tests of the system, so that it covers everything they sent.
    assert whole.leaked() == []


class Servers:
    """PostgreSQL, migrated, and Redis: embedded ones, or those that DATABASE_URL (DATABASE_OWNER_URL,
    DATABASE_REPORT_URL) and REDIS_URL name. `database_url` is for the application's role; `owner_url` is for what this
    role may not do."""

    def __init__(self, database_url: str, redis_url: str, owner_url: str, report_url: str) -> None:
        self.database_url = database_url
        self.owner_url = owner_url
        self.report_url = report_url
        self.redis_url = redis_url


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    from sql.migrate import migrate

    home = temporary_home()
    postgres, redis = EmbeddedPostgres(), EmbeddedRedis()
    try:
        database_url, redis_url = os.environ.get("DATABASE_URL"), os.environ.get("REDIS_URL")
        owner_url = os.environ.get("DATABASE_OWNER_URL") or database_url or ""
        report_url = os.environ.get("DATABASE_REPORT_URL") or database_url or ""
        if not database_url:
            postgres.start(home, fsync=False)
            database_url, owner_url, report_url = postgres.app_dsn, postgres.dsn, postgres.report_dsn
        if not redis_url:
            redis.start(home)
            redis_url = redis.dsn
        asyncio.run(migrate(owner_url, app_url=database_url, report_url=report_url))
        yield Servers(database_url, redis_url, owner_url, report_url)
        asyncio.run(drop_template(owner_url))
    finally:
        redis.stop()
        postgres.stop()
        remove_home(home)


@pytest.fixture(scope="session")
async def pool(servers: Servers) -> AsyncIterator[Any]:
    from runtime.postgres import open_pool

    # All connections are open from the start; otherwise ten concurrent operations of a test would first run one by one.
    opened = await open_pool(servers.database_url, name="tests", size=10, size_min=10)
    yield opened
    await opened.close()


@pytest.fixture(scope="session")
async def table_owner(servers: Servers) -> AsyncIterator[Any]:
    """Connections of the owner of the tables, for operations that no process of the service may do."""
    from runtime.postgres import open_pool

    opened = await open_pool(servers.owner_url, name="tests as owner", size=4)
    yield opened
    await opened.close()


@pytest.fixture
async def conn(pool: Any) -> AsyncIterator[Any]:
    """A connection in a transaction that is rolled back after the test."""
    async with pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        try:
            yield connection
        finally:
            await transaction.rollback()


@pytest.fixture(scope="session")
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    """The whole system, as `make up` runs it. The run fails when it does not stop cleanly, or when a log contains
    secrets or personal data (tests/support/log_search.py)."""
    whole = System(temporary_home(), env=TWO_APIS)
    try:
        request.config.stash[_SYSTEM] = whole.start()
        yield whole
        _stop_system(request.config)
    finally:
        if whole.running():
            whole.kill()
        remove_home(whole.home)


@pytest.fixture
async def merchant(system: System) -> AsyncIterator[ApiMerchant]:
    """A new merchant for this test in the whole system."""
    async with new_merchant(system) as opened:
        yield opened


@pytest.fixture
async def books(system: System) -> AsyncIterator[Books]:
    """A connection to the whole system's database."""
    async with database_of(system) as opened:
        yield opened


@pytest.fixture(scope="module")
async def api(servers: Any) -> AsyncIterator[Api]:
    """The API in the test's own process."""
    async with open_api(servers.database_url, servers.redis_url) as opened:
        yield opened


@pytest.fixture
def home() -> Iterator[Path]:
    made = temporary_home()
    yield made
    remove_home(made)
