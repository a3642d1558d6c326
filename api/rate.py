"""The token bucket of a credential, shared by all processes through Redis; each process spends from a small lease.

A process takes a few tokens at a time, so most requests cost no round trip. The limit still holds over all processes:
tokens leave the shared bucket before they are spent. Without Redis every request passes
(redis_skipped_total{what="limit"} counts them): a limit protects the service, it is not a promise.

The bucket does not share a round trip with the idempotency lock: locks are batched with those of other requests
(api/idempotency/lock.py), and most requests make no round trip for the bucket at all.
"""

import asyncio
import math
import time
from functools import partial

from msgspec import Struct
from redis.asyncio import Redis

from domain.errors import Code, Refused
from runtime.metrics import without_redis_total
from runtime.redis import REDIS_UNAVAILABLE

# KEYS[1] is the bucket; ARGV are rate per second, burst, tokens wanted. The clock is Redis', because the clocks of
# processes may differ. Returns tokens granted, tokens left, milliseconds until the next token.
_TAKE_SCRIPT = """
local rate, burst, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local bucket = redis.call('HMGET', KEYS[1], 'left', 'at')
local passed = math.max(0, now - (tonumber(bucket[2]) or now))
local left = math.min(burst, (tonumber(bucket[1]) or burst) + passed * rate / 1000)
local granted = math.min(wanted, math.floor(left))
left = left - granted
redis.call('HSET', KEYS[1], 'left', tostring(left), 'at', now)
redis.call('PEXPIRE', KEYS[1], math.ceil(burst / rate * 1000) + 1000)
local wait = 0
if left < 1 then wait = math.ceil((1 - left) * 1000 / rate) end
return {granted, math.floor(left), wait}
"""
_LEASE_S = 1.0
_LEASE_MAX = 64
_REDIS_RETRY_S = 2.0
_CREDENTIALS_MAX = 10_000
_passed_without_redis = without_redis_total.labels("limit")


class _Lease(Struct):
    left: int
    granted: int
    shared: int
    until: float


class Buckets:
    def __init__(self, redis: Redis) -> None:
        self._take = redis.register_script(_TAKE_SCRIPT)
        self._leases: dict[str, _Lease] = {}
        self._refills: dict[str, asyncio.Future[int]] = {}
        self._waiting: dict[str, int] = {}
        self._ahead: dict[str, asyncio.Task[int]] = {}
        self._skip_redis_until = 0.0

    async def spend(self, client_id: str, *, rate_per_s: int, burst: int) -> tuple[int, int]:
        """Takes one token; returns the tokens left and the seconds until the bucket is full.

        Refused(RATE_LIMITED) when there is no token.
        """
        now = time.monotonic()
        lease = self._leases.get(client_id)
        while lease is None or lease.left <= 0 or lease.until < now:
            if now < self._skip_redis_until:
                _passed_without_redis.inc()
                return burst, 0
            self._waiting[client_id] = self._waiting.get(client_id, 0) + 1
            try:
                wait_ms = await self._refill(client_id, rate_per_s, burst)
            finally:
                self._waiting[client_id] -= 1
                if not self._waiting[client_id]:
                    del self._waiting[client_id]
            lease = self._leases.get(client_id)
            if wait_ms and (lease is None or lease.left <= 0):
                raise Refused(Code.RATE_LIMITED, retry_after_s=max(1, math.ceil(wait_ms / 1000)))
            now = time.monotonic()
        lease.left -= 1
        if lease.left < lease.granted // 2:
            self._refill_ahead(client_id, rate_per_s, burst)
        # After a limit was lowered, the lease may still hold more tokens than the new burst: never report more.
        left = min(burst, lease.left + lease.shared)
        return left, math.ceil((burst - left) / rate_per_s)

    async def _refill(self, client_id: str, rate_per_s: int, burst: int) -> int:
        """Refills the lease; waiting requests of a credential share one refill. Returns 0, or the milliseconds to
        wait when nothing was granted."""
        under_way = self._refills.get(client_id)
        if under_way is not None:
            return await asyncio.shield(under_way)
        future = self._refills[client_id] = asyncio.get_running_loop().create_future()
        wait_ms = 0
        try:
            chunk = max(1, min(_LEASE_MAX, burst // 40))
            wanted = min(burst, max(chunk, self._waiting.get(client_id, 1)))
            granted, shared, wait_ms = await self._take(keys=[f"rate:{client_id}"], args=[rate_per_s, burst, wanted])
            now = time.monotonic()
            lease = self._leases.get(client_id)
            left = 0 if lease is None or lease.until < now else lease.left
            if lease is None and len(self._leases) >= _CREDENTIALS_MAX:
                self._leases.clear()
            self._leases[client_id] = _Lease(left + granted, granted, shared, now + _LEASE_S)
            if granted:
                wait_ms = 0
        except REDIS_UNAVAILABLE:
            self._skip_redis_until = time.monotonic() + _REDIS_RETRY_S
            wait_ms = 0
        finally:
            del self._refills[client_id]
            future.set_result(wait_ms)
        return wait_ms

    def _refill_ahead(self, client_id: str, rate_per_s: int, burst: int) -> None:
        """Refills before the lease is spent, so that the bursts of a busy credential do not wait for a refill."""
        if client_id in self._refills or client_id in self._ahead or time.monotonic() < self._skip_redis_until:
            return
        task = self._ahead[client_id] = asyncio.create_task(self._refill(client_id, rate_per_s, burst))
        task.add_done_callback(partial(self._end_refill_ahead, client_id))

    def _end_refill_ahead(self, client_id: str, task: "asyncio.Task[int]") -> None:
        del self._ahead[client_id]
        if not task.cancelled():
            task.exception()  # retrieved so that asyncio does not log it: the next request's own refill raises it
