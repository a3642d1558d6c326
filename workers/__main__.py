"""The worker: `python -m workers`. Tells banks and merchants what happened; any number of them may run.

It needs PostgreSQL and goes on without Redis. On SIGTERM or SIGINT it begins nothing new, lets what is
under way end (at most 12 s), and leaves with 0; anything cut short is found again by its lease.
"""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Any, cast

import aiohttp
import structlog
import uvloop
from arq.typing import WorkerCoroutine
from arq.worker import Worker, func

from banks.choice import open_banks
from domain.boleto.business_days import effective_due_date
from runtime import log
from runtime.jobs import JOB, QUEUE, WEBHOOKS, Jobs, arq_client
from runtime.postgres import Pool, open_pool
from runtime.redis import open_redis
from runtime.seal import Seal
from runtime.settings import Settings, read_settings
from workers.context import Context
from workers.duties import Scheduler, duties, end
from workers.webhooks.dispatcher import WebhookDispatcher
from workers.webhooks.guarded_connection import guarded_session

_CALENDAR_AFTER_S = 3.0
_POOL_SIZE = 16
_CLOSE_S = 3.0
_POLL_S = 0.2
_JOB_S = 5
_JOBS_MAX = 20
_RESTART_S_MAX = 2.0

_log = structlog.get_logger()


def main() -> None:
    log.setup("worker")
    uvloop.run(_main(read_settings()))


async def _main(settings: Settings) -> None:
    scheduler = Scheduler()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, scheduler.stop)
    async with AsyncExitStack() as opened:
        context = await opened.enter_async_context(_open_context(settings, scheduler.stopping))
        listener = open_redis(settings.redis_url, blocking=True)
        opened.push_async_callback(listener.aclose)
        http = await opened.enter_async_context(
            guarded_session(allow_private=settings.webhook_allow_private, nameservers=settings.webhook_nameservers)
        )
        dispatcher = WebhookDispatcher(context, http, wake=lambda: scheduler.wake(WEBHOOKS))
        jobs = asyncio.create_task(_keep_arq(scheduler, settings))
        # The bank calendar takes half a second to read, once: not while a boleto waits, nor while all else starts.
        calendar = asyncio.create_task(_read_calendar(context))
        _log.info("worker_started", worker=context.worker)
        try:
            # One grace for both: the duties end their rounds while what flies lands.
            await asyncio.gather(scheduler.run(duties(context, dispatcher), listener), _land(scheduler, dispatcher))
        finally:
            await end(jobs)
            calendar.cancel()
            await asyncio.gather(calendar, return_exceptions=True)
    _log.info("worker_stopped")


async def _read_calendar(context: Context) -> None:
    await asyncio.sleep(_CALENDAR_AFTER_S)
    await asyncio.to_thread(effective_due_date, context.now().date())


async def _land(scheduler: Scheduler, dispatcher: WebhookDispatcher) -> None:
    await scheduler.stopping.wait()
    await dispatcher.stop()


@asynccontextmanager
async def _open_context(settings: Settings, stopping: asyncio.Event) -> AsyncIterator[Context]:
    async with AsyncExitStack() as opened:
        pool = await open_pool(settings.database_url, name="worker", size=_POOL_SIZE)
        opened.push_async_callback(_close_pool, pool)
        redis = open_redis(settings.redis_url, blocking=False)
        opened.push_async_callback(redis.aclose)
        jobs = Jobs(redis)
        opened.push_async_callback(jobs.stop)
        http = await opened.enter_async_context(
            aiohttp.ClientSession(
                # Each kind of order has its own bound: a common one would let boletos that hang hold PIX up.
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        )
        seal = Seal(settings.secret_key)
        yield Context(
            settings=settings,
            pool=pool,
            redis=redis,
            jobs=jobs,
            seal=seal,
            http=http,
            banks=open_banks(settings, pool, http, seal),
            now=lambda: datetime.now(UTC),
            worker=f"{socket.gethostname()}:{os.getpid()}",
            stopping=stopping,
        )


async def _close_pool(pool: Pool) -> None:
    try:
        async with asyncio.timeout(_CLOSE_S):
            await pool.close()
    except TimeoutError:
        pool.terminate()


async def _keep_arq(scheduler: Scheduler, settings: Settings) -> None:
    """arq's worker hears wake-ups only. It dies of a Redis outage and is started again."""

    async def wake(_: dict[Any, Any], name: str) -> None:
        scheduler.wake(name)

    failures = 0
    while True:
        redis = open_redis(settings.redis_url, blocking=False)
        client = arq_client(redis)
        worker = Worker(
            [func(cast("WorkerCoroutine", wake), name=JOB, keep_result=0, timeout=_JOB_S, max_tries=1)],
            queue_name=QUEUE,
            redis_pool=client,
            handle_signals=False,
            max_jobs=_JOBS_MAX,
            job_timeout=_JOB_S,
            keep_result=0,
            poll_delay=_POLL_S,
            health_check_interval=15,
            job_serializer=client.job_serializer,
            job_deserializer=client.job_deserializer,
            log_results=False,
        )
        began = asyncio.get_running_loop().time()
        try:
            await worker.async_run()
        except Exception as error:
            failures = 1 if asyncio.get_running_loop().time() - began > 60 else failures + 1
            if failures & (failures - 1) == 0:
                _log.warning("arq_restarts", failures=failures, error=type(error).__name__)
        finally:
            await end(*[task for task in (worker.main_task, *worker.tasks.values()) if task is not None])
            await redis.aclose()
        await asyncio.sleep(min(0.2 * 2**failures, _RESTART_S_MAX))


if __name__ == "__main__":
    main()
