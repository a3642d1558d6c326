"""A request and its answer on an HTTP/1.1 connection: uvicorn's, which can also be read and answered in one step.

ASGI hands bodies and answers over in messages. Where all of the body is here already, and all of the answer is at hand,
`body_here` and `answer_whole` do the same without messages: the answer is one write, and its headers are not looked
at one by one. Whoever wraps `receive` or `send` hides them with it, so nothing is passed over.
"""

from typing import Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

_CLOSE: Final = b"connection: close\r\n"
_Headers = list[tuple[bytes, bytes]]


class HttpCycle(RequestResponseCycle):
    def body_here(self) -> bytes | None:
        """The whole body, if nothing of it is still to come; None when it is to be received."""
        if self.more_body or self.disconnected or self.waiting_for_100_continue:
            return None
        if self.flow.read_paused:
            self.flow.resume_reading()
        body, self.body = bytes(self.body), bytearray()
        self.message_event.clear()  # what is received next is that the client has gone
        return body

    async def answer_whole(self, status: int, headers: _Headers, body: bytes) -> None:
        """Status, headers (content-length among them) and body of an answer that has one: to no HEAD, no 204 or 304."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        head = b"".join([b"%b: %b\r\n" % header for header in (*self.default_headers, *headers)])
        if self.response_started or head.count(b"\n") > len(headers) + len(self.default_headers):
            raise RuntimeError("a request is answered once, and a header has no line break")
        self.response_started = self.response_complete = True
        self.message_event.set()
        close = b"" if self.keep_alive else _CLOSE
        self.transport.write(b"".join((STATUS_LINE[status], head, close, b"\r\n", body)))
        if not self.keep_alive:
            self.transport.close()
        self.on_response()
