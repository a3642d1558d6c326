"""Replies to a process that waits for an order: one Redis list per process, and PostgreSQL while Redis is away.

The outcome stands in PostgreSQL before the reply is sent, so a process without a reply looks there: every 200 ms
while Redis is away, once a second otherwise. A reply is signed under SECRET_KEY together with the order it is about:
an intruder in Redis can hold a reply back, which costs a second, and can forge none (docs/decisions/0038).
"""

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable
from typing import cast
from uuid import UUID

import structlog
from prometheus_client import Counter
from redis.asyncio import Redis

from runtime.postgres import DB_UNAVAILABLE, Connection, Pool, session
from runtime.redis import REDIS_UNAVAILABLE
from runtime.seal import Seal

_ID_BYTES = 16
_HEAD_BYTES = _ID_BYTES + 32
_LISTEN_S = 5
_EXPIRE_S = 60
_READ_RETRY_S = 0.5
_LOOK_WITHOUT_REDIS_S = 0.2
_LOOK_S = 1.0

_PURPOSE = "replies"

_log = structlog.get_logger()

replies_refused_total = Counter(
    "replies_refused_total", "Replies that none of our workers has signed: who writes to Redis?"
)

Look = Callable[[Connection, UUID], Awaitable[bytes | None]]
"""Reads the outcome of an order from PostgreSQL; None while there is none."""


class Replies:
    """`redis` must be a client for blocking readers; it is closed together with this object."""

    def __init__(self, redis: Redis, pool: Pool, seal: Seal) -> None:
        self.reply_to = f"reply:{secrets.token_urlsafe(16)}"
        self._redis = redis
        self._pool = pool
        self._keys = seal.keys(_PURPOSE)  # a worker may have been given a new key before this process, or after
        self._waiting: dict[UUID, asyncio.Future[bytes]] = {}
        self._redis_is_away = True
        self._reader: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._reader = asyncio.create_task(self._read_replies())

    async def stop(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        await self._redis.aclose(close_connection_pool=True)

    async def wait(self, order_id: UUID, *, deadline_s: float, look: Look) -> bytes | None:
        """The outcome of an order; None when `deadline_s` has passed without one."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + deadline_s
        future: asyncio.Future[bytes] = loop.create_future()
        self._waiting[order_id] = future
        try:
            while (left_s := deadline - loop.time()) > 0:
                done, _ = await asyncio.wait((future,), timeout=min(left_s, self._look_interval_s()))
                if done:
                    return future.result()
                if (outcome := await self._read_outcome(order_id, look)) is not None:
                    return outcome
            return None
        finally:
            del self._waiting[order_id]

    def _look_interval_s(self) -> float:
        return _LOOK_WITHOUT_REDIS_S if self._redis_is_away else _LOOK_S

    async def _read_outcome(self, order_id: UUID, look: Look) -> bytes | None:
        try:
            async with session(self._pool) as conn:
                return await look(conn, order_id)
        except DB_UNAVAILABLE:
            return None  # the deadline bounds the wait

    async def _read_replies(self) -> None:
        while True:
            try:
                # Redis ends the wait; the longer bound is for a connection that died silently.
                async with asyncio.timeout(_LISTEN_S * 2):
                    popped = await cast(
                        "Awaitable[list[bytes] | None]", self._redis.blpop([self.reply_to], timeout=_LISTEN_S)
                    )
                self._redis_is_away = False
            except Exception as error:
                if not self._redis_is_away:
                    _log.warning("replies_not_read", error=type(error).__name__)
                self._redis_is_away = True
                await asyncio.sleep(_READ_RETRY_S)
                continue
            if popped:
                self._deliver(popped[1])

    def _deliver(self, message: bytes) -> None:
        order_id, tag, outcome = message[:_ID_BYTES], message[_ID_BYTES:_HEAD_BYTES], message[_HEAD_BYTES:]
        if not any(hmac.compare_digest(tag, _sign(key, order_id, outcome)) for key in self._keys):
            replies_refused_total.inc()
            return
        future = self._waiting.get(UUID(bytes=order_id))
        if future is not None and not future.done():
            future.set_result(outcome)


async def send_reply(redis: Redis, reply_to: str, order_id: UUID, outcome: bytes, seal: Seal) -> None:
    """Send the outcome to the process that waits; if the reply does not arrive, that process looks for itself."""
    message = order_id.bytes + _sign(seal.key(_PURPOSE), order_id.bytes, outcome) + outcome
    try:
        async with redis.pipeline(transaction=False) as pipe:
            pipe.rpush(reply_to, message)
            pipe.expire(reply_to, _EXPIRE_S)
            await pipe.execute()
    except REDIS_UNAVAILABLE as error:
        _log.debug("reply_not_sent", order_id=str(order_id), error=type(error).__name__)


def _sign(key: bytes, order_id: bytes, outcome: bytes) -> bytes:
    return hmac.digest(key, order_id + outcome, "sha256")
