"""`quita listen URL`: sends an account's new events to an address on this machine, as its webhooks would be sent.

It reads the feed over the API and signs the forwarded events with a secret of its own, so the service need not reach
this machine. Every answer is shown. An event is sent once, unless the connection is refused or breaks before an answer:
then it is retried in order, so that a restart of the receiver loses nothing.
"""

import argparse
import http.client
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count, islice
from typing import Any
from urllib.parse import urlencode, urlsplit
from uuid import UUID

import msgspec

from cli import running
from cli.answer import Commands
from cli.run.child import CannotRun
from cli.run.supervise import say

_POLL_S = 0.5  # one small index range each time
_PAGE_ITEMS = 100
_ANSWER_S_MAX = 10.0  # the time limit of a webhook attempt (contract section 9)
_RETRY_S_MAX = 5.0  # the longest wait between attempts to reach an API that does not answer
_RECEIVER_RETRY_S = 0.25  # the first wait for a receiver that is not reached; doubled up to _RECEIVER_RETRY_S_MAX
_RECEIVER_RETRY_S_MAX = 2.0
_RECEIVER_WAIT_S_MAX = 600.0  # how long one event waits for the receiver; then the next one is tried
_ANSWER_BYTES_MAX = 1024  # how much of an answer is kept, as in deliveries (contract section 9)
_ANSWER_READ_S_MAX = 2.0  # how long an answer's body is read, as in deliveries
_ONLY_IN_FEED = ("type", "sequence", "created_at")  # a feed item is the webhook's body plus these fields


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("listen", help="forward an account's new events to a local address, until Ctrl-C")
    parser.add_argument("url", help="where to POST them, for instance http://127.0.0.1:3000/webhooks")
    parser.add_argument("--account-id", type=UUID, help="one of dev.json's merchants; the first unless given")
    parser.add_argument("--mode", choices=("test", "production"), default="test")
    parser.add_argument("--client-id", help="a credential, for an account that is not in dev.json")
    parser.add_argument("--client-secret")
    parser.add_argument(
        "--type", action="append", help="forward these kinds; may be repeated; what an endpoint receives unless given"
    )
    parser.add_argument("--secret", help="sign with this whsec_ secret; a new one unless given")
    parser.add_argument(
        "--after-sequence",
        type=int,
        metavar="N",
        help="begin behind event N of the feed; with what is new unless given",
    )
    parser.add_argument(
        "--once",
        type=int,
        metavar="N",
        help="end after N events, one attempt each; exit 1 unless each was answered 2xx",
    )
    parser.set_defaults(run=listen)


def listen(args: argparse.Namespace) -> int:
    from commands.webhooks.address import AddressFault, fault_of
    from domain.events import DEFAULT_KINDS, EventKind
    from domain.webhooks.signature import secret_text

    fault = fault_of(args.url, allow_private=True)
    if fault in (AddressFault.SCHEME_OR_HOST, AddressFault.NO_URL):
        raise CannotRun(f"{args.url} is no address such as http://127.0.0.1:9999/")  # plain http is allowed here
    if fault is not None:
        raise CannotRun(f"{args.url}: {fault}")
    kinds = args.type or list(DEFAULT_KINDS)
    for kind in kinds:
        if kind not in list(EventKind):
            raise CannotRun(f"there is no event {kind!r}; there are {', '.join(EventKind)}")
    if args.once is not None and args.once < 1:
        raise CannotRun("--once takes a whole number greater than 0")
    if args.after_sequence is not None and args.after_sequence < 0:
        raise CannotRun("--after-sequence takes a whole number, 0 or more")
    secret = _checked_secret(args.secret) if args.secret else secret_text(secrets.token_bytes(32))

    feed = _Feed(running.find().need("base_url"), *_credential(args), kinds)
    try:
        newest = feed.newest()
    except http.client.HTTPException as error:
        raise CannotRun(f"the API does not answer: {_one_line(error)}") from None
    after = newest if args.after_sequence is None else args.after_sequence
    _show(
        args,
        {"secret": secret, "url": args.url, "after_sequence": after, "types": kinds},
        f"{', '.join(kinds)} after number {after} go to {args.url} (for other kinds: --type KIND, once for each)\n"
        f"secret: {secret}",
    )
    failed = 0
    for item in islice(feed.follow(after), args.once):
        result = _forward(args, secret, item)
        failed += not 200 <= (result["status"] or 0) < 300
    return 1 if failed else 0


def _forward(args: argparse.Namespace, secret: str, item: dict[str, Any]) -> dict[str, Any]:
    """Sends one event and shows the outcome. Waits while the receiver is not reached, except with --once."""
    from runtime.ids import new_id

    delivery_id, began, wait_s = new_id(), time.monotonic(), _RECEIVER_RETRY_S
    for attempt in count(1):
        result, unreached = _send_attempt(args.url, secret, item, delivery_id, attempt)
        will_retry = unreached and args.once is None and time.monotonic() - began < _RECEIVER_WAIT_S_MAX
        if attempt == 1 or not will_retry:  # one line when the wait begins, one when it ends
            outcome = f"{result['status'] or result['error']}  {result['ms']} ms" + (
                "; waiting for it" if will_retry else ""
            )
            _show(
                args,
                result | {"again": will_retry},
                f"{result['sequence']:>6}  {result['type']:<24}  {result['event_id']}  {outcome}",
            )
            if result["answer"] and not 200 <= result["status"] < 300 and not args.json:
                print(f"        {' '.join(result['answer'].split())[:200]}", flush=True)
        if not will_retry:
            return result
        time.sleep(wait_s)
        wait_s = min(wait_s * 2, _RECEIVER_RETRY_S_MAX)
    raise AssertionError("unreachable")


class _Feed:
    """GET /v1/events with one credential, over one connection. HTTPException while the API does not answer."""

    def __init__(self, base_url: str, client_id: str, client_secret: str, kinds: list[str]) -> None:
        self._url = base_url
        self._client = {"client_id": client_id, "client_secret": client_secret}
        self._kinds = kinds
        self._connection: http.client.HTTPConnection | None = None
        self._token = ""

    def newest(self) -> int:
        """The sequence of the newest event; 0 when there is none."""
        items = self._read_items({"limit": 1})
        return int(items[0]["sequence"]) if items else 0

    def follow(self, after: int) -> Iterator[dict[str, Any]]:
        """Yields every item after `after` as it appears, without end; waits while the API does not answer."""
        wait_s = _POLL_S
        while True:
            try:
                items = self._read_items({"type": self._kinds, "after_sequence": after, "limit": _PAGE_ITEMS})
            except http.client.HTTPException as error:
                if wait_s == _POLL_S:
                    say(f"the API does not answer ({_one_line(error)}); waiting for it")
                wait_s = min(wait_s * 2, _RETRY_S_MAX)
                time.sleep(wait_s)
                continue
            wait_s = _POLL_S
            for item in items:
                yield item
                after = item["sequence"]
            if len(items) < _PAGE_ITEMS:
                time.sleep(_POLL_S)

    def _read_items(self, query: dict[str, Any]) -> list[dict[str, Any]]:
        path = "/v1/events?" + urlencode(query, doseq=True)
        for _ in range(2):  # the token may have expired: it lives an hour, and this program may run all day
            if not self._token:
                status, body = self._request(
                    "POST", "/v1/oauth/token", {"grant_type": "client_credentials", **self._client}
                )
                _raise_if_temporary(status)
                if status != 200:
                    raise CannotRun(f"the API refused the credential: {body.get('error')}")
                self._token = body["access_token"]
            status, body = self._request("GET", path, None)
            if status == 200:
                items: list[dict[str, Any]] = body["data"]
                return items
            _raise_if_temporary(status)
            if status != 401:
                break
            self._token = ""
        raise CannotRun(f"the API refused the feed: {body['error']['message']}")

    def _request(self, method: str, path: str, form: dict[str, str] | None) -> tuple[int, dict[str, Any]]:
        if self._connection is None:
            self._connection = _connect(self._url)
        headers = {"Authorization": f"Bearer {self._token}"} if form is None else {}
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        try:
            self._connection.request(method, urlsplit(self._url).path + path, urlencode(form or {}) or None, headers)
            answer = self._connection.getresponse()
            return answer.status, msgspec.json.decode(answer.read(), type=dict[str, Any])
        except (OSError, http.client.HTTPException, msgspec.MsgspecError) as error:
            self._connection.close()
            self._connection = None
            raise http.client.HTTPException(_one_line(error)) from error


def _raise_if_temporary(status: int) -> None:
    """HTTPException for a status after which the same request may succeed later."""
    if status == 429 or status >= 500:
        raise http.client.HTTPException(f"status {status}")


def _send_attempt(
    url: str, secret: str, item: dict[str, Any], delivery_id: UUID, attempt: int
) -> tuple[dict[str, Any], bool]:
    """POSTs one event. Returns the outcome, in the form of --json, and whether the receiver was not reached: the
    connection was refused, or broke before an answer. A timeout is not counted so."""
    from yarl import URL

    from domain.webhooks.signature import delivery_headers

    body = msgspec.json.encode({name: value for name, value in item.items() if name not in _ONLY_IN_FEED})
    headers = delivery_headers(
        event=item["type"],
        event_id=UUID(item["event_id"]),
        delivery_id=delivery_id,
        attempt=attempt,
        timestamp=int(time.time()),
        body=body,
        secret=secret,
    )
    status, error, text, unreached, ms = None, None, None, False, 0
    began = time.monotonic()
    connection = _connect(url)
    try:
        connection.request("POST", URL(url).raw_path_qs, body, headers)
        answer = connection.getresponse()
        status = answer.status  # a redirect is not followed and counts as a failure
        ms = round((time.monotonic() - began) * 1000)
        text = _read_beginning(answer).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException, UnicodeError) as failure:  # UnicodeError: a host with an empty label
        error = _one_line(failure)
        unreached = isinstance(failure, OSError) and not isinstance(failure, TimeoutError)
        ms = round((time.monotonic() - began) * 1000)
    finally:
        connection.close()
    result = {name: item[name] for name in ("sequence", "type", "event_id")}
    return result | {"attempt": attempt, "status": status, "error": error, "answer": text, "ms": ms}, unreached


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


def _checked_secret(secret: str) -> str:
    from domain.webhooks.signature import SECRET_PREFIX, standard_signature

    try:
        standard_signature(secret, "", 0, b"")
    except ValueError:
        secret = ""
    if not secret.startswith(SECRET_PREFIX):
        raise CannotRun(f"--secret takes {SECRET_PREFIX} and base64")
    return secret


def _connect(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    # The port is always given: without one, http.client would read the end of an IPv6 address as a port.
    return kind(parts.hostname or "", parts.port or kind.default_port, timeout=_ANSWER_S_MAX)


def _credential(args: argparse.Namespace) -> tuple[str, str]:
    if args.client_id or args.client_secret:
        if not (args.client_id and args.client_secret):
            raise CannotRun("--client-id and --client-secret belong together")
        return args.client_id, args.client_secret
    file = running.home() / "dev.json"
    try:
        merchants = msgspec.json.decode(file.read_bytes())["merchants"]
    except FileNotFoundError:
        raise CannotRun(f"there is no {file}; run `quita up`, or give --client-id and --client-secret") from None
    for merchant in merchants:
        if args.account_id in (None, UUID(merchant["account_id"])):
            credential = merchant[args.mode]
            return credential["client_id"], credential["client_secret"]
    raise CannotRun(f"{args.account_id} is not in {file}; give --client-id and --client-secret")


def _show(args: argparse.Namespace, record: dict[str, Any], line: str) -> None:
    print(msgspec.json.encode(record).decode() if args.json else line, flush=True)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
