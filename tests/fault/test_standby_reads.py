"""A standby's answer is never older than what was acknowledged; a standby that is behind or away is not asked."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
import pytest_asyncio
from prometheus_client import REGISTRY

from commands.bank_orders.pix_locations import add_to_pool
from domain.mode import Mode
from runtime.postgres import connect, open_pool
from runtime.seal import Seal
from runtime.servers.standby import Reads
from sql.migrate import migrate
from tests.support.banking import BANK, new_locations
from tests.support.dashboard import Books, owner_in_browser, settings_with
from tests.support.in_process import Api, open_api
from tests.support.merchant import create_charge_in_the_past, until_answer
from tests.support.pages import serving
from tests.support.standby import Pair, kill, pair
from tests.support.system import remove_home, temporary_home
from web.app import utc_now

READS = 10_000 if os.environ.get("FAULT") == "full" else 320
AT_ONCE = 8


@pytest.fixture(scope="module")
def server_pair() -> Iterator[Pair]:
    home = temporary_home()
    try:
        with pair(home) as started:
            yield started
    finally:
        remove_home(home)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def api(servers: Any, server_pair: Pair) -> AsyncIterator[Api]:
    await migrate(server_pair.owner_url, app_url=server_pair.url, report_url=server_pair.primary.report_dsn)
    async with open_api(server_pair.url, servers.redis_url, DATABASE_READ_URL=server_pair.standby.app_dsn) as opened:
        yield opened


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads wait for a standby that a busy machine delays, so that a test can count the standby's answers."""
    monkeypatch.setattr("runtime.servers.standby.PATIENCE_S", 20.0)
    monkeypatch.setattr("runtime.servers.standby._REACH_S", 30.0)


def reads_answered_by(server: str) -> float:
    """Returns how many reads this server has answered."""
    return REGISTRY.get_sample_value("quita_reads_total", {"server": server}) or 0.0


async def lists_missing_their_charge(api: Api, count: int) -> list[str]:
    """Reads `count` lists, each right after one of its charges was created; returns those that miss the charge."""
    token, missing = await api.token(), []
    conn = await connect(api.settings.database_url)
    for _ in range(0, count, 4_000):
        await add_to_pool(conn, Mode.SANDBOX, BANK, new_locations(2_500))
    await conn.close()

    async def create_and_list() -> None:
        for _ in range(count // AT_ONCE // 2):
            name = secrets.token_hex(8)
            made = await api.create(token=token, external_id=name)
            for query in (f"external_id={name}", "limit=20"):
                listed = await api.get(f"/v1/charges?{query}", token=token)
                assert listed.status == 200, listed
                if made["charge_id"] not in {each["charge_id"] for each in listed.json()["data"]}:
                    missing.append(query)

    await asyncio.gather(*(create_and_list() for _ in range(AT_ONCE)))
    return missing


@pytest.mark.parametrize("synchronous", [True, False])
async def test_a_list_always_contains_every_acknowledged_charge(
    api: Api, server_pair: Pair, request: pytest.FixtureRequest, synchronous: bool
) -> None:
    """Whether commits wait for the standby decides only how often the standby can be asked."""
    await server_pair.synchronous(on=synchronous)
    if synchronous:
        await wait_until_the_standby_answers(api)
        request.getfixturevalue("patient")
    before = reads_answered_by("standby"), reads_answered_by("primary")
    assert await lists_missing_their_charge(api, READS) == []
    at_standby, at_primary = reads_answered_by("standby") - before[0], reads_answered_by("primary") - before[1]
    print(f"synchronous: {synchronous}; answered by the standby: {at_standby:.0f}, by the primary: {at_primary:.0f}")
    if synchronous:
        assert at_primary == 0


@pytest.mark.usefixtures("patient")
async def test_overdue_charges_are_expired_before_the_standby_lists_them(api: Api, server_pair: Pair) -> None:
    await server_pair.synchronous()
    await wait_until_the_standby_answers(api)
    books = await connect(server_pair.url)
    try:
        client = cast(Any, SimpleNamespace(account_id=str(api.first.account_id)))
        charge_id = await create_charge_in_the_past(
            books, client, test=True, ago_s=120, lifetime_s=60, external_id="late"
        )
    finally:
        await books.close()
    before = reads_answered_by("standby")
    listed = await api.get("/v1/charges?status=expired", token=await api.token())
    assert [each["charge_id"] for each in listed.json()["data"]] == [charge_id]
    assert reads_answered_by("standby") == before + 1


async def wait_until_the_standby_answers(api: Api) -> None:
    """Waits until the standby answers lists."""
    token = await api.token()

    async def asked() -> bool:
        before = reads_answered_by("standby")
        assert (await api.get("/v1/payments", token=token)).status == 200
        return reads_answered_by("standby") > before

    await until_answer(asked)


@pytest.mark.usefixtures("patient")
async def test_dashboard_pages_and_csv_exports_are_read_from_the_standby(api: Api, server_pair: Pair) -> None:
    await server_pair.synchronous()
    merchant = api.first
    pool = await open_pool(server_pair.url, name="tests", size=4)
    settings = settings_with(DATABASE_READ_URL=server_pair.standby.app_dsn)
    books = Books(pool, merchant.account_id, Seal(settings.secret_key))
    try:
        async with serving(pool, utc_now, settings) as address, owner_in_browser(address, merchant) as person:
            before = reads_answered_by("standby")
            assert (await person.opened("/painel")).status == 200
            shown = (await books.charge(4_321)).charge_id[-8:]
            for path in ("/painel/cobrancas", "/painel/cobrancas.csv"):
                assert shown in (await person.get(path)).html
            assert reads_answered_by("standby") == before + 4  # the page of the list also reads its counts
    finally:
        await pool.close()


async def test_a_standby_that_fell_behind_is_read_again_once_it_has_caught_up(api: Api, server_pair: Pair) -> None:
    await server_pair.synchronous()
    await wait_until_the_standby_answers(api)
    await server_pair.synchronous(on=False)
    await server_pair.run(server_pair.standby, "SELECT pg_wal_replay_pause()")
    before = reads_answered_by("standby")
    assert await lists_missing_their_charge(api, AT_ONCE * 4) == []
    assert reads_answered_by("standby") == before
    await server_pair.run(server_pair.standby, "SELECT pg_wal_replay_resume()")
    await wait_until_the_standby_answers(api)


@pytest.mark.usefixtures("patient")
async def test_a_read_whose_standby_dies_is_repeated_at_the_primary(api: Api, server_pair: Pair) -> None:
    await server_pair.synchronous(on=False)
    primary = await open_pool(server_pair.url, name="tests", size=2)
    standby = await open_pool(server_pair.standby.app_dsn, name="tests", size=2, size_min=0, target="any")
    reads = Reads(primary, standby)
    asked: list[bool] = []

    async def read(conn: Any) -> int:
        asked.append(await conn.fetchval("SELECT pg_is_in_recovery()"))
        if asked == [True]:
            await asyncio.to_thread(kill, server_pair.standby)
        return int(await conn.fetchval("SELECT 7"))

    try:
        assert await reads.ask(read) == 7
        assert asked == [True, False]
        assert (await api.get("/v1/payments", token=await api.token())).status == 200
        await asyncio.to_thread(server_pair.standby.restart)
        await wait_until_the_standby_answers(api)
    finally:
        await reads.close()
        await primary.close()
