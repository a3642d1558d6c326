"""kill -9 of a process while merchants create and pay: nothing acknowledged is lost, nothing doubles (faults F1-F9)."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
from redis.asyncio import Redis

from tests.support.merchant import (
    Answer,
    ApiClient,
    ApiMerchant,
    assert_books_are_clean,
    books_of,
    killed,
    new_merchant,
    replaced,
    until_answer,
)
from tests.support.orders import ever
from tests.support.system import System, remove_home, temporary_home

CLIENTS = 10
KILLS = 2
BETWEEN_KILLS = 60
CUTS = 25
GONE = (aiohttp.ClientError, OSError, TimeoutError)


@pytest.fixture(scope="module")
def alone(request: pytest.FixtureRequest) -> Iterator[System]:
    """A system of this file's own, which it may break."""
    system = System(temporary_home())
    try:
        yield system.start()
        assert system.stop() == 0, system.said()[-4000:]
    finally:
        if system.running():
            system.kill()
        remove_home(system.home)


@pytest.fixture
async def merchant(alone: System) -> AsyncIterator[ApiMerchant]:
    async with new_merchant(alone) as opened:
        await opened.sandbox.token()
        yield opened


class Load:
    """Clients that create and pay, each with one try, and what they were told."""

    def __init__(self, client: ApiClient) -> None:
        self.client = client
        self.tried: list[str] = []
        self.created: dict[str, str] = {}
        """The charge of each key whose creation was acknowledged."""
        self.paid: set[str] = set()
        """Charges whose payment was acknowledged."""
        self.told: Counter[int | str] = Counter()
        self.over = False

    async def goes_on(self) -> None:
        """Wait until so many more charges have been created and paid: the system works, and is at work."""
        until_now = len(self.paid)

        async def more() -> bool:
            return len(self.paid) >= until_now + BETWEEN_KILLS

        try:
            await until_answer(more, within_s=30)
        except AssertionError:
            raise AssertionError(f"the load does not go on: {self.told}") from None

    async def run_client(self) -> None:
        while not self.over:
            key = str(uuid4())
            self.tried.append(key)
            answer = await self._tell(self.client.create("10.00", key=key, external_id=key))
            if answer is None or answer.status != 201:
                await asyncio.sleep(0.05)
                continue
            charge_id = self.created[key] = answer.body["charge_id"]
            answer = await self._tell(self.client.pay(charge_id))
            if answer is not None and answer.status == 200:
                self.paid.add(charge_id)

    async def _tell(self, asked: Any) -> Answer | None:
        try:
            answer: Answer = await asked
        except GONE:
            self.told["connection lost"] += 1
            return None
        self.told[answer.status] += 1
        return answer


def _broken(system: System) -> list[str]:
    """What processes of the API said of requests that failed here."""
    lines = (system.home / "logs" / "api.log").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if "request_broken" in line][:5]


@pytest.mark.parametrize("kind", ["api", "worker", "postgres", "redis"])
async def test_nothing_acknowledged_is_lost_and_nothing_doubles(
    alone: System, merchant: ApiMerchant, kind: str
) -> None:
    load = Load(merchant.sandbox)
    clients = [asyncio.create_task(load.run_client()) for _ in range(CLIENTS)]
    for _ in range(KILLS):
        await load.goes_on()
        await asyncio.to_thread(replaced, alone, kind, killed(alone, kind))
    await load.goes_on()
    load.over = True
    await asyncio.gather(*clients)
    await assert_nothing_is_lost(alone, load)


async def test_connections_cut_at_any_moment_lose_and_double_nothing(alone: System, merchant: ApiMerchant) -> None:
    """PostgreSQL's side of each connection of the API is ended again and again: before, in and after a commit."""
    load = Load(merchant.sandbox)
    clients = [asyncio.create_task(load.run_client()) for _ in range(CLIENTS)]
    cut = 0
    async with books_of(alone) as books:
        for _ in range(CUTS):
            await asyncio.sleep(0.08)
            ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'api'"
            cut += len(await books.fetch(ended))
    assert cut > CUTS
    await load.goes_on()
    load.over = True
    await asyncio.gather(*clients)
    await assert_nothing_is_lost(alone, load)


async def assert_nothing_is_lost(alone: System, load: Load) -> None:
    """Compare what the clients were told with what there is."""
    client = load.client
    # What the clients were told: yes, "come back", or nothing at all. Never that we are broken.
    assert load.told.keys() <= {200, 201, 503, "connection lost"}, (load.told, _broken(alone))

    redis = Redis.from_url(alone.redis_url)
    await redis.flushall()  # locks of the dead lapse in 15 s; this is not what is looked at here
    await redis.aclose()
    # The same key afterwards gives the one charge, also to those who were told nothing.
    again: dict[str, Answer] = {}
    for at in range(0, len(load.tried), 100):
        keys = load.tried[at : at + 100]
        answers = await asyncio.gather(*(client.create("10.00", key=key, external_id=key) for key in keys))
        again |= zip(keys, answers, strict=True)
    assert {answer.status for answer in again.values()} <= {200, 201}
    for key, charge_id in load.created.items():
        assert (again[key].status, again[key].body["charge_id"]) == (200, charge_id)

    charges = await client.all("/v1/charges", limit=100)
    assert Counter(charge["external_id"] for charge in charges) == Counter(load.tried)
    paid = {charge["charge_id"] for charge in charges if charge["status"] == "paid"}
    assert load.paid <= paid
    events = await client.events()
    assert [event["sequence"] for event in events] == list(range(1, len(paid) + 1))
    assert Counter(event["charge_id"] for event in events) == Counter(paid)
    assert Counter(payment["charge_id"] for payment in await client.all("/v1/payments", limit=100)) == Counter(paid)
    entries = await client.ledger()
    assert [entry["sequence"] for entry in entries] == list(range(1, len(paid) + 1))
    assert [entry["balance_after"] for entry in entries] == [f"{10 * (at + 1)}.00" for at in range(len(paid))]
    assert await client.balance() == f"{10 * len(paid)}.00"
    assert_books_are_clean(alone)


async def test_no_two_charges_share_a_location(alone: System) -> None:
    """A location is an address: whoever pays there pays that charge."""
    async with books_of(alone) as books:
        shared = "SELECT count(*) - count(DISTINCT location) FROM charge"
        assert await books.fetchval(shared) == 0
        assert await books.fetchval("SELECT count(*) FROM charge") > 100


async def test_every_order_to_the_bank_is_done_in_the_end(alone: System) -> None:
    """What a dead worker held comes back when its lease is over; here the lease is cut short."""
    async with books_of(alone) as books:
        await books.execute("UPDATE bank_order SET lease_until = now() WHERE state = 'working'")
        left = "SELECT count(*) FROM bank_order"
        deadline = time.monotonic() + 30
        while await books.fetchval(left):
            assert time.monotonic() < deadline, await books.fetch(
                ever("SELECT kind, state, test, count(*), max(attempts) FROM bank_order GROUP BY 1, 2, 3")
            )
            await asyncio.sleep(0.2)
        unregistered = """
            SELECT count(*) FROM charge c WHERE c.status = 'pending' AND NOT EXISTS (
                SELECT FROM simulated_cob b
                WHERE b.txid = replace(c.charge_id::text, '-', '') AND b.status = 'ATIVA')
        """
        assert await books.fetchval(unregistered) == 0
