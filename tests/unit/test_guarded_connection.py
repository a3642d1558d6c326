"""A webhook never reaches an address that is not public, however its URL is written."""

import asyncio
import gc
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress

import aiohttp
import pytest
import pytest_asyncio
from aiohttp.abc import ResolveResult
from aiohttp.client_proto import ResponseHandler

from domain.webhooks.public_address import is_public
from workers.webhooks.attempt import post
from workers.webhooks.guarded_connection import BlockedAddress, _Remembering, checked, guarded_session

PUBLIC = ["8.8.8.8", "200.160.2.3", "1.1.1.1", "2606:4700:4700::1111", "2804:14d::1", "::ffff:8.8.8.8"]
REFUSED = [
    "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254",
    "168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1",
    "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1",
    "239.255.255.250", "240.0.0.1", "255.255.255.255", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1",
    "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1",
    "2002:7f00:1::", "3fff::1", "5f00::1", "fc00::1", "fd00::1", "fe80::1", "fe80::1%lo", "fec0::1",
    "ff02::1", "::ffff:168.63.129.16", "::ffff:0:127.0.0.1", "4000::1", "", "localhost", "2130706433", "0x7f.1",
]  # fmt: skip
"""A fixed table, because Python's `is_global` changed between its versions."""


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_let_through(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", REFUSED)
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    assert not is_public(address)


def resolved(address: str) -> ResolveResult:
    return ResolveResult(hostname="h", host=address, port=443, family=socket.AF_INET, proto=0, flags=0)


def test_a_name_that_resolves_to_one_private_address_among_public_ones_is_refused() -> None:
    with pytest.raises(BlockedAddress):
        checked([resolved("8.8.8.8"), resolved("10.0.0.1")])


def test_a_name_without_addresses_is_an_error() -> None:
    with pytest.raises(OSError, match="no address"):
        checked([])


class Listener:
    """Counts the connections to a port of loopback, on IPv4 and IPv6."""

    def __init__(self) -> None:
        self.connections = 0
        self.port = 0

    def take(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()


@pytest_asyncio.fixture
async def listener() -> AsyncIterator[Listener]:
    counting = Listener()
    async with AsyncExitStack() as open_servers:
        four = await asyncio.start_server(counting.take, "127.0.0.1", 0)
        await open_servers.enter_async_context(four)
        counting.port = four.sockets[0].getsockname()[1]
        with suppress(OSError):  # the machine has no IPv6
            six = await asyncio.start_server(counting.take, "::1", counting.port)
            await open_servers.enter_async_context(six)
        yield counting


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "localhost", "127.0.0.1.",
        "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "0", "①②⑦.⓪.⓪.①", "user@127.0.0.1",
        "[64:ff9b::7f00:1]",
    ],
)  # fmt: skip
async def test_no_spelling_of_a_loopback_address_is_connected_to(listener: Listener, host: str) -> None:
    async with guarded_session(allow_private=False) as http:
        outcome = (await post(http, f"http://{host}:{listener.port}/", b"{}", {})).outcome
    assert outcome != "delivered"
    assert listener.connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_refused_address_is_the_outcome_of_the_attempt(listener: Listener, host: str) -> None:
    async with guarded_session(allow_private=False) as http:
        assert (await post(http, f"http://{host}:{listener.port}/", b"{}", {})).outcome == "blocked_address"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_loopback_is_reached_when_private_addresses_are_allowed(listener: Listener, host: str) -> None:
    async with guarded_session(allow_private=True) as http:
        assert (await post(http, f"http://{host}:{listener.port}/", b"{}", {})).outcome == "delivered"
    assert listener.connections == 1


async def test_proxies_of_the_environment_are_ignored(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{listener.port}")
    async with guarded_session(allow_private=False) as http:
        with pytest.raises(aiohttp.ClientError):
            await http.post("http://192.0.2.1:8080/", data=b"{}")
    assert listener.connections == 0


class KeepingReceiver:
    """Counts connections, answers 200 and keeps each connection open, until it has had `answers_max` answers."""

    def __init__(self) -> None:
        self.connections = 0
        self.answers_max: int | None = None
        self.url = ""

    async def keep(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        answered = 0
        with suppress(asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.partition(b":")[2]))
                if answered == self.answers_max:
                    break
                answered += 1
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()


@pytest_asyncio.fixture
async def receiver() -> AsyncIterator[KeepingReceiver]:
    receiver = KeepingReceiver()
    server = await asyncio.start_server(receiver.keep, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server:
        yield receiver


async def test_a_connection_that_the_receiver_keeps_open_is_used_again(receiver: KeepingReceiver) -> None:
    """A handshake for each webhook would cost the receiver, and us, several times as much as the webhook."""
    async with guarded_session(allow_private=True) as http:
        answers = [await post(http, receiver.url, b"{}", {}) for _ in range(5)]
    assert [(each.outcome, each.kept) for each in answers] == [("delivered", b"ok")] * 5
    assert receiver.connections == 1


async def test_a_reused_connection_that_the_receiver_closes_is_not_a_failure(receiver: KeepingReceiver) -> None:
    """The receiver closed an idle connection while the request was under way. It is sent again on a new connection."""
    receiver.answers_max = 1
    async with guarded_session(allow_private=True) as http:
        answers = [await post(http, receiver.url, b"{}", {}) for _ in range(3)]
    assert [each.outcome for each in answers] == ["delivered"] * 3
    assert receiver.connections == 3


async def test_a_new_connection_that_the_receiver_closes_is_a_failure_without_another_try(
    receiver: KeepingReceiver,
) -> None:
    receiver.answers_max = 0
    async with guarded_session(allow_private=True) as http:
        assert (await post(http, receiver.url, b"{}", {})).outcome == "connection_reset"
    assert receiver.connections == 1


async def test_requests_leave_no_reference_cycles(receiver: KeepingReceiver) -> None:
    """The worker's garbage collector runs once per 20,000 new objects; with cycles, memory would grow meanwhile."""
    async with guarded_session(allow_private=True) as http:
        await post(http, receiver.url, b"{}", {})
        gc.collect()
        gc.disable()
        try:
            for _ in range(400):
                await post(http, receiver.url, b"{}", {})
            # A cycle has two objects at least; some are of tests that ran before in this process.
            assert gc.collect() < 800
        finally:
            gc.enable()


async def test_our_attributes_of_a_connection_are_none_of_aiohttps() -> None:
    loop = asyncio.get_running_loop()
    theirs = set(dir(ResponseHandler(loop)))
    ours = {"began", "ended", "_end_part", "asked"}
    assert ours <= set(dir(_Remembering(loop)))
    assert ours.isdisjoint(theirs)
