"""Reads that a standby answers instead of the primary, which always show what was acknowledged before them.

Once it has begun, each read asks the primary how far its log is, and a standby only when that has replayed so much. So
a standby cannot be stale, whatever `synchronous_standby_names` says and however soon that changes; with `remote_apply`
the read need not wait for the replay. Reads that begin at the same moment ask the primary together.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final, TypeVar

import asyncpg
import structlog
from msgspec import Struct
from prometheus_client import Counter

import sql
from runtime.batching import Batcher
from runtime.postgres import DB_UNAVAILABLE, Connection, Pool, session
from runtime.servers.role_settings import SettingsMissing

PATIENCE_S: Final = 0.05
"""How long a read waits for the standby to replay the rest; with `remote_apply` that takes milliseconds."""
_POLL_S: Final = 0.002
_REACH_S: Final = 1.0
"""A standby that is not reached within this time is left; otherwise each read would wait for it."""
_AGAIN_S: Final = 1.0
_READS_MAX: Final = 1_000

# Further errors of a read at a standby: a query that is in the way of the replay is cancelled.
_LOST: Final = (*DB_UNAVAILABLE, asyncpg.SerializationError, asyncpg.DeadlockDetectedError)

reads_total = Counter("quita_reads_total", "Lists, sums and pages read, by the server that answered.", ["server"])
_log = structlog.get_logger()

T = TypeVar("T")


class _Written(Struct, frozen=True):
    lsn: int
    timeline: int


_written = sql.one("standby.written", _Written)
_shows = sql.one("standby.shows", bool)


class _Behind(Exception):
    """The standby does not show all that was acknowledged."""


# Errors on the way to the standby: it may also refuse our password, or a pooler our settings. The primary answers.
_UNREACHED: Final = (*_LOST, asyncpg.PostgresError, SettingsMissing, _Behind)


class Reads:
    """Reads for lists, sums and pages. `standby` is None where no server but the primary is to be asked."""

    def __init__(self, primary: Pool, standby: Pool | None) -> None:
        self.primary = primary
        self._standby = standby
        self._asked = standby is not None
        self._written: Batcher[None, _Written] = Batcher(self._ask_primary, lanes=1, batch_max=_READS_MAX)
        self._coming_back: asyncio.Task[None] | None = None

    async def ask(self, read: Callable[[Connection], Awaitable[T]]) -> T:
        """Returns what `read` returns; raises what it raises. `read` only reads, and may be called twice: the primary
        is asked when the standby is lost meanwhile."""
        if (standby := self._standby) is not None and self._asked:
            async with AsyncExitStack() as held:
                if (conn := await self._reach(standby, held)) is not None:
                    try:
                        found = await read(conn)
                    except asyncpg.QueryCanceledError:  # it would take too long at the primary as well
                        raise
                    except _LOST as error:
                        self._leave(standby, error)
                    else:
                        reads_total.labels("standby").inc()
                        return found
        async with session(self.primary) as conn:
            found = await read(conn)
        reads_total.labels("primary").inc()
        return found

    async def close(self) -> None:
        if self._coming_back is not None:
            self._coming_back.cancel()
            await asyncio.gather(self._coming_back, return_exceptions=True)
        if self._standby is not None:
            self._standby.terminate()

    async def _ask_primary(self, asked: Sequence[None]) -> list[_Written]:
        async with session(self.primary) as conn:
            return [await _written(conn)] * len(asked)

    async def _reach(self, standby: Pool, held: AsyncExitStack) -> Connection | None:
        """A connection to the standby, which shows all that was acknowledged before; None when the standby is left."""
        written = await self._written.submit(None)
        try:
            async with asyncio.timeout(_REACH_S):
                conn = await held.enter_async_context(session(standby))
                await _wait_for(conn, written)
        except _UNREACHED as error:
            self._leave(standby, error)
            return None
        return conn

    def _leave(self, standby: Pool, error: Exception) -> None:
        """Ask the primary alone until the standby shows everything again."""
        if self._asked:
            self._asked = False
            _log.warning("standby_left", error=type(error).__name__)
            self._coming_back = asyncio.create_task(self._come_back(standby))

    async def _come_back(self, standby: Pool) -> None:
        while not self._asked:
            await asyncio.sleep(_AGAIN_S)
            with contextlib.suppress(*_UNREACHED, OverflowError):  # the primary is away
                async with AsyncExitStack() as held:
                    self._asked = await self._reach(standby, held) is not None
        _log.info("standby_asked_again")


async def _wait_for(conn: Connection, written: _Written) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not await _shows(conn, lsn=written.lsn, timeline=written.timeline):
        if time.monotonic() >= deadline:
            raise _Behind
        await asyncio.sleep(_POLL_S)
