"""One JSON line per event on stderr, and the access log of the API on stdout.

    {"ts":"2026-01-31T12:00:00.000Z","level":"error","process":"worker","event":"delivery_stuck","attempt":5}

A line never carries a secret, a document or a payload. That is why an exception is written as its
type, its own first argument and the places it came through, and not as `str(error)`: PostgreSQL's
DETAIL, for one, quotes the row. When data do not fit (SQLSTATE class 22), the first argument
quotes the value itself, and is left out.

Logging never raises and never waits: a full disk, a closed pipe or a reader that stalls costs lines, which are counted,
and never the request, the duty or the transaction that logs.
"""

import asyncio
import logging
import os
import select
import sys
import traceback
from collections.abc import MutableMapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

import msgspec
import structlog

from runtime.tracing.ids import sampled

_FRAMES_MAX = 30
_REASON_CHARS_MAX = 2000  # room for all that keeps a process from starting in production
_PIPE_BYTES = 4096
"""The bytes that a ready pipe takes without waiting (PIPE_BUF)."""
_DATA_EXCEPTION_CLASS = "22"  # the SQLSTATE class of data exceptions
_LIBRARY_LEVELS = {
    "arq": logging.ERROR,  # arq logs each job that it runs
    "asyncio": logging.ERROR,
    "asyncpg": logging.ERROR,  # asyncpg repeats an outage of PostgreSQL
    "aiohttp.access": logging.CRITICAL,
}

_encoder = msgspec.json.Encoder(enc_hook=repr)
_Fields = MutableMapping[str, Any]


def setup(process_name: str, *, traced: float | None = None) -> None:
    """Write the events of this process, structlog's and the standard library's, to stderr; info and above.

    `traced` is the share of traces that are recorded, if any are: a line with a request_id then names its trace.
    """

    def add_head(_: object, level: str, fields: _Fields) -> dict[str, Any]:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        level = "error" if level == "exception" else level
        head: dict[str, Any] = {"ts": now, "level": level, "process": process_name, "event": fields.pop("event", "")}
        return {**head, **fields, **head}  # a field of one of these names never replaces the line's own

    def render(_: object, __: str, fields: _Fields) -> bytes:
        try:
            return _encoder.encode(fields)
        except Exception:  # half of a surrogate pair, a repr that fails
            return _encoder.encode(
                {
                    name: str(fields[name]).encode(errors="replace").decode()
                    for name in ("ts", "level", "process", "event")
                }
            )

    def add_trace_id(_: object, __: str, fields: _Fields) -> _Fields:
        request_id = fields.get("request_id")
        if traced is not None and isinstance(request_id, str) and (ids := sampled(request_id, traced)) is not None:
            fields["trace_id"] = ids.trace
        return fields

    stderr = Lines(2)
    trace_processors = [] if traced is None else [add_trace_id]
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, *trace_processors, _add_error, add_head, render],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=lambda *_: stderr,
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[_LibraryHandler()], level=logging.WARNING, force=True)
    for name, level in _LIBRARY_LEVELS.items():
        logging.getLogger(name).setLevel(level)


class Lines:
    """Writes whole lines to a descriptor at once. `lost` counts the lines lost since the last one that was written."""

    def __init__(self, descriptor: int) -> None:
        self.lost = 0
        self._descriptor = descriptor
        self._is_mid_line = False
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def msg(self, line: bytes) -> None:
        head = b"\n" if self._is_mid_line else b""
        if self.lost:
            head += _lost_notice(self.lost) + b"\n"
        if self._write_block(head + line + b"\n"):
            self.lost, self._is_mid_line = 0, False
        else:
            self.lost += 1

    log = debug = info = warning = error = critical = exception = msg

    def _write_block(self, block: bytes) -> bool:
        view = memoryview(block)
        try:
            while view:
                if not self._poll.poll(0):
                    return False
                written_bytes = os.write(self._descriptor, view[:_PIPE_BYTES])
                view, self._is_mid_line = view[written_bytes:], True
        except OSError:
            return False
        return True


def _lost_notice(lines: int) -> bytes:
    return _encoder.encode({"level": "error", "event": "log_lines_lost", "lines": lines})


class _LibraryHandler(logging.Handler):
    """Writes lines of libraries, in the same shape. Their arguments are left out: they may hold personal data."""

    def emit(self, record: logging.LogRecord) -> None:
        fields = {"logger": record.name, "message": str(record.msg)[:_REASON_CHARS_MAX], "exc_info": record.exc_info}
        structlog.get_logger().log(record.levelno, "library", **fields)


def _add_error(_: object, level: str, fields: _Fields) -> _Fields:
    exc_info = fields.pop("exc_info", None)
    if not exc_info:
        return fields
    error: BaseException | None
    trace: TracebackType | None
    if isinstance(exc_info, BaseException):
        error, trace = exc_info, exc_info.__traceback__
    else:
        _type, error, trace = exc_info if isinstance(exc_info, tuple) else sys.exc_info()
    if error is None:
        return fields
    fields["error"] = type(error).__name__
    fields["reason"] = _reason(error)
    fields["trace"] = [
        f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(trace)[-_FRAMES_MAX:]
    ]
    return fields


def _reason(error: BaseException) -> str:
    sqlstate = getattr(error, "sqlstate", None)
    if isinstance(sqlstate, str) and sqlstate.startswith(_DATA_EXCEPTION_CLASS):
        return f"SQLSTATE {sqlstate}"
    return str(error.args[0])[:_REASON_CHARS_MAX] if error.args else ""


class AccessLog:
    """Gathers lines in memory and writes them every 100 ms or 64 KiB, off the event loop.

    A reader that stalls costs lines, never requests. The log tells how many once the reader goes on.
    """

    _EVERY_S = 0.1
    _FLUSH_BYTES = 64 * 1024
    _BYTES_MAX = 4 * 1024 * 1024
    _LOOK_MS = 100

    def __init__(self, descriptor: int = 1, *, traced: float | None = None) -> None:
        self._traced_share = traced
        self._descriptor = descriptor
        self._lines: list[bytes] = []
        self._lines_bytes = 0
        self._lost = 0  # lines since the last notice
        self._flush_now = asyncio.Event()
        self._stopped = self._abandoned = False
        self._task: asyncio.Task[None] | None = None
        # Its own: a write waits for as long as its reader stalls, and the loop's threads are few. Each cell has a log.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="access log")

    def start(self) -> None:
        self._stopped = self._abandoned = False  # an application that could not open is opened again, with its log
        self._task = asyncio.create_task(self._keep_writing())

    def write(self, line: bytes) -> None:
        """Take one line, given without its newline."""
        if self._lines_bytes > self._BYTES_MAX:
            self._lost += 1
            return
        self._lines.append(line)
        self._lines_bytes += len(line) + 1
        if self._lines_bytes >= self._FLUSH_BYTES:
            self._flush_now.set()

    def trace_of(self, request_id: str) -> str:
        """The field that names the request's trace in its line; nothing where the trace is not recorded."""
        if self._traced_share is None or (ids := sampled(request_id, self._traced_share)) is None:
            return ""
        return f'"trace_id":"{ids.trace}",'

    async def stop(self) -> None:
        """Write what is left; waits at most a second for a reader that stalls."""
        self._stopped = True
        self._flush_now.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=1.0)
            self._abandoned = True
            self._task.cancel()

    async def _keep_writing(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._stopped:
                try:
                    async with asyncio.timeout(self._EVERY_S):
                        await self._flush_now.wait()
                except TimeoutError:
                    pass
            self._flush_now.clear()
            if self._lines:
                lost, self._lost = self._lost, 0
                if lost:
                    self._lines.append(_lost_notice(lost))
                block = b"\n".join(self._lines) + b"\n"
                self._lines, self._lines_bytes = [], 0
                if unwritten := await loop.run_in_executor(self._thread, self._write_all, block):
                    self._lost += unwritten + (lost and lost - 1)  # the notice is the last of them
            elif self._stopped:
                return

    def _write_all(self, block: bytes) -> int:
        """Runs in a thread, which the process waits for when it ends. Returns how many lines could not be written."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        at = 0
        try:
            while at < len(block):
                if poll.poll(self._LOOK_MS):
                    # Whole lines, as many as a pipe takes in one piece: other processes may write to it as well.
                    end = block.rfind(b"\n", at, at + _PIPE_BYTES) + 1 or at + _PIPE_BYTES
                    at += os.write(self._descriptor, block[at:end])
                elif self._abandoned:
                    break
        except OSError:
            pass  # the reader has closed the pipe, or the disk is full
        return block.count(b"\n", at)
