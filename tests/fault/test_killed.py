"""kill -9 of a process while merchants create and pay: nothing acknowledged is lost or doubled (faults F1-F9)."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.load import Load
from tests.support.merchant import (
    ApiMerchant,
    assert_books_are_clean,
    database_of,
    kill_process,
    new_merchant,
    until_replaced,
)
from tests.support.orders import including_ended_orders
from tests.support.system import TWO_APIS, System, remove_home, temporary_home

CLIENTS = 10
KILLS = 2
CUTS = 25


@pytest.fixture(scope="module")
def own_system(request: pytest.FixtureRequest) -> Iterator[System]:
    """A system for this file only, which its tests may break."""
    system = System(temporary_home(), env=TWO_APIS)
    try:
        yield system.start()
        assert system.stop() == 0, system.said()[-4000:]
    finally:
        if system.running():
            system.kill()
        remove_home(system.home)


@pytest.fixture
async def merchant(own_system: System) -> AsyncIterator[ApiMerchant]:
    async with new_merchant(own_system) as opened:
        await opened.sandbox.token()
        yield opened


def _broken(system: System) -> list[str]:
    """Returns lines of the API's log about requests that failed by a fault of ours."""
    lines = (system.home / "logs" / "api.log").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if "request_broken" in line][:5]


@pytest.mark.parametrize("kind", ["api", "worker", "postgres", "redis"])
async def test_kill_9_under_load_loses_and_duplicates_nothing_acknowledged(
    own_system: System, merchant: ApiMerchant, kind: str
) -> None:
    load = Load(merchant.sandbox)
    clients = [asyncio.create_task(load.run_client()) for _ in range(CLIENTS)]
    for _ in range(KILLS):
        await load.goes_on()
        await asyncio.to_thread(until_replaced, own_system, kind, kill_process(own_system, kind))
    await load.goes_on()
    load.over = True
    await asyncio.gather(*clients)
    await assert_nothing_is_lost(own_system, load)


async def test_connections_cut_at_any_moment_lose_and_duplicate_nothing(
    own_system: System, merchant: ApiMerchant
) -> None:
    """PostgreSQL ends all connections of the API again and again: before, during and after a commit."""
    load = Load(merchant.sandbox)
    clients = [asyncio.create_task(load.run_client()) for _ in range(CLIENTS)]
    cut = 0
    async with database_of(own_system) as books:
        for _ in range(CUTS):
            await asyncio.sleep(0.08)
            ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'api'"
            cut += len(await books.fetch(ended))
    assert cut > CUTS
    await load.goes_on()
    load.over = True
    await asyncio.gather(*clients)
    await assert_nothing_is_lost(own_system, load)


async def assert_nothing_is_lost(own_system: System, load: Load) -> None:
    """Compares the answers that clients got with what is stored."""
    # Clients may get a success, a 503 or a lost connection, but never a 500.
    assert load.told.keys() <= {200, 201, 503, "connection lost"}, (load.told, _broken(own_system))

    await load.assert_nothing_is_lost(own_system.redis_url)
    assert_books_are_clean(own_system)


async def test_no_two_charges_share_a_location(own_system: System) -> None:
    """A location is the address in a QR Code: a payment there pays the charge that has the location."""
    async with database_of(own_system) as books:
        shared = "SELECT count(*) - count(DISTINCT location) FROM charge"
        assert await books.fetchval(shared) == 0
        assert await books.fetchval("SELECT count(*) FROM charge") > 100


async def test_every_bank_order_is_done_after_the_kills(own_system: System) -> None:
    """Another worker takes the orders of a dead worker once their lease is over; here the lease is cut short."""
    async with database_of(own_system) as books:
        await books.execute("UPDATE bank_order SET lease_until = now() WHERE state = 'working'")
        left = "SELECT count(*) FROM bank_order"
        deadline = time.monotonic() + 30
        while await books.fetchval(left):
            assert time.monotonic() < deadline, await books.fetch(
                including_ended_orders(
                    "SELECT kind, state, test, count(*), max(attempts) FROM bank_order GROUP BY 1, 2, 3"
                )
            )
            await asyncio.sleep(0.2)
        unregistered = """
            SELECT count(*) FROM charge c WHERE c.status = 'pending' AND NOT EXISTS (
                SELECT FROM simulated_cob b
                WHERE b.txid = replace(c.charge_id::text, '-', '') AND b.status = 'ATIVA')
        """
        assert await books.fetchval(unregistered) == 0
