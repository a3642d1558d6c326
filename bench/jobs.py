"""The queue of arq: the latency until a lane begins, and the CPU of an idle worker, when it polls for jobs and when it
waits for names of lanes."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from arq import func
from arq.connections import ArqRedis
from arq.worker import Worker

from bench.environment import BenchEnvironment, cpu_s
from bench.report import Finding, within
from runtime.coordination.lanes import WEBHOOKS
from runtime.jobs import QUEUE, Jobs, QueueRedis
from runtime.redis import open_redis
from workers.duties import end

JOBS = 100
POLLED_S = 0.01
_PAUSE_S = 0.03
_SETTLE_S = 20.0
_START_S = 1.0


async def jobs(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    """Measures both kinds of queue and a whole worker; each is idle for `seconds`."""
    pool = open_redis(environment.settings.redis_url, blocking=False).connection_pool
    codec = msgspec.msgpack
    polling = ArqRedis(pool, codec.encode, codec.decode, QUEUE)
    waiting = QueueRedis(environment.settings.redis_url)
    enqueue = Jobs(polling).enqueue
    polled = await _measure(polling, POLLED_S, lambda: polling.enqueue_job(WEBHOOKS, _job_id=WEBHOOKS), seconds)
    waited = await _measure(waiting, 0.005, lambda: enqueue(WEBHOOKS), seconds)
    await waiting.aclose(close_connection_pool=True)
    await polling.aclose(close_connection_pool=True)
    with environment.worker() as pid:
        await asyncio.sleep(_SETTLE_S)
        before = cpu_s(pid)
        await asyncio.sleep(seconds)
        worker = (cpu_s(pid) - before) / seconds
    return [
        Finding(f"a poll each {POLLED_S * 1000:.0f} ms: a job begun after (median)", polled[0], "ms"),
        Finding("  at rest, of a core", polled[1] * 100, "%"),
        Finding("waiting for names: a lane begun after (median)", waited[0], "ms"),
        Finding("  at rest, of a core", waited[1] * 100, "%"),
        Finding("a whole worker at rest, of a core", worker * 100, "%", note=within(worker * 100, 3)),
    ]


async def _measure(
    redis: ArqRedis, poll_s: float, enqueue: Callable[[], Awaitable[Any]], seconds: float
) -> tuple[float, float]:
    """The median of milliseconds until a lane starts, and the share of a core that its idle worker uses."""
    begun = asyncio.Event()

    async def job(ctx: dict[Any, Any]) -> None:
        if not isinstance(redis, QueueRedis):
            begun.set()

    if isinstance(redis, QueueRedis):
        redis.run_now = lambda lane: begun.set()

    worker = Worker(
        [func(job, name=WEBHOOKS)], queue_name=QUEUE, redis_pool=redis, poll_delay=poll_s, keep_result=0,
        handle_signals=False, job_serializer=redis.job_serializer, job_deserializer=redis.job_deserializer,
    )  # fmt: skip
    running = asyncio.create_task(worker.async_run())
    await asyncio.sleep(_START_S)
    took_ms = []
    for _ in range(JOBS):
        begun.clear()
        began = time.perf_counter()
        await enqueue()
        await begun.wait()
        took_ms.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(_PAUSE_S)
    cpu, began = time.process_time(), time.perf_counter()
    await asyncio.sleep(seconds)
    share = (time.process_time() - cpu) / (time.perf_counter() - began)
    await end(running)
    return statistics.median(took_ms), share
