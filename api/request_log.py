"""The log of API requests, which a merchant's people can read for 30 days: gathered in memory, written each second.

It is off the path of a request, which adds one small tuple here (and costs 3 us later, when it is written). No request
waits for it or fails because of it. While PostgreSQL takes no rows, rows beyond ROWS_MAX are dropped and counted; a
killed process loses its last second; a batch whose outcome is unknown is dropped rather than written twice.

Only requests of a known credential are logged, because others belong to no account. Queries and headers are not
logged, except the User-Agent of a refused request, with the names of its faulty fields: a developer must see which
program failed, and where. Bodies are never logged in production. Of writes in the sandbox they are, redacted
(api/body/redaction.py), up to a number a day: nobody reads more than the first thousand of a load test.
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
ROWS_OF_ACCOUNT_MAX = 500_000
"""Rows per account and mode, a day and process; beyond it one request in SAMPLE_EACH is kept, so that a flood stays
visible. A credential at the usual rate limit would write 80 million rows a day."""
SAMPLE_EACH = 100
BODIES_MAX = 1_000
"""Bodies kept of an account's successful writes, per day and process; as many again of its refused writes."""
BODIES_WAITING_MAX = 500
"""Requests with bodies of one process that wait to be written: 8 MB of JSON, and more as Python objects."""
_DAY_S = 86_400
ROWS_MAX = 20_000
"""Rows of one process that wait to be written: some seconds at full speed, 10 MB."""
_BATCH_MAX = 500  # encoding one holds the event loop for half a millisecond
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
    """One row of the log. `at` is in Unix seconds; `made` is the Location of the resource it created, `agent` the
    User-Agent if it was refused. `sent` and `answered` are the bodies of a write in the sandbox (Exchange.sent)."""

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
        self._requests_today: dict[tuple[UUID, bool], int] = {}
        self._bodies_today: dict[tuple[UUID, bool], int] = {}
        self._bodies_waiting = 0
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def add(self, request: LoggedRequest, sent: Sent = None, answered: bytes | None = None) -> None:
        """Queues a request for writing. `sent` and `answered` are the bodies of a write in the sandbox, kept up to
        BODIES_MAX."""
        rows = self._rows
        if len(rows) >= ROWS_MAX or not self._may_log(request.caller, request.at):
            dropped_total.inc()
            return
        if sent is not None and self._may_keep_bodies(request):
            request = request._replace(sent=sent, answered=answered)
        rows.append(request)
        if self._task is None:
            self._task = asyncio.create_task(self._keep_writing())

    def _may_log(self, caller: Caller, now_s: float) -> bool:
        """Whether this request is logged, given how many its account has made on this day (UTC)."""
        day = int(now_s // _DAY_S)
        if day != self._day:
            self._day, self._requests_today, self._bodies_today = day, {}, {}
        counted_by = (caller.account_id, caller.test)
        requests = self._requests_today[counted_by] = self._requests_today.get(counted_by, 0) + 1
        return requests <= ROWS_OF_ACCOUNT_MAX or requests % SAMPLE_EACH == 0

    def _may_keep_bodies(self, request: LoggedRequest) -> bool:
        """Whether the bodies of this request are kept: neither BODIES_MAX nor BODIES_WAITING_MAX is reached yet."""
        counted_by = (request.caller.account_id, request.refused is not None)
        kept = self._bodies_today.get(counted_by, 0)
        if kept >= BODIES_MAX or self._bodies_waiting >= BODIES_WAITING_MAX:
            return False
        self._bodies_today[counted_by] = kept + 1
        self._bodies_waiting += 1
        return True

    async def close(self) -> None:
        """Write the rows that are left, for _CLOSE_S at most."""
        self._closing.set()
        if self._task is not None:
            _, unfinished = await asyncio.wait([self._task], timeout=_CLOSE_S)
            if unfinished:
                self._task.cancel()
                _log.warning("request_log_lost", rows=len(self._rows))

    async def _keep_writing(self) -> None:
        unavailable = False
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
                unavailable = False
            except DB_UNAVAILABLE as error:
                # The rows not yet in a batch are kept for the next second.
                if not unavailable:
                    _log.warning("request_log_waits", rows=len(self._rows), error=type(error).__name__)
                unavailable = True
            except Exception:
                dropped_total.inc(len(self._rows))
                self._rows, self._bodies_waiting = [], 0
                _log.exception("request_log_broken")

    async def _write(self) -> None:
        while self._rows:
            async with session(self._pool) as conn:
                batch = [_table_row(row) for row in islice(self._rows, _BATCH_MAX)]
                del self._rows[: len(batch)]
                self._bodies_waiting -= sum(each[-1] is not None for each in batch)
                try:
                    # COPY costs half of an INSERT, on this event loop and in PostgreSQL.
                    await conn.copy_records_to_table(_TABLE, records=batch, columns=_COLUMNS)
                except DB_UNAVAILABLE:
                    dropped_total.inc(len(batch))
                    raise


def _table_row(row: LoggedRequest) -> tuple[object, ...]:
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
        None if refused is None else _refusal_json(refused, row.agent),
        None if row.sent is None else redacted_body(row.sent),
        None if row.answered is None else redacted_answer(row.answered),
    )


def _refusal_json(refused: Refused, agent: bytes | None) -> str:
    """The refusal as JSON, in the shape of readmodels/dashboard/request_log.LoggedRefusal."""
    fields = {
        name if NAME.fullmatch(name) else "?": _storable(message[:_MESSAGE_MAX])
        for name, message in islice((refused.fields or {}).items(), _FIELDS_MAX)
    }
    refusal = {"message": _storable(refused.message[:_MESSAGE_MAX]), "fields": fields}
    if agent is not None:
        refusal["agent"] = _storable(agent[:_AGENT_MAX].decode("latin-1"))
    return encode(refusal).decode()


def _storable(text: str) -> str:
    """The text with NUL and lone surrogates replaced, which PostgreSQL refuses: a path may be any bytes."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
