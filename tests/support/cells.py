"""An installation of four cells: home and another one on the server of all tests, two on a second server.

Their API runs in the test's process, behind one application, as `quita serve` runs it.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from api.app import ROUTES
from api.openapi.document import document
from cli.run.asgi_front import make_front
from cli.run.cells import CellRouter
from commands.bank_orders.pix_locations import add_to_pool
from commands.cells.add import CellAdded, HomeAddresses, add_cell, addresses_at
from commands.merchants.merchants import MerchantCreated, create_merchant
from domain.mode import Mode
from runtime.cells.addresses import with_search_path
from runtime.cells.number import HOME, in_cell
from runtime.local.embedded import EmbeddedPostgres
from runtime.postgres import Pool, connect, open_pool
from runtime.seal import Seal
from runtime.settings import Settings, read_settings
from sql.migrate import migrate
from tests.support.banking import BANK, SECRET_KEY, new_locations
from tests.support.database import own_database, owner_of, report_of
from tests.support.in_process import DOCS_URL, Api
from tests.support.system import remove_home, temporary_home

_LOCATIONS = 8_000
_OPEN_S = 60.0
_GIVEN_SCHEMAS = ("cell_bela", "cell_cora")


@contextmanager
def second_server() -> Iterator[EmbeddedPostgres]:
    home = temporary_home()
    server = EmbeddedPostgres()
    try:
        server.start(home, fsync=False)
        yield server
    finally:
        server.stop()
        remove_home(home)


@asynccontextmanager
async def second_or_citus_server() -> AsyncIterator[Any]:
    """The server of QUITA_TEST_CITUS, for example a Citus coordinator, from which our schemas are dropped afterwards;
    without that variable, a second embedded server. Its DSN names a role that may create schemas and roles."""
    dsn = os.environ.get("QUITA_TEST_CITUS")
    if not dsn:
        with second_server() as second:
            yield second
        return
    try:
        yield SimpleNamespace(dsn=dsn)
    finally:
        await _drop_schemas(dsn)


async def _drop_schemas(dsn: str) -> None:
    conn = await connect(dsn)
    try:
        for schema in _GIVEN_SCHEMAS:
            await conn.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    finally:
        await conn.close()


class Cells:
    """`urls`: the database addresses for the application's role, by number of the cell; `merchants`: an approved
    merchant of each cell, by number."""

    def __init__(self, settings: Settings, home: HomeAddresses) -> None:
        self.settings = settings
        self.home = home
        self.seal = Seal(settings.secret_key)
        self.urls = {HOME: home.app_url}
        self.owner_urls = {HOME: home.owner_url}
        self.merchants: dict[int, MerchantCreated] = {}
        self.router = CellRouter(settings, make_front)

    @property
    def api(self) -> Api:
        """The API over all cells; tests name the merchant in each call."""
        app: Any = self.router
        return Api(app, self.settings, [self.merchants[HOME], self.merchants[1], self.merchants[1]])

    async def add(self, name: str, dsn: str, schema: str) -> CellAdded:
        conn = await connect(self.home.owner_url)
        try:
            added = await add_cell(conn, self.home, name, dsn, schema, seal=self.seal, now=datetime.now(UTC))
        finally:
            await conn.close()
        self.owner_urls[added.number] = with_search_path(dsn, schema)
        self.urls[added.number] = addresses_at(self.home, self.owner_urls[added.number]).database_url
        return added

    async def merchant(self, number: int, *, kyc: str = "approved") -> MerchantCreated:
        """Create a merchant in this cell."""
        conn = await connect(self.urls[number])
        try:
            with in_cell(number):
                return await create_merchant(conn, name="Loja", address=True, kyc=kyc, now=datetime.now(UTC))
        finally:
            await conn.close()

    async def locations(self, number: int) -> None:
        conn = await connect(self.urls[number])
        try:
            for mode in Mode:
                await add_to_pool(conn, mode, BANK, new_locations(_LOCATIONS))
        finally:
            await conn.close()

    @asynccontextmanager
    async def pool(self, number: int) -> AsyncIterator[Pool]:
        opened = await open_pool(self.urls[number], name="tests", size=6)
        try:
            yield opened
        finally:
            await opened.close()

    def as_one(self, *numbers: int, more: Sequence[MerchantCreated] = ()) -> Api:
        """The API as tests of one database use it: with the merchants of these cells and the state of the first."""
        app: Any = _StateOfCell(self.router, numbers[0], self.settings)
        return Api(app, self.settings, [*(self.merchants[number] for number in numbers), *more])


class _StateOfCell:
    """The whole application, with the state of one cell."""

    def __init__(self, router: CellRouter, number: int, settings: Settings) -> None:
        self._router = router
        context = router.contexts()[number]
        self.state = SimpleNamespace(context=context, openapi=document(ROUTES, settings))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._router(scope, receive, send)


@asynccontextmanager
async def open_cells(servers: Any, second: Any = None, home_on: EmbeddedPostgres | None = None) -> AsyncIterator[Cells]:
    """Home, cell 1 (`ala`) on the same server, and with a `second` server cells 2 (`bela`) and 3 (`cora`) in two
    schemas there; each has a merchant. With `home_on`, only home is on that server."""
    async with AsyncExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(
            "cli.run.cells._EMAIL_SEARCH_S_MAX", 30.0
        )  # on a busy machine a cell may be slow, and is not away
        beside = await stack.enter_async_context(own_database(servers, "ala", migrated=False))
        if home_on is None:
            url = await stack.enter_async_context(own_database(servers, "home"))
            home = HomeAddresses(owner_url=owner_of(servers, url), app_url=url, report_url=report_of(servers, url))
        else:
            url = home_on.dsn  # one role for everything: the other roles have other passwords there
            home = HomeAddresses(owner_url=url, app_url=url, report_url=url)
            await migrate(url)
        cells = Cells(_settings(url, servers.redis_url), home)
        await cells.add("ala", owner_of(servers, beside), "cell_ala")
        if second is not None:
            for name, schema in zip(("bela", "cora"), _GIVEN_SCHEMAS, strict=True):
                await cells.add(name, second.dsn, schema)
        for number in cells.urls:
            cells.merchants[number] = await cells.merchant(number)
            await cells.locations(number)
        await stack.enter_async_context(_serving(cells.router))
        yield cells


@asynccontextmanager
async def _serving(router: CellRouter) -> AsyncIterator[None]:
    """Runs the application's lifespan, from startup to shutdown, as a server does."""
    to_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    from_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    life = asyncio.create_task(router({"type": "lifespan"}, to_app.get, from_app.put))
    to_app.put_nowait({"type": "lifespan.startup"})
    assert (await from_app.get())["type"] == "lifespan.startup.complete"
    try:
        # On a busy machine a cell may open only after the start.
        async with asyncio.timeout(_OPEN_S):
            while None in router.contexts().values():  # noqa: ASYNC110 - it has no event to wait for
                await asyncio.sleep(0.05)
        yield
    finally:
        to_app.put_nowait({"type": "lifespan.shutdown"})
        await life


def _settings(url: str, redis_url: str) -> Settings:
    return read_settings(
        {
            "DATABASE_URL": url,
            "REDIS_URL": redis_url,
            "SECRET_KEY": SECRET_KEY,
            "QUITA_HOME": str(Path(os.devnull).parent / "none"),
            "BASE_URL": "https://api.example.com",
            "DOCS_URL": DOCS_URL,
            "RATE_PER_S": "100000",
            "RATE_BURST": "200000",
            "RATE_TOKENS_PER_MIN": "10000000",
            "STAFF_TOTP_REQUIRED": "0",
            "RATE_CLIENT_TOKENS_PER_MIN": "10000000",
            "RATE_SIGN_INS_PER_MIN": "10000000",
        }
    )
