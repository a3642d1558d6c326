"""Uvicorn's HTTP/1.1 connections with deadlines and bounds: uvicorn itself waits for ever and reads endless headers.

A connection has one deadline, which moves on as its request proceeds, and one timer of the process checks all
connections: cheaper per request than uvicorn's timer, which it replaces. Input that never became a request is answered
with the API's error envelope where the protocol allows an answer. It is counted, not logged: a stranger could fill the
log.
"""

import asyncio
import math
from collections import Counter
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import httptools
import prometheus_client
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from api.answers import refusal
from cli.run.http_cycle import HttpCycle
from domain.client_address import Network, client_group, is_among
from domain.errors import Code, Refused
from runtime.ids import new_token
from runtime.limits.http_bounds import HttpBounds

_CHECK_EVERY_S = 0.5
_LINGER_S = 2.0
"""How long the rest that a refused client sends is read and discarded: closing at once would reset the connection, and
the client could lose the answer (RFC 9112 section 9.6)."""
_VERSIONS = ("1.1", "1.0")
_LINGER_BYTES_MAX = 1_048_576
_PIPELINED_MAX = 32
"""Pipelined requests that may wait for earlier answers. A small request is twenty bytes, so one segment holds
thousands: each would become an object, and parsing all of them would block the event loop."""
_FRAMING_FACTOR = 8
"""Bytes on the wire that each byte of a body may take: chunks of one byte take six."""
_REASONS = {Code.MALFORMED_REQUEST: "malformed", Code.RATE_LIMITED: "too many pipelined"}

refused_total = prometheus_client.Counter(
    "http_connections_refused_total", "Connections closed before they became an answered request, by reason.", ["why"]
)


class Connections:
    """The connections of a process, and their one timer."""

    def __init__(self, bounds: HttpBounds, *, docs_url: str, proxies: tuple[Network, ...]) -> None:
        self.bounds = bounds
        self._docs_url = docs_url
        self._open: set[HttpConnection] = set()
        self._by_address: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        # The group is empty for a trusted proxy, whose connections are of many clients and must not be limited.
        self._group_of = lru_cache(maxsize=4_096)(lambda host: "" if is_among(host, proxies) else client_group(host))

    def protocol(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], _loop: Any = None
    ) -> "HttpConnection":
        """Makes the protocol of a connection; uvicorn calls this for each one."""
        return HttpConnection(config, server_state, app_state, _loop, connections=self)

    def add(self, connection: "HttpConnection") -> Code | None:
        """Adds a connection; returns the refusal code when there are too many, of its address or in all."""
        self._open.add(connection)
        if self._timer is None:
            self._timer = connection.loop.call_later(_CHECK_EVERY_S, self._expire_overdue, connection.loop)
        if self.full():
            return Code.SERVICE_UNAVAILABLE
        connection.group = self._group_of(connection.client[0]) if connection.client else ""
        if not connection.group:
            return None
        self._by_address[connection.group] += 1
        if self._by_address[connection.group] > self.bounds.connections_per_address_max:
            return Code.RATE_LIMITED
        return None

    def remove(self, connection: "HttpConnection") -> None:
        self._open.discard(connection)
        if connection.group:
            self._by_address[connection.group] -= 1
            if not self._by_address[connection.group]:
                del self._by_address[connection.group]

    def full(self) -> bool:
        return len(self._open) > self.bounds.connections_max

    def refusal_bytes(self, code: Code) -> bytes:
        """The bytes of an error answer that closes the connection."""
        retry_after_s = 1 if code.status in (429, 503) else None
        request_id = f"req_{new_token()}"
        answer = refusal(Refused(code, retry_after_s=retry_after_s), request_id=request_id, docs_url=self._docs_url)
        headers = [*answer.raw_headers, (b"x-request-id", request_id.encode()), (b"connection", b"close")]
        return b"".join(
            (STATUS_LINE[code.status], *(b"%b: %b\r\n" % header for header in headers), b"\r\n", answer.body)
        )

    def _expire_overdue(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in [each for each in self._open if each.deadline < now or each.answer_read_deadline < now]:
            connection.expire(now)
        self._timer = loop.call_later(_CHECK_EVERY_S, self._expire_overdue, loop) if self._open else None


def _new_parser(protocol: "HttpConnection") -> httptools.HttpRequestParser:
    """Makes the parser as uvicorn does."""
    parser = httptools.HttpRequestParser(protocol)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


class HttpConnection(HttpToolsProtocol):
    """A client's connection. By `deadline`, in the loop's time, the client must have sent more; infinite while the
    client waits for our answer. By `answer_read_deadline` the client must have read more of an answer."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: Any,
        *,
        connections: Connections,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.group = ""
        self.deadline = math.inf
        self.answer_read_deadline = math.inf
        self._connections = connections
        self._bounds = connections.bounds
        self._now = self.loop.time
        self._receiving = False  # a request has begun and not ended
        self._in_head = False
        self._host_headers = 0  # Host headers in this head
        self._segment_bytes = 0
        self._first_bytes = 0  # size of the segment in which the head began
        self._more_bytes = 0  # size of the head's further segments
        self._framing_bytes = 0  # size of a body's further segments, less _FRAMING_FACTOR for each byte of the body
        self._fault = Code.MALFORMED_REQUEST
        self._last_refusal: Code | None = None  # the refusal to send after the answers under way
        self._earlier_cycles: list[HttpCycle] = []  # pipelined requests before `cycle` that are not answered yet
        self._half_closed = False
        self._ignores_input = False  # no more input is parsed
        self._ignored_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.deadline = self._now() + self._bounds.first_byte_s
        refused = self._connections.add(self)
        if refused is not None:
            self._send_refusal(refused, "too many" if refused is Code.SERVICE_UNAVAILABLE else "too many of an address")

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        for cycle in self._earlier_cycles:  # uvicorn tells only the latest of pipelined requests
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._ignores_input:
            self._ignored_bytes += len(data)
            if self._ignored_bytes > _LINGER_BYTES_MAX:
                self.transport.abort()
            return
        self._segment_bytes = len(data)
        if self._in_head:
            self._more_bytes += len(data)
            if self._more_bytes > self._bounds.header_bytes_max:
                self._refuse(self._too_large_code(), "head too large")
                return
        elif self._receiving:
            self._framing_bytes += len(data)  # `on_body` subtracts the body's share
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self._refuse(self._fault, _REASONS.get(self._fault, "head too large"))
        else:
            framed = self._receiving and not self._in_head
            if framed and self._framing_bytes > self._bounds.header_bytes_max:  # trailers or chunk extensions
                self._refuse(Code.HEADERS_TOO_LARGE, "head too large")

    def _feed(self, data: bytes) -> None:
        """Parses input, and ignores an Upgrade header: we support no upgrade (RFC 9110 section 7.8). The parser takes
        everything after such a head for another protocol, so a body would be read as the next request. Therefore the
        head is parsed again without the Upgrade header."""
        while True:
            try:
                return self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
                self._segment_bytes = len(data)
                self.parser = _new_parser(self)  # after a head with `Connection: close` the old one parses no more

    def _head_without_upgrade(self) -> bytes:
        first = (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        others = (header for header in self.headers if header[0] != b"upgrade")
        return b"".join((b"%b %b HTTP/%b\r\n" % first, *(b"%b: %b\r\n" % header for header in others), b"\r\n"))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._first_bytes, self._more_bytes = self._segment_bytes, 0
        self._host_headers = 0
        self._receiving = self._in_head = True
        self.deadline = self._now() + self._bounds.headers_s

    def on_header(self, name: bytes, value: bytes) -> None:
        """Adds a header, as uvicorn does, with two differences. Trailers of a chunked body are ignored: uvicorn takes
        them for headers, but a proxy in front of us has not checked them (RFC 9110 section 6.5.1). Blanks after a value
        are cut, which the parser leaves: an Idempotency-Key trimmed by a proxy would be another key (section 5.5)."""
        if not self._in_head:
            return
        name, value = name.lower(), value.rstrip(b" \t")
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        elif name == b"host":
            self._host_headers += 1
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise ValueError("no proxy")
            return  # `_feed` parses this head again, without Upgrade
        if self._first_bytes + self._more_bytes > self._bounds.target_bytes_max:
            self._check_head_size()
        version = self.parser.get_http_version()
        if version not in _VERSIONS:  # the parser takes a request line without a version for HTTP/0.9
            raise ValueError("no version of HTTP that is spoken here")
        if self._host_headers != 1 and (self._host_headers or version != "1.0"):
            raise ValueError("HTTP/1.1 wants one Host")  # RFC 9112 section 3.2; a proxy may go by the other of two
        if len(self.pipeline) >= _PIPELINED_MAX:
            self._fault = Code.RATE_LIMITED
            raise ValueError("too many requests before their answers")
        previous: HttpCycle | None = self.cycle  # type: ignore[assignment]  # uvicorn's never
        self.cycle = self._new_cycle(version)  # raises for an invalid target, which then counts as a fault of the head
        self._in_head = False
        self._framing_bytes = 0
        self.deadline = self._now() + self._bounds.body_s
        if previous is None or previous.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            # Pipelined: the request waits for the answer to the one before it, and no more input is read meanwhile.
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))
            self._earlier_cycles = [each for each in (*self._earlier_cycles, previous) if not each.response_complete]

    def _new_cycle(self, version: str) -> HttpCycle:
        """Begins a request as uvicorn does, without its upgrades and its limit of concurrent requests."""
        scope = self.scope
        target = httptools.parse_url(self.url)
        path = target.path.decode("ascii")
        scope["method"] = self.parser.get_method().decode("ascii")
        scope["http_version"] = version
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"] = target.path
        scope["query_string"] = target.query or b""
        return HttpCycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )

    def on_body(self, body: bytes) -> None:
        self._framing_bytes -= _FRAMING_FACTOR * len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._in_head:
            return  # the head is parsed again, without Upgrade
        super().on_message_complete()
        self._receiving = False
        # If the answer was sent before the body had arrived, the request is over; else the client waits for us.
        self.deadline = self._now() + self._bounds.idle_s if self.cycle.response_complete else math.inf

    def on_response_complete(self) -> None:
        """Called after each answer: goes on as uvicorn does, without its timer for each connection."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            self.deadline = self._now() + _LINGER_S
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._last_refusal is not None:
            self._send_refusal(self._last_refusal, "")
        elif self._half_closed:
            self._close()
        elif not self._receiving:
            self.deadline = self._now() + self._bounds.idle_s

    def eof_received(self) -> bool:  # type: ignore[override]
        """The client has closed its sending side. It may still wait for an answer (RFC 9112 section 9.6): returning
        True keeps our side open."""
        cycle = self.cycle
        answering = cycle is not None and not cycle.response_complete
        self._half_closed = True
        if self._ignores_input:  # requests before the fault are still answered
            return answering and self._last_refusal is not None
        if self._receiving:
            self._refuse(Code.MALFORMED_REQUEST, "cut off")
            return True
        # An answer of unknown length may be an event stream, which its reader has left: it is not kept open.
        return answering and not (cycle.response_started and cycle.chunked_encoding)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.answer_read_deadline = self._now() + self._bounds.write_s

    def resume_writing(self) -> None:
        super().resume_writing()
        self.answer_read_deadline = math.inf

    def expire(self, now: float) -> None:
        """Called when one of the two deadlines has passed: aborts, refuses or closes the connection."""
        if self._ignores_input or self.transport.is_closing() or self.answer_read_deadline < now:
            if not self._ignores_input:
                refused_total.labels("answer not read").inc()
            self.transport.abort()
        elif self._receiving and self.flow.read_paused:
            self.deadline = now + self._bounds.body_s  # not the client's fault: we have paused reading
        elif self._receiving:
            self._refuse(Code.REQUEST_TIMEOUT, "slow head" if self._in_head else "slow body")
        else:
            refused_total.labels("silent" if self.cycle is None else "idle").inc()
            self._close()

    def _check_head_size(self) -> None:
        """Refuses a head that is too large; called only when its segments are large enough for that."""
        if len(self.url) > self._bounds.target_bytes_max:
            self._fault = Code.URI_TOO_LONG
            raise ValueError
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self._bounds.header_bytes_max:
            self._fault = Code.HEADERS_TOO_LARGE
            raise ValueError

    def _too_large_code(self) -> Code:
        return Code.URI_TOO_LONG if len(self.url) > self._bounds.target_bytes_max else Code.HEADERS_TOO_LARGE

    def _refuse(self, code: Code, why: str) -> None:
        """Stops parsing invalid input, and answers it after the answers to earlier requests."""
        cycle = self.cycle
        answering = cycle is not None and not cycle.response_complete
        in_body = self._receiving and not self._in_head
        if in_body and not answering:  # already answered: a second answer would belong to the next request
            refused_total.labels(why).inc()
            self._close()
            return
        if in_body:
            if self.pipeline and self.pipeline[0][0] is cycle:
                self.pipeline.popleft()
            else:
                answering = False
                cycle.disconnected = True
                cycle.message_event.set()
                if cycle.response_started:
                    self._close()
                    return
        if answering:
            refused_total.labels(why).inc()
            self._ignores_input, self._last_refusal, self.deadline = True, code, math.inf
        else:
            self._send_refusal(code, why)

    def _send_refusal(self, code: Code, why: str) -> None:
        if why:
            refused_total.labels(why).inc()
        if self.transport.is_closing():
            return
        self.transport.write(self._connections.refusal_bytes(code))
        if self._half_closed or self._connections.full():
            self._close()
        else:
            self._ignores_input = True
            self.flow.resume_reading()
            self.transport.write_eof()
            self.deadline = self._now() + _LINGER_S

    def _close(self) -> None:
        self._ignores_input = True
        self.transport.close()
        self.deadline = self._now() + _LINGER_S  # then an answer that the client does not read is dropped
