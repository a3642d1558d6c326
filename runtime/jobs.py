"""Doorbells: "there is work of this name". Rung after a commit, never inside a transaction.

A ring may be lost, doubled or come for nothing: what is to be done stands in PostgreSQL, and who
does it also looks by himself. So a ring costs its caller nothing and cannot fail.

Two ways carry it. A list of at most one element, on which a worker waits inside Redis: it wakes in
well under a millisecond. And an arq job, at most one a second and name, for whoever is not waiting.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

import msgspec
import structlog
from arq.connections import ArqRedis
from redis.asyncio import Redis

from domain.mode import Mode
from runtime.redis import REDIS_UNAVAILABLE

WEBHOOKS = "webhooks"
BANK_HINTS = "bank_hints"
# By mode; there are no withdrawals in sandbox mode.
PIX_ORDERS = {mode: f"pix_orders_{mode}" for mode in Mode}
LOCATION_POOL = {mode: f"location_pool_{mode}" for mode in Mode}
BOLETO_ORDERS = {mode: f"boleto_orders_{mode}" for mode in Mode}
REFUND_ORDERS = {mode: f"refund_orders_{mode}" for mode in Mode}
WITHDRAWAL_ORDERS = {Mode.PRODUCTION: "withdrawal_orders_production"}
NAMES = (
    WEBHOOKS,
    BANK_HINTS,
    *PIX_ORDERS.values(),
    *LOCATION_POOL.values(),
    *BOLETO_ORDERS.values(),
    *REFUND_ORDERS.values(),
    *WITHDRAWAL_ORDERS.values(),
)

QUEUE = "quita:wake"
JOB = "wake"
_JOB_EVERY_S = 1.0
_JOB_EXPIRES_S = 60.0
_TOGETHER_S = 0.002
_SILENCE_S = 0.2
"""After a ring that failed: Redis is down, and nobody gains from hearing it more often."""

_log = structlog.get_logger()


def arq_client(redis: Redis) -> ArqRedis:
    """arq over the connections of `redis`. Messages are msgpack: arq's default, pickle, would run whatever
    somebody manages to write into Redis."""
    return ArqRedis(
        redis.connection_pool,
        job_serializer=msgspec.msgpack.encode,
        job_deserializer=msgspec.msgpack.decode,
        default_queue_name=QUEUE,
    )


def list_of(name: str) -> str:
    """The Redis list on which the bell `name` is heard."""
    return f"bell:{name}"


class Jobs:
    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._arq = arq_client(redis)
        self._again: dict[str, bool] = {}  # names with a ring under way; True: rung meanwhile
        self._job_at: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    def wake(self, name: str) -> None:
        """Ring soon. Never waits, never raises; rings of one name that meet become one."""
        if self._stopped:
            return
        if name in self._again:
            self._again[name] = True
            return
        self._again[name] = False
        self._start(self._ring(name))

    async def stop(self) -> None:
        """Let the rings under way end (their commands have timeouts) and take no more."""
        self._stopped = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)
        for task in self._tasks:
            task.cancel()

    async def _ring(self, name: str) -> None:
        try:
            while True:
                self._again[name] = False
                heard = await self._push(name)
                if heard:
                    self._post_job(name)
                # Rings of the next moment become one; the first was heard at once.
                await asyncio.sleep(_TOGETHER_S if heard else _SILENCE_S)
                if not self._again[name] or self._stopped:
                    return
        finally:
            del self._again[name]

    async def _push(self, name: str) -> bool:
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.lpush(list_of(name), b"1")
                pipe.ltrim(list_of(name), 0, 0)
                await pipe.execute()
        except REDIS_UNAVAILABLE as gone:
            _log.debug("bell_unheard", bell=name, error=type(gone).__name__)
            return False
        except Exception:
            _log.exception("bell_broken", bell=name)
            return False
        return True

    def _post_job(self, name: str) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._job_at.get(name, -_JOB_EVERY_S) >= _JOB_EVERY_S:
            self._job_at[name] = now
            self._start(self._enqueue(name))

    async def _enqueue(self, name: str) -> None:
        try:
            await self._arq.enqueue_job(JOB, name, _job_id=f"wake:{name}", _expires=_JOB_EXPIRES_S)
        except REDIS_UNAVAILABLE as gone:
            _log.debug("bell_job_lost", bell=name, error=type(gone).__name__)
        except Exception:
            _log.exception("bell_job_broken", bell=name)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
