"""HTTP to addresses that merchants chose: names are resolved here, and only public addresses are connected to.

A merchant's URL may name, or be made to resolve to, our own machines. So a name is refused when any of
its answers is not public (mixed answers are an attack or a broken zone), and the socket factory checks
the address itself again before it connects: literal addresses never pass a resolver.
Proxies, cookies and redirects are not used.
"""

import asyncio
import re
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.resolver import AsyncResolver

from domain.webhooks.public_address import is_public
from runtime.servers.asked_connections import AskedConnection, AskedConnector

CONNECT_S = 3.0
ATTEMPT_S = 10.0
_RESOLVE_S = 2.0
_LOOKUPS_MAX = 64
"""Lookups at the same time. Names that never answer delay only one another, each for two seconds."""
_SOCKETS_MAX = 1000
_KEPT_MAX = 4_000
"""Idle connections kept for their receivers' next events, 43 KB each, beside those in use: the oldest is closed for a
new one. Fewer where the process may open few files."""
_FILES_DIVISOR = 4
_KEEP_ALIVE_S = 60.0
_DNS_CACHE_S = 30
_ANSWER_START_BYTES = 512  # interim answers (1xx) included
_HEAD_END = b"\r\n\r\n"
_HEADER_BYTES_MAX = 32 * 1024
_ANSWER_BYTES_MAX = 64 * 1024
"""The bound of interim answers, head, body and framing. More is not parsed: interim answers (1xx), empty lines or
one-byte chunks without end kept the event loop busy for the whole attempt, while all other deliveries and bank orders
waited."""
_STATUS = re.compile(rb"(?:\A|\r\n\r\n)HTTP/1\.[01] ([1-5][0-9]{2})[ \r]")


class BlockedAddress(OSError):
    """A webhook may not go to this address."""


class BrokenAnswer(aiohttp.ClientError):
    """The receiver answered with this status, and then with something that is not HTTP."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class _Remembering(AskedConnection):
    """The client's end of a connection, which keeps how the answer began: its status counts (contract section 9: only
    2xx is success) even when the parser then refuses a body where none may be, or bytes behind the body's end."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.began = b""
        self.ended = 0
        self._end_part = b""
        self._bytes_left = _ANSWER_BYTES_MAX
        self.asked = False
        self.idle_connections: dict[ResponseHandler, None] | None = None
        """The connector's idle connections, this one among them; it leaves them when it is lost."""

    def connection_lost(self, exc: BaseException | None) -> None:
        if self.idle_connections is not None:
            self.idle_connections.pop(self, None)
        super().connection_lost(exc)

    def set_response_params(self, **given: Any) -> None:
        self.began, self.ended, self._end_part = b"", 0, b""
        self._bytes_left = _ANSWER_BYTES_MAX
        self.asked = True
        super().set_response_params(**given)

    def take(self, data: bytes) -> None:
        bytes_left, self._bytes_left = self._bytes_left, self._bytes_left - len(data)
        if self._bytes_left >= 0:
            self._record_and_take(data)
            return
        self._record_and_take(data[:bytes_left])
        if self.transport is not None:
            self.set_exception(aiohttp.ClientPayloadError("the answer is too long"))
            self.transport.abort()

    def _record_and_take(self, data: bytes) -> None:
        if len(self.began) < _ANSWER_START_BYTES:
            self.began += data[: _ANSWER_START_BYTES - len(self.began)]
        seen = self._end_part + data
        self.ended += seen.count(_HEAD_END)
        self._end_part = seen[1 - len(_HEAD_END) :]
        super().take(data)


class _Response(aiohttp.ClientResponse):
    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        try:
            return await super().start(connection)
        except aiohttp.ClientError as error:
            head = connection.protocol
            statuses = [int(found[1]) for found in _STATUS.finditer(head.began)]
            # The status of a head that is complete.
            status = next((each for each in statuses[: head.ended] if each >= 200), None)
            if status is None:
                raise
            raise BrokenAnswer(status) from error


class _Connector(AskedConnector):
    """Notes whether the connection is a kept one. aiohttp's tracing could tell, but takes a tenth of a request's time:
    it makes an object for everything it might be asked about.

    Bounds the idle connections that are kept: aiohttp bounds only those in use."""

    def __init__(self, **named: Any) -> None:
        super().__init__(protocol=_Remembering, **named)
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._kept_max = _KEPT_MAX if files < 0 else min(_KEPT_MAX, files // _FILES_DIVISOR)
        self._idle_connections: dict[ResponseHandler, None] = {}  # the oldest first

    async def connect(self, *given: Any, **named: Any) -> Any:
        _was_kept.set(False)
        connection = await super().connect(*given, **named)
        protocol = connection.protocol
        self._idle_connections.pop(protocol, None)
        _was_kept.set(isinstance(protocol, _Remembering) and protocol.asked)
        return connection

    def _release(self, key: Any, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        super()._release(key, protocol, should_close=should_close)
        if isinstance(protocol, _Remembering) and protocol.is_connected():
            self._idle_connections[protocol] = None
            protocol.idle_connections = self._idle_connections
        while len(self._idle_connections) > self._kept_max:
            oldest = next(iter(self._idle_connections))
            del self._idle_connections[oldest]
            oldest.close()


_was_kept: ContextVar[bool] = ContextVar("webhook_connection_kept", default=False)


def connection_was_kept() -> bool:
    """Whether this task's latest request went over a connection that had been used before."""
    return _was_kept.get()


class GuardedResolver(AbstractResolver):
    """Resolves by c-ares: threads for lookups run out, and forty dead zones would delay every delivery by seconds."""

    def __init__(self, *, allow_private: bool, nameservers: Sequence[str] = ()) -> None:
        self._allow_private = allow_private
        self._ares = AsyncResolver(nameservers=list(nameservers) or None, timeout=_RESOLVE_S, tries=1)
        self._lookups = asyncio.Semaphore(_LOOKUPS_MAX)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        async with self._lookups:
            try:
                async with asyncio.timeout(_RESOLVE_S):
                    answers = await self._ares.resolve(host, port, family)
            except TimeoutError:
                raise OSError("no answer from DNS") from None
        return answers if self._allow_private else checked(answers)

    async def close(self) -> None:
        await self._ares.close()


def checked(answers: list[ResolveResult]) -> list[ResolveResult]:
    """The answers, if there are some and all are public; raises BlockedAddress or OSError."""
    if not answers:
        raise OSError("DNS knows no address")
    for answer in answers:
        if not is_public(answer["host"]):
            raise BlockedAddress("the name resolves to an address that is not public")
    return answers


@asynccontextmanager
async def guarded_session(
    *, allow_private: bool, nameservers: Sequence[str] = (), attempt_s: float = ATTEMPT_S
) -> AsyncIterator[aiohttp.ClientSession]:
    """A session for webhooks. `allow_private` is for local work only; without `nameservers` the system's are asked."""

    def open_socket(addr_info: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, address = addr_info
        if not allow_private and not is_public(str(address[0])):
            raise BlockedAddress("the address is not public")
        opened = socket.socket(family, kind, protocol)
        opened.setblocking(False)
        return opened

    resolver = GuardedResolver(allow_private=allow_private, nameservers=nameservers)
    connector = _Connector(
        resolver=resolver,
        socket_factory=open_socket,
        ssl=_tls_context(),
        ttl_dns_cache=_DNS_CACHE_S,
        limit=_SOCKETS_MAX,
        keepalive_timeout=_KEEP_ALIVE_S,
        happy_eyeballs_delay=None,
        timeout_ceil_threshold=60,  # else the ten seconds are rounded up to whole seconds of the loop's clock
    )
    session = aiohttp.ClientSession(
        connector=connector,
        response_class=_Response,
        max_line_size=_HEADER_BYTES_MAX,
        max_field_size=_HEADER_BYTES_MAX,
        timeout=aiohttp.ClientTimeout(total=attempt_s, sock_connect=CONNECT_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,  # a few compressed bytes may mean gigabytes
        trust_env=False,
        headers={"Accept": "*/*", "Accept-Encoding": "identity"},
    )
    try:
        yield session
    finally:
        await session.close()
        await resolver.close()


def _tls_context() -> ssl.SSLContext:
    """Certificates are verified for the name in the URL, against the system's roots (or SSL_CERT_FILE)."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
