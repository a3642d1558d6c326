"""Receivers answer in every possible way: an attempt ends in time and is stored; only 2xx ends a delivery."""

import asyncio
import gzip
import os
import resource
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from domain.webhooks.signature import sign
from runtime.coordination.lanes import WEBHOOKS
from runtime.postgres import Pool, transaction
from tests.support.webhooks import (
    PATIENCE_S,
    attempts_of,
    create_merchant_with_endpoint,
    enqueue,
    receiving,
    record_events,
    rows_of,
    until,
    webhook_worker,
)
from workers.webhooks.attempt import post
from workers.webhooks.guarded_connection import guarded_session

pytestmark = pytest.mark.usefixtures("quiet")

ATTEMPT_S = 0.6
SLACK_S = 5.0  # a machine may stall for a moment; an attempt that is not cut off would last an hour
_RST = struct.pack("ii", 1, 0)


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def talking(talk: Talk) -> AsyncIterator[str]:
    """A server that reads a request's head and then runs `talk`; yields its URL."""

    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


OTHERS = [
    300, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 409, 410, 418, 422, 429, 451, 500, 501, 502, 503, 504,
    511, 599,
]  # fmt: skip


@pytest.mark.parametrize("status", OTHERS)
async def test_only_2xx_is_success_and_a_location_header_is_never_followed(
    pool: Pool, redis_url: str, status: int
) -> None:
    async with receiving() as elsewhere:
        refusal = f"HTTP/1.1 {status} No\r\nLocation: {elsewhere.url}\r\nContent-Length: 0\r\n\r\n"
        async with receiving(lambda n: 200 if n == 2 else refusal) as receiver:
            merchant = await create_merchant_with_endpoint(pool, receiver.url)
            async with webhook_worker(pool, redis_url, every_s=0.03):
                await record_events(pool, merchant)
                await until(pool, merchant, "delivered")
    assert elsewhere.requests == []
    assert await attempts_of(pool, merchant) == [(1, "rejected", status), (2, "delivered", 200)]


async def nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    pass


async def cut(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(1, 13, _RST)  # SO_LINGER 0: close resets


async def six_hundred(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 600 What\r\nContent-Length: 0\r\n\r\n")


async def half_a_head(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Le")


@pytest.mark.parametrize(
    ("talk", "outcome"),
    [
        (nothing, "connection_reset"),
        (cut, "connection_reset"),
        (six_hundred, "rejected"),
        (half_a_head, "connection_reset"),
    ],
)
async def test_a_missing_or_broken_answer_is_a_failure_with_an_outcome_of_its_own(talk: Talk, outcome: str) -> None:
    async with talking(talk) as url, guarded_session(allow_private=True) as http:
        answer = await post(http, url, b"{}", {})
    assert answer.outcome == outcome


async def endless_body(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        await writer.drain()


async def dripping_body(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b"x")
        await asyncio.sleep(0.05)


async def bomb(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    packed = gzip.compress(bytes(30_000_000))
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed)


async def odd_bytes(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\na\0b\xff\xfec")


@pytest.mark.parametrize("talk", [endless_body, dripping_body, bomb, odd_bytes])
async def test_a_2xx_with_an_endless_or_huge_body_is_a_success_and_little_of_the_body_is_read(talk: Talk) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with talking(talk) as url, guarded_session(allow_private=True, attempt_s=3.0) as http:
        began = time.monotonic()
        answer = await post(http, url, b"{}", {})
        took_s = time.monotonic() - began
    assert answer.outcome == "delivered"
    assert took_s < 3.0 + SLACK_S
    assert answer.kept is not None
    assert len(answer.kept) <= 1024
    assert b"\0" not in answer.kept
    answer.kept.decode()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64_000, (
        "the memory used grew by 64,000 kilobytes or more"
    )


async def dripping_head(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X-A: b\r\n")
        await asyncio.sleep(0.05)


async def endless_head(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for n in range(2_000_000):
        writer.write(b"X-%d: %b\r\n" % (n, b"y" * 1000))
        await writer.drain()


async def long_header(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nX-A: ")
    while True:
        writer.write(b"y" * 65536)
        await writer.drain()


async def always_continue(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
        await writer.drain()
        await asyncio.sleep(0.01)


async def silence(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(3600)


@pytest.mark.parametrize("talk", [dripping_head, endless_head, long_header, always_continue, silence])
async def test_an_answer_whose_head_never_ends_is_cut_off_in_time_and_in_little_memory(talk: Talk) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with talking(talk) as url, guarded_session(allow_private=True, attempt_s=ATTEMPT_S) as http:
        began = time.monotonic()
        answer = await post(http, url, b"{}", {})
        took_s = time.monotonic() - began
    assert answer.outcome in ("timeout", "network_error", "connection_reset")
    assert took_s < ATTEMPT_S + SLACK_S
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64_000, (
        "the memory used grew by 64,000 kilobytes or more"
    )


@pytest.mark.parametrize("part", [b"HTTP/1.1 100 Continue\r\n\r\n", b"\r\n"], ids=["interim answers", "empty lines"])
async def test_a_flood_of_bytes_before_the_answer_is_cut_off(part: bytes) -> None:
    """Nothing else runs in the worker while it parses the flood."""

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(part * 4_096)
            await writer.drain()

    async with talking(flood) as url, guarded_session(allow_private=True, attempt_s=30.0) as http:
        answer = await post(http, url, b"{}", {})
    assert answer.outcome == "network_error", "cut off by its size; the end of the attempt's time would be a timeout"


@pytest.mark.parametrize(
    ("delay_s", "attempt_s", "requests"), [(0.3, 10.0, 1), (0.9, 0.6, 2)], ids=["in time", "too late"]
)
async def test_a_2xx_in_time_ends_a_delivery_and_a_late_2xx_is_retried(
    pool: Pool, redis_url: str, delay_s: float, attempt_s: float, requests: int
) -> None:
    async with receiving(delay_s=delay_s) as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        async with webhook_worker(pool, redis_url, delays_s=(0.2, 60.0), every_s=0.05, attempt_s=attempt_s):
            await record_events(pool, merchant)
            await receiver.reached(requests)
            await until(pool, merchant, "delivered" if requests == 1 else "pending")
            await asyncio.sleep(0.1)
    assert len(receiver.requests) == requests


async def test_a_rolled_back_transaction_sends_no_webhook(pool: Pool, redis_url: str) -> None:
    async with receiving() as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        with pytest.raises(RuntimeError):  # noqa: PT012
            async with transaction(pool) as conn:
                await conn.execute(
                    "INSERT INTO journal (account_id, test, charge_id, version, kind, recorded_at, actor, payload,"
                    " event_id, event_sequence, event_body) VALUES ($1, false, gen_random_uuid(), 1,"
                    " 'payment.received', now(), 'test', '{}', gen_random_uuid(), 1, '{}')",
                    merchant.account_id,
                )
                ids = await conn.fetch("SELECT journal_id FROM journal WHERE account_id = $1", merchant.account_id)
                await enqueue(conn, journal_ids=[row["journal_id"] for row in ids], now=datetime.now(UTC))
                assert await conn.fetchval("SELECT count(*) FROM webhook_delivery WHERE account_id = $1",
                                           merchant.account_id) == 1  # fmt: skip
                raise RuntimeError("broken after the event was written")
        async with webhook_worker(pool, redis_url, every_s=0.05):
            await asyncio.sleep(0.2)
    assert receiver.requests == []
    assert await rows_of(pool, merchant) == []


async def test_one_secret_signs_both_modes_and_no_other_account(pool: Pool, redis_url: str) -> None:
    async with receiving() as receiver:
        one, two = (
            await create_merchant_with_endpoint(pool, receiver.url),
            await create_merchant_with_endpoint(pool, receiver.url),
        )
        async with webhook_worker(pool, redis_url, every_s=0.05):
            (live,) = await record_events(pool, one)
            (test,) = await record_events(pool, one, test=True)
            await until(pool, one, "delivered")
    assert {each.event_id for each in receiver.requests} == {live, test}
    for each in receiver.requests:
        Webhook(one.endpoint.secret).verify(each.body, each.headers)
        with pytest.raises(WebhookVerificationError):
            Webhook(two.endpoint.secret).verify(each.body, each.headers)
        timestamp = int(each.headers["X-Service-Timestamp"])
        assert each.headers["X-Service-Signature"] != "sha256=" + sign(two.endpoint.secret, timestamp, each.body)


async def test_a_long_backlog_of_one_merchant_does_not_delay_the_events_of_another(pool: Pool, redis_url: str) -> None:
    count = 100_000 if os.environ.get("FAULT") == "full" else 10_000
    async with receiving(delay_s=0.02) as receiver, receiving() as other:
        busy, calm = (
            await create_merchant_with_endpoint(pool, receiver.url),
            await create_merchant_with_endpoint(pool, other.url),
        )
        for _ in range(0, count, 5_000):
            await record_events(pool, busy, 5_000)
        async with webhook_worker(pool, redis_url) as worker:
            worker.jobs.wake(WEBHOOKS)
            await receiver.reached(20)
            took_s = []
            for n in range(1, 4):
                began = time.monotonic()
                await record_events(pool, calm)
                worker.jobs.wake(WEBHOOKS)
                await other.reached(n)
                took_s.append(time.monotonic() - began)
    assert max(took_s) < 10.0, "the backlog takes twenty seconds and more"
    assert receiver.flying_max <= 10


async def test_a_clock_that_jumps_causes_no_burst_of_retries_and_loses_no_event(pool: Pool, redis_url: str) -> None:
    ahead = [timedelta()]
    async with receiving(lambda _: 404) as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        async with webhook_worker(
            pool, redis_url, delays_s=(300.0,) * 12, every_s=0.05, now=lambda: datetime.now(UTC) + ahead[0]
        ):
            await record_events(pool, merchant, 10)
            await receiver.reached(10)
            await until(pool, merchant, "pending")
            ahead[0] = timedelta(minutes=10)
            await receiver.reached(20)
            await asyncio.sleep(0.3)
            assert len(receiver.requests) == 20, "one retry of each, as is due by the new time"
            ahead[0] = timedelta()
            await asyncio.sleep(0.3)
            assert len(receiver.requests) == 20
            ahead[0] = timedelta(minutes=20)
            await receiver.reached(30)
    assert len({each.event_id for each in receiver.requests[20:]}) == 10


ODD = {
    "a 204 in chunks": b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a 204 with a body": b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok",
    "a 204 with a body of no length": b"HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n<html>ok</html>",
    "a long header": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 20_000 + b"\r\nContent-Length: 2\r\n\r\nok",
    "bytes behind the body": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more",
    "one length twice": b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
    "an interim answer first": b"HTTP/1.1 103 Early Hints\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
}


@pytest.mark.parametrize("said", ODD.values(), ids=ODD.keys())
async def test_a_2xx_status_is_a_success_whatever_bytes_follow_it(said: bytes) -> None:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await writer.drain()

    async with talking(talk) as url, guarded_session(allow_private=True) as http:
        answers = [await post(http, url, b"{}", {}) for _ in range(3)]
    assert {(answer.outcome, answer.status) for answer in answers} == {
        ("delivered", int(said.rpartition(b"HTTP/1.1 ")[2][:3]))
    }


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"HTTP/1.1 500 No\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", ("rejected", 500)),
        (b"HTTP/1.1 20", ("connection_reset", None)),
        (b"200 OK\r\n\r\n", ("network_error", None)),
        (b"HTTP/1.1 103 Early Hints\r\n\r\nnothing more\r\n\r\n", ("network_error", None)),
    ],
)
async def test_an_answer_without_a_2xx_status_is_a_failure(said: bytes, expected: tuple[str, int | None]) -> None:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await writer.drain()

    async with talking(talk) as url, guarded_session(allow_private=True) as http:
        answer = await post(http, url, b"{}", {})
    assert (answer.outcome, answer.status) == expected


def _said(status: int) -> bytes:
    return b"HTTP/1.1 %d Said\r\nContent-Length: 2\r\n\r\nok" % status


@pytest.mark.parametrize("at_once", [False, True], ids=["a moment later", "with the end of the answer"])
async def test_a_surplus_answer_is_not_taken_for_the_answer_to_the_next_request(at_once: bool) -> None:
    """A receiver that answers the first request twice, and refuses all after it."""
    requests, said_twice = 0, asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        requests += 1
        if requests == 1:
            writer.write(_said(200)[:-1])
            await asyncio.sleep(0.05)
            writer.write(_said(200)[-1:] + (_said(200) if at_once else b""))
            await asyncio.sleep(0.05)
            if not at_once:
                writer.write(_said(200))
            said_twice.set()
            await reader.readuntil(b"\r\n\r\n")
        writer.write(_said(500))

    async with talking(talk) as url, guarded_session(allow_private=True) as http:
        assert (await post(http, url, b"{}", {})).status == 200
        await said_twice.wait()
        await asyncio.sleep(0.2)
        answer = await post(http, url, b"{}", {})
    assert (answer.outcome, answer.status) == ("rejected", 500)


async def test_a_receiver_that_keeps_sending_after_its_answer_is_disconnected() -> None:
    cut = asyncio.Event()

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_said(200))
        await asyncio.sleep(0.05)
        try:
            while True:
                writer.write(_said(200) * 1_000)
                await writer.drain()
                await asyncio.sleep(0.001)
        except ConnectionError:
            cut.set()

    async with talking(talk) as url, guarded_session(allow_private=True) as http:
        assert (await post(http, url, b"{}", {})).outcome == "delivered"
        async with asyncio.timeout(PATIENCE_S):
            await cut.wait()


async def test_open_connections_are_kept_up_to_a_limit_however_many_receivers_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workers.webhooks.guarded_connection._KEPT_MAX", 3)
    opened: set[asyncio.StreamWriter] = set()
    connections = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        opened.add(writer)
        try:
            while True:
                writer.write(_said(200))
                await reader.readuntil(b"\r\n\r\n")
        finally:
            opened.discard(writer)

    async with AsyncExitStack() as held:
        urls = [await held.enter_async_context(talking(talk)) for _ in range(8)]
        http = await held.enter_async_context(guarded_session(allow_private=True))

        async def ask(urls: Sequence[str]) -> None:
            for url in urls:
                assert (await post(http, url, b"{}", {})).outcome == "delivered"

        await ask(urls)
        await ask(urls[-3:])  # the connections used last are kept
        assert connections == 8
        await asyncio.sleep(0.1)
        assert len(opened) == 3
        await ask(urls)
        assert connections == 16


async def test_connections_that_receivers_closed_do_not_displace_kept_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workers.webhooks.guarded_connection._KEPT_MAX", 3)
    kept = 0

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal kept
        kept += 1
        while True:
            writer.write(_said(200))
            await reader.readuntil(b"\r\n\r\n")

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_said(200))
        await asyncio.sleep(0.01)

    async with talking(keep) as keeping, talking(hang_up) as closing, guarded_session(allow_private=True) as http:
        for url in (keeping, *[closing] * 6, keeping):
            assert (await post(http, url, b"{}", {})).outcome == "delivered"
            await asyncio.sleep(0.05)
    assert kept == 1
