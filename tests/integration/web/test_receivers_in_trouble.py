"""The downloadable receivers on a full disk, and with an API that cuts its answers off: what was answered 2xx is stored
whole, and what was stored is credited."""

import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from domain.webhooks.signature import delivery_headers, secret_text
from runtime.local.ports import free_port
from tests.support.system import until

KIT = Path(__file__).resolve().parents[3] / "docs" / "receiver"
SECRET = secret_text(bytes([1]) * 32)
FILE_BYTES_MAX = 100


@contextmanager
def running(words: list[str], url: str, **env: str) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(
        words, env={"PATH": os.environ["PATH"], "WEBHOOK_SECRETS": SECRET, **env},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        # A write beyond the limit fails, as on a full disk, and does not end the process.
        preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )  # fmt: skip
    try:
        until(lambda: _answers(url), within_s=60)
        yield process
    finally:
        process.kill()
        process.wait(30)


def _answers(url: str) -> bool:
    try:
        return httpx.post(url, content=b"{}", timeout=10).status_code == 401
    except httpx.HTTPError:
        return False


def post_event(url: str, event: Mapping[str, Any]) -> int:
    body = json.dumps(event).encode()
    headers = delivery_headers(
        event="payment.received", event_id=event["event_id"], delivery_id=uuid4(), attempt=1,
        timestamp=int(time.time()), body=body, secret=SECRET,
    )  # fmt: skip
    return httpx.post(url, content=body, headers=headers, timeout=30).status_code


@pytest.mark.parametrize("name", ["receiver.mjs", "receiver.php"])
def test_an_event_that_does_not_fit_on_the_disk_is_answered_500_and_later_stored_whole(
    name: str, tmp_path: Path
) -> None:
    runtime = shutil.which("node" if name.endswith(".mjs") else "php")
    if runtime is None:
        pytest.skip(f"what runs {name} is not installed here")
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    words = (
        [runtime, str(KIT / name)] if name.endswith(".mjs") else [runtime, "-S", f"127.0.0.1:{port}", str(KIT / name)]
    )
    event = {"event_id": str(uuid4()), "event": "payment.received", "note": "x" * 3 * FILE_BYTES_MAX}
    with running(words, url, PORT=str(port), FOLDER=str(tmp_path)) as process:
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, hard))
        assert post_event(url, event) == 500
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        assert [post_event(url, event) for _ in range(2)] == [204, 204]
    (stored,) = tmp_path.iterdir()
    assert stored.name == f"{event['event_id']}.json"
    assert json.loads(stored.read_bytes()) == event


class BreakingOff(ThreadingHTTPServer):
    """An API with two paid charges. The first answer at each path is cut off within its body."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Get)
        self.asked: Counter[str] = Counter()
        self.charges = [str(uuid4()) for _ in range(2)]

    def event(self, at: int) -> dict[str, Any]:
        return {"event_id": str(uuid4()), "event": "payment.received", "test": False, "charge_id": self.charges[at]}

    def body(self, path: str) -> dict[str, Any]:
        if path == "/v1/oauth/token":
            return {"access_token": "token"}
        if path.startswith("/v1/events"):
            told = path.endswith("after_sequence=0")
            return {"data": [self.event(1) | {"sequence": 1}] if told else [], "next_cursor": None}
        charge_id = path.rpartition("/")[2]
        paid = {"status": "paid", "payment": {"amount": "10.00"}}
        return {"charge_id": charge_id, "external_id": f"order-{self.charges.index(charge_id)}", **paid}


class _Get(BaseHTTPRequestHandler):
    server: BreakingOff

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        body = json.dumps(self.server.body(self.path)).encode()
        self.server.asked[self.path] += 1
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if self.server.asked[self.path] > 1 else body[:5])

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_an_answer_of_the_api_that_is_cut_off_is_requested_again(tmp_path: Path) -> None:
    database = tmp_path / "receiver.sqlite3"

    def run_sql(statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(database, timeout=30)) as db, db:
            return db.execute(statement, values).fetchall()

    with BreakingOff() as api:
        threading.Thread(target=api.serve_forever, args=(0.02,), daemon=True).start()
        port = free_port()
        url = f"http://127.0.0.1:{port}/"
        env = {
            "QUITA_URL": f"http://127.0.0.1:{api.server_port}", "CLIENT_ID": "x", "CLIENT_SECRET": "x",
            "PORT": str(port), "DATABASE": str(database), "POLL_S": "0.2",
        }  # fmt: skip
        with running([sys.executable, str(KIT / "receiver.py")], url, **env):
            for at in range(2):
                run_sql("INSERT INTO invoice (number, amount_cents) VALUES (?, 1000)", f"order-{at}")
            assert post_event(url, api.event(0)) == 204
            # One payment came by webhook, one from the feed.
            paid = "SELECT count(*) FROM invoice WHERE paid_cents = 1000"
            until(lambda: run_sql(paid) == [(2,)], within_s=60)
        api.shutdown()
