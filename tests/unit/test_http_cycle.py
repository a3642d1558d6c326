"""A request whose body is read, and whose answer is written, in one step each (cli/run/http_cycle.py)."""

import asyncio
import logging
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import FlowControl

from cli.run.http_cycle import HttpCycle


class RecordingTransport(asyncio.Transport):
    """Records each write of an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = self.paused = False

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


def new_cycle(
    transport: RecordingTransport, *, keep_alive: bool = True, expect_100_continue: bool = False
) -> HttpCycle:
    log = logging.getLogger("test")
    return HttpCycle(
        scope={"type": "http", "method": "POST"},  # type: ignore[typeddict-item]
        transport=transport,
        flow=FlowControl(transport),
        logger=log,
        access_logger=log,
        access_log=False,
        default_headers=[(b"date", b"Tue, 24 Nov 2026 07:00:00 GMT")],
        message_event=asyncio.Event(),
        expect_100_continue=expect_100_continue,
        keep_alive=keep_alive,
        on_response=lambda: None,
    )


async def test_an_answer_is_one_write() -> None:
    transport = RecordingTransport()
    cycle = new_cycle(transport)
    await cycle.send_answer(201, [(b"content-length", b"2"), (b"x-request-id", b"req_1")], b"{}")
    head = ["HTTP/1.1 201 Created", "date: Tue, 24 Nov 2026 07:00:00 GMT", "content-length: 2", "x-request-id: req_1"]
    assert transport.writes == ["\r\n".join([*head, "", "{}"]).encode()]
    assert cycle.response_complete
    assert not transport.closed


async def test_the_last_answer_of_a_connection_has_connection_close() -> None:
    transport = RecordingTransport()
    await new_cycle(transport, keep_alive=False).send_answer(200, [(b"content-length", b"0")], b"")
    assert transport.writes[0].endswith(b"\r\nconnection: close\r\n\r\n")
    assert transport.closed


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b", b"a\nb"])
async def test_a_line_feed_in_a_header_value_is_refused(value: bytes) -> None:
    transport = RecordingTransport()
    with pytest.raises(RuntimeError):
        await new_cycle(transport).send_answer(200, [(b"location", value)], b"")
    assert transport.writes == []


async def test_a_request_is_answered_once() -> None:
    transport = RecordingTransport()
    cycle = new_cycle(transport)
    await cycle.send_answer(200, [], b"")
    with pytest.raises(RuntimeError):
        await cycle.send_answer(200, [], b"")
    assert len(transport.writes) == 1


async def test_a_disconnected_client_is_sent_nothing() -> None:
    transport = RecordingTransport()
    cycle = new_cycle(transport)
    cycle.disconnected = True
    await cycle.send_answer(200, [], b"")
    assert transport.writes == []


async def test_a_body_is_received_only_when_it_is_complete() -> None:
    cycle = new_cycle(RecordingTransport())
    cycle.body += b"{"
    assert cycle.received_body() is None
    cycle.body += b"}"
    cycle.more_body = False
    cycle.flow.pause_reading()
    assert cycle.received_body() == b"{}"
    assert not cycle.flow.read_paused, "otherwise a disconnect of the client would not be noticed"
    cycle.disconnected = True
    cycle.message_event.set()
    assert (await cycle.receive())["type"] == "http.disconnect"


async def test_a_client_that_expects_100_continue_gets_it() -> None:
    transport = RecordingTransport()
    cycle = new_cycle(transport, expect_100_continue=True)
    cycle.more_body = False
    assert cycle.received_body() is None
    cycle.message_event.set()
    assert (await cycle.receive())["type"] == "http.request"
    assert transport.writes == [b"HTTP/1.1 100 Continue\r\n\r\n"]
