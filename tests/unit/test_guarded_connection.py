"""A webhook never reaches an address that is not public, whatever its URL looks like."""

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
"""The table of addresses, frozen: what Python calls global changed between its versions."""


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_let_through(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", REFUSED)
def test_other_addresses_are_refused(address: str) -> None:
    assert not is_public(address)


def answer(address: str) -> ResolveResult:
    return ResolveResult(hostname="h", host=address, port=443, family=socket.AF_INET, proto=0, flags=0)


def test_one_private_answer_among_public_ones_refuses_the_name() -> None:
    with pytest.raises(BlockedAddress):
        checked([answer("8.8.8.8"), answer("10.0.0.1")])


def test_no_answer_is_no_address() -> None:
    with pytest.raises(OSError, match="no address"):
        checked([])


class Listener:
    """Counts who connects to loopback, on IPv4 and IPv6."""

    def __init__(self) -> None:
        self.connections = 0
        self.port = 0

    def take(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()


@pytest_asyncio.fixture
async def listener() -> AsyncIterator[Listener]:
    heard = Listener()
    async with AsyncExitStack() as open_servers:
        four = await asyncio.start_server(heard.take, "127.0.0.1", 0)
        await open_servers.enter_async_context(four)
        heard.port = four.sockets[0].getsockname()[1]
        with suppress(OSError):  # a machine without IPv6
            six = await asyncio.start_server(heard.take, "::1", heard.port)
            await open_servers.enter_async_context(six)
        yield heard


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "localhost", "127.0.0.1.",
        "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "0", "①②⑦.⓪.⓪.①", "user@127.0.0.1",
        "[64:ff9b::7f00:1]",
    ],
)  # fmt: skip
async def test_no_spelling_of_our_own_machine_gets_a_connection(listener: Listener, host: str) -> None:
    async with guarded_session(allow_private=False) as http:
        outcome = (await post(http, f"http://{host}:{listener.port}/", b"{}", {})).outcome
    assert outcome != "delivered"
    assert listener.connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_refusal_says_so(listener: Listener, host: str) -> None:
    async with guarded_session(allow_private=False) as http:
        assert (await post(http, f"http://{host}:{listener.port}/", b"{}", {})).outcome == "blocked_address"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_local_work_may_reach_its_own_machine(listener: Listener, host: str) -> None:
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
    """Answers 200 and keeps its connections open, up to `answers_max` of each; counts them."""

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


async def test_a_receiver_is_spoken_to_over_the_connection_it_keeps_open(receiver: KeepingReceiver) -> None:
    """Another handshake for each webhook would cost it, and us, several times what the webhook does."""
    async with guarded_session(allow_private=True) as http:
        answers = [await post(http, receiver.url, b"{}", {}) for _ in range(5)]
    assert [(each.outcome, each.kept) for each in answers] == [("delivered", b"ok")] * 5
    assert receiver.connections == 1


async def test_a_kept_connection_that_is_closed_is_no_failure_of_the_receiver(receiver: KeepingReceiver) -> None:
    """It closed a connection that was idle for long while the request was under way: nothing was answered on it."""
    receiver.answers_max = 1
    async with guarded_session(allow_private=True) as http:
        answers = [await post(http, receiver.url, b"{}", {}) for _ in range(3)]
    assert [each.outcome for each in answers] == ["delivered"] * 3
    assert receiver.connections == 3


async def test_a_new_connection_that_is_closed_is_a_failure_and_not_tried_again(receiver: KeepingReceiver) -> None:
    receiver.answers_max = 0
    async with guarded_session(allow_private=True) as http:
        assert (await post(http, receiver.url, b"{}", {})).outcome == "connection_reset"
    assert receiver.connections == 1


async def test_requests_leave_no_reference_cycles(receiver: KeepingReceiver) -> None:
    """So the worker looks for cycles once for twenty thousand new objects, and its memory does not grow meanwhile."""
    async with guarded_session(allow_private=True) as http:
        await post(http, receiver.url, b"{}", {})
        gc.collect()
        gc.disable()
        try:
            for _ in range(200):
                await post(http, receiver.url, b"{}", {})
            assert gc.collect() < 200
        finally:
            gc.enable()


async def test_what_a_connection_remembers_is_nothing_that_its_library_knows() -> None:
    loop = asyncio.get_running_loop()
    theirs = set(dir(ResponseHandler(loop)))
    ours = {"began", "ended", "_end_part", "asked"}
    assert ours <= set(dir(_Remembering(loop)))
    assert ours.isdisjoint(theirs)
