"""Where a webhook may go: only to public addresses, whatever DNS says, and only to the server its certificate names."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from commands.webhooks.address import check_address
from domain.errors import Refused
from runtime.coordination.lanes import WEBHOOKS
from runtime.postgres import Pool
from tests.support.dns_names import Authority, naming
from tests.support.webhooks import (
    PATIENCE_S,
    attempts_of,
    create_merchant_with_endpoint,
    receiving,
    record_events,
    until,
    webhook_worker,
)
from workers.webhooks.attempt import post
from workers.webhooks.guarded_connection import guarded_session

pytestmark = pytest.mark.usefixtures("quiet")

INNER = [
    ["127.0.0.1"], ["169.254.169.254"], ["10.1.2.3"], ["192.168.0.10"], ["fd00::1"], ["64:ff9b::7f00:1"], ["::1"],
    ["::ffff:127.0.0.1"], ["2002:7f00:1::"], ["8.8.8.8", "127.0.0.1"], ["8.8.8.8", "::1"],
]  # fmt: skip


class Counting:
    """A listener that counts who connects, and answers 200."""

    def __init__(self) -> None:
        self.connections = 0
        self.port = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(2)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def counting(tls: ssl.SSLContext | None = None, *, host: str = "127.0.0.1") -> AsyncIterator[Counting]:
    counter = Counting()
    server = await asyncio.start_server(counter.take, host, 0, ssl=tls)
    counter.port = server.sockets[0].getsockname()[1]
    try:
        yield counter
    finally:
        server.close()


@pytest.mark.parametrize("addresses", INNER, ids=" and ".join)
async def test_a_name_that_resolves_to_a_private_address_is_refused_at_registration_and_attempts(
    addresses: list[str],
) -> None:
    async with counting() as inner, naming(lambda *_: addresses) as names:
        with pytest.raises(Refused) as refused:
            await check_address("https://shop.example.com/", allow_private=False, nameservers=[names.address])
        assert list(refused.value.fields or {}) == ["url"]
        async with guarded_session(allow_private=False, nameservers=[names.address]) as http:
            answer = await post(http, f"https://shop.example.com:{inner.port}/", b"{}", {})
    assert (answer.outcome, inner.connections) == ("blocked_address", 0)


@pytest.mark.parametrize("addresses", [["8.8.8.8"], ["2606:4700:4700::1111"], ["8.8.8.8", "1.1.1.1"]], ids=" and ".join)
async def test_a_name_that_resolves_to_public_addresses_is_accepted_at_registration(addresses: list[str]) -> None:
    async with naming(lambda *_: addresses) as names:
        await check_address("https://shop.example.com/", allow_private=False, nameservers=[names.address])


async def test_a_name_without_an_address_is_accepted_and_its_attempts_end_with_dns_error() -> None:
    async with naming(lambda *_: []) as names:
        await check_address("https://soon.example.com/", allow_private=False, nameservers=[names.address])
        async with guarded_session(allow_private=False, nameservers=[names.address]) as http:
            assert (await post(http, "https://soon.example.com/", b"{}", {})).outcome == "dns_error"


async def test_registration_does_not_wait_for_a_name_server_that_does_not_answer() -> None:
    async with naming(lambda *_: None) as names:
        began = time.monotonic()
        await check_address("https://silent.example.com/", allow_private=False, nameservers=[names.address])
        assert time.monotonic() - began < 10, "without a limit, the query would be repeated for longer"


async def test_a_name_that_resolves_to_a_private_address_after_registration_gets_no_connection(
    pool: Pool, redis_url: str
) -> None:
    async with counting() as inner, naming(lambda _, n: ["8.8.8.8"] if n == 1 else ["127.0.0.1"]) as names:
        url = f"https://rebind.example.com:{inner.port}/"
        await check_address(url, allow_private=False, nameservers=[names.address])
        merchant = await create_merchant_with_endpoint(pool, url)
        async with webhook_worker(
            pool, redis_url, delays_s=(0.05, 0.05), every_s=0.05, nameservers=[names.address], WEBHOOK_ALLOW_PRIVATE="0"
        ):
            await record_events(pool, merchant)
            await until(pool, merchant, "exhausted")
    assert inner.connections == 0
    assert {outcome for _, outcome, _ in await attempts_of(pool, merchant)} == {"blocked_address"}


async def test_plain_http_is_for_local_work_only(pool: Pool, redis_url: str) -> None:
    async with counting() as inner:
        merchant = await create_merchant_with_endpoint(pool, f"http://127.0.0.1:{inner.port}/")
        async with webhook_worker(pool, redis_url, delays_s=(0.05,), every_s=0.05, WEBHOOK_ALLOW_PRIVATE="0"):
            await record_events(pool, merchant)
            await until(pool, merchant, "exhausted")
    assert inner.connections == 0


async def test_names_whose_resolution_hangs_do_not_delay_other_receivers(
    pool: Pool, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A delivery that waited for it would come later than a test waits for an event.
    monkeypatch.setattr("workers.webhooks.guarded_connection._RESOLVE_S", 2 * PATIENCE_S)
    async with naming(lambda name, _: None if name.startswith("dead") else ["127.0.0.1"]) as names, receiving() as well:
        dead = [await create_merchant_with_endpoint(pool, f"http://dead{n}.example.com:9/") for n in range(50)]
        port = well.url.rpartition(":")[2]
        healthy = [await create_merchant_with_endpoint(pool, f"http://well{n}.example.com:{port}") for n in range(5)]
        async with webhook_worker(pool, redis_url, nameservers=[names.address], attempt_s=2 * PATIENCE_S) as worker:
            for merchant in dead:
                await record_events(pool, merchant, 3)
            worker.jobs.wake(WEBHOOKS)
            await asyncio.sleep(0.3)
            for merchant in healthy:
                await record_events(pool, merchant)
            worker.jobs.wake(WEBHOOKS)
            await well.reached(5)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


async def test_only_a_valid_certificate_for_the_receivers_name_is_accepted(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.roots))
    cases = {
        "good": (authority.server("shop.example.com"), "delivered"),
        "expired": (authority.server("shop.example.com", expired=True), "tls_error"),
        "self-signed": (authority.server("shop.example.com", by_itself=True), "tls_error"),
        "of another": (authority.server("other.example.com"), "tls_error"),
    }
    async with naming(lambda *_: ["127.0.0.1"]) as names, AsyncExitStack() as opened:
        http = await opened.enter_async_context(guarded_session(allow_private=True, nameservers=[names.address]))
        for name, (context, outcome) in cases.items():
            server = await opened.enter_async_context(counting(context))
            answer = await post(http, f"https://shop.example.com:{server.port}/", b"{}", {})
            assert answer.outcome == outcome, name


async def test_an_open_connection_of_one_name_is_not_reused_for_another_at_the_same_address(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.roots))
    async with (
        counting(authority.server("one.example.com")) as server,
        naming(lambda *_: ["127.0.0.1"]) as names,
        guarded_session(allow_private=True, nameservers=[names.address]) as http,
    ):
        assert (await post(http, f"https://one.example.com:{server.port}/", b"{}", {})).outcome == "delivered"
        assert (await post(http, f"https://two.example.com:{server.port}/", b"{}", {})).outcome == "tls_error"
        assert (await post(http, f"https://one.example.com:{server.port}/", b"{}", {})).outcome == "delivered"
        assert server.connections <= 2


async def test_a_certificate_of_an_authority_outside_the_roots_is_refused(authority: Authority, tmp_path: Path) -> None:
    async with (
        counting(authority.server("shop.example.com")) as server,
        naming(lambda *_: ["127.0.0.1"]) as names,
        guarded_session(allow_private=True, nameservers=[names.address]) as http,
    ):
        answer = await post(http, f"https://shop.example.com:{server.port}/", b"{}", {})
    assert answer.outcome == "tls_error"
