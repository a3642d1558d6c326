"""Both `listen` commands when the API or the receiver misbehaves; the test plays both."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from domain.webhooks.signature import secret_text
from runtime.ids import new_id

ROOT = Path(__file__).parents[3]
SECRET = secret_text(bytes([7]) * 32)
ENDS_S_MAX = 60.0
COMMANDS = {
    "quita listen": (["-m", "cli.main", "listen"], ["--client-id", "id", "--client-secret", "secret"]),
    "quita-cli listen": (["-m", "quita_cli", "listen"], []),
}


class Server(ThreadingHTTPServer):
    """Plays the API, which issues tokens by `token` and lists `events`, and the receiver, answering by `receive`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.tokens = 0
        self.token: Callable[[int], tuple[int, dict[str, Any]]] = lambda n: (200, {"access_token": f"token-{n}"})
        self.accepted = "token-1"
        self.events = [_event(1)]
        self.paths: list[str] = []
        self.receive: Callable[[BaseHTTPRequestHandler], None] = _accept

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


def _event(sequence: int) -> dict[str, Any]:
    event_id, charge_id = str(new_id()), str(new_id())
    return {"event": "payment.received", "type": "payment.received", "event_id": event_id, "charge_id": charge_id,
            "sequence": sequence, "created_at": "2026-11-26T09:00:00.000Z"}  # fmt: skip


def _accept(request: BaseHTTPRequestHandler) -> None:
    request.send_response(204)
    request.end_headers()


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/v1/oauth/token":
            self.server.tokens += 1
            self._answer(*self.server.token(self.server.tokens))
        else:
            self.server.paths.append(self.path)
            self.server.receive(self)

    def do_GET(self) -> None:
        if self.headers["Authorization"] != f"Bearer {self.server.accepted}":
            told = {"code": "TOKEN_INVALID", "message": "The token is not valid.", "documentation_url": "x"}
            self._answer(401, {"error": told})
            return
        after = parse_qs(urlsplit(self.path).query).get("after_sequence")
        events = self.server.events if after is None else self.server.events[int(after[0]) :]
        self._answer(200, {"data": events, "next_cursor": None})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        encoded = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.shutdown()
        made.server_close()
        thread.join()


@contextmanager
def listening(command: str, server: Server, url: str, *more: str) -> Iterator["subprocess.Popen[str]"]:
    words, credential = COMMANDS[command]
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "docs" / "cli")]),
        "BASE_URL": server.url, "QUITA_URL": server.url, "QUITA_CLIENT_ID": "id", "QUITA_CLIENT_SECRET": "secret",
        "QUITA_WEBHOOK_SECRET": SECRET,
    }  # fmt: skip
    with subprocess.Popen(
        [sys.executable, *words, url, *credential, "--json", "--after-sequence", "0", *more],
        cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def _until(true: Callable[[], bool]) -> None:
    ends = time.monotonic() + ENDS_S_MAX
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.02)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("status", [429, 503])
def test_listen_waits_while_the_api_issues_no_token(command: str, status: int, server: Server) -> None:
    with listening(command, server, f"{server.url}/hook", "--once", "2") as process:
        _until(lambda: len(server.paths) == 1)
        away = {"error": {"code": "SERVICE_UNAVAILABLE", "message": "Try again.", "documentation_url": "x"}}
        server.token = lambda n: (200, {"access_token": "token-3"}) if n >= 3 else (status, away)
        server.accepted = "token-3"  # The token that the command holds has expired.
        server.events.append(_event(2))
        assert process.wait(ENDS_S_MAX) == 0, process.communicate()
    assert server.paths == ["/hook", "/hook"]
    assert server.tokens == 3


@pytest.mark.parametrize("command", COMMANDS)
def test_an_endless_answer_does_not_hold_back_the_next_event(command: str, server: Server) -> None:
    server.events.append(_event(2))
    over = threading.Event()

    def stream(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Type", "text/event-stream")
        request.end_headers()
        while not over.wait(0.5):  # At this rate a KiB takes minutes.
            request.wfile.write(b":")
            request.wfile.flush()

    server.receive = stream
    try:
        with listening(command, server, f"{server.url}/hook", "--once", "2") as process:
            assert process.wait(ENDS_S_MAX) == 0, process.communicate()
            assert process.stdout is not None
            _, *items = [json.loads(line) for line in process.stdout]
    finally:
        over.set()
    assert [(each["sequence"], each["status"]) for each in items] == [(1, 200), (2, 200)]
    assert items[0]["answer"].startswith(":")


@pytest.mark.parametrize("command", COMMANDS)
def test_an_address_may_have_letters_outside_ascii(command: str, server: Server) -> None:
    with listening(command, server, f"{server.url}/notificação%20nova?loja=ação", "--once", "1") as process:
        assert process.wait(ENDS_S_MAX) == 0, process.communicate()
    assert server.paths == ["/notifica%C3%A7%C3%A3o%20nova?loja=a%C3%A7%C3%A3o"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("url", ["http://loja..example/", f"http://{'a' * 70}.example/"])
def test_an_invalid_host_name_is_reported_without_a_traceback(command: str, url: str, server: Server) -> None:
    with listening(command, server, url, "--once", "1") as process:
        out, err = process.communicate(timeout=ENDS_S_MAX)
    assert process.returncode == 1
    assert "Traceback" not in err
    assert len((out + err).splitlines()) <= 2


@pytest.mark.parametrize("command", COMMANDS)
def test_an_ipv6_address_needs_no_port(command: str, server: Server) -> None:
    with listening(command, server, "http://[::1]/", "--once", "1") as process:
        out, _ = process.communicate(timeout=ENDS_S_MAX)
    item = json.loads(out.splitlines()[1])
    assert "not known" not in (item["error"] or ""), "the address was looked up as a host name"
