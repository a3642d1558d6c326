"""The settings of the arq worker: `arq workers.settings.WorkerSettings`. Any number of workers may run.

A job runs one lane, a cron runs all duties of one interval in whichever worker takes it. Duties that every worker has
to run are woken by each process itself. A job or a cron hands the work to the Runner of this process and waits only
briefly for it: bank orders and deliveries are held by their leases in PostgreSQL, not by a job. So a job's key is free
again a quarter of a minute after its worker was killed, and a job that is cut short interrupts no bank call.
`python -m workers` runs the same duties, and goes on without Redis.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar

import msgspec
import structlog
from arq import cron, func
from arq.cron import CronJob
from arq.worker import Function

from domain.boleto.business_days import effective_due_date
from runtime import log
from runtime.cells.addresses import redis_of
from runtime.coordination.clocks import watch_clock
from runtime.coordination.heartbeats import leave
from runtime.coordination.lanes import LANES, WEBHOOKS
from runtime.coordination.leases import release_leases
from runtime.jobs import QUEUE, QueueRedis
from runtime.limits.variables import redis_address
from runtime.metrics import DatabaseMeter
from runtime.postgres import session
from runtime.servers.addresses import cell_number
from runtime.servers.sealing_keys import check_keys
from runtime.settings import Settings, read_settings
from workers.cells import end_when_moved, enter_own_cell
from workers.context import Context, open_context
from workers.duties import JOB_S, Runner, duties, end
from workers.probes import serve_probes
from workers.webhooks.dispatcher import WebhookDispatcher
from workers.webhooks.guarded_connection import guarded_session

_CALENDAR_DELAY_S = 3.0
_LEAVE_S = 1.0
_CLOCK_JUMP_S_MIN = 5.0
"""How far beyond its interval a cron's next run may lie before the machine's clock is taken to have been set."""
# fmt: off
_CRON_TIMES: dict[int, dict[str, Any]] = {
    1:    {"second": set(range(60))},
    5:    {"second": set(range(0, 60, 5))},
    15:   {"second": set(range(0, 60, 15))},
    30:   {"second": {0, 30}},
    60:   {"second": 0},
    600:  {"minute": set(range(0, 60, 10)), "second": 0},
    3600: {"minute": 0, "second": 0},
}
# fmt: on

_log = structlog.get_logger()


def _lane_job(name: str) -> Function:
    async def run(ctx: dict[str, Any]) -> None:
        waited = datetime.now(UTC) - ctx["enqueue_time"]
        await ctx["runner"].run(name, asked_s_ago=waited.total_seconds())

    return func(run, name=name)


def _interval_cron(interval_s: int, run_at: dict[str, Any]) -> CronJob:
    async def run(ctx: dict[str, Any]) -> None:
        runner: Runner = ctx["runner"]
        due = [duty.name for duty in runner.duties.values() if duty.every_s == interval_s and not duty.in_each]
        await runner.run(*due)

    return cron(run, name=f"every_{interval_s}_s", run_at_startup=True, **run_at)


async def _start(ctx: dict[str, Any]) -> None:
    if "runner" not in ctx:  # `python -m workers` passes a runner of its own, which outlives the loss of Redis
        settings = await enter_own_cell(read_settings())
        log.setup("worker", traced=traced_share(settings))
        main = asyncio.current_task()
        assert main is not None
        ctx["opened"] = AsyncExitStack()

        def end_worker() -> None:
            ctx["leaving"] = asyncio.create_task(end(main))  # arq then calls _stop

        ctx["runner"] = await ctx["opened"].enter_async_context(open_runner(settings, on_signal=end_worker))
    ctx["redis"].run_now = ctx["runner"].wake


async def _stop(ctx: dict[str, Any]) -> None:
    await ctx["opened"].aclose()


def _queue_client() -> QueueRedis | None:
    """The client of the queue of the worker's cell; None if the address or the cell is invalid, which the worker
    reports when it reads its settings."""
    try:
        return QueueRedis(redis_of(redis_address(os.environ), cell_number(os.environ)))
    except ValueError:
        return None


class WorkerSettings:
    functions: ClassVar[list[Function]] = [_lane_job(name) for name in LANES]
    cron_jobs: ClassVar[list[CronJob]] = [_interval_cron(interval_s, at) for interval_s, at in _CRON_TIMES.items()]
    on_startup = _start
    on_shutdown = _stop
    redis_pool = _queue_client()
    queue_name = QUEUE
    job_serializer = msgspec.msgpack.encode
    job_deserializer = msgspec.msgpack.decode
    max_jobs = 2 * len(LANES) + 5 * len(_CRON_TIMES)
    """Room for the jobs of every lane and cron, even while some of them wait, so that no lane holds up another."""
    queue_read_limit = 1_000
    job_timeout = 2 * JOB_S
    max_tries = 100
    keep_result = 0
    poll_delay = 0.005
    """QueueRedis already waits before it reads the queue, so arq need not sleep."""
    health_check_interval = 15
    handle_signals = False
    log_results = False


def follow_clock() -> None:
    """Have arq schedule a cron anew when the machine's clock was set. Called each second.

    arq's crons are due at times of that clock. Set back by an hour, it would let none run for an hour; set forward by
    an hour, it would have each missed run of the hour made up for.
    """
    now = datetime.now(UTC)
    for every_s, each in zip(_CRON_TIMES, WorkerSettings.cron_jobs, strict=True):
        if each.next_run is not None and abs((each.next_run - now).total_seconds()) > every_s + _CLOCK_JUMP_S_MIN:
            each.next_run = None


def traced_share(settings: Settings) -> float | None:
    """The share of traces that are recorded, as runtime/log.py takes it; None without tracing."""
    tracing = settings.watching.tracing
    return None if tracing is None else tracing.share


@asynccontextmanager
async def open_runner(settings: Settings, *, on_signal: Callable[[], object] = int) -> AsyncIterator[Runner]:
    """Open the duties of this process. After SIGTERM or SIGINT they begin nothing new. At the end, work under way has
    12 s to finish; the leases of orders and deliveries cover what is left."""
    runner = Runner()

    def stop() -> None:
        runner.stopping.set()
        on_signal()

    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stop)
    async with AsyncExitStack() as opened:
        context = await opened.enter_async_context(open_context(settings, runner, runner.stopping))
        await check_keys(context.pool, context.seal)
        await opened.enter_async_context(serve_probes(context, runner.failing))
        http = await opened.enter_async_context(
            guarded_session(allow_private=settings.webhook_allow_private, nameservers=settings.webhook_nameservers)
        )
        dispatcher = WebhookDispatcher(context, http, wake=partial(runner.wake, WEBHOOKS))
        runner.add(duties(context, dispatcher, runner.failing))
        assert {each.every_s for each in runner.duties.values()} <= _CRON_TIMES.keys(), "a duty that no cron runs"
        background = (
            runner.wake_at_intervals(),
            _read_calendar(context),
            DatabaseMeter().run(),
            watch_clock(context.pool, context.now),
            end_when_moved(settings, runner.stopping),
        )
        background_tasks = [asyncio.create_task(each) for each in background]
        _log.info("worker_started", worker=context.worker, cell=settings.cell)
        try:
            yield runner
        finally:
            for task in background_tasks:
                task.cancel()
            await asyncio.gather(runner.stop(), dispatcher.stop(), *background_tasks, return_exceptions=True)
            await asyncio.gather(_leave(context), return_exceptions=True)
    _log.info("worker_stopped")


async def _leave(context: Context) -> None:
    """Have other workers neither miss this one nor wait for its leases to run out; a reconciler's lasts two minutes."""
    async with asyncio.timeout(_LEAVE_S), session(context.pool) as conn:
        await leave(conn, worker=context.worker)
        await release_leases(conn, holder=context.worker)


async def _read_calendar(context: Context) -> None:
    """Load the bank calendar, which takes half a second once: neither during the start nor while a boleto waits."""
    await asyncio.sleep(_CALENDAR_DELAY_S)
    await asyncio.to_thread(effective_due_date, context.now().date())
