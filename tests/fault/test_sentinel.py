"""The master of a Redis behind Sentinels is killed or demoted: another master is used within seconds, and no answer is
wrong meanwhile."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from api.idempotency.lock import IdempotencyLocks, Lock
from domain.mode import Mode, Owner
from runtime.coordination.lanes import WEBHOOKS
from runtime.jobs import Jobs, QueueRedis
from runtime.local.embedded import EmbeddedRedis
from runtime.redis import REDIS_UNAVAILABLE, open_redis
from runtime.servers.sentinel import sentinel_pool
from tests.support.in_process import Api, open_api
from tests.support.sentinels import Watched, watched
from tests.support.system import remove_home, temporary_home

FAILOVER_S_MAX = 20.0
"""Far above the time that a failover takes, which the test prints."""


@pytest.fixture
def redis() -> Iterator[Watched]:
    home = temporary_home()
    try:
        with watched(home) as started:
            yield started
    finally:
        remove_home(home)


async def until_locked(redis: Watched) -> float:
    """Waits until a lock can be taken again; returns how many seconds that took."""
    client, began = open_redis(redis.url, blocking=False), time.monotonic()
    locks = IdempotencyLocks(client)
    while (await locks.take((Owner(uuid4(), Mode.SANDBOX), "one")))[0] is not Lock.TAKEN:
        assert time.monotonic() - began < FAILOVER_S_MAX
        await asyncio.sleep(0.05)
    await client.aclose(close_connection_pool=True)
    return time.monotonic() - began


class EqualCreations:
    """Three equal creations with one key, sent together, again and again until `over`."""

    def __init__(self, api: Api, token: str) -> None:
        self._api, self._token = api, token
        self.over = False
        self.charges: list[set[str]] = []

    async def run(self) -> None:
        while not self.over:
            key, given = str(uuid4()), self._api.pix()
            replies = await asyncio.gather(
                *(self._api.post("/v1/charges/pix", given, token=self._token, key=key) for _ in range(3))
            )
            assert {reply.status for reply in replies} <= {200, 201}, replies
            assert sum(reply.status == 201 for reply in replies) == 1
            self.charges.append({reply.json()["charge_id"] for reply in replies})
            await asyncio.sleep(0.02)  # so that the locations last, however long the failover takes


@pytest.mark.parametrize("lost", ["killed", "demoted"])
async def test_after_a_failover_the_new_master_is_used_and_each_key_made_one_charge(
    servers: Any, redis: Watched, lost: str
) -> None:
    async with open_api(servers.database_url, redis.url) as api:
        twins = EqualCreations(api, await api.token())
        running = [asyncio.create_task(twins.run()) for _ in range(4)]
        # Connections opened before the failover: of locks, of the queue and of the reader of replies.
        client, queue = open_redis(redis.url, blocking=False), QueueRedis(redis.url)
        jobs, woken = Jobs(client), asyncio.Event()
        queue.run_now = lambda lane: woken.set()
        assert await jobs.enqueue(WEBHOOKS)
        await queue.zrangebyscore("quita:jobs", start=0, num=10, min=float("-inf"))
        await asyncio.to_thread(redis.kill_master if lost == "killed" else redis.demote_master)
        took_s = await until_locked(redis)
        print(f"{lost}: locked again after {took_s:.1f} s")
        began = time.monotonic()
        woken.clear()
        while not woken.is_set():
            assert time.monotonic() - began < FAILOVER_S_MAX
            try:
                await jobs.enqueue(WEBHOOKS)
                await queue.zrangebyscore("quita:jobs", start=0, num=10, min=float("-inf"))
            except REDIS_UNAVAILABLE:
                await asyncio.sleep(0.05)
        known = len(twins.charges)
        while len(twins.charges) < known + 8:
            await asyncio.sleep(0.05)
            assert not any(task.done() for task in running)
        twins.over = True
        await asyncio.gather(*running)
        assert all(len(each) == 1 for each in twins.charges)
        await client.aclose(close_connection_pool=True)
        await queue.aclose(close_connection_pool=True)


async def test_a_connection_to_a_demoted_master_is_replaced(home: Path) -> None:
    """An address may name one server and lead to whichever is the master."""
    server = EmbeddedRedis()
    server.start(home)
    client, operator = open_redis(server.dsn, blocking=False), Redis.from_url(server.dsn)
    try:
        before = await client.client_id()
        await operator.execute_command("REPLICAOF", "127.0.0.1", "1")
        with pytest.raises(REDIS_UNAVAILABLE):
            await client.set("a", "b")
        assert await client.client_id() != before
        await operator.execute_command("REPLICAOF", "NO", "ONE")
        assert await client.set("a", "b")
    finally:
        await client.aclose(close_connection_pool=True)
        await operator.aclose()
        server.stop()


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://one:26379",
        "redis+sentinel://one:many/quita/0",
        "redis+sentinel://one:26379,/quita/0",
        "redis+sentinel://one:26379/quita/zero",
        "redis+sentinel://one:26379/quita/0?more=1",
    ],
)
def test_an_invalid_sentinel_url_is_refused_with_the_expected_form(url: str) -> None:
    with pytest.raises(ValueError, match=r"REDIS_URL must be such as redis\+sentinel://"):
        sentinel_pool(url, blocks=False, sentinel_s=1.0)
