"""Jobs for the workers: "there is work in this lane". Asked for after a commit, never inside a transaction.

A job carries the name of a lane and nothing else: PostgreSQL holds what is to be done, by whom, and with what result.
So a lost job costs time only (crons look each second), and `wake` costs its caller nothing and cannot fail.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec
import structlog
from arq.connections import ArqRedis
from arq.constants import job_key_prefix
from arq.jobs import serialize_job
from redis.asyncio import Redis

from runtime.redis import REDIS_UNAVAILABLE, connections

QUEUE = "quita:jobs"
POLL_S = 0.5
"""How often a worker reads the queue, where jobs and crons wait."""
_WOKEN_LANES_KEY = f"{QUEUE}:woken"
_JOB_KEPT_MS = 86_400_000
_WAIT_S_MIN = 0.001  # 0 would be for ever
_COALESCED_S = 0.002
_FAILURE_PAUSE_S = 0.2
"""The pause after a wake-up that failed: Redis is away, and asking it more often helps nobody."""
_SOCKET_S = 2.0

# arq's enqueue_job (four round trips) in one, with the wake-up of a worker that waits. The job's id is its lane, so a
# job that waits or runs covers this request too. The lane's name goes to the list in any case: the worker that reads it
# looks at the lane after this request.
_ENQUEUE = """
if redis.call('ZADD', KEYS[1], 'NX', ARGV[1], ARGV[2]) == 1 then
  redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
end
redis.call('LREM', KEYS[3], 1, ARGV[2])
redis.call('RPUSH', KEYS[3], ARGV[2])
"""

_log = structlog.get_logger()


class Jobs:
    """Enqueues jobs in the background."""

    def __init__(self, redis: Redis) -> None:
        self._script = redis.register_script(_ENQUEUE)
        self._woken_again: dict[str, bool] = {}  # lanes being asked for; True: asked for once more meanwhile
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    def wake(self, lane: str) -> None:
        """Have a worker run this lane. Never waits, never raises; simultaneous calls for one lane become one."""
        if lane in self._woken_again:
            self._woken_again[lane] = True
        elif not self._stopped:
            self._woken_again[lane] = False
            task = asyncio.create_task(self._enqueue_while_woken(lane))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Let wake-ups under way end (commands have timeouts) and take no more."""
        self._stopped = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)
        for task in self._tasks:
            task.cancel()

    async def enqueue(self, lane: str) -> bool:
        """Put the lane's job into the queue; False when Redis is away."""
        now_ms = _now_ms()
        keys = (QUEUE, job_key_prefix + lane, _WOKEN_LANES_KEY)
        job = serialize_job(lane, (), {}, None, now_ms, serializer=msgspec.msgpack.encode)
        try:
            await self._script(keys=keys, args=(now_ms, lane, job, _JOB_KEPT_MS))
        except REDIS_UNAVAILABLE as error:
            _log.debug("job_not_enqueued", lane=lane, error=type(error).__name__)
            return False
        except Exception:
            _log.exception("enqueue_failed", lane=lane)
            return False
        return True

    async def _enqueue_while_woken(self, lane: str) -> None:
        try:
            while True:
                self._woken_again[lane] = False
                await asyncio.sleep(_COALESCED_S if await self.enqueue(lane) else _FAILURE_PAUSE_S)
                if not self._woken_again[lane] or self._stopped:
                    return
        finally:
            del self._woken_again[lane]


class QueueRedis(ArqRedis):
    """The client of an arq worker. Until the queue is read, each POLL_S, lanes begin as their names arrive.

    A job costs a worker nine round trips, and each reading of the queue three more for each job that runs: too much for
    every wake-up of a busy lane. Polling for wake-ups costs a worker at rest 5 % of a core (decision 0015).
    Messages are msgpack: arq's default, pickle, would run whatever somebody manages to write into Redis.
    """

    def __init__(self, url: str) -> None:
        pool = connections(url, socket_timeout=_SOCKET_S)
        codec = msgspec.msgpack
        super().__init__(pool, codec.encode, codec.decode, QUEUE)
        self.read_at = 0.0
        """When Redis last answered, by time.monotonic()."""
        self.run_now: Callable[[str], None] = lambda lane: None
        """Called with a lane as soon as it is asked for. Its job comes when the queue is read, and joins that run."""

    async def zrangebyscore(self, *args: Any, **kwargs: Any) -> Any:
        began = time.monotonic()
        while (left_s := began + POLL_S - time.monotonic()) > _WAIT_S_MIN:
            if woken := await cast("Awaitable[Any]", self.blpop([_WOKEN_LANES_KEY], timeout=cast("int", left_s))):
                self.run_now(woken[1].decode())
            self.read_at = time.monotonic()
        return await super().zrangebyscore(*args, **kwargs | {"max": _now_ms()})  # arq's "max" is from before the wait


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
