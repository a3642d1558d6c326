"""`quita listen` against a receiver on a real socket: live, signed, and unaffected by restarts of the receiver."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest_asyncio

from domain.webhooks.signature import sign
from runtime.local.ports import free_port
from tests.support.merchant import ApiMerchant, new_merchant
from tests.support.system import ROOT, System

LINE_S_MAX = 30.0
SHOWN = {"sequence", "type", "event_id", "attempt", "status", "error", "answer", "ms", "again"}


class Received(NamedTuple):
    headers: Mapping[str, str]
    body: bytes


class Receiver(ThreadingHTTPServer):
    """A merchant's program. Opening another Receiver at the same port plays a restart of the program."""

    def __init__(self, port: int = 0, *, status: int = 200, answer: bytes = b"", delay_s: float = 0.0) -> None:
        super().__init__(("127.0.0.1", port), _Post)
        self.status, self.answer, self.delay_s = status, answer, delay_s
        self.received: list[Received] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hooks"


class _Post(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append(Received(dict(self.headers), body))
        time.sleep(self.server.delay_s)
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(self.server.answer)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def receiving(port: int = 0, **more: Any) -> Iterator[Receiver]:
    with Receiver(port, **more) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class Listening:
    """A running `quita listen`, with its output line by line."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def line(self) -> str:
        return self._lines.get(timeout=LINE_S_MAX)

    def json(self) -> Any:
        return json.loads(self.line())

    def silent(self) -> bool:
        return self._lines.empty()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)


@contextmanager
def listening(system: System, merchant: ApiMerchant, url: str, *more: str, people: bool = False) -> Iterator[Listening]:
    """Starts `quita listen` for the merchant's test mode."""
    credential = merchant.record.test
    words = [url, "--client-id", credential.client_id, "--client-secret", credential.client_secret, *more]
    command = [sys.executable, "-m", "cli.main", "listen", *words, *(() if people else ("--json",))]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=system.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # As at a terminal: what a shell starts in the background ignores Ctrl-C, and child processes inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            yield Listening(process)
        finally:
            process.kill()


@pytest_asyncio.fixture(loop_scope="session")
async def merchant(system: System) -> Any:
    async with new_merchant(system) as made:
        yield made


async def test_each_answer_is_shown_with_its_status_its_text_and_its_duration(
    system: System, merchant: ApiMerchant
) -> None:
    with (
        receiving(delay_s=0.25, answer="já anotado".encode()) as receiver,
        listening(system, merchant, receiver.url) as run,
    ):
        begun = run.json()
        assert begun["secret"].startswith("whsec_")
        await merchant.sandbox.paid()
        shown = run.json()
        assert set(shown) == SHOWN
        assert (shown["status"], shown["error"], shown["answer"]) == (200, None, "já anotado")
        assert (shown["attempt"], shown["again"], shown["type"]) == (1, False, "payment.received")
        assert 250 <= shown["ms"] < 30_000
        (one,) = receiver.received
        signature = sign(begun["secret"], int(one.headers["X-Service-Timestamp"]), one.body)
        assert one.headers["X-Service-Signature"] == f"sha256={signature}"


async def test_a_restart_of_the_receiver_loses_nothing_and_keeps_the_order(
    system: System, merchant: ApiMerchant
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/hooks"
    with listening(system, merchant, url) as run:
        secret = run.json()["secret"]
        with receiving(port) as before:
            await merchant.sandbox.paid()
            assert run.json()["status"] == 200
        charges = [(await merchant.sandbox.paid())["charge_id"] for _ in range(3)]
        away = run.json()
        assert (away["status"], bool(away["error"]), away["again"]) == (None, True, True)
        assert run.silent()
        with receiving(port) as after:
            back = [run.json() for _ in charges]
        assert [each["status"] for each in back] == [200] * 3
        assert len(before.received) == 1
        assert [json.loads(each.body)["charge_id"] for each in after.received] == charges
        assert (away["event_id"], back[0]["again"]) == (back[0]["event_id"], False)
        first = after.received[0].headers
        assert int(first["X-Service-Attempt"]) == back[0]["attempt"] > 1
        assert len({each.headers["X-Service-Delivery-Id"] for each in after.received}) == 3
        assert first["X-Service-Signature"] == "sha256=" + sign(
            secret, int(first["X-Service-Timestamp"]), after.received[0].body
        )


async def test_an_answer_other_than_2xx_is_shown_and_the_event_is_not_sent_again(
    system: System, merchant: ApiMerchant
) -> None:
    with receiving(status=500, answer=b"KeyError: 'invoice'\n") as receiver:
        with listening(system, merchant, receiver.url, people=True) as run:
            first = run.line()
            assert first.startswith("payment.received, charge.cancelled after number ")
            assert f" go to {receiver.url} " in first
            assert "--type KIND" in first
            assert run.line().startswith("secret: whsec_")
            await merchant.sandbox.paid()
            assert "  500  " in run.line()
            assert run.line().strip() == "KeyError: 'invoice'"
            receiver.status = 204
            receiver.answer = b""
            await merchant.sandbox.paid()
            assert "  204  " in run.line()
            assert run.silent()
        assert len(receiver.received) == 2


async def test_earlier_events_can_be_replayed(system: System, merchant: ApiMerchant) -> None:
    charges = [(await merchant.sandbox.paid())["charge_id"] for _ in range(3)]
    with receiving() as receiver:
        with listening(system, merchant, receiver.url, "--after-sequence", "1", "--once", "2") as run:
            assert run.json()["after_sequence"] == 1
            assert [run.json()["sequence"] for _ in range(2)] == [2, 3]
            assert run.process.wait(30) == 0
        assert [json.loads(each.body)["charge_id"] for each in receiver.received] == charges[1:]


async def test_ctrl_c_ends_listen_quietly_also_while_it_waits_for_a_receiver(
    system: System, merchant: ApiMerchant
) -> None:
    with listening(system, merchant, f"http://127.0.0.1:{free_port()}/") as run:
        run.line()
        await merchant.sandbox.paid()
        assert run.json()["again"]
        os.kill(run.process.pid, signal.SIGINT)
        assert run.process.wait(30) == 130
        assert run.process.stderr is not None
        assert run.process.stderr.read() == ""
