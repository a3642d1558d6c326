"""Webhook deliveries as the service sends them: signed and POSTed, with the receiver's answer."""

import hashlib
import hmac
import http.client
import time
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from .api import address, connection_to, short

ANSWER_S_MAX = 10.0
"""How long the service waits for a receiver's answer."""
_ANSWER_BYTES_MAX = 1024
_ANSWER_READ_S_MAX = 2.0
"""How long the service reads an answer's body."""


class DeliveryAnswer(NamedTuple):
    """A receiver's answer. Without one, `status` is None and `error` is the reason; `absent` if the connection was
    refused or broke (not for a timeout)."""

    status: int | None
    error: str
    answer: str
    took_s: float
    absent: bool = False

    @property
    def taken(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """The X-Service-Signature of `<timestamp>.<raw body>`. The key is the secret's text as shown, whsec_ included."""
    return "sha256=" + hmac.new(secret.encode(), b"%d.%b" % (timestamp, body), hashlib.sha256).hexdigest()


def headers_of(
    *, kind: str, event_id: str, delivery_id: str, attempt: int, timestamp: int, body: bytes, secret: str
) -> dict[str, str]:
    key = b64decode(secret.removeprefix("whsec_"))
    standard = hmac.new(key, b"%b.%d.%b" % (event_id.encode(), timestamp, body), hashlib.sha256).digest()
    return {
        "Content-Type": "application/json",
        "User-Agent": "Quita-Webhooks/1.0",
        "X-Service-Event": kind,
        "X-Service-Timestamp": str(timestamp),
        "X-Service-Signature": signature(secret, timestamp, body),
        "X-Service-Delivery-Id": delivery_id,
        "X-Service-Attempt": str(attempt),
        "webhook-id": event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": "v1," + b64encode(standard).decode(),
    }


def post(url: str, body: bytes, headers: dict[str, str], *, pieces: int = 1, pause_s: float = 0.0) -> DeliveryAnswer:
    """Sends one delivery; with more than one piece slowly, like a bad connection. Redirects are not followed."""
    parts = address(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection = connection_to(url, ANSWER_S_MAX)
    began = time.monotonic()
    try:
        sent: bytes | Iterable[bytes] = body if pieces == 1 else _in_pieces(body, pieces, pause_s)
        connection.request("POST", path, sent, headers | {"Content-Length": str(len(body))})
        answer = connection.getresponse()
        took_s = time.monotonic() - began
        return DeliveryAnswer(answer.status, "", _read_beginning(answer).decode("utf-8", "replace"), took_s)
    except (OSError, http.client.HTTPException) as error:
        absent = isinstance(error, OSError) and not isinstance(error, TimeoutError)
        return DeliveryAnswer(None, short(error), "", time.monotonic() - began, absent)
    finally:
        connection.close()


def _read_beginning(answer: http.client.HTTPResponse) -> bytes:
    """The beginning of the answer's body. Reading stops after _ANSWER_READ_S_MAX, because an event stream never ends;
    errors are ignored, because the status alone decides."""
    kept, until = b"", time.monotonic() + _ANSWER_READ_S_MAX
    with suppress(OSError, http.client.HTTPException):
        while (
            len(kept) < _ANSWER_BYTES_MAX
            and time.monotonic() < until
            and (part := answer.read1(_ANSWER_BYTES_MAX - len(kept)))
        ):
            kept += part
    return kept


def _in_pieces(body: bytes, pieces: int, pause_s: float) -> Iterator[bytes]:
    size = -(-len(body) // pieces)
    for begin in range(0, len(body), size):
        if begin:
            time.sleep(pause_s)
        yield body[begin : begin + size]
