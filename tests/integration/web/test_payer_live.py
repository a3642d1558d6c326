"""Open payer pages are notified of changes of their charges: at once, together, and without holding connections."""

import asyncio
import resource
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import aiohttp
import pytest
import pytest_asyncio

from commands.merchants.merchants import MerchantCreated
from readmodels.charges.charge import ChargeDoc
from runtime.postgres import Pool, open_pool
from runtime.seal import Seal
from tests.conftest import Servers
from tests.support.browser import CHROMIUM
from tests.support.dashboard import Books, a_merchant
from tests.support.merchant import until_answer
from tests.support.pages import SETTINGS, browsing, serving, until
from web import live

Event = tuple[str, str]


def now() -> datetime:
    return datetime.now(UTC)


class CountingPool:
    """A pool that counts how often a connection is borrowed, and how many are out."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.borrowed = 0
        self.out = 0

    @asynccontextmanager
    async def acquire(self, **options: Any) -> AsyncIterator[Any]:
        async with self._pool.acquire(**options) as conn:
            self.borrowed += 1
            self.out += 1
            try:
                yield conn
            finally:
                self.out -= 1


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def merchant(pool: Pool) -> MerchantCreated:
    return await a_merchant(pool)


@pytest.fixture
def books(pool: Pool, merchant: MerchantCreated) -> Books:
    return Books(pool, merchant.account_id, Seal(SETTINGS.secret_key))


@asynccontextmanager
async def listening(
    http: aiohttp.ClientSession, client: str, public_id: str
) -> AsyncIterator[Callable[[], Awaitable[Event]]]:
    """The event stream of an open page; the function it yields waits for the next event."""
    async with http.get(f"{client}/pagar/{public_id}/eventos") as answer:
        assert answer.status == 200, answer.status
        assert answer.content_type == "text/event-stream"
        assert answer.headers["Cache-Control"] == "no-store"

        async def event() -> Event:
            kind = ""
            while line := await answer.content.readline():
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    return kind, value
            return "end", ""

        yield event


@pytest_asyncio.fixture(loop_scope="session")
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(30)) as session:
        yield session


def state(status: str, version: int) -> Event:
    return "estado", f'{{"status":"{status}","version":{version}}}'


async def test_a_stream_sends_the_state_and_each_change_and_ends_when_no_change_can_follow(
    pool: Pool, books: Books, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "HEARTBEAT_S", live.STREAM_S)  # a change is sent with the next query, a second away
    doc = await books.charge()
    async with serving(pool, now) as client, listening(http, client, doc.public_id) as event:
        assert await event() == state("pending", 1)
        await books.paid(doc)
        assert await event() == state("paid", 2)
        assert await event() == ("end", "")  # no further change can follow


async def test_a_stream_sends_expiry_by_time_and_a_payment_after_it(
    pool: Pool, books: Books, http: aiohttp.ClientSession
) -> None:
    doc, ahead = await books.charge(lifetime=timedelta(hours=1)), timedelta()
    async with serving(pool, lambda: now() + ahead) as client, listening(http, client, doc.public_id) as event:
        assert await event() == state("pending", 1)
        ahead = timedelta(hours=2)
        assert await event() == state("expired", 1)
        # The bank may still report a payment made in time, so this stream stays open.
        await books.paid(doc, at=now() - timedelta(seconds=60))
        assert await event() == state("paid", 2)


async def test_a_stream_sends_a_payment_of_another_amount_and_its_refund(
    pool: Pool, books: Books, http: aiohttp.ClientSession
) -> None:
    doc, said = await books.charge(), "Chegou um pagamento de outro valor, que não quita esta cobrança."

    async def shown(client: str) -> tuple[bool, str]:
        """Whether the page mentions the payment, and its version: if it were not the event's, the page would ask
        again."""
        async with http.get(f"{client}/pagar/{doc.public_id}/estado") as answer:
            version = (await answer.json())["version"]
        async with http.get(f"{client}/pagar/{doc.public_id}/fragmento") as answer:
            page = await answer.text()
        assert f'data-version="{version}"' in page
        return said in page, str(version)

    async with serving(pool, now) as client, listening(http, client, doc.public_id) as event:
        assert await event() == state("pending", 1)
        assert await shown(client) == (False, "1")
        await books.paid(doc, 999)
        assert await event() == state("pending", 2)
        assert await shown(client) == (True, "2")
        await pool.execute("UPDATE payment SET refunded_cents = 999 WHERE charge_id = $1", UUID(doc.charge_id))
        assert await event() == state("pending", 3)
        assert await shown(client) == (False, "3")


async def test_a_hundred_open_pages_cost_one_query_a_second_and_hold_no_connection(
    pool: Pool, books: Books, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "HEARTBEAT_S", live.STREAM_S)  # a page opened first gets no heartbeat before the last
    docs: list[ChargeDoc] = [await books.charge() for _ in range(10)]
    counted = CountingPool(pool)
    async with serving(counted, now) as client, AsyncExitStack() as pages:  # type: ignore[arg-type]
        opened = [listening(http, client, docs[n % 10].public_id) for n in range(100)]
        events = await asyncio.gather(*(pages.enter_async_context(each) for each in opened))
        assert {await event() for event in events} == {state("pending", 1)}
        before, began = counted.borrowed, time.monotonic()
        await asyncio.sleep(2.2 * live.LOOK_EVERY_S)
        assert 1 <= counted.borrowed - before <= (time.monotonic() - began) / live.LOOK_EVERY_S + 1

        async def all_connections_returned() -> bool:
            return counted.out == 0  # between two queries

        await until_answer(all_connections_returned)
        await books.paid(docs[0])
        heard = await asyncio.gather(*(event() for event in events[::10]))
        assert set(heard) == {state("paid", 2)}
    # Without open pages there are no queries.
    before = counted.borrowed
    await asyncio.sleep(1.5 * live.LOOK_EVERY_S)
    assert counted.borrowed == before


async def test_a_stream_sends_heartbeats_and_ends_after_its_longest_time(
    pool: Pool, books: Books, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "HEARTBEAT_S", 0.3)
    monkeypatch.setattr(live, "STREAM_S", 1.4)
    doc = await books.charge()
    async with serving(pool, now) as client, listening(http, client, doc.public_id) as event:
        heard = [await event()]
        while heard[-1][0] != "end":
            heard.append(await event())
        assert heard[0] == state("pending", 1)
        assert 1 <= len(heard) - 2 <= 6
        assert set(heard[1:-1]) == {("vivo", "{}")}


async def test_streams_per_charge_are_bounded_and_further_pages_get_503_with_retry_after(
    pool: Pool, books: Books, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "PAGES_A_CHARGE_MAX", 2)
    doc, other = await books.charge(), await books.charge()
    async with serving(pool, now) as client, AsyncExitStack() as pages:
        address = f"{client}/pagar/{doc.public_id}/eventos"
        for _ in range(2):
            await pages.enter_async_context(listening(http, client, doc.public_id))
        async with http.get(address) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "15")
        async with listening(http, client, other.public_id) as event:
            assert await event() == state("pending", 1)
        # A page that closes makes room.
        await pages.aclose()
        for _ in range(300):
            async with http.get(address) as answer:
                if answer.status == 200:
                    break
            await asyncio.sleep(0.1)
        assert answer.status == 200


async def test_streams_of_a_process_are_bounded_by_its_limit_of_open_files(
    pool: Pool, books: Books, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (8, 8))
    docs = [await books.charge() for _ in range(3)]
    async with serving(pool, now) as client, AsyncExitStack() as pages:
        for doc in docs[:2]:
            await pages.enter_async_context(listening(http, client, doc.public_id))
        async with http.get(f"{client}/pagar/{docs[2].public_id}/eventos") as answer:
            assert answer.status == 503


async def test_unknown_links_have_no_stream_and_a_head_request_does_not_wait(
    pool: Pool, books: Books, http: aiohttp.ClientSession
) -> None:
    doc = await books.charge()
    async with serving(pool, now) as client:
        for public_id in ("A" * 22, doc.charge_id, "%00", "a" * 3000, "%F0%9F%92%A9"):
            async with http.get(f"{client}/pagar/{public_id}/eventos") as answer:
                assert answer.status == 404, public_id
                assert "Página não encontrada" in await answer.text()
        async with http.head(f"{client}/pagar/{doc.public_id}/eventos") as answer:
            assert answer.status == 200
            assert answer.content_type == "text/event-stream"
            assert await answer.read() == b""
        async with http.post(f"{client}/pagar/{doc.public_id}/eventos") as answer:
            assert answer.status == 405


async def test_a_server_that_stops_does_not_wait_for_open_pages(
    pool: Pool, books: Books, http: aiohttp.ClientSession
) -> None:
    doc = await books.charge()
    async with AsyncExitStack() as pages:
        async with serving(pool, now) as client:
            event = await pages.enter_async_context(listening(http, client, doc.public_id))
            assert await event() == state("pending", 1)
            stopping = time.monotonic()
        assert time.monotonic() - stopping < live.STREAM_S / 20
        assert await event() == ("end", "")


async def test_a_stream_goes_on_after_its_database_connections_were_cut(
    servers: Servers, pool: Pool, books: Books, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "LOOK_EVERY_S", 0.1)
    doc = await books.charge()
    other = await open_pool(servers.database_url, name="live_cut", size=2)
    try:
        async with serving(other, now) as client, listening(http, client, doc.public_id) as event:
            assert await event() == state("pending", 1)
            for _ in range(3):
                await pool.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'live_cut'"
                )
                await asyncio.sleep(0.1)
            await books.paid(doc)
            assert await event() == state("paid", 2)
    finally:
        await other.close()


if CHROMIUM:
    # Only this test needs a browser; those above run everywhere.

    async def test_a_page_uses_the_stream_and_polls_where_there_is_none(
        pool: Pool, books: Books, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = "performance.getEntriesByType('resource').filter((each) => each.name.endsWith('/estado')).length"
        heading = "document.querySelector('h1')?.textContent"
        for room in (20, 0):
            monkeypatch.setattr(live, "PAGES_A_CHARGE_MAX", room)
            doc = await books.charge()
            async with (
                serving(pool, now) as client,
                browsing(f"{client}/pagar/{doc.public_id}", tmp_path / str(room)) as evaluate,
            ):
                await until(evaluate, heading, "Aguardando pagamento")
                if room:
                    await asyncio.sleep(3)
                    assert await evaluate(asked) <= 1
                else:
                    await until(evaluate, f"{asked} >= 2", True)
                await books.paid(doc)
                await until(evaluate, heading, "Pagamento confirmado")
