"""A receiver of webhooks for a billing system, to copy and change: Python's standard library and SQLite only.

    QUITA_URL=http://127.0.0.1:8000 CLIENT_ID=... CLIENT_SECRET=... WEBHOOK_SECRETS="whsec_..." \\
        python3 receiver.py

A delivery is verified, written into an inbox under its event_id, and answered. A second thread takes events from the
inbox, reads the charge through the API, and credits the invoice that the charge's external_id names, in one transaction
with a row that can exist only once per charge. A third thread reads the feed, so that events arrive even if no webhook
does. The program may be killed at any moment, and several copies of it may run at once.

Environment: the four variables above (WEBHOOK_SECRETS: one, or two during a rotation); optional are HOST and PORT
(127.0.0.1, 9999), DATABASE (receiver.sqlite3), POLL_S (60, seconds between reads of the feed), ACCEPT_TEST (1 credits
sandbox charges too, for trying it out).
"""

import json
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from verify import receive  # type: ignore[import-not-found]  # the file beside this one

BYTES_MAX = 64 * 1024
ANSWER_S = 10
BATCH = 100
WAIT_S_MAX = 30.0
NEEDED = ("QUITA_URL", "CLIENT_ID", "CLIENT_SECRET", "WEBHOOK_SECRETS")

SCHEMA = """
CREATE TABLE IF NOT EXISTS invoice (
    number        TEXT PRIMARY KEY,            -- what charges carry as external_id
    amount_cents  INTEGER NOT NULL,
    paid_cents    INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS inbox (
    event_id  TEXT PRIMARY KEY,                -- an event is here once, however often it comes
    body      BLOB NOT NULL,
    outcome   TEXT                             -- NULL: still to be worked on
);
CREATE INDEX IF NOT EXISTS inbox_open ON inbox (event_id) WHERE outcome IS NULL;
CREATE TABLE IF NOT EXISTS credit (
    charge_id     TEXT PRIMARY KEY,            -- a charge is credited once, whatever tells of it
    number        TEXT NOT NULL REFERENCES invoice,
    amount_cents  INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS feed (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), after_sequence INTEGER NOT NULL);
INSERT OR IGNORE INTO feed VALUES (1, 0);
"""


class Away(Exception):
    """The API cannot answer now; the same request may succeed later."""


class Books:
    """The database. Each `transaction` block takes the write lock at its beginning, so blocks run one at a time."""

    def __init__(self, path: str) -> None:
        self.path = path
        with self._open() as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.executescript(SCHEMA)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    def remember(self, event_id: str, body: bytes) -> None:
        with self.transaction() as db:
            db.execute("INSERT OR IGNORE INTO inbox (event_id, body) VALUES (?, ?)", (event_id, body))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        db = sqlite3.connect(self.path, timeout=ANSWER_S, isolation_level=None)
        try:
            yield db
        finally:
            db.close()


class Api:
    """A client of the API, with this merchant's credential."""

    def __init__(self, url: str, client_id: str, client_secret: str) -> None:
        self.url = url
        self.client = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": client_secret}
        self.token = ""

    def get(self, path: str) -> Any:
        """The JSON of an answer, or None for 404."""
        for _ in range(2):  # the token may have expired: it lives an hour
            if not self.token:
                _, body = self._ask("/v1/oauth/token", urlencode(self.client).encode())
                self.token = body["access_token"]
            status, body = self._ask(path)
            if status != 401:
                return None if status == 404 else body
            self.token = ""
        raise Away("the token is not accepted")

    def _ask(self, path: str, form: bytes | None = None) -> tuple[int, Any]:
        headers = {} if form is not None else {"Authorization": f"Bearer {self.token}"}
        try:
            with urlopen(Request(self.url + path, form, headers), timeout=ANSWER_S) as answer:  # noqa: S310
                return answer.status, json.load(answer)
        except HTTPError as error:
            if form is None and error.code in (401, 404):
                return error.code, None
            raise Away(f"{path} answered {error.code}") from error
        except (URLError, OSError, HTTPException, ValueError) as error:
            raise Away(f"{path}: {error}") from error


def settle(books: Books, api: Api, event_id: str, event: dict[str, Any], accept_test: bool) -> str:
    """Handles an event; returns the outcome. The API is asked before the transaction begins, and the event is marked as
    done in the same transaction that credits the invoice."""
    charge, outcome = confirmed(api, event, accept_test)
    with books.transaction() as db:
        still = db.execute("SELECT 1 FROM inbox WHERE event_id = ? AND outcome IS NULL", (event_id,))
        if still.fetchone() is None:
            return "done by another copy of this program"
        if charge is not None:
            outcome = credit(db, charge)
        db.execute("UPDATE inbox SET outcome = ? WHERE event_id = ?", (outcome, event_id))
        return outcome


def confirmed(api: Api, event: dict[str, Any], accept_test: bool) -> tuple[dict[str, Any] | None, str]:
    """The charge to credit, as the API has it; or None and the reason why there is nothing to do. Of the event only the
    charge_id is used, never its amount or status."""
    if event["event"] != "payment.received":
        return None, "nothing to do"
    if event["test"] and not accept_test:
        return None, "a sandbox event"
    charge = api.get(f"/v1/charges/{event['charge_id']}")
    if charge is None:
        return None, "not a charge of ours"
    if charge["status"] != "paid":
        return None, f"not paid: {charge['status']}"
    return charge, ""


def credit(db: sqlite3.Connection, charge: dict[str, Any]) -> str:
    """Credits the charge's invoice with the paid amount, unless this charge was credited before."""
    number, cents = charge["external_id"], int(charge["payment"]["amount"].replace(".", ""))  # always two decimals
    if db.execute("SELECT 1 FROM invoice WHERE number = ?", (number,)).fetchone() is None:
        return "no such invoice"
    once = db.execute("INSERT OR IGNORE INTO credit VALUES (?, ?, ?)", (charge["charge_id"], number, cents))
    if once.rowcount == 0:
        return "credited before"
    db.execute("UPDATE invoice SET paid_cents = paid_cents + ? WHERE number = ?", (cents, number))
    return "credited"


def work_inbox(books: Books, api: Api, accept_test: bool, news: threading.Event) -> None:
    """Settles the events in the inbox, without end. An event that cannot be settled now stays and is tried again."""
    wait_s = 1.0
    while True:
        news.clear()
        with books.transaction() as db:
            open_events = db.execute(
                "SELECT event_id, body FROM inbox WHERE outcome IS NULL ORDER BY event_id LIMIT ?", (BATCH,)
            ).fetchall()
        try:
            for event_id, body in open_events:
                try:
                    outcome = settle(books, api, event_id, json.loads(body), accept_test)
                except (ValueError, KeyError, TypeError) as error:
                    outcome = f"not understood: {error!r}"  # left to a person, so that it does not block other events
                    with books.transaction() as db:
                        db.execute("UPDATE inbox SET outcome = ? WHERE event_id = ?", (outcome, event_id))
                print(f"{event_id}: {outcome}", flush=True)
            wait_s = 1.0
        except (Away, sqlite3.OperationalError) as error:
            print(f"later: {error}", file=sys.stderr, flush=True)
            time.sleep(wait_s)
            wait_s = min(wait_s * 2, WAIT_S_MAX)
            continue
        if not open_events:
            news.wait(WAIT_S_MAX)


def follow_feed(books: Books, api: Api, poll_s: float, news: threading.Event) -> None:
    """Copies events from the feed into the inbox, without end; those that a webhook brought are there already. The
    feed's sequence has no gaps, so no event is missed."""
    while True:
        more = True
        try:
            while more:
                with books.transaction() as db:
                    (after,) = db.execute("SELECT after_sequence FROM feed").fetchone()
                page = api.get(f"/v1/events?type=payment.received&limit={BATCH}&after_sequence={after}")["data"]
                with books.transaction() as db:
                    for item in page:
                        db.execute(
                            "INSERT OR IGNORE INTO inbox (event_id, body) VALUES (?, ?)",
                            (item["event_id"], json.dumps(item).encode()),
                        )
                        db.execute("UPDATE feed SET after_sequence = max(after_sequence, ?)", (item["sequence"],))
                if page:
                    news.set()
                more = len(page) == BATCH
        except (Away, sqlite3.OperationalError) as error:
            print(f"later: {error}", file=sys.stderr, flush=True)
        time.sleep(poll_s)


class Handler(BaseHTTPRequestHandler):
    """Receives deliveries over HTTP."""

    server: "Receiver"
    timeout = ANSWER_S

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length") or ""
        if not (length.isascii() and length.isdigit() and len(length) < 9 and int(length) <= BYTES_MAX):
            self._answer(413)
            return
        try:
            status = receive(
                self.rfile.read(int(length)), self.headers, self.server.secrets, self.server.books.remember
            )
        except (sqlite3.OperationalError, ValueError, KeyError):
            status = 500  # the event was not stored: the delivery is sent again
        self._answer(status)
        if status == 204:
            self.server.news.set()

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Receiver(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, books: Books, secrets: list[str], news: threading.Event) -> None:
        super().__init__((host, port), Handler)
        self.books, self.secrets, self.news = books, secrets, news


def main() -> None:
    env = os.environ
    if missing := [name for name in NEEDED if not env.get(name, "").strip()]:
        sys.exit(f"receiver.py: set {', '.join(missing)}")
    books = Books(env.get("DATABASE", "receiver.sqlite3"))
    clients = [Api(env["QUITA_URL"], env["CLIENT_ID"], env["CLIENT_SECRET"]) for _ in range(2)]
    news = threading.Event()
    accept_test, poll_s = env.get("ACCEPT_TEST") == "1", float(env.get("POLL_S", "60"))
    for work, given in ((work_inbox, (accept_test, news)), (follow_feed, (poll_s, news))):
        threading.Thread(target=work, args=(books, clients.pop(), *given), daemon=True).start()
    port = int(env.get("PORT", "9999"))
    host = env.get("HOST", "127.0.0.1")
    with Receiver(host, port, books, env["WEBHOOK_SECRETS"].split(), news) as server:
        print(f"waiting for webhooks at http://{host}:{server.server_port}/", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
