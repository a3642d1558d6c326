"""A merchant's server that keeps the headers of the last webhook of each account."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.system import until


class WebhookHeaders:
    def __init__(self) -> None:
        self.url = ""
        self.headers: dict[str, dict[str, str]] = {}

    def found_headers_of(self, account_id: str) -> dict[str, str] | None:
        """The headers of the account's last webhook by their names in lower case, or None."""
        return self.headers.get(account_id)

    def headers_of(self, account_id: str) -> dict[str, str]:
        until(lambda: account_id in self.headers, what="a webhook")
        return self.headers[account_id]


@contextmanager
def header_receiver() -> Iterator[WebhookHeaders]:
    heard = WebhookHeaders()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            heard.headers[body["account_id"]] = {name.lower(): value for name, value in self.headers.items()}
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        heard.url = f"http://127.0.0.1:{server.server_port}/"
        yield heard
        server.shutdown()
