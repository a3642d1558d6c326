"""The process of a worker. It runs arq with workers/settings.py, restarts arq when it fails, and works without Redis.

On SIGTERM or SIGINT it begins nothing new, lets work under way end (at most 12 s), and exits with 0.
"""

import asyncio
import time
from typing import Any, cast

import structlog
import uvloop
from arq.worker import create_worker

from runtime import log
from runtime.jobs import QueueRedis
from runtime.limits.cycles import look_for_cycles_rarely
from runtime.limits.http_bounds import raise_open_files
from runtime.settings import Settings, read_settings
from workers.cells import enter_own_cell
from workers.duties import Runner, end
from workers.settings import WorkerSettings, follow_clock, open_runner, traced_share

_RESTART_S = 1.0
_STEADY_S = 60.0
"""An arq that ran for so long had its Redis, so a failure after that is counted, and logged, as a first one."""
_SWEEP_S = 1.0
_UNREAD_S_MAX = 1.5
"""Longer than a worker with a working Redis leaves the queue unread."""

_log = structlog.get_logger()


def main() -> None:
    log.setup("worker")
    try:
        settings = read_settings()
        log.setup("worker", traced=traced_share(settings))
        raise_open_files()  # a thousand receivers, the banks and the databases need more than the usual limit
        look_for_cycles_rarely()
        uvloop.run(_main(settings))
    except Exception:
        _log.exception("worker_failed")
        raise SystemExit(1) from None


async def _main(settings: Settings) -> None:
    settings = await enter_own_cell(settings)
    async with open_runner(settings) as runner:
        await keep_running(runner, settings.redis_url)


async def keep_running(runner: Runner, redis_url: str) -> None:
    """Run arq until the runner is told to stop. While arq does not read the queue, sweep in place of its crons."""
    redis, stopping = QueueRedis(redis_url), asyncio.create_task(runner.stopping.wait())
    serving = [
        asyncio.create_task(_keep_arq_running(runner, redis)),
        asyncio.create_task(_sweep_while_unread(runner, redis)),
    ]
    await asyncio.wait((stopping, *serving), return_when=asyncio.FIRST_COMPLETED)
    ended = [task for task in serving if task.done()]
    for task in (stopping, *serving):
        task.cancel()  # once: a second cancellation would interrupt arq's own ending, and leave its connections open
    await asyncio.wait((stopping, *serving))
    await redis.aclose(close_connection_pool=True)
    for task in ended:
        task.result()  # raises: a worker that no longer runs its duties has to end, so that it is started again


async def _sweep_while_unread(runner: Runner, redis: QueueRedis) -> None:
    while True:
        await asyncio.sleep(_SWEEP_S)
        follow_clock()
        if time.monotonic() - redis.read_at > _UNREAD_S_MAX:
            runner.sweep()


async def _keep_arq_running(runner: Runner, redis: QueueRedis) -> None:
    failures = 0
    while True:
        worker = create_worker(cast("Any", WorkerSettings), ctx={"runner": runner}, redis_pool=redis)
        for each in worker.cron_jobs:
            each.next_run = None  # runs that fell due while Redis was away are not made up for one by one
        began_at, running = time.monotonic(), asyncio.create_task(worker.async_run())
        try:
            await asyncio.wait((running,))  # a cancellation ends this wait; the Redis client could swallow it
            await running
        except Exception as error:
            # A Redis whose memory is full can be read but takes no cron job: duties are swept until arq reads again.
            redis.read_at = 0.0
            failures = 1 if time.monotonic() - began_at > _STEADY_S else failures + 1
            if failures & (failures - 1) == 0:
                _log.warning("arq_restarts", failures=failures, error=type(error).__name__)
            await asyncio.gather(*worker.tasks.values(), return_exceptions=True)  # each waits JOB_S at most
        finally:
            await end(running, *worker.tasks.values())
        await asyncio.sleep(_RESTART_S)
