"""Bytes that no client library sends, at the real server: no 500, no hang, and the server keeps serving."""

import contextlib
import gzip
import json
import re
import secrets
import socket
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.system import System

PIX = "/v1/charges/pix"
_ANSWER_S = 30.0
_QUIET_S = 2.0
"""After this silence a test that also passes without an answer waits for none."""


class Server:
    def __init__(self, system: System) -> None:
        self.port = system.port
        self.base_url = system.base_url
        merchant = system.merchants[0]
        self.account_id = merchant["account_id"]
        credential = merchant["test"]
        answer = httpx.post(
            f"{system.base_url}/v1/oauth/token",
            data={"grant_type": "client_credentials"},
            auth=(credential["client_id"], credential["client_secret"]),
            timeout=30,
        )
        self.token: str = answer.json()["access_token"]

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), _ANSWER_S)

    def say(
        self, *parts: bytes, pause_s: float = 0.0, end: bool = True, answers: int = 1, quiet_s: float = _ANSWER_S
    ) -> bytes:
        """Sends the parts; returns what arrives until the server closes, has sent `answers` answers, or is silent for
        `quiet_s`.

        Returns b"" if the server closes without an answer.
        """
        with self.connect() as connection:
            with contextlib.suppress(OSError):
                for part in parts:
                    connection.sendall(part)
                    if pause_s:
                        time.sleep(pause_s)
                if end:
                    connection.shutdown(socket.SHUT_WR)
            return receive(connection, answers, quiet_s)

    def head(self, line: str, *headers: str, token: bool = True) -> bytes:
        own = [f"Host: 127.0.0.1:{self.port}", *([f"Authorization: Bearer {self.token}"] if token else [])]
        return "\r\n".join([line, *own, *headers, "", ""]).encode("latin-1")

    def creation(self) -> bytes:
        return json.dumps({"account_id": self.account_id, "amount": "1.00"}).encode()

    def serves(self) -> bool:
        with httpx.Client(
            base_url=self.base_url, headers={"authorization": f"Bearer {self.token}"}, timeout=_ANSWER_S
        ) as client:
            return client.get("/v1/charges?limit=1").status_code == 200


def receive(connection: socket.socket, answers: int, quiet_s: float) -> bytes:
    connection.settimeout(quiet_s)
    received = b""
    deadline = time.monotonic() + _ANSWER_S
    with contextlib.suppress(OSError):
        while (
            time.monotonic() < deadline
            and count_complete_answers(received) < answers
            and (part := connection.recv(65_536))
        ):
            received += part
    return received


def count_complete_answers(received: bytes) -> int:
    """Counts the answers that arrived completely."""
    count = 0
    while (end := received.find(b"\r\n\r\n")) >= 0:
        # A 100 Continue has no body and no Content-Length.
        length = re.search(rb"content-length: ([0-9]+)|^HTTP/1.1 100 ", received[:end], re.IGNORECASE)
        rest = received[end + 4 :]
        if length is None or len(rest) < int(length[1] or 0):
            break
        count, received = count + 1, rest[int(length[1] or 0) :]
    return count


def statuses(answer: bytes) -> list[int]:
    return [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]] + [
        int(part[:3]) for part in answer.split(b"HTTP/1.0 ")[1:]
    ]


def assert_closed_or_4xx(answer: bytes) -> None:
    """Asserts that the server closed without an answer, or that every answer is a 4xx."""
    assert all(400 <= status < 500 for status in statuses(answer)), answer[:500]
    assert b"Traceback" not in answer


@pytest.fixture(scope="module")
def server(system: System) -> Iterator[Server]:
    made = Server(system)
    yield made
    assert made.serves()


@pytest.fixture(autouse=True)
def _goes_on(server: Server) -> Iterator[None]:
    yield
    assert server.serves()


@pytest.mark.parametrize(
    "junk",
    [
        b"\x00" * 100, b"\xff" * 1000, b"\r\n" * 1000, b"GET", b"GET / HTTP/9.9\r\n\r\n", b"GET /\r\n\r\n",
        b"A" * 100_000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\nHost: x\n\n",
        b"G\x00T / HTTP/1.1\r\n\r\n", b" GET / HTTP/1.1\r\n\r\n", b"GET  /v1/charges  HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /v1/charges HTTP/1.1\r\nHost: x\r\nA\x00: b\r\n\r\n",
        b"GET /v1/charges HTTP/1.1\r\nHost: x\r\n : b\r\n\r\n",
        b"GET /v1/charges HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n",
        b"GET /v1/charges HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n", b"GET http:// HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: x\r\n\r\n", b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://evil.example/v1/charges HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /v1/charges HTTP/1.1\r\n\r\n",
        b"GET ?a HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /v1/charges#x HTTP/1.1\r\nHost: x\r\n\r\n", b"*3\r\n$3\r\nSET\r\n",
    ],
    ids=lambda junk: repr(junk)[:40],
)  # fmt: skip
def test_bytes_that_form_no_request_are_refused(server: Server, junk: bytes) -> None:
    # After a half-close the server closes the connection itself.
    for end, quiet_s in ((True, _ANSWER_S), (False, _QUIET_S)):
        answer = server.say(junk, end=end, quiet_s=quiet_s)
        assert all(status < 500 or status == 505 for status in statuses(answer)), answer[:500]
        assert 200 not in statuses(answer), answer[:500]


@pytest.mark.parametrize("cut", [1, 5, 20, 60, 120, -1])
def test_a_truncated_head_is_answered_400_or_closed_without_an_answer(server: Server, cut: int) -> None:
    whole = server.head(
        f"POST {PIX} HTTP/1.1", "Content-Type: application/json", "Idempotency-Key: cut", "Content-Length: 2"
    )
    assert statuses(server.say(whole[:cut])) in ([400], [])


@pytest.mark.parametrize("sent", [0, 1, 30])
def test_a_body_shorter_than_its_content_length_creates_nothing(server: Server, sent: int) -> None:
    key = secrets.token_hex(8)
    body = server.creation()
    head = server.head(
        f"POST {PIX} HTTP/1.1",
        "Content-Type: application/json",
        f"Idempotency-Key: {key}",
        f"Content-Length: {len(body)}",
    )
    assert_closed_or_4xx(server.say(head + body[:sent]))
    assert key_state(server, key) == "unknown"


def test_a_slow_request_before_a_malformed_one_is_answered_after_the_client_half_closes(server: Server) -> None:
    made = server.say(
        server.head(f"POST {PIX} HTTP/1.1", "Content-Type: application/json", "Idempotency-Key: before-a-fault",
                    f"Content-Length: {len(server.creation())}") + server.creation()
    )  # fmt: skip
    charge_id = json.loads(made.split(b"\r\n\r\n", 1)[1])["charge_id"]
    slow = server.head(
        f"POST {PIX.removesuffix('pix')}{charge_id}/simulate-payment HTTP/1.1", "Content-Length: 0",
        "X-Sandbox-Bank: slow",
    )  # fmt: skip
    assert statuses(server.say(slow + b"junk junk\r\n\r\n", answers=2)) == [200, 400]


def test_bytes_beyond_content_length_are_read_as_the_next_request(server: Server) -> None:
    head = server.head(
        f"POST {PIX} HTTP/1.1", "Content-Type: application/json", "Idempotency-Key: long", "Content-Length: 2"
    )
    answer = server.say(head + b"{}" + b"junk junk\r\n\r\n")
    assert statuses(answer)[0] == 400
    assert_closed_or_4xx(answer)


@pytest.mark.parametrize(
    "headers",
    [
        ["Content-Length: -1"], ["Content-Length: 1x"], ["Content-Length: "],
        ["Content-Length: 99999999999999999999999"],
        ["Content-Length: 2", "Content-Length: 3"], ["Content-Length: 2, 3"], ["Content-Length: +2"],
        ["Content-Length: 0x2"], ["Transfer-Encoding: gzip"], ["Transfer-Encoding: chunked, identity"],
        ["Transfer-Encoding: xchunked"], ["Transfer-Encoding : chunked"], ["Transfer-Encoding: identity"],
    ],
    ids=repr,
)  # fmt: skip
def test_a_body_whose_length_cannot_be_known_is_refused(server: Server, headers: list[str]) -> None:
    head = server.head(f"POST {PIX} HTTP/1.1", "Content-Type: application/json", "Idempotency-Key: length", *headers)
    assert_closed_or_4xx(server.say(head + b"{}"))


def test_content_length_with_chunked_encoding_smuggles_no_request(server: Server) -> None:
    """The hidden request, if it were read as one, would get an answer of its own."""
    hidden = b"GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
    chunks = b"0\r\n\r\n" + hidden
    head = server.head(
        f"POST {PIX} HTTP/1.1", "Content-Type: application/json", "Idempotency-Key: both",
        f"Content-Length: {len(chunks)}", "Transfer-Encoding: chunked",
    )  # fmt: skip
    # RFC 9112 section 6.3: such a request may be refused.
    assert statuses(server.say(head + chunks, end=False, answers=2)) == [400]


@pytest.mark.parametrize(
    "chunks",
    [
        b"zz\r\n{}\r\n0\r\n\r\n", b"-1\r\n{}\r\n", b"ffffffffffffffffff\r\n{}", b"2\r\n{}", b"2\r\n{}\r\n",
        b"2\n{}\n0\n\n", b"\r\n", b"2;" + b"x" * 70_000 + b"\r\n{}\r\n0\r\n\r\n", b"2\r\n{}XX0\r\n\r\n", b"",
    ],
    ids=lambda chunks: repr(chunks)[:24],
)  # fmt: skip
def test_malformed_chunks_are_refused(server: Server, chunks: bytes) -> None:
    head = server.head(
        f"POST {PIX} HTTP/1.1",
        "Content-Type: application/json",
        "Idempotency-Key: chunks",
        "Transfer-Encoding: chunked",
    )
    assert_closed_or_4xx(server.say(head + chunks))


def test_a_chunked_body_is_accepted(server: Server) -> None:
    body, key = server.creation(), secrets.token_hex(8)
    head = server.head(
        f"POST {PIX} HTTP/1.1",
        "Content-Type: application/json",
        f"Idempotency-Key: {key}",
        "Transfer-Encoding: chunked",
    )
    parts = [b"%x\r\n%b\r\n" % (len(body[at : at + 7]), body[at : at + 7]) for at in range(0, len(body), 7)]
    assert statuses(server.say(head, *parts, b"0\r\n\r\n", end=False)) == [201]


def test_an_endless_body_is_refused_beyond_256_kib(server: Server) -> None:
    head = server.head(
        f"POST {PIX} HTTP/1.1",
        "Content-Type: application/json",
        "Idempotency-Key: endless",
        "Transfer-Encoding: chunked",
    )
    chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    answer = server.say(head, *[chunk] * 40, end=False)
    assert statuses(answer) in ([413], []), answer[:300]


def test_a_body_announced_as_huge_is_refused_unread(server: Server) -> None:
    head = server.head(
        f"POST {PIX} HTTP/1.1", "Content-Type: application/json", "Idempotency-Key: huge", f"Content-Length: {10**9}"
    )
    began = time.monotonic()
    answer = server.say(head, b"x" * 1000, end=False)
    assert statuses(answer) == [413], answer[:300]
    assert time.monotonic() - began < _ANSWER_S
    assert b'"PAYLOAD_TOO_LARGE"' in answer


@pytest.mark.parametrize(
    "headers",
    [
        ["X: " + "x" * 65_536],
        [f"X{number}: y" for number in range(2_000)],
        ["X" * 65_536 + ": y"],
        ["Cookie: " + "a=b; " * 13_000],
    ],
    ids=["long value", "many", "long name", "cookie"],
)
def test_huge_headers_do_no_harm(server: Server, headers: list[str]) -> None:
    answer = server.say(server.head("GET /v1/charges HTTP/1.1", *headers), end=False)
    assert all(status in (200, 400, 414, 431) for status in statuses(answer)), answer[:300]


def test_a_huge_path_does_no_harm(server: Server) -> None:
    for path in ("/v1/charges/" + "a" * 60_000, "/v1/charges?external_id=" + "a" * 60_000, "/" * 60_000):
        assert_closed_or_4xx(server.say(server.head(f"GET {path} HTTP/1.1"), end=False))


@pytest.mark.parametrize(
    "path",
    [
        "/v1/charges/%00", "/v1/charges/%ff", "/v1/charges/%ED%A0%80", "/v1/charges/%", "/v1/charges/%zz",
        "/v1/charges/a%0d%0ab", "/v1/charges/..", "/v1/charges/../../etc/passwd", "/v1/charges/%2e%2e%2f",
        "/v1/charges/\xe9", "/v1/charges/%C3%A9",
        "/v1/idempotency-keys/%ff", "/v1/idempotency-keys/%00", "/v1/charges?status=%ff",
        "/v1/charges?%00", "/v1/charges?external_id=\xe9", "/v1/charges?limit=%", "//v1/charges?limit=x", "/bank/%ff",
        "/pagar/%ff", "/pagar/%00", "/docs/errors/%ff", "/docs/errors/..", "/static/%00",
        "/static/..%2f..%2fsecret.key",
    ],
)  # fmt: skip
def test_paths_with_odd_bytes_are_answered_4xx(server: Server, path: str) -> None:
    answer = server.say(server.head(f"GET {path} HTTP/1.1"), end=False)
    assert_closed_or_4xx(answer)
    assert statuses(answer)


def test_a_key_with_slashes_and_blanks_is_looked_up_over_the_wire(server: Server) -> None:
    with httpx.Client(
        base_url=server.base_url, headers={"authorization": f"Bearer {server.token}"}, timeout=_ANSWER_S
    ) as client:
        key = f"pedido/{secrets.token_hex(4)}//x %2F?#"
        made = client.post(
            PIX, headers={"idempotency-key": key}, json={"account_id": server.account_id, "amount": "1.00"}
        )
        assert made.status_code == 201
    assert key_state(server, key) == "completed"


@pytest.mark.parametrize(
    ("method", "status"),
    [("BREW", 400), ("get", 400), ("G" * 100, 400), ("TRACE", 405), ("DELETE", 405), ("PROPFIND", 405),
     ("M-SEARCH", 405)],
)  # fmt: skip
def test_unknown_methods_are_refused(server: Server, method: str, status: int) -> None:
    assert statuses(server.say(server.head(f"{method} /v1/charges HTTP/1.1"), end=False)) == [status]


def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    one = server.head("GET /v1/charges?limit=1 HTTP/1.1")
    two = server.head("GET /nope HTTP/1.1")
    assert statuses(server.say(one + two + one + two + one, end=False, answers=5)) == [200, 404, 200, 404, 200]


def test_twenty_pipelined_creations_with_one_key_make_one_charge(server: Server) -> None:
    body, key = server.creation(), secrets.token_hex(8)
    head = server.head(
        f"POST {PIX} HTTP/1.1",
        "Content-Type: application/json",
        f"Idempotency-Key: {key}",
        f"Content-Length: {len(body)}",
    )
    assert sorted(statuses(server.say((head + body) * 20, end=False, answers=20))) == [200] * 19 + [201]


def test_a_client_that_resets_its_connections_finds_exactly_one_charge_later(server: Server) -> None:
    body, key = server.creation(), secrets.token_hex(8)
    head = server.head(
        f"POST {PIX} HTTP/1.1",
        "Content-Type: application/json",
        f"Idempotency-Key: {key}",
        f"Content-Length: {len(body)}",
    )
    for _ in range(5):
        with server.connect() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            connection.sendall(head + body)
    answer = server.say(head + body, end=False)
    assert statuses(answer)[0] in (200, 201)
    again = server.say(head + body, end=False)
    assert statuses(again) == [200]
    assert charge_id(answer) == charge_id(again)


def test_slow_clients_do_not_delay_others(server: Server) -> None:
    slow = [server.connect() for _ in range(60)]
    try:
        for connection in slow:
            connection.sendall(server.head(f"POST {PIX} HTTP/1.1", "Content-Length: 1000")[:-2])
        began = time.monotonic()
        assert server.serves()
        assert time.monotonic() - began < _ANSWER_S
        for connection in slow:
            connection.sendall(b"X: y\r\n")
        assert server.serves()
    finally:
        for connection in slow:
            connection.close()


def test_a_request_sent_byte_by_byte_is_answered(server: Server) -> None:
    whole = server.head("GET /v1/charges?limit=1 HTTP/1.1")
    assert statuses(server.say(*(whole[at : at + 1] for at in range(len(whole))), end=False)) == [200]


def test_a_creation_with_expect_continue_succeeds(server: Server) -> None:
    body, key = server.creation(), secrets.token_hex(8)
    head = server.head(
        f"POST {PIX} HTTP/1.1", "Content-Type: application/json", f"Idempotency-Key: {key}",
        f"Content-Length: {len(body)}", "Expect: 100-continue",
    )  # fmt: skip
    assert statuses(server.say(head, body, pause_s=0.2, end=False, answers=2))[-1] == 201


def test_an_http_1_0_request_without_host_is_answered(server: Server) -> None:
    answer = server.say(f"GET /v1/charges HTTP/1.0\r\nAuthorization: Bearer {server.token}\r\n\r\n".encode(), end=False)
    assert statuses(answer) == [200]


def test_compressed_bodies_are_not_unpacked(server: Server) -> None:
    body = gzip.compress(server.creation())
    head = server.head(
        f"POST {PIX} HTTP/1.1", "Content-Type: application/json", "Idempotency-Key: gzip", "Content-Encoding: gzip",
        f"Content-Length: {len(body)}",
    )  # fmt: skip
    answer = server.say(head + body, end=False)
    assert statuses(answer) == [415]
    assert b"without Content-Encoding" in answer
    plain = server.creation()
    head = server.head(
        f"POST {PIX} HTTP/1.1", "Content-Type: application/json", f"Idempotency-Key: {secrets.token_hex(8)}",
        "Content-Encoding: Identity", f"Content-Length: {len(plain)}",
    )  # fmt: skip
    assert statuses(server.say(head + plain, end=False)) == [201]


def charge_id(answer: bytes) -> str:
    found: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])
    return str(found["charge_id"])


def key_state(server: Server, key: str) -> str:
    escaped = "".join(f"%{ord(sign):02X}" for sign in key)
    with httpx.Client(
        base_url=server.base_url, headers={"authorization": f"Bearer {server.token}"}, timeout=_ANSWER_S
    ) as client:
        return str(client.get(f"/v1/idempotency-keys/{escaped}").json()["state"])
