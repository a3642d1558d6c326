"""The context that every duty of a worker is handed, and how it is opened."""

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime

import aiohttp
from msgspec import Struct, field
from redis.asyncio import Redis

from banks.choice import Banks, open_banks
from runtime.cells.directory import check_cell
from runtime.coordination.lanes import LaneWaker
from runtime.postgres import Pool, open_pool
from runtime.redis import open_redis
from runtime.seal import Seal
from runtime.servers.asked_connections import AskedConnector
from runtime.settings import Settings
from runtime.tracing.traces import Traces

WORKER = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
"""The name of this process. Containers on their host's network, or of the same name, share a host name, and each is
process 1: named by these alone they would all hold a lease together, and one's heartbeat would hide another's."""


class Context(Struct):
    settings: Settings
    pool: Pool
    redis: Redis
    jobs: LaneWaker
    """In a worker, the lanes of this process: work that a worker finds, it does itself, without a job."""
    seal: Seal
    banks: Banks
    now: Callable[[], datetime]
    worker: str
    """The name of this process, for logs and leases."""
    traces: Traces | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Once it is set, nothing new is begun."""


@asynccontextmanager
async def open_context(settings: Settings, jobs: LaneWaker, stopping: asyncio.Event) -> AsyncIterator[Context]:
    async with AsyncExitStack() as opened:
        pool = await open_pool(
            settings.database_url,
            name="worker",
            size=settings.pace.worker_pool_size,
            statements_kept=settings.statements_kept,
        )
        opened.push_async_callback(pool.close)
        await check_cell(pool, settings.cell)
        redis = open_redis(settings.redis_url, blocking=False)
        opened.push_async_callback(redis.aclose)
        # For banks only: webhooks have a session of their own, whose resolver refuses addresses that are not public.
        # Each kind of order has its own bound: a common bound would let boleto calls that hang hold up PIX.
        http = await opened.enter_async_context(
            aiohttp.ClientSession(
                connector=AskedConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
            )
        )
        seal = Seal(settings.secret_key)
        tracing = settings.watching.tracing
        traces = None if tracing is None else Traces(tracing, "quita-worker")
        if traces is not None:
            opened.push_async_callback(traces.close)
        yield Context(
            settings=settings,
            pool=pool,
            redis=redis,
            jobs=jobs,
            seal=seal,
            banks=open_banks(settings, pool, http, seal, traces),
            now=lambda: datetime.now(UTC),
            worker=WORKER,
            traces=traces,
            stopping=stopping,
        )
