"""A load generator that costs little compared to the server: raw HTTP/1.1 on kept-alive connections, requests prebuilt
as bytes, one request under way per connection, every answer checked."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import cast

from msgspec import Struct

_LENGTH_HEADER = b"content-length: "
_HEAD_END = b"\r\n\r\n"
_ANSWER_S_MAX = 30.0
_TRIES_PER_CONNECTION = 40
_SLICE_S_MIN = 0.25
"""In a shorter window a loaded machine may answer nothing, and there would be no rate to compare."""

Check = Callable[[bytes, int], bool]
"""Takes the whole answer and the offset of its body; returns whether the answer is right."""


class Window(Struct, frozen=True):
    """The measurements of one window of time: the number of answers, their rate, and their latencies in seconds,
    sorted."""

    count: int
    per_s: float
    latencies_s: list[float]

    def percentile_ms(self, share: float) -> float:
        return 1000 * self.latencies_s[min(len(self.latencies_s) - 1, int(len(self.latencies_s) * share))]


class WrongAnswer(Exception):
    """An answer was wrong: a bench that went on would measure refusals."""


class _WindowState:
    """The state that all connections of one window share."""

    def __init__(self, request: Callable[[], bytes], check: Check) -> None:
        self.request = request
        self.check = check
        self.open = True
        self.latencies_s: list[float] = []
        self.wrong: bytes | None = None


class Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._buffered = b""
        self._sent_at = 0.0
        self._state: _WindowState | None = None
        self._finished: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def begin(self, state: _WindowState) -> "asyncio.Future[None]":
        """Sends requests one after another until the window closes; the future is done after the last answer."""
        self._state = state
        self._finished = asyncio.get_running_loop().create_future()
        self._send(state)
        return self._finished

    def close(self) -> None:
        self._transport.close()

    def _send(self, state: _WindowState) -> None:
        request = state.request()
        self._sent_at = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        if self._buffered:
            data = self._buffered + data
        body_at = data.find(_HEAD_END) + len(_HEAD_END)
        if body_at < len(_HEAD_END) or len(data) < body_at + _content_length(data, body_at):
            self._buffered = data
            return
        self._buffered = b""
        state, done = self._state, self._finished
        assert state is not None, "no request was made"
        assert done is not None, "begin() sets both"
        if not state.check(data, body_at):
            state.open, state.wrong = False, data
        elif state.open:
            state.latencies_s.append(time.perf_counter() - self._sent_at)
            self._send(state)
            return
        if not done.done():
            done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if self._finished is not None and not self._finished.done():
            self._finished.set_exception(error or ConnectionResetError("the server closed the connection"))


def _content_length(data: bytes, body_at: int) -> int:
    at = data.find(_LENGTH_HEADER, 0, body_at) + len(_LENGTH_HEADER)
    assert at >= len(_LENGTH_HEADER), "every answer says how long it is"
    return int(data[at : data.find(b"\r", at)])


def status(expected: int) -> Check:
    line = b"HTTP/1.1 %d " % expected
    return lambda data, _: data.startswith(line)


async def connect(port: int, count: int, *, processes: int) -> list[Connection]:
    """Opens `count` connections, equally many to each process. The kernel chooses the process of a connection by hash,
    so connections to a process that has enough are closed again."""
    per_process: Counter[bytes] = Counter()
    share_max = -(-count // processes)
    connections: list[Connection] = []
    for _ in range(count * _TRIES_PER_CONNECTION):
        if len(connections) == count:
            return connections
        process, connection = await _open_connection(port)
        if per_process[process] < share_max:
            per_process[process] += 1
            connections.append(connection)
        else:
            connection.close()
    raise AssertionError(f"connections do not spread over {processes} processes: {per_process}")


async def _open_connection(port: int) -> tuple[bytes, Connection]:
    """Opens a connection; returns the id of the process at its other end, and the connection."""
    _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
    answers: list[bytes] = []

    def remember(data: bytes, body_at: int) -> bool:
        answers.append(data[body_at:])
        state.open = False
        return data.startswith(b"HTTP/1.1 200 ")

    state = _WindowState(lambda: b"GET /bench/process HTTP/1.1\r\nHost: bench\r\n\r\n", remember)
    await connection.begin(state)
    if state.wrong is not None:
        raise WrongAnswer(state.wrong[:500].decode("latin-1"))
    return answers[0], connection


def slice_of(seconds: float, slices: int) -> float:
    """The length of each window when `slices` windows share `seconds`."""
    return max(seconds / slices, _SLICE_S_MIN)


async def window(
    connections: Sequence[Connection], request: Callable[[], bytes], check: Check, *, seconds: float
) -> Window:
    """Keeps every connection busy for `seconds`. Requests under way at the end are awaited but not counted."""
    state = _WindowState(request, check)
    began = time.perf_counter()
    under_way = [connection.begin(state) for connection in connections]
    await asyncio.wait(under_way, timeout=seconds)
    state.open = False
    took_s, latencies_s = time.perf_counter() - began, sorted(state.latencies_s)
    async with asyncio.timeout(_ANSWER_S_MAX):
        await asyncio.gather(*under_way)
    if state.wrong is not None:
        raise WrongAnswer(state.wrong[:500].decode("latin-1"))
    return Window(len(latencies_s), len(latencies_s) / took_s, latencies_s)


def http(method: str, path: str, *, token: str = "", key: str = "", body: bytes = b"") -> bytes:
    """Builds a request as bytes."""
    head = [f"{method} {path} HTTP/1.1", "Host: bench"]
    if token:
        head.append(f"Authorization: Bearer {token}")
    if key:
        head.append(f"Idempotency-Key: {key}")
    if body:
        head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*head, "", ""]).encode() + body
