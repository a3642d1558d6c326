"""Uvicorn's request/response cycle, with a shortcut to read the body and to answer in one step.

ASGI passes bodies and answers in messages. When the whole body has arrived, or the whole answer is at hand,
`received_body` and `send_answer` do the same without messages: the answer is one write, and its headers are not
examined one by one. Middleware that wraps `receive` or `send` hides the shortcut with it, so no middleware is bypassed.
"""

from typing import Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

_CLOSE_HEADER: Final = b"connection: close\r\n"
_Headers = list[tuple[bytes, bytes]]


class HttpCycle(RequestResponseCycle):
    def received_body(self) -> bytes | None:
        """The whole body if it has arrived; else None, and the body must be received by messages."""
        if self.more_body or self.disconnected or self.waiting_for_100_continue:
            return None
        if self.flow.read_paused:
            self.flow.resume_reading()
        body, self.body = bytes(self.body), bytearray()
        self.message_event.clear()  # the next message to receive is the disconnect
        return body

    async def send_answer(self, status: int, headers: _Headers, body: bytes) -> None:
        """Sends status, headers (with content-length) and body. Not for answers without a body: HEAD, 204, 304."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        head = b"".join([b"%b: %b\r\n" % header for header in (*self.default_headers, *headers)])
        if self.response_started or head.count(b"\n") > len(headers) + len(self.default_headers):
            raise RuntimeError("a request is answered once, and a header has no line break")
        self.response_started = self.response_complete = True
        self.message_event.set()
        close = b"" if self.keep_alive else _CLOSE_HEADER
        self.transport.write(b"".join((STATUS_LINE[status], head, close, b"\r\n", body)))
        if not self.keep_alive:
            self.transport.close()
        self.on_response()
