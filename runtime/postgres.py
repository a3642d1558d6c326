"""Connections to PostgreSQL: one pool a process, with the timeouts that keep a stuck client from holding others up."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

import asyncpg

from runtime.cells.number import current_cell
from runtime.servers.addresses import STATEMENTS_KEPT
from runtime.servers.primary import Hosts, Target
from runtime.servers.role_settings import FOR_TOOLS, SETTINGS, STATEMENT_MS, SettingsMissing, others

if TYPE_CHECKING:
    _Pool = asyncpg.Pool[asyncpg.Record]
    _Acquire = asyncpg.pool.PoolAcquireContext[asyncpg.Record]
    _Connection = asyncpg.Connection[asyncpg.Record]
    Connection = asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
else:
    # The stubs declare these classes as generic; at run time they are not.
    _Pool = asyncpg.Pool
    _Acquire = asyncpg.pool.PoolAcquireContext
    _Connection = asyncpg.Connection
    Connection = asyncpg.Connection


class Pool(_Pool):
    """A pool that counts its callers' waits; the counts are handed on once a second (runtime/metrics.py)."""

    name: str
    size_max: int
    in_use = 0
    waits = 0
    """How often a caller found all connections in use."""
    waited_s = 0.0

    async def close(self) -> None:
        """Close the connections, after _CLOSE_S at the latest: each waits for the server to close it as well, and with
        one that hangs the process would be killed before it ends."""
        with suppress(TimeoutError):  # asyncpg then terminates the connections
            async with asyncio.timeout(_CLOSE_S):
                await super().close()

    def acquire(self, *, timeout: float | None = None) -> "_AcquiredConnection":
        return _AcquiredConnection(self, timeout)

    def take_waits(self) -> tuple[int, float]:
        """Waits, and seconds waited, since the last call."""
        counts = self.waits, self.waited_s
        self.waits, self.waited_s = 0, 0.0
        return counts


class _AcquiredConnection(_Acquire):
    """A connection for the time of a block; counted as in use for as long."""

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
        if isinstance(given[1], asyncpg.ReadOnlySQLTransactionError):
            # The server was demoted behind a proxy that kept the connection open: the next one finds the primary.
            cast(Any, self.connection).terminate()
        elif isinstance(given[1], asyncio.CancelledError | TimeoutError) and (conn := self._pooled()) is not None:
            conn.cut_off = True
        try:
            await super().__aexit__(*given)
        except Exception:
            if not isinstance(given[1], asyncio.CancelledError):
                raise  # raised in place of a cancellation, the error would leave the task running

    def _pooled(self) -> "_PooledConnection | None":
        """The connection in the pool; None when it was closed meanwhile."""
        return cast(Any, self.connection)._con  # type: ignore[no-any-return]


class _PooledConnection(_Connection):
    cut_off = False
    """Its last work was cancelled or timed out. asyncpg prepares a statement by one message and executes it by another,
    and only the second ends the transaction that the first began. Without the second, the transaction goes on for the
    connection's next user: it keeps its lock on the table, and later statements fail by the time limit of a statement
    that nobody waits for."""


OPENED: "WeakSet[Pool]" = WeakSet()
"""The pools of this process."""

# The errors of a connection while PostgreSQL restarts or is unreachable. The work was not acknowledged; whether it was
# done is found out by asking again with the same key.
DB_UNAVAILABLE = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    # The server sent FATAL on this connection and has not closed it yet.
    asyncpg.InternalClientError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    # A standby: the primary became one, or a URL of one host leads to one.
    asyncpg.ReadOnlySQLTransactionError,
    # Too many connections, no memory, no room on its disk.
    asyncpg.InsufficientResourcesError,
    asyncpg.PostgresIOError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    TimeoutError,
)

_COMMAND_S_MAX = 15.0
_ACQUIRE_S = 5.0
_END_S = 5.0
_CLOSE_S = 2.0
_ASK_AGAIN_S_MIN = 0.05
_ASK_AGAIN_S_MAX = 0.4  # a restart takes a second or two


async def _end_cut_off_work(conn: _PooledConnection) -> None:
    """Nothing is reset: no session state is ever set on a pooled connection, so the round trip is saved. A connection
    whose work was cut off may still be inside a transaction. One more statement ends that transaction; if it fails, the
    pool closes the connection."""
    if conn.cut_off:
        conn.cut_off = False
        await conn.execute("SELECT 1", timeout=_END_S)


async def _set_codecs(conn: Any) -> None:
    # jsonb travels as the JSON bytes themselves (after its version byte): msgspec reads and writes them.
    await conn.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        format="binary",
        encoder=lambda value: b"\x01" + value,
        decoder=lambda value: value[1:],
    )


async def open_pool(
    database_url: str,
    *,
    name: str,
    size: int,
    size_min: int = 1,
    statement_s: float = STATEMENT_MS / 1000,
    statements_kept: int = STATEMENTS_KEPT,
    target: Target = "primary",
) -> Pool:
    """A pool of at most `size` connections, on which no statement takes longer than `statement_s`. With a `size_min` of
    0 the server need not be there. `statements_kept`: prepared statements of each connection; 0 prepares none. Raises
    SettingsMissing where a pooler keeps our settings from the server."""
    if current_cell():
        name = f"{name} of cell {current_cell()}"
    opener = _SessionOpener(Hosts(database_url, target), name, statement_s)
    pool = Pool(
        database_url,
        connect=cast(Any, opener.connect),
        connection_class=_PooledConnection,
        record_class=asyncpg.Record,
        loop=None,
        min_size=size_min,
        max_size=size,
        max_queries=10**9,  # the default reconnects every 50,000 queries, which at our rates is every few seconds
        max_inactive_connection_lifetime=0,
        max_cached_statement_lifetime=0,
        statement_cache_size=statements_kept,
        command_timeout=min(_COMMAND_S_MAX, statement_s * 1.5),
        reset=cast(Any, _end_cut_off_work),
        init=_set_codecs,
    )
    pool.name, pool.size_max = name, size
    await pool
    OPENED.add(pool)
    return pool


class _SessionOpener:
    """Connections whose sessions have our settings: those of the role, and those the role lacks, set on opening."""

    def __init__(self, hosts: Hosts, name: str, statement_s: float) -> None:
        self._hosts = hosts
        self._fixed_settings = {"application_name": name}
        self._wanted_settings = {**SETTINGS, "statement_timeout": str(round(statement_s * 1000))}
        self._lacking_settings: dict[str, str] | None = None
        """The settings that the role lacks; read with the first connection."""

    async def connect(self, _: str, **options: Any) -> Any:
        if self._lacking_settings is None:
            conn = await self._open(options, {})
            lacking = {name: self._wanted_settings[name] for name in await others(conn, self._wanted_settings)}
            if lacking:
                await conn.close()
                if not await self._settings_take_effect(options, lacking):
                    lacking = self._drop_tolerated(lacking)
                conn = await self._open(options, lacking)
            self._lacking_settings = lacking
            return conn
        return await self._open(options, self._lacking_settings)

    async def _settings_take_effect(self, options: dict[str, Any], lacking: Mapping[str, str]) -> bool:
        """Whether settings that a connection asks for reach its session. PgBouncer refuses or ignores most of them."""
        try:
            conn = await self._open(options, lacking)
        except asyncpg.ProtocolViolationError:
            return False
        try:
            return not await others(conn, self._wanted_settings)
        finally:
            await conn.close()

    def _drop_tolerated(self, lacking: Mapping[str, str]) -> dict[str, str]:
        """Behind a pooler our time limit of statements may be missing, because the client has one as well."""
        if set(lacking) == {"statement_timeout"}:
            return {}
        lacking_text = ", ".join(f"{name}={value}" for name, value in sorted(lacking.items()))
        raise SettingsMissing(f"behind the pooler the role of the database lacks {lacking_text}: run `quita migrate`")

    async def _open(self, options: dict[str, Any], lacking: Mapping[str, str]) -> Any:
        return await self._hosts.connect(**options, server_settings={**self._fixed_settings, **lacking})


async def connect(database_url: str, *, target: Target = "primary") -> "asyncpg.Connection[asyncpg.Record]":
    """A connection for a tool. It has no statement timeout, except behind a pooler, where the role's applies."""
    hosts = Hosts(database_url, target)
    options: dict[str, Any] = {"statement_cache_size": 0, "connection_class": _ToolConnection}
    try:
        conn = await hosts.connect(**options, server_settings=dict(FOR_TOOLS))
    except asyncpg.ProtocolViolationError:
        conn = await hosts.connect(**options)
    await _set_codecs(conn)
    return conn


class _ToolConnection(_Connection):
    """Ends a wait that asyncpg's own connection does not bound: until the server has cancelled a statement, or closed
    the connection. A command that timed out or was interrupted would wait for as long as the server hangs."""

    def _cancel_current_command(self, sent: Any, cancelled: Any) -> None:
        cast(Any, super())._cancel_current_command(sent, cancelled)
        asyncio.get_running_loop().call_later(_END_S, lambda: None if cancelled.done() else self.terminate())

    async def close(self, *, timeout: float | None = _END_S) -> None:
        with suppress(TimeoutError):  # the connection is then aborted
            await super().close(timeout=timeout)


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
