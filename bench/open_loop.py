"""An open-loop load generator: it sends at a fixed rate without waiting for answers, as many independent merchants
would. Latency counts from the moment a request was due, so a stalled server is not measured too well (coordinated
omission)."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import cast

from msgspec import Struct

_HEAD_END = b"\r\n\r\n"
_LENGTH_HEADER = b"content-length: "
_TICK_S = 0.005
_CONNECTIONS_MAX = 4_000
_ANSWER_S_MAX = 40.0


class Load(Struct, frozen=True):
    """The result: `statuses` counts answers by status, 0 for lost connections; latencies are in seconds, sorted, of
    answers with the expected status only."""

    sent: int
    statuses: dict[int, int]
    latencies_s: list[float]

    def percentile_ms(self, share: float) -> float:
        if not self.latencies_s:
            return 0.0
        return 1000 * self.latencies_s[min(len(self.latencies_s) - 1, int(len(self.latencies_s) * share))]

    def others(self, expected: int) -> int:
        return self.sent - self.statuses.get(expected, 0)


class _Connection(asyncio.Protocol):
    def __init__(self, done: Callable[["_Connection", int, bytes, float], None]) -> None:
        self._done = done
        self._buffered = b""
        self._due_at = 0.0
        self._busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self, request: bytes, due_at: float) -> None:
        self._due_at, self._busy = due_at, True
        self._transport.write(request)

    def close(self) -> None:
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        data = self._buffered + data
        body_at = data.find(_HEAD_END) + len(_HEAD_END)
        if body_at < len(_HEAD_END):
            self._buffered = data
            return
        head = data[:body_at].lower()
        at = head.find(_LENGTH_HEADER) + len(_LENGTH_HEADER)
        if len(data) < body_at + int(head[at : head.find(b"\r", at)]):
            self._buffered = data
            return
        self._buffered, self._busy = b"", False
        self._done(self, int(data[9:12]), data[body_at:], time.perf_counter() - self._due_at)

    def connection_lost(self, error: Exception | None) -> None:
        if self._busy:
            self._busy = False
            self._done(self, 0, b"", time.perf_counter() - self._due_at)


async def at_rate(
    port: int,
    next_request: Callable[[], bytes],
    *,
    per_s: float,
    seconds: float,
    expected: int,
    answered: Callable[[bytes], None] = lambda body: None,
) -> Load:
    """Sends the requests that `next_request` gives, `per_s` per second; `answered` gets the bodies of answers with the
    expected status."""
    loop = asyncio.get_running_loop()
    free: deque[_Connection] = deque()
    connections: list[_Connection] = []
    statuses: Counter[int] = Counter()
    latencies_s: list[float] = []

    def done(connection: _Connection, status: int, body: bytes, took_s: float) -> None:
        statuses[status] += 1
        if status == expected:
            latencies_s.append(took_s)
            answered(body)
        if status:
            free.append(connection)

    async def connect() -> _Connection:
        _, made = await loop.create_connection(lambda: _Connection(done), "127.0.0.1", port)
        connections.append(made)
        return made

    free.extend(await asyncio.gather(*(connect() for _ in range(min(256, int(per_s))))))
    began, sent, total = time.perf_counter(), 0, int(per_s * seconds)
    while sent < total:
        due = min(total, int((time.perf_counter() - began) * per_s) + 1)
        while sent < due:
            if not free:
                if len(connections) >= _CONNECTIONS_MAX:
                    break
                free.append(await connect())
            free.popleft().send(next_request(), began + sent / per_s)
            sent += 1
        await asyncio.sleep(_TICK_S)
    deadline = time.perf_counter() + _ANSWER_S_MAX
    while statuses.total() < sent and time.perf_counter() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(_TICK_S)
    for connection in connections:
        connection.close()
    return Load(sent, dict(statuses), sorted(latencies_s))
