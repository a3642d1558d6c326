"""What every test may ask for: servers only, a migrated database, or the whole system.

Each is made once a run (and once a process under xdist), when the first test asks for it.
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
from tests.support.merchant import ApiMerchant, Books, books_of, new_merchant
from tests.support.system import TWO_APIS, System, remove_home, temporary_home

# What hypothesis asks is the same in every run, and no clock decides it: a run fails for what was changed. To look for
# more, name another profile (--hypothesis-profile=default).
settings.register_profile(
    "same_every_run", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same_every_run")

# Modules and tests, half a million objects, are there until the run ends. Looked through again and again while they are
# made, they take a third of that time, in each process.
gc.disable()


_OF_SYSTEM = pytest.StashKey[set[Path]]()
"""Files with a test of the whole system."""
_SYSTEM = pytest.StashKey[System]()
"""The one that runs."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes minutes is run by `make fault`, and where it is named. Files of the whole system come first: it is
    stopped when they are done, and takes 3 s of a core a minute at rest, in each process. Of these and the others first
    those with what is slow: one process would be left with it at the end, and the rest have nothing more to do."""
    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    config.stash[_OF_SYSTEM] = {
        item.path for item in items if isinstance(item, pytest.Function) and "system" in item.fixturenames
    }
    items.sort(key=lambda item: (item.path not in config.stash[_OF_SYSTEM], item.path not in slow))
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
    if nextitem is not None and nextitem.path not in item.config.stash[_OF_SYSTEM]:
        _stop_system(item.config)


def _stop_system(config: pytest.Config) -> None:
    """Once, when nothing needs it any more: it must stop cleanly, and have left in no log what no log may hold."""
    if (whole := config.stash.get(_SYSTEM, None)) is None:
        return
    del config.stash[_SYSTEM]
    code = whole.stop()
    assert code == 0, f"quita up ended with {code}:\n{whole.said()[-4000:]}"
    # After all tests of it: none of them, whatever it sent.
    assert whole.leaked() == []


class Servers:
    """PostgreSQL, migrated, and Redis; DATABASE_URL (DATABASE_OWNER_URL, DATABASE_REPORT_URL) and REDIS_URL name others
    when they are set. `database_url` is the application's role; what it may not do, tests do as `owner_url`."""

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

    # All open from the start: with one that is, what a test does ten times at once would be done one after the other.
    opened = await open_pool(servers.database_url, name="tests", size=10, size_min=10)
    yield opened
    await opened.close()


@pytest.fixture(scope="session")
async def table_owner(servers: Servers) -> AsyncIterator[Any]:
    """Connections of the owner of the tables, for what no process of ours may do."""
    from runtime.postgres import open_pool

    opened = await open_pool(servers.owner_url, name="tests as owner", size=4)
    yield opened
    await opened.close()


@pytest.fixture
async def conn(pool: Any) -> AsyncIterator[Any]:
    """A connection in a transaction that is rolled back: what the test writes is gone after it."""
    async with pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        try:
            yield connection
        finally:
            await transaction.rollback()


@pytest.fixture(scope="session")
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    """Everything, as `make up` runs it. A run fails when it does not stop cleanly, or when something that no log may
    hold stands in one (tests/support/log_search.py)."""
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
    """A merchant of the test's own in the whole system."""
    async with new_merchant(system) as opened:
        yield opened


@pytest.fixture
async def books(system: System) -> AsyncIterator[Books]:
    """The whole system's database, to be read."""
    async with books_of(system) as opened:
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
