"""Webhooks: the latency from the commit of an event to the first byte of its request at the receiver, and the rate.

The receiver is a process of its own (`python -m bench.deliveries DELAY_S`). One worker process delivers, on the same
cores as PostgreSQL, Valkey and this generator. Events arrive at a fixed rate, however fast they are delivered.
"""

import asyncio
import itertools
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import NamedTuple, cast
from uuid import UUID

import aiohttp
import asyncpg
import uvloop

from bench.environment import BenchEnvironment
from bench.report import Finding, within
from commands.webhooks.endpoint import set_endpoint
from domain.webhooks.signature import delivery_headers
from runtime.coordination.lanes import WEBHOOKS
from runtime.ids import new_id
from runtime.jobs import Jobs
from runtime.postgres import Pool, session, transaction
from runtime.redis import open_redis
from runtime.seal import Seal

ENDPOINTS = 200
RATE_PER_S = 500
RECEIVER_S = 0.02
HANGING = 20
ROUNDS = 3
LONE = 30
BURST = 6_000
NAIVE_BURST = 1_500
NAIVE_AT_ONCE = 10  # arq's default of concurrent jobs
BACKLOG = 100_000

_TICK_S = 0.01
_ARRIVED_S_MAX = 60.0
_BODY = (
    b'{"event":"payment.received","event_id":"%b","charge_id":"01920000-0000-7000-8000-000000000001",'
    b'"account_id":"01920000-0000-7000-8000-000000000002","status":"paid","amount":"149.90",'
    b'"external_id":"order-1","test":false,"paid_at":"2026-11-21T12:00:00.000Z","method":"pix","version":2}'
)


class Merchant(NamedTuple):
    account_id: UUID
    numbers: "itertools.count[int]"


class Receiver:
    """A receiver in a process of its own. `seen` is when it first received each event."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self.url = f"http://127.0.0.1:{port}/"
        self.seen: dict[str, float] = {}
        self.requests = 0

    async def listen(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            event_id, at = line.split()
            self.requests += 1
            self.seen.setdefault(event_id.decode(), float(at))

    async def saw(self, event_ids: Sequence[str]) -> None:
        deadline = time.monotonic() + _ARRIVED_S_MAX
        while any(each not in self.seen for each in reversed(event_ids)):
            if time.monotonic() > deadline:
                missing = sum(each not in self.seen for each in event_ids)
                raise AssertionError(f"{missing} of {len(event_ids)} events not delivered in {_ARRIVED_S_MAX:.0f} s")
            await asyncio.sleep(0.005)


@asynccontextmanager
async def receiving(delay_s: float) -> AsyncIterator[Receiver]:
    """Runs a receiver that answers after `delay_s`; below 0 it never answers."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.deliveries", str(delay_s), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    receiver = Receiver(process, int(await process.stdout.readline()))
    listening = asyncio.create_task(receiver.listen())
    try:
        yield receiver
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()
        await listening


class Events(NamedTuple):
    """The commit time of each event, by its id."""

    at: dict[str, float]

    def took_ms(self, receiver: Receiver) -> list[float]:
        return sorted((receiver.seen[event_id] - at) * 1000 for event_id, at in self.at.items())


async def deliveries(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    """Each measurement at the fixed rate lasts `seconds`; the others send a fixed number of events."""
    findings: list[Finding] = []
    redis = open_redis(environment.settings.redis_url, blocking=False)
    jobs = Jobs(redis)
    async with environment.database() as pool, receiving(RECEIVER_S) as receiver, receiving(0) as fast:
        merchants = [await merchant_at(pool, environment, receiver.url) for _ in range(ENDPOINTS)]
        with environment.worker():
            await _warm_up(pool, jobs, merchants, receiver)
            findings += [await _measure_lone(pool, jobs, merchants, receiver)]
            alone_ms: list[float] = []
            pairs: list[tuple[float, float]] = []
            async with receiving(-1) as hanging:
                for _ in range(ROUNDS):
                    alone = (await _send_at_rate(pool, jobs, merchants, receiver, seconds)).took_ms(receiver)
                    hanging_merchants = [await merchant_at(pool, environment, hanging.url) for _ in range(HANGING)]
                    measured = await _send_at_rate(
                        pool, jobs, [*merchants, *hanging_merchants], receiver, seconds, excluded=hanging_merchants
                    )
                    for each in hanging_merchants:
                        await forget(pool, each)
                    pairs.append((_percentile(measured.took_ms(receiver), 0.99), _percentile(alone, 0.99)))
                    alone_ms += alone
            findings += _latencies(f"{RATE_PER_S} events/s", sorted(alone_ms))
            ratios = sorted(troubled / alone for troubled, alone in pairs)
            median = ratios[len(ratios) // 2]
            findings.append(
                Finding(
                    f"p99 with {HANGING} of {ENDPOINTS + HANGING} endpoints hanging, to that without",
                    median,
                    "x",
                    spread=(ratios[0], ratios[-1]),
                    note=within(median, 2),
                )
            )
            fast_merchants = [await merchant_at(pool, environment, fast.url) for _ in range(ENDPOINTS)]
            findings += await _measure_bursts(pool, jobs, fast_merchants, fast)
            backlog_merchant = await merchant_at(pool, environment, receiver.url)
            await happen(pool, [backlog_merchant] * BACKLOG)
            jobs.wake(WEBHOOKS)
            await asyncio.sleep(1.0)
            lone = await _measure_lone(pool, jobs, merchants, receiver)
            findings.append(
                Finding(f"lone event beside {BACKLOG:,} due of another", lone.value, lone.unit, note=lone.note)
            )
            await forget(pool, backlog_merchant)
        for each in [*merchants, *fast_merchants]:
            await forget(pool, each)
    await jobs.stop()
    await redis.aclose()
    return findings


async def _warm_up(pool: Pool, jobs: Jobs, merchants: list[Merchant], receiver: Receiver) -> None:
    """Warms up: afterwards the worker runs, its connections are open, and each lane has adapted its concurrency."""
    for _ in range(3):
        event_ids = await happen(pool, merchants * 3)
        jobs.wake(WEBHOOKS)
        await receiver.saw(event_ids)
    await asyncio.sleep(0.5)


async def _measure_lone(pool: Pool, jobs: Jobs, merchants: list[Merchant], receiver: Receiver) -> Finding:
    made_at: dict[str, float] = {}
    for merchant in merchants[:LONE]:
        (event_id,) = await happen(pool, [merchant])
        made_at[event_id] = time.time()
        jobs.wake(WEBHOOKS)
        await receiver.saw([event_id])
        await asyncio.sleep(0.05)
    took_ms = Events(made_at).took_ms(receiver)
    p50_ms, p99_ms = _percentile(took_ms, 0.5), _percentile(took_ms, 0.99)
    note = f"p99 {p99_ms:.0f} ms, {within(p99_ms, 30)}"
    return Finding("lone event at rest, commit to first byte, p50", p50_ms, "ms", note=note)


async def _send_at_rate(
    pool: Pool,
    jobs: Jobs,
    merchants: list[Merchant],
    receiver: Receiver,
    seconds: float,
    *,
    excluded: Sequence[Merchant] = (),
) -> Events:
    """Makes events at RATE_PER_S for `seconds` and waits for them. Events of `excluded` are made but neither awaited
    nor measured."""
    made_at: dict[str, float] = {}
    count, chance = int(RATE_PER_S * seconds), random.Random(1)
    written = 0
    began = time.monotonic()
    while written < count:
        due = min(count, int((time.monotonic() - began) * RATE_PER_S) + 1)
        if due > written:  # events due since the last tick are written together, as the API batches them
            chosen = [chance.choice(merchants) for _ in range(due - written)]
            ids = await happen(pool, chosen)
            jobs.wake(WEBHOOKS)
            at = time.time()
            made_at |= {
                event_id: at for event_id, merchant in zip(ids, chosen, strict=True) if merchant not in excluded
            }
            written = due
        await asyncio.sleep(_TICK_S)
    await receiver.saw(list(made_at))
    return Events(made_at)


async def _measure_bursts(pool: Pool, jobs: Jobs, merchants: list[Merchant], fast: Receiver) -> list[Finding]:
    """The rate at which a backlog is delivered: by the worker, and by a naive sender, which gets fewer events."""
    for _ in range(3):  # new lanes start with little concurrency: let it grow
        event_ids = await happen(pool, merchants * 4)
        jobs.wake(WEBHOOKS)
        await fast.saw(event_ids)
    rates = []
    for _ in range(ROUNDS):
        event_ids = await happen(pool, merchants * (BURST // ENDPOINTS))
        began = time.time()
        jobs.wake(WEBHOOKS)
        await fast.saw(event_ids)
        rates.append(BURST / (max(fast.seen[each] for each in event_ids) - began))
    ours = sorted(rates)[ROUNDS // 2]
    naive = await _send_naively(pool, merchants, fast)
    return [
        Finding(
            "one worker into a fast receiver", ours, "/s", target=4_000, spread=(min(rates), max(rates)),
            note=f"{BURST} waiting",
        ),
        Finding(
            "naive sender: a row, a request, an update at a time", naive, "/s",
            note=f"{NAIVE_AT_ONCE} at once; ours is {ours / naive:.1f} times that",
        ),
    ]  # fmt: skip


async def _send_naively(pool: Pool, merchants: list[Merchant], fast: Receiver) -> float:
    """The obvious way to deliver: a job per delivery, with a transaction held open while the merchant answers."""
    waiting = [(merchant, new_id()) for merchant in merchants for _ in range(NAIVE_BURST // ENDPOINTS)]
    await pool.execute("CREATE TABLE IF NOT EXISTS naive (event_id uuid PRIMARY KEY, body bytea, state text, at real)")
    await pool.executemany(
        "INSERT INTO naive VALUES ($1, $2, 'pending')", [(each, _BODY % str(each).encode()) for _, each in waiting]
    )
    secret = "whsec_" + "A" * 43 + "="
    jobs = iter(waiting)

    async def work(http: aiohttp.ClientSession) -> None:
        for _, event_id in jobs:
            async with transaction(pool) as conn:
                row = await conn.fetchrow("SELECT * FROM naive WHERE event_id = $1 FOR UPDATE", event_id)
                assert row is not None
                headers = delivery_headers(
                    event="payment.received", event_id=event_id, delivery_id=event_id, attempt=1,
                    timestamp=int(time.time()), body=row["body"], secret=secret,
                )  # fmt: skip
                async with http.post(fast.url, data=row["body"], headers=headers) as answer:
                    await answer.read()
                await conn.execute("UPDATE naive SET state = 'delivered' WHERE event_id = $1", event_id)

    began = time.monotonic()
    async with aiohttp.ClientSession() as http, asyncio.TaskGroup() as group:
        for _ in range(NAIVE_AT_ONCE):
            group.create_task(work(http))
    return len(waiting) / (time.monotonic() - began)


def _latencies(name: str, took_ms: list[float]) -> list[Finding]:
    p50_ms, p99_ms = _percentile(took_ms, 0.5), _percentile(took_ms, 0.99)
    note = f"{len(took_ms)} events, p95 {_percentile(took_ms, 0.95):.0f}, max {took_ms[-1]:.0f} ms"
    return [
        Finding(f"{name}, commit to first byte, p50", p50_ms, "ms", note=f"{within(p50_ms, 50)}; {note}"),
        Finding(f"{name}, commit to first byte, p99", p99_ms, "ms", note=within(p99_ms, 1000)),
    ]


def _percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


async def merchant_at(pool: Pool, environment: BenchEnvironment, url: str) -> Merchant:
    account_id, now = new_id(), datetime.now(UTC)
    async with transaction(pool) as conn:
        await conn.execute(
            "INSERT INTO account (account_id, name, document, city, kyc, pix_key, created_at)"
            " VALUES ($1, 'Loja', '00000000000191', 'Recife', 'approved', 'k', now())",
            account_id,
        )
        await set_endpoint(
            conn, account_id, url, allow_private=True, now=now, seal=Seal(environment.settings.secret_key),
            chance=os.urandom(32),
        )  # fmt: skip
    return Merchant(account_id, itertools.count(1))


async def forget(pool: Pool, merchant: Merchant) -> None:
    while True:
        try:
            async with session(pool) as conn:
                await conn.execute("DELETE FROM webhook_endpoint WHERE account_id = $1", merchant.account_id)
            return
        except asyncpg.SerializationError:
            await asyncio.sleep(0.1)  # a delivery ended meanwhile, and its row moved to another partition


async def happen(pool: Pool, merchants: Sequence[Merchant]) -> list[str]:
    """Writes an event for each merchant as commands do, but without charges: journal, feed and deliveries in one
    transaction."""
    event_ids: list[str] = []
    for chunk in (merchants[start : start + 5_000] for start in range(0, len(merchants), 5_000)):
        ids = [new_id() for _ in chunk]
        async with transaction(pool) as conn:
            rows = await conn.fetch(
                "INSERT INTO journal (account_id, test, charge_id, version, kind, recorded_at, actor, payload,"
                " event_id, event_sequence, event_body)"
                " SELECT a, false, gen_random_uuid(), 1, 'payment.received', now(), 'bench', '{}', i, n, b"
                " FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bytea[]) AS g(a, i, n, b) RETURNING journal_id",
                [merchant.account_id for merchant in chunk],
                ids,
                [next(merchant.numbers) for merchant in chunk],
                [_BODY % str(each).encode() for each in ids],
            )
            journal_ids = [row["journal_id"] for row in rows]
            await conn.execute(
                "INSERT INTO read_event (account_id, test, sequence, event_id, type, charge_id, created_at, journal_id)"
                " SELECT account_id, test, event_sequence, event_id, kind, charge_id, recorded_at, journal_id"
                " FROM journal WHERE journal_id = ANY($1)",
                journal_ids,
            )
            await conn.execute("SELECT enqueue_deliveries($1, $2)", journal_ids, datetime.now(UTC))
        event_ids += [str(each) for each in ids]
    return event_ids


class _ReceiverProtocol(asyncio.Protocol):
    """Answers 200 to every request after the delay, and prints each event id with its arrival time on stdout."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        at = time.time()
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            size = int(head.partition(b"content-length: ")[2].split(b"\r\n", 1)[0])
            if len(self._buffer) < end + 4 + size:
                return
            event_id = head.partition(b"webhook-id: ")[2].split(b"\r\n", 1)[0]
            self._buffer = self._buffer[end + 4 + size :]
            sys.stdout.write(f"{event_id.decode()} {at}\n")
            if self._delay_s >= 0:
                asyncio.get_running_loop().call_later(self._delay_s, self._answer)

    def _answer(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


async def _run_receiver(delay_s: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _ReceiverProtocol(delay_s), "127.0.0.1", 0, backlog=2048)
    stopping = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    print(server.sockets[0].getsockname()[1], flush=True)
    while not stopping.is_set():  # lines are flushed several at a time: a write for each would slow the receiver down
        sys.stdout.flush()
        await asyncio.sleep(0.002)
    sys.stdout.flush()


if __name__ == "__main__":
    uvloop.run(_run_receiver(float(sys.argv[1])))
