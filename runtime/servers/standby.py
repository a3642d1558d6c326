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
_RETRY_S: Final = 1.0
_READS_MAX: Final = 1_000

# Further errors of a read at a standby: a query that is in the way of the replay is cancelled.
_READ_ERRORS: Final = (*DB_UNAVAILABLE, asyncpg.SerializationError, asyncpg.DeadlockDetectedError)

reads_total = Counter("quita_reads_total", "Lists, sums and pages read, by the server that answered.", ["server"])
_log = structlog.get_logger()

T = TypeVar("T")


class _LogPosition(Struct, frozen=True):
    lsn: int
    timeline: int


_find_written = sql.one("standby.written", _LogPosition)
_shows_position = sql.one("standby.shows", bool)


class _StandbyBehind(Exception):
    """The standby does not show all that was acknowledged."""


# Errors on the way to the standby: it may also refuse our password, or a pooler our settings. The primary answers.
_REACH_ERRORS: Final = (*_READ_ERRORS, asyncpg.PostgresError, SettingsMissing, _StandbyBehind)


class Reads:
    """Reads for lists, sums and pages. `standby` is None where no server but the primary is to be asked."""

    def __init__(self, primary: Pool, standby: Pool | None) -> None:
        self.primary = primary
        self._standby = standby
        self._standby_is_asked = standby is not None
        self._position_batcher: Batcher[None, _LogPosition] = Batcher(self._ask_primary, lanes=1, batch_max=_READS_MAX)
        self._return_task: asyncio.Task[None] | None = None

    async def ask(self, read: Callable[[Connection], Awaitable[T]]) -> T:
        """Returns what `read` returns; raises what it raises. `read` only reads, and may be called twice: the primary
        is asked when the standby is lost meanwhile."""
        if (standby := self._standby) is not None and self._standby_is_asked:
            async with AsyncExitStack() as held:
                if (conn := await self._reach_standby(standby, held)) is not None:
                    try:
                        result = await read(conn)
                    except asyncpg.QueryCanceledError:  # it would take too long at the primary as well
                        raise
                    except _READ_ERRORS as error:
                        self._leave_standby(standby, error)
                    else:
                        reads_total.labels("standby").inc()
                        return result
        async with session(self.primary) as conn:
            result = await read(conn)
        reads_total.labels("primary").inc()
        return result

    async def close(self) -> None:
        if self._return_task is not None:
            self._return_task.cancel()
            await asyncio.gather(self._return_task, return_exceptions=True)
        if self._standby is not None:
            self._standby.terminate()

    async def _ask_primary(self, asked: Sequence[None]) -> list[_LogPosition]:
        async with session(self.primary) as conn:
            return [await _find_written(conn)] * len(asked)

    async def _reach_standby(self, standby: Pool, held: AsyncExitStack) -> Connection | None:
        """A connection to the standby, which shows all that was acknowledged before; None when the standby is left."""
        position = await self._position_batcher.submit(None)
        try:
            async with asyncio.timeout(_REACH_S):
                conn = await held.enter_async_context(session(standby))
                await _wait_for_replay(conn, position)
        except _REACH_ERRORS as error:
            self._leave_standby(standby, error)
            return None
        return conn

    def _leave_standby(self, standby: Pool, error: Exception) -> None:
        """Ask the primary alone until the standby shows everything again."""
        if self._standby_is_asked:
            self._standby_is_asked = False
            _log.warning("standby_left", error=type(error).__name__)
            self._return_task = asyncio.create_task(self._return_to_standby(standby))

    async def _return_to_standby(self, standby: Pool) -> None:
        while not self._standby_is_asked:
            await asyncio.sleep(_RETRY_S)
            with contextlib.suppress(*_REACH_ERRORS, OverflowError):  # the primary is away
                async with AsyncExitStack() as held:
                    self._standby_is_asked = await self._reach_standby(standby, held) is not None
        _log.info("standby_asked_again")


async def _wait_for_replay(conn: Connection, position: _LogPosition) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not await _shows_position(conn, lsn=position.lsn, timeline=position.timeline):
        if time.monotonic() >= deadline:
            raise _StandbyBehind
        await asyncio.sleep(_POLL_S)
