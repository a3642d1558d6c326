"""One attempt: POST the bytes, read the first KiB of the answer, and name the outcome.

Nothing that a receiver does raises an exception, or takes longer than the session's timeout.
"""

import asyncio
import ssl
from typing import NamedTuple

import aiohttp

from workers.webhooks.guarded_connection import BlockedAddress, BrokenAnswer, connection_was_kept

_READ_BYTES_MAX = 16 * 1024
_KEPT_BYTES_MAX = 1024
_READ_S = 2.0
_STALE_S = 1.0


class ReceiverAnswer(NamedTuple):
    """The answer of a receiver. `outcome` is one of webhook_attempt's words; without an answer `status` is None."""

    outcome: str
    status: int | None = None
    kept: bytes | None = None
    retry_after: str | None = None


async def post(http: aiohttp.ClientSession, url: str, body: bytes, headers: dict[str, str]) -> ReceiverAnswer:
    """One attempt, ten seconds at most (the session's timeout). Nothing that a receiver does raises an exception."""
    clock = asyncio.get_running_loop().time
    began_at = clock()
    try:
        try:
            return await _request(http, url, body, headers)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            # The receiver had closed a kept connection, which is no failure of the receiver: one more request.
            if not connection_was_kept() or clock() - began_at > _STALE_S:
                raise
            return await _request(http, url, body, headers)
    except BrokenAnswer as broken:
        return ReceiverAnswer(_status_outcome(broken.status), broken.status)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return ReceiverAnswer(_error_outcome(error))


async def _request(http: aiohttp.ClientSession, url: str, body: bytes, headers: dict[str, str]) -> ReceiverAnswer:
    response = await http.post(url, data=body, headers=headers, allow_redirects=False)
    # The status decides the outcome, whatever the body is and however long it takes.
    try:
        kept = await _read_start(response)
    finally:
        # A connection with something left to read is dropped, not drained.
        if response.content.at_eof():
            response.release()
        else:
            response.close()
    return ReceiverAnswer(
        _status_outcome(response.status),
        response.status,
        kept,
        response.headers.get("Retry-After"),
    )


def _status_outcome(status: int) -> str:
    return "delivered" if 200 <= status <= 299 else "rejected"


async def _read_start(response: aiohttp.ClientResponse) -> bytes:
    """The first KiB of the answer, without NUL and as valid UTF-8, for the merchant to look at."""
    content, kept = response.content, bytearray()
    read_bytes = 0
    try:
        if content.is_eof():  # the body came with the head, as nearly always
            kept += content.read_nowait(_READ_BYTES_MAX)[:_KEPT_BYTES_MAX]
        else:
            async with asyncio.timeout(_READ_S):
                while read_bytes < _READ_BYTES_MAX and not content.at_eof():
                    chunk = await content.read(_READ_BYTES_MAX - read_bytes)
                    read_bytes += len(chunk)
                    kept += chunk[: _KEPT_BYTES_MAX - len(kept)]
    except (aiohttp.ClientError, OSError, ValueError):
        pass
    return bytes(kept).replace(b"\0", b"").decode("utf-8", "replace").encode()[:_KEPT_BYTES_MAX]


def _error_outcome(error: BaseException) -> str:
    """The fault, in words that a merchant can act on."""
    causes: list[BaseException] = [error]
    while len(causes) < 5 and (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    for kinds, outcome in _ERROR_OUTCOMES:
        if any(isinstance(cause, kinds) for cause in causes):
            return outcome
    return "network_error"


_ERROR_OUTCOMES: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str], ...] = (
    (BlockedAddress, "blocked_address"),  # before the kinds of connection error that wrap it
    (aiohttp.ClientConnectorDNSError, "dns_error"),
    ((aiohttp.ClientSSLError, ssl.SSLError), "tls_error"),
    (TimeoutError, "timeout"),
    (ConnectionRefusedError, "connection_refused"),
    ((ConnectionError, aiohttp.ServerDisconnectedError), "connection_reset"),
)
