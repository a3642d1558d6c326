"""A request that is read, and answered, in one step (cli/run/http_cycle.py)."""

import asyncio
import logging
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import FlowControl

from cli.run.http_cycle import HttpCycle


class Written(asyncio.Transport):
    """Where answers go: what was written, write by write."""

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


def begun(transport: Written, *, keep_alive: bool = True, expect_100_continue: bool = False) -> HttpCycle:
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
    transport = Written()
    cycle = begun(transport)
    await cycle.send_answer(201, [(b"content-length", b"2"), (b"x-request-id", b"req_1")], b"{}")
    head = ["HTTP/1.1 201 Created", "date: Tue, 24 Nov 2026 07:00:00 GMT", "content-length: 2", "x-request-id: req_1"]
    assert transport.writes == ["\r\n".join([*head, "", "{}"]).encode()]
    assert cycle.response_complete
    assert not transport.closed


async def test_the_last_answer_of_a_connection_says_so() -> None:
    transport = Written()
    await begun(transport, keep_alive=False).send_answer(200, [(b"content-length", b"0")], b"")
    assert transport.writes[0].endswith(b"\r\nconnection: close\r\n\r\n")
    assert transport.closed


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b", b"a\nb"])
async def test_no_value_begins_another_header(value: bytes) -> None:
    transport = Written()
    with pytest.raises(RuntimeError):
        await begun(transport).send_answer(200, [(b"location", value)], b"")
    assert transport.writes == []


async def test_a_request_is_answered_once() -> None:
    transport = Written()
    cycle = begun(transport)
    await cycle.send_answer(200, [], b"")
    with pytest.raises(RuntimeError):
        await cycle.send_answer(200, [], b"")
    assert len(transport.writes) == 1


async def test_who_has_gone_is_answered_nothing() -> None:
    transport = Written()
    cycle = begun(transport)
    cycle.disconnected = True
    await cycle.send_answer(200, [], b"")
    assert transport.writes == []


async def test_a_body_is_taken_once_it_is_whole() -> None:
    cycle = begun(Written())
    cycle.body += b"{"
    assert cycle.received_body() is None
    cycle.body += b"}"
    cycle.more_body = False
    cycle.flow.pause_reading()
    assert cycle.received_body() == b"{}"
    assert not cycle.flow.read_paused, "or the client would not be heard leaving"
    cycle.disconnected = True
    cycle.message_event.set()
    assert (await cycle.receive())["type"] == "http.disconnect"


async def test_who_waits_to_be_told_to_go_on_is_told() -> None:
    transport = Written()
    cycle = begun(transport, expect_100_continue=True)
    cycle.more_body = False
    assert cycle.received_body() is None
    cycle.message_event.set()
    assert (await cycle.receive())["type"] == "http.request"
    assert transport.writes == [b"HTTP/1.1 100 Continue\r\n\r\n"]
