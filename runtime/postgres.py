"""Connections to PostgreSQL: one pool a process, with the timeouts that keep a stuck client from holding others up."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import asyncpg

if TYPE_CHECKING:
    _Pool = asyncpg.Pool[asyncpg.Record]
    _Acquire = asyncpg.pool.PoolAcquireContext[asyncpg.Record]
    Connection = asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
else:
    # The stubs know these as generic; the classes themselves are not.
    _Pool = asyncpg.Pool
    _Acquire = asyncpg.pool.PoolAcquireContext
    Connection = asyncpg.Connection


class Pool(_Pool):
    """What its callers wait for is counted; the counts are handed on once a second (runtime/metrics.py)."""

    name: str
    size_max: int
    in_use = 0
    waits = 0
    """How often all connections were in use when one was wanted."""
    waited_s = 0.0

    def acquire(self, *, timeout: float | None = None) -> "_Acquired":
        return _Acquired(self, timeout)

    def taken(self) -> tuple[int, float]:
        """Waits and seconds since this was asked last."""
        found = self.waits, self.waited_s
        self.waits, self.waited_s = 0, 0.0
        return found


class _Acquired(_Acquire):
    """A connection for the time of a block; counted while it lasts."""

    pool: Pool

    async def __aenter__(self) -> Any:
        pool = self.pool
        if pool.in_use < pool.size_max:
            conn = await super().__aenter__()
        else:
            began = time.perf_counter()
            pool.waits += 1
            try:
                conn = await super().__aenter__()
            finally:
                pool.waited_s += time.perf_counter() - began
        pool.in_use += 1
        return conn

    async def __aexit__(self, *given: Any) -> None:
        self.pool.in_use -= 1
        await super().__aexit__(*given)


OPENED: "WeakSet[Pool]" = WeakSet()
"""The pools of this process."""

# What a connection can fail with while PostgreSQL restarts or is unreachable; the work was not
# acknowledged, and whether it was done is found out by asking again with the same key.
DB_UNAVAILABLE = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    # The server sent FATAL on this connection and has not closed it yet.
    asyncpg.InternalClientError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    # Too many connections, no memory, no room on its disk.
    asyncpg.InsufficientResourcesError,
    asyncpg.PostgresIOError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    TimeoutError,
)

_ACQUIRE_S = 5.0
_ASK_AGAIN_S_MIN = 0.05
_ASK_AGAIN_S_MAX = 0.4  # a restart takes a second or two


async def _keep(_: object) -> None:
    """Nothing to reset: no session state is ever set on a pooled connection, so the round trip is saved."""


async def _codecs(conn: Any) -> None:
    # jsonb travels as the JSON bytes themselves (after its version byte): msgspec reads and writes them.
    await conn.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        format="binary",
        encoder=lambda value: b"\x01" + value,
        decoder=lambda value: value[1:],
    )


async def open_pool(database_url: str, *, name: str, size: int, statement_s: float = 10.0) -> Pool:
    """A pool of at most `size` connections, on which no statement takes longer than `statement_s`."""
    pool = Pool(
        database_url,
        connection_class=asyncpg.Connection,
        record_class=asyncpg.Record,
        loop=None,
        min_size=1,
        max_size=size,
        max_queries=10**9,  # the default reconnects every 50,000 queries: seconds, at our rates
        max_inactive_connection_lifetime=0,
        max_cached_statement_lifetime=0,
        statement_cache_size=256,
        command_timeout=15,
        reset=_keep,
        init=_codecs,
        server_settings={
            "application_name": name,
            "jit": "off",
            # Every statement walks the index it is written for, in order, and stops at its limit. A bitmap reads
            # and sorts the whole range first, and is chosen just when the planner takes a long range for a short one.
            "enable_bitmapscan": "off",
            # Nor may a plan made while its table was young go on walking the whole table once it has grown.
            "enable_seqscan": "off",
            "statement_timeout": str(round(statement_s * 1000)),
            "lock_timeout": "5000",
            "idle_in_transaction_session_timeout": "10000",
            "timezone": "UTC",
        },
    )
    pool.name, pool.size_max = name, size
    await pool
    OPENED.add(pool)
    return pool


async def connect(database_url: str) -> "asyncpg.Connection[asyncpg.Record]":
    """One connection of its own, for tools; no statement timeout."""
    conn = await asyncpg.connect(database_url, server_settings={"timezone": "UTC", "jit": "off"})
    await _codecs(conn)
    return conn


@asynccontextmanager
async def transaction(pool: Pool) -> AsyncIterator[Connection]:
    """A connection with an open transaction; committed at the end of the block, rolled back by an exception."""
    async with pool.acquire(timeout=_ACQUIRE_S) as conn, conn.transaction():
        yield conn


@asynccontextmanager
async def session(pool: Pool) -> AsyncIterator[Connection]:
    """A connection for single statements."""
    async with pool.acquire(timeout=_ACQUIRE_S) as conn:
        yield conn


async def when_back(pool: Pool, *, timeout_s: float) -> None:
    """Wait, at most `timeout_s`, until PostgreSQL answers again; raises the last error when it does not."""
    deadline = time.monotonic() + timeout_s
    wait_s = _ASK_AGAIN_S_MIN
    while True:
        try:
            async with session(pool) as conn:
                await conn.execute("SELECT 1")
            return
        except DB_UNAVAILABLE:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise
            await asyncio.sleep(min(wait_s, left_s))
            wait_s = min(wait_s * 2, _ASK_AGAIN_S_MAX)
