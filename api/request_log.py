"""What programs asked, for their merchant's people to look at for 30 days: gathered in memory, written each second.

Off the path of a request, which costs one small tuple here (and 3 us later, when it is written). Nothing waits for it
and nothing fails of it: what is more than ROWS_MAX while PostgreSQL does not take rows is left out and counted, and a
process that is killed takes its last second with it. A batch whose outcome is not known is left out rather than
written twice. Only requests of a known credential are written down: the others are nobody's. Neither a query nor a
header is, but the User-Agent of one that was refused, with the names of the fields that were wrong: who debugs has to
know which of his programs it was, and where. Of production no body is. Of writes in the sandbox they are, redacted
(api/body/redaction.py), so many a day: of a load test nobody looks at more than the first thousand.
"""

import asyncio
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

import structlog
from prometheus_client import Counter

from api.answers import encode
from api.body.redaction import NAME, redacted_answer, redacted_body
from api.callers import Caller
from domain.errors import Refused
from runtime.postgres import DB_UNAVAILABLE, Pool, session

EVERY_S = 1.0
OF_ACCOUNT_MAX = 500_000
"""Of an account and mode, a day and process; beyond it one in BEYOND_EACH is kept, so that a flood stays visible. All
requests at the usual rate limit would be 80 million rows a day."""
BEYOND_EACH = 100
BODIES_MAX = 1_000
"""Of an account's writes of a day in a process that succeeded, and as many again of those that were refused."""
BODIES_WAITING_MAX = 500
"""Of one process, not written yet: 8 MB of them and more as objects, and no more however the database does."""
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
    "account_id", "test", "at", "request_id", "client_id", "method", "path", "status", "code", "duration_us", "made",
    "refusal", "sent", "answered",
)  # fmt: skip

_MESSAGE_MAX = 300
_FIELDS_MAX = 20
_AGENT_MAX = 120

Sent = dict[str, Any] | int | None
"""As Exchange.sent."""


class LoggedRequest(NamedTuple):
    """`at` in Unix seconds; `made` is the Location of what it made, `agent` the User-Agent of one that was refused.
    `sent` and `answered` are the bodies of a write in the sandbox (Exchange.sent)."""

    caller: Caller
    at: float
    request_id: str
    method: str
    path: str
    status: int
    took_s: float
    refused: Refused | None = None
    made: bytes | None = None
    agent: bytes | None = None
    sent: Sent = None
    answered: bytes | None = None


class RequestLog:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._rows: list[LoggedRequest] = []
        self._day = 0
        self._asked: dict[tuple[UUID, bool], int] = {}
        self._bodies: dict[tuple[UUID, bool], int] = {}
        self._bodies_waiting = 0
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def add(self, request: LoggedRequest, sent: Sent = None, answered: bytes | None = None) -> None:
        """`sent` and `answered`: the bodies of a write in the sandbox, kept while there are not enough yet."""
        rows = self._rows
        if len(rows) >= ROWS_MAX or not self._keeps(request.caller, request.at):
            dropped_total.inc()
            return
        if sent is not None and self._keeps_bodies(request):
            request = request._replace(sent=sent, answered=answered)
        rows.append(request)
        if self._task is None:
            self._task = asyncio.create_task(self._keep_writing())

    def _keeps(self, caller: Caller, now_s: float) -> bool:
        """Whether this one of its account's requests of the day (UTC) is written down."""
        day = int(now_s // _DAY_S)
        if day != self._day:
            self._day, self._asked, self._bodies = day, {}, {}
        whose = (caller.account_id, caller.test)
        asked = self._asked[whose] = self._asked.get(whose, 0) + 1
        return asked <= OF_ACCOUNT_MAX or asked % BEYOND_EACH == 0

    def _keeps_bodies(self, request: LoggedRequest) -> bool:
        """Whether there are not enough of its account's yet."""
        whose = (request.caller.account_id, request.refused is not None)
        kept = self._bodies.get(whose, 0)
        if kept >= BODIES_MAX or self._bodies_waiting >= BODIES_WAITING_MAX:
            return False
        self._bodies[whose] = kept + 1
        self._bodies_waiting += 1
        return True

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
                self._rows, self._bodies_waiting = [], 0
                _log.exception("request_log_broken")

    async def _write(self) -> None:
        while self._rows:
            async with session(self._pool) as conn:
                batch = [_record(row) for row in islice(self._rows, _BATCH)]
                del self._rows[: len(batch)]
                self._bodies_waiting -= sum(each[-1] is not None for each in batch)
                try:
                    # COPY: half of what rows cost in a statement, on this loop and over there.
                    await conn.copy_records_to_table(_TABLE, records=batch, columns=_COLUMNS)
                except DB_UNAVAILABLE:
                    dropped_total.inc(len(batch))
                    raise


def _record(row: LoggedRequest) -> tuple[object, ...]:
    caller, refused = row.caller, row.refused
    took_us = min(int(row.took_s * 1_000_000), 2**31 - 1)
    return (
        caller.account_id,
        caller.test,
        datetime.fromtimestamp(row.at, UTC),
        row.request_id,
        caller.client_id,
        row.method,
        _storable(row.path[:_PATH_MAX]),
        row.status,
        None if refused is None else refused.code.name,
        took_us,
        None if row.made is None else row.made.decode(),
        None if refused is None else _refusal(refused, row.agent),
        None if row.sent is None else redacted_body(row.sent),
        None if row.answered is None else redacted_answer(row.answered),
    )


def _refusal(refused: Refused, agent: bytes | None) -> str:
    """As readmodels/dashboard/request_log.LoggedRefusal reads it."""
    fields = {
        name if NAME.fullmatch(name) else "?": _storable(message[:_MESSAGE_MAX])
        for name, message in islice((refused.fields or {}).items(), _FIELDS_MAX)
    }
    said = {"message": _storable(refused.message[:_MESSAGE_MAX]), "fields": fields}
    if agent is not None:
        said["agent"] = _storable(agent[:_AGENT_MAX].decode("latin-1"))
    return encode(said).decode()


def _storable(text: str) -> str:
    """What PostgreSQL takes as text: a path may have been any bytes."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
