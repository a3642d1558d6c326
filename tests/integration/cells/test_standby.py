"""A cell's lists are read from a standby of its own, and never show an outdated state."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from prometheus_client import REGISTRY

from cli.run.asgi_front import Front, make_front
from commands.cells.standby import set_standby
from domain.errors import Refused
from runtime.cells.addresses import shown
from runtime.cells.directory import read_cells
from runtime.postgres import connect
from runtime.settings import Settings
from tests.support.cells import Cells, open_cells
from tests.support.merchant import until_answer
from tests.support.standby import Pair, pair
from tests.support.system import remove_home, temporary_home

ALA, BELA = 1, 2


@pytest.fixture(scope="module")
def two() -> Iterator[Pair]:
    home = temporary_home()
    try:
        with pair(home) as made:
            yield made
    finally:
        remove_home(home)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cells(servers: Any, two: Pair) -> AsyncIterator[Cells]:
    async with open_cells(servers, two.primary) as opened:
        await two.synchronous()
        yield opened


def reads_at_standby() -> float:
    return REGISTRY.get_sample_value("quita_reads_total", {"server": "standby"}) or 0.0


async def name_standby(cells: Cells, name: str, dsn: str | None) -> str:
    conn = await connect(cells.home.owner_url)
    try:
        return await set_standby(conn, name, dsn, seal=cells.seal)
    finally:
        await conn.close()


async def create_and_list(cells: Cells, number: int, count: int) -> list[str]:
    """Creates charges and lists after each; returns the charges that the list did not show."""
    token, missing = await cells.api.token(cells.merchants[number]), []
    body = {"account_id": str(cells.merchants[number].account_id), "amount": "10.00"}
    for _ in range(count):
        made = await cells.api.post("/v1/charges/pix", body, token=token, key=secrets.token_hex(8))
        assert made.status == 201, made
        listed = await cells.api.get("/v1/charges?limit=20", token=token)
        assert listed.status == 200, listed
        if made.json()["charge_id"] not in {each["charge_id"] for each in listed.json()["data"]}:
            missing.append(made.json()["charge_id"])
    return missing


async def test_a_cells_lists_come_from_its_standby_and_are_never_outdated(cells: Cells, two: Pair) -> None:
    before = reads_at_standby()
    assert await create_and_list(cells, BELA, 5) == []
    assert reads_at_standby() == before, "the cell has no standby yet"
    assert shown(await name_standby(cells, "bela", two.standby.dsn)).endswith(" cell_bela")

    async def at_standby() -> bool:
        begun = reads_at_standby()
        assert await create_and_list(cells, BELA, 1) == []
        return reads_at_standby() > begun

    await until_answer(at_standby)
    before = reads_at_standby()
    wrong = await asyncio.gather(*(create_and_list(cells, BELA, 25) for _ in range(4)))
    assert [each for found in wrong for each in found] == []
    assert reads_at_standby() > before + 50
    before = reads_at_standby()
    assert await create_and_list(cells, ALA, 5) == []
    assert reads_at_standby() == before, "the other cell has no standby"
    await name_standby(cells, "bela", None)

    async def at_primary() -> bool:
        begun = reads_at_standby()
        assert await create_and_list(cells, BELA, 1) == []
        return reads_at_standby() == begun

    await until_answer(at_primary)


async def test_a_cell_keeps_its_old_connections_until_it_is_open_with_its_standby(
    cells: Cells, two: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_open = asyncio.Event()

    class OpensLate:
        def __init__(self, api: Any) -> None:
            self._api, self.state = api, api.state

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await self._api(scope, receive, send)

        @asynccontextmanager
        async def lifespan(self) -> AsyncIterator[None]:
            await may_open.wait()
            async with self._api.lifespan():
                yield

    def opens_late(settings: Settings) -> Front:
        front = make_front(settings)
        front.api = OpensLate(front.api)
        return front

    monkeypatch.setattr(cells.router, "_make", opens_late)
    before = cells.router.contexts()[BELA]
    try:
        for dsn in (two.standby.dsn, None, two.standby.dsn):
            serving = cells.router._cells[BELA]
            await name_standby(cells, "bela", dsn)

            async def is_heard_of(serving: Any = serving) -> bool:
                return cells.router._cells[BELA] is not serving

            await until_answer(is_heard_of)
            assert await create_and_list(cells, BELA, 3) == []
            assert cells.router.contexts()[BELA] is before
    finally:
        may_open.set()

    async def is_open() -> bool:
        return cells.router.contexts()[BELA] is not before

    await until_answer(is_open)
    assert await create_and_list(cells, BELA, 3) == []
    await name_standby(cells, "bela", None)


async def test_a_server_that_is_no_standby_of_the_cell_is_refused(cells: Cells, two: Pair) -> None:
    for name, dsn in (("bela", cells.owner_urls[ALA]), ("nobody", two.standby.dsn), ("home", two.standby.dsn)):
        with pytest.raises(Refused):
            await name_standby(cells, name, dsn)
    conn = await connect(cells.home.owner_url)
    try:
        assert [each.addresses.read_url for each in await read_cells(conn, cells.seal)] == ["", "", ""]
    finally:
        await conn.close()
