"""Every event is delivered at least once, with its own id and bytes, while workers are killed and Redis is flushed or
away.

`make fault` runs all of it; FAULT=full does so for a single test.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from runtime.coordination.lanes import WEBHOOKS
from runtime.jobs import Jobs
from runtime.local.embedded import EmbeddedRedis
from runtime.postgres import Pool
from runtime.redis import REDIS_UNAVAILABLE, open_redis
from tests.support.system import remove_home, temporary_home
from tests.support.webhooks import (
    KEY,
    ROOT,
    Merchant,
    Receiver,
    create_merchant_with_endpoint,
    paths,
    receiving,
    record_events,
)

FULL = os.environ.get("FAULT") == "full"
EVENTS = 8_000 if FULL else 800
KILLS = 5 if FULL else 2
PER_S = 400
MERCHANTS = 40
WORKERS = 2
LEASE_S = 2.0
TWICE_MAX = 100  # for each kill: the deliveries that a worker has under way (docs/decisions/0028-speed.md)
STARTED_S_MAX = 30.0
DRAINED_S_MAX = 60.0
LEFT_S_MAX = 60.0  # deliveries under way have 12 s to end; the rest is for a busy machine

pytestmark = pytest.mark.slow


@pytest.fixture
def redis() -> Iterator[EmbeddedRedis]:
    """A Redis for the test only, which it may stop."""
    home = temporary_home()
    home.mkdir(mode=0o711)
    server = EmbeddedRedis()
    try:
        server.start(home)
        yield server
    finally:
        server.stop()
        remove_home(home)


@pytest_asyncio.fixture(autouse=True)
async def no_other_endpoints(pool: Pool) -> AsyncIterator[None]:
    await pool.execute("DELETE FROM webhook_endpoint")
    yield
    await pool.execute("DELETE FROM webhook_endpoint")


class Workers:
    """Worker processes as `quita up` starts them; one that was killed is started again."""

    def __init__(self, database_url: str, redis_url: str, home: Path, *, lease_s: float = LEASE_S) -> None:
        self._log = home / "workers.log"
        self._env = {name: value for name, value in os.environ.items() if not name.startswith("WEBHOOK_")} | {
            "PYTHONPATH": paths(),
            "QUITA_HOME": str(home),
            "DATABASE_URL": database_url,
            "REDIS_URL": redis_url,
            "SECRET_KEY": KEY,
            "BANK_URL": "http://127.0.0.1:1",
            "WEBHOOK_ALLOW_PRIVATE": "1",
            "WEBHOOK_LEASE_S": str(lease_s),
        }
        self.processes = [self._start() for _ in range(WORKERS)]

    def _start(self) -> "subprocess.Popen[bytes]":
        with self._log.open("ab") as log:
            return subprocess.Popen([sys.executable, "-m", "workers"], cwd=ROOT, env=self._env, stdout=log, stderr=log)

    def kill(self, index: int) -> None:
        """Kills a worker with -9, and starts another in its place."""
        self.processes[index].kill()
        self.processes[index].wait()
        self.processes[index] = self._start()

    def replace(self, index: int) -> None:
        """Replaces a worker as a release does: starts another, then stops the old one, which must end cleanly."""
        old, self.processes[index] = self.processes[index], self._start()
        old.send_signal(signal.SIGTERM)
        assert old.wait(LEFT_S_MAX) == 0, self.said().decode()[-4000:]

    def stop(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    async def started(self, count: int) -> None:
        async with asyncio.timeout(STARTED_S_MAX):
            while self.said().count(b"worker_started") < count:
                assert all(process.poll() is None for process in self.processes), self.said().decode()[-4000:]
                await asyncio.sleep(0.05)

    def said(self) -> bytes:
        return self._log.read_bytes()


async def flush_and_restart(redis: EmbeddedRedis, over: asyncio.Event) -> None:
    """Flushes Redis twice a second, and stops it once for a while."""
    client: Redis = open_redis(redis.dsn, blocking=False)
    rounds = 0
    while not over.is_set():
        await asyncio.sleep(0.5)
        rounds += 1
        if rounds == 3:
            await asyncio.to_thread(redis.stop)
            await asyncio.sleep(1.0)
            await asyncio.to_thread(redis.restart)
            continue
        try:
            await client.flushall()
        except REDIS_UNAVAILABLE:
            continue
    await client.aclose()


async def test_killed_workers_and_a_flushed_redis_lose_no_event_and_resend_at_most_100_per_kill(
    pool: Pool, servers: Any, redis: EmbeddedRedis, tmp_path: Path
) -> None:
    tmp_path.chmod(0o711)
    chance = random.Random(7)
    client = open_redis(redis.dsn, blocking=False)
    jobs = Jobs(client)
    workers = Workers(servers.database_url, redis.dsn, tmp_path)
    async with AsyncExitStack() as opened:
        opened.push_async_callback(client.aclose)
        opened.push_async_callback(jobs.stop)
        opened.callback(workers.stop)
        receivers = [await opened.enter_async_context(receiving(delay_s=0.02)) for _ in range(4)]
        merchants = [await create_merchant_with_endpoint(pool, receivers[n % 4].url) for n in range(MERCHANTS)]
        await workers.started(WORKERS)
        over = asyncio.Event()
        trouble = asyncio.create_task(flush_and_restart(redis, over))
        kills_at = [EVENTS * (n + 1) // (KILLS + 1) for n in range(KILLS)]
        sent: list[str] = []
        began = time.monotonic()
        while len(sent) < EVENTS:
            sent += await record_events(pool, chance.choice(merchants), 4)
            jobs.wake(WEBHOOKS)
            if kills_at and len(sent) >= kills_at[0]:
                kills_at.pop(0)
                await asyncio.to_thread(workers.kill, len(kills_at) % WORKERS)
            await asyncio.sleep(max(0.0, began + len(sent) / PER_S - time.monotonic()))
        over.set()
        await trouble
        await wait_until_all_is_delivered(pool, merchants, workers)
    heard = [request for receiver in receivers for request in receiver.requests]
    times = Counter(request.event_id for request in heard)
    assert times.keys() == set(sent), f"{len(set(sent) - times.keys())} of {len(sent)} never arrived"
    twice = len(heard) - len(times)
    print(f"{len(sent)} events, {KILLS} kills, {twice} sent again ({twice / len(sent):.2%})")
    assert twice <= TWICE_MAX * KILLS
    assert len({(request.event_id, request.body) for request in heard}) == len(times), (
        "the body changed between attempts"
    )
    deliveries = {(request.event_id, request.headers["X-Service-Delivery-Id"]) for request in heard}
    assert len(deliveries) == len(times), "the delivery id changed between attempts"


async def test_workers_replaced_under_load_lose_and_resend_no_event(
    pool: Pool, servers: Any, redis: EmbeddedRedis, tmp_path: Path
) -> None:
    tmp_path.chmod(0o711)
    client = open_redis(redis.dsn, blocking=False)
    jobs = Jobs(client)
    # A long lease: no worker dies here, and one that a busy machine delays must not be taken for dead.
    workers = Workers(servers.database_url, redis.dsn, tmp_path, lease_s=15.0)
    async with AsyncExitStack() as opened:
        opened.push_async_callback(client.aclose)
        opened.push_async_callback(jobs.stop)
        opened.callback(workers.stop)
        receiver: Receiver = await opened.enter_async_context(receiving(delay_s=0.1))
        merchants = [await create_merchant_with_endpoint(pool, receiver.url) for _ in range(8)]
        await workers.started(WORKERS)
        over = asyncio.Event()
        sent: list[str] = []

        async def write() -> None:
            while not over.is_set():
                sent.extend(await record_events(pool, merchants[len(sent) % 8]))
                jobs.wake(WEBHOOKS)
                await asyncio.sleep(0.01)

        writing = asyncio.create_task(write())
        try:
            for index in range(WORKERS):
                async with asyncio.timeout(STARTED_S_MAX):
                    while receiver.flying < 2:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                await asyncio.to_thread(workers.replace, index)
                await workers.started(WORKERS + index + 1)
        finally:
            over.set()
            await writing
        await wait_until_all_is_delivered(pool, merchants, workers)
    assert sorted(request.event_id for request in receiver.requests) == sorted(sent)


async def wait_until_all_is_delivered(pool: Pool, merchants: list[Merchant], workers: Workers) -> None:
    accounts = [merchant.account_id for merchant in merchants]
    deadline = time.monotonic() + DRAINED_S_MAX
    while True:
        left = await pool.fetch(
            "SELECT state, count(*) AS count FROM webhook_delivery WHERE account_id = ANY($1) AND state <> 'delivered'"
            " GROUP BY state",
            accounts,
        )
        if not left:
            return
        assert time.monotonic() < deadline, ([dict(each) for each in left], workers.said().decode()[-3000:])
        await asyncio.sleep(0.1)


async def test_without_redis_the_sweep_delivers_every_event_within_seconds(
    pool: Pool, servers: Any, tmp_path: Path
) -> None:
    """Without wake-ups through Redis, only the workers' regular sweep finds the deliveries."""
    workers = Workers(servers.database_url, "redis://127.0.0.1:1/0", tmp_path)
    async with AsyncExitStack() as opened:
        opened.callback(workers.stop)
        receiver: Receiver = await opened.enter_async_context(receiving())
        merchants = [await create_merchant_with_endpoint(pool, receiver.url) for _ in range(5)]
        await workers.started(WORKERS)
        delays_s: list[float] = []
        for n in range(1, 6):
            began = time.monotonic()
            await record_events(pool, merchants[n % 5])
            await receiver.reached(n)
            delays_s.append(receiver.requests[-1].at - began)
            await asyncio.sleep(0.1)
    # The median: a machine that stalls for a moment delays one delivery, a late sweep delays all.
    assert sorted(delays_s)[2] < 2.5, delays_s
