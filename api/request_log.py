"""What programs asked, for their merchant's people to look at for 30 days: gathered in memory, written each second.

Off the path of a request, which costs one small tuple here (and 3 us later, when it is written). Nothing waits for it
and nothing fails of it: what is more than ROWS_MAX while PostgreSQL does not take rows is left out and counted, and a
process that is killed takes its last second with it. A batch whose outcome is not known is left out rather than
written twice. Only requests of a known credential are written down: the others are nobody's. Neither a body nor a query
nor a header is.
"""

import asyncio
import time
from datetime import UTC, datetime
from itertools import islice
from uuid import UUID

import structlog
from prometheus_client import Counter

from api.callers import Caller
from runtime.postgres import DB_UNAVAILABLE, Pool, session

EVERY_S = 1.0
OF_ACCOUNT_MAX = 500_000
"""Of an account and mode, a day and process; beyond it one in BEYOND_EACH is kept, so that a flood stays visible. All
requests at the usual rate limit would be 80 million rows a day."""
BEYOND_EACH = 100
_DAY_S = 86_400
ROWS_MAX = 20_000
"""Of one process: some seconds at full speed, 10 MB."""
_BATCH = 500  # encoding one holds the event loop for half a millisecond
_PATH_MAX = 200
_CLOSE_S = 2.0

_log = structlog.get_logger()
dropped_total = Counter("request_log_dropped_total", "Requests left out of the request log.")
_TABLE = "request_log"
_COLUMNS = (
    "account_id", "test", "at", "request_id", "client_id", "method", "path", "status", "code", "duration_us",
)  # fmt: skip

Row = tuple[Caller, float, str, str, str, int, str | None, float]
"""Who, when (Unix seconds), request id, method, path, status, error code, and how many seconds it took."""


class RequestLog:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._rows: list[Row] = []
        self._day = 0
        self._asked: dict[tuple[UUID, bool], int] = {}
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def add(
        self, caller: Caller, request_id: str, method: str, path: str, status: int, code: str | None, took_s: float
    ) -> None:
        rows, now_s = self._rows, time.time()
        if len(rows) >= ROWS_MAX or not self._keeps(caller, now_s):
            dropped_total.inc()
            return
        rows.append((caller, now_s, request_id, method, path, status, code, took_s))
        if self._task is None:
            self._task = asyncio.create_task(self._keep_writing())

    def _keeps(self, caller: Caller, now_s: float) -> bool:
        """Whether this one of its account's requests of the day (UTC) is written down."""
        day = int(now_s // _DAY_S)
        if day != self._day:
            self._day, self._asked = day, {}
        whose = (caller.account_id, caller.test)
        asked = self._asked[whose] = self._asked.get(whose, 0) + 1
        return asked <= OF_ACCOUNT_MAX or asked % BEYOND_EACH == 0

    async def close(self) -> None:
        """Write what is left, for _CLOSE_S at most."""
        self._closing.set()
        if self._task is not None:
            _, late = await asyncio.wait([self._task], timeout=_CLOSE_S)
            if late:
                self._task.cancel()
                _log.warning("request_log_lost", rows=len(self._rows))

    async def _keep_writing(self) -> None:
        waited = False
        closing = False
        while not closing:
            try:
                async with asyncio.timeout(EVERY_S):
                    await self._closing.wait()
            except TimeoutError:
                pass
            closing = self._closing.is_set()
            try:
                await self._write()
                waited = False
            except DB_UNAVAILABLE as gone:
                # What is left is kept for the next second.
                if not waited:
                    _log.warning("request_log_waits", rows=len(self._rows), error=type(gone).__name__)
                waited = True
            except Exception:
                dropped_total.inc(len(self._rows))
                self._rows = []
                _log.exception("request_log_broken")

    async def _write(self) -> None:
        while self._rows:
            async with session(self._pool) as conn:
                batch = [_record(*row) for row in islice(self._rows, _BATCH)]
                del self._rows[: len(batch)]
                try:
                    # COPY: half of what rows cost in a statement, on this loop and over there.
                    await conn.copy_records_to_table(_TABLE, records=batch, columns=_COLUMNS)
                except DB_UNAVAILABLE:
                    dropped_total.inc(len(batch))
                    raise


def _record(
    caller: Caller, at: float, request_id: str, method: str, path: str, status: int, code: str | None, took_s: float
) -> tuple[object, ...]:
    path = path[:_PATH_MAX]
    if not path.isascii() or "\0" in path:
        # What PostgreSQL takes as text: a path may have been any bytes.
        path = path.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    took_us = min(int(took_s * 1_000_000), 2**31 - 1)
    when = datetime.fromtimestamp(at, UTC)
    return caller.account_id, caller.test, when, request_id, caller.client_id, method, path, status, code, took_us
