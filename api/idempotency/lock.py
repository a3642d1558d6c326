"""Idempotency-Key: the header, and the Redis lock that keeps equal requests from the database.

The guarantee is the primary key of `idempotency`. The lock only makes an equal request wait before it takes a
database connection; without Redis equal requests meet at the primary key, and the guarantee is the same.
"""

import re
import time
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum

from redis.asyncio import Redis

from domain.errors import Code, Refused
from domain.mode import Owner
from runtime.batching import Batcher
from runtime.ids import new_token
from runtime.metrics import without_redis_total
from runtime.redis import REDIS_UNAVAILABLE

# Blanks at the ends of a header's value are not part of it (RFC 9110 section 5.5).
KEY_PATTERN = r"^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$"
_PRINTABLE = re.compile(rb"[\x20-\x7e]{1,255}")
# Longer than a creation takes, except one that waits for a location or the database: then the key's row alone decides.
# It is also the longest that requests wait for a key whose process died.
LOCK_MS = 15_000
_REDIS_RETRY_S = 1.0
_skipped_locks = without_redis_total.labels("lock")

# Takes all locks of a batch in one command: '1' for each lock taken, '0' for each that is held. The batch shares one
# token, which halves the arguments to pack; a lock that is held keeps its own.
_LOCK_SCRIPT = """
local taken = {}
for i, key in ipairs(KEYS) do
  taken[i] = redis.call('SET', key, ARGV[2], 'NX', 'PX', ARGV[1]) and '1' or '0'
end
return table.concat(taken)
"""
# Only the request that holds a lock may release it.
_UNLOCK_SCRIPT = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class Lock(Enum):
    TAKEN = "taken"
    HELD = "held"
    NO_REDIS = "no redis"


KeyName = tuple[Owner, str]


def read_key(values: Sequence[bytes]) -> str:
    """The one Idempotency-Key header; Refused when it is missing, repeated, or not 1..255 printable ASCII
    characters."""
    if not values or values == [b""]:
        raise Refused(Code.IDEMPOTENCY_KEY_REQUIRED)
    if len(values) > 1:
        raise Refused(Code.IDEMPOTENCY_KEY_INVALID, message="The Idempotency-Key header stands more than once.")
    if not _PRINTABLE.fullmatch(values[0]):
        raise Refused(Code.IDEMPOTENCY_KEY_INVALID)
    return values[0].decode("ascii")


class IdempotencyLocks:
    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._lock = redis.register_script(_LOCK_SCRIPT)
        self._unlock = redis.register_script(_UNLOCK_SCRIPT)
        self._batcher: Batcher[KeyName, tuple[Lock, str]] = Batcher(self._take_batch, lanes=1, batch_max=200)
        self._skip_redis_until = 0.0

    async def take(self, name: KeyName) -> tuple[Lock, str]:
        """Tries to lock the name; returns the outcome and the token that releases the lock."""
        if time.monotonic() < self._skip_redis_until:
            _skipped_locks.inc()
            return Lock.NO_REDIS, ""
        return await self._batcher.submit(name)

    async def release(self, name: KeyName, token: str) -> None:
        """Releases the lock after a request that made nothing. After a success the lock is left to expire, because
        the key's row answers equal requests."""
        with suppress(*REDIS_UNAVAILABLE):
            await self._unlock(keys=[_redis_key(name)], args=[token])

    async def held(self, name: KeyName) -> bool:
        """Whether the name is locked, that is, a request is probably at work; False also without Redis."""
        try:
            return bool(await self._redis.exists(_redis_key(name)))
        except REDIS_UNAVAILABLE:
            return False

    async def _take_batch(self, names: Sequence[KeyName]) -> list[tuple[Lock, str]]:
        token = new_token()
        try:
            taken: bytes = await self._lock(keys=[_redis_key(name) for name in names], args=[LOCK_MS, token])
        except REDIS_UNAVAILABLE:
            self._skip_redis_until = time.monotonic() + _REDIS_RETRY_S
            _skipped_locks.inc(len(names))
            return [(Lock.NO_REDIS, token)] * len(names)
        return [(Lock.TAKEN if each == ord("1") else Lock.HELD, token) for each in taken]


def _redis_key(name: KeyName) -> str:
    owner, key = name
    return f"idem:{owner.account_id.hex}:{owner.mode}:{key}"
