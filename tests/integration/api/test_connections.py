"""A connection has deadlines and bounds, and what is no request is answered in the envelope where it can be."""

import asyncio
import json
import random
import re
import resource
import secrets
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from domain.errors import Code
from runtime.limits.http_bounds import raise_open_files
from tests.support.api_process import ApiProcess, api_process, prepared_merchants

PIX = "/v1/charges/pix"
_ANSWER_S = 30.0
DEADLINES = {
    "HTTP_FIRST_BYTE_S": "2", "HTTP_HEADERS_S": "2", "HTTP_BODY_S": "2", "HTTP_IDLE_S": "3", "HTTP_WRITE_S": "2",
}  # fmt: skip
BOUNDS = {"HTTP_CONNECTIONS_PER_ADDRESS_MAX": "20", "HTTP_CONNECTIONS_MAX": "40", "TRUSTED_PROXIES": "127.0.0.9/32"}
# Other addresses of the same machine.
only_linux = pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is not there")


@pytest.fixture(scope="module")
async def merchant(servers: Any) -> AsyncIterator[Any]:
    async with prepared_merchants(servers, 1) as made:
        yield made[0]


@pytest.fixture(scope="module")
def server(servers: Any, merchant: Any, tmp_path_factory: Any) -> Iterator[ApiProcess]:
    with api_process(servers, tmp_path_factory.mktemp("api"), **DEADLINES) as made:
        yield made


@pytest.fixture(scope="module")
def bounded(servers: Any, tmp_path_factory: Any) -> Iterator[ApiProcess]:
    """With the deadlines it has by itself: what is told in parts is in time on a machine that stands still."""
    with api_process(servers, tmp_path_factory.mktemp("api"), **BOUNDS) as made:
        yield made


def connect(server: ApiProcess, address: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), _ANSWER_S, source_address=(address, 0))


def rest(connection: socket.socket) -> bytes:
    """Everything until the server closes."""
    received = b""
    try:
        while part := connection.recv(65_536):
            received += part
    except ConnectionResetError:
        pass
    return received


def answered(connection: socket.socket) -> bytes:
    """One answer of /healthz, whose body ends in a brace."""
    received = b""
    while not received.endswith(b"}"):
        part = connection.recv(65_536)
        assert part, "closed"
        received += part
    return received


def told(server: ApiProcess, *parts: bytes) -> bytes:
    with connect(server) as connection:
        for part in parts:
            connection.sendall(part)
        return rest(connection)


def envelope(answer: bytes, code: Code) -> None:
    """The one answer, which is the whole envelope of this code, and says that the connection ends."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    assert first.startswith(f"HTTP/1.1 {code.status} "), answer[:300]
    assert headers["content-type"] == "application/json"
    assert headers["connection"] == "close"
    assert int(headers["content-length"]) == len(body), "one answer and nothing behind it"
    error = json.loads(body)["error"]
    assert error["code"] == code.name
    assert error["request_id"].lower() == headers["x-request-id"]
    assert error["documentation_url"].endswith(f"/errors/{code.name}")


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode("latin-1")


def test_every_file_that_may_be_opened_can_be(server: ApiProcess) -> None:
    soft, hard = re.search(
        r"^Max open files +(\S+) +(\S+)", Path(f"/proc/{server.pid}/limits").read_text(), re.M
    ).groups()  # type: ignore[union-attr]
    assert soft == hard


def test_who_says_nothing_is_let_go(server: ApiProcess) -> None:
    with connect(server) as connection:
        assert rest(connection) == b""


def test_line_ends_alone_are_no_request_and_win_no_time(server: ApiProcess) -> None:
    with connect(server) as connection:
        _drip(connection, b"\r\n" * 100)
        assert rest(connection) == b""


def test_half_a_head_is_told_so_after_its_time(server: ApiProcess) -> None:
    envelope(told(server, b"GET /v1/charges HTTP/1.1\r\nHost: x\r\nX-Half"), Code.REQUEST_TIMEOUT)


def test_a_head_that_drips_wins_no_time(server: ApiProcess) -> None:
    with connect(server) as connection:
        _drip(connection, get("/v1/charges", "X: " + "y" * 200))
        envelope(rest(connection), Code.REQUEST_TIMEOUT)


def test_a_body_that_drips_is_told_so_and_does_nothing(server: ApiProcess, merchant: Any) -> None:
    token, key = server.token(merchant), secrets.token_hex(8)
    headers = [
        f"Authorization: Bearer {token}", f"Idempotency-Key: {key}", "Content-Type: application/json",
        "Content-Length: 90",
    ]  # fmt: skip
    head = get(PIX, *headers).replace(b"GET", b"POST", 1)
    with connect(server) as connection:
        connection.sendall(head)
        _drip(connection, b" " * 80)
        envelope(rest(connection), Code.REQUEST_TIMEOUT)
    used = httpx.get(
        f"{server.base_url}/v1/idempotency-keys/{key}", headers={"authorization": f"Bearer {token}"}, timeout=_ANSWER_S
    )
    assert used.json()["state"] == "unknown"


def _drip(connection: socket.socket, said: bytes) -> None:
    """A byte after the other, until the server has had enough."""
    connection.settimeout(0.1)
    for at in range(len(said)):
        try:
            connection.sendall(said[at : at + 1])
            if connection.recv(1, socket.MSG_PEEK) is not None:
                break
        except TimeoutError:
            continue
        except OSError:
            break
    connection.settimeout(_ANSWER_S)


def test_a_connection_is_kept_between_requests_and_let_go_without_one(server: ApiProcess) -> None:
    with connect(server) as connection:
        for _ in range(3):
            connection.sendall(get("/healthz"))
            assert answered(connection).startswith(b"HTTP/1.1 200 ")
            time.sleep(1)  # longer than a first byte may take in all
        assert rest(connection) == b""


def test_an_answer_that_nobody_reads_is_not_kept(server: ApiProcess) -> None:
    """It would keep its memory and its task for as long as the client likes."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.settimeout(_ANSWER_S)
        connection.connect(("127.0.0.1", server.port))
        asked = get("/v1/openapi.json") * 40
        connection.sendall(asked)
        time.sleep(6)
        received = rest(connection)
    assert received.count(b"HTTP/1.1 200 ") < 40


def test_a_flood_of_headers_is_refused(server: ApiProcess) -> None:
    for flood in (
        [b"X%d: %s\r\n" % (number, b"y" * 1_000) for number in range(12_000)],
        [b"X: ", *[b"y" * 1_000] * 12_000],
        [b"X" * 1_000] * 12_000,
    ):
        with connect(server) as connection:
            connection.sendall(b"GET /v1/charges HTTP/1.1\r\nHost: x\r\n")
            try:
                connection.sendall(b"".join(flood))
            except OSError:
                continue  # closed on us in the middle of it
            received = rest(connection)
            if received:
                envelope(received, Code.HEADERS_TOO_LARGE)
    assert httpx.get(f"{server.base_url}/healthz", timeout=_ANSWER_S).status_code == 200


@pytest.mark.parametrize("parts", [1, 50], ids=["at-once", "in-pieces"])
def test_more_headers_than_fit_are_431_and_a_longer_target_414(bounded: ApiProcess, parts: int) -> None:
    large = get("/v1/charges", *(f"X{number}: {'y' * 1_000}" for number in range(33)))
    long = get("/v1/charges?external_id=" + "a" * 17_000)
    for said, code in ((large, Code.HEADERS_TOO_LARGE), (long, Code.URI_TOO_LONG)):
        size = -(-len(said) // parts)
        envelope(told(bounded, *(said[at : at + size] for at in range(0, len(said), size))), code)
    for fits in (
        get("/healthz", "Connection: close", *(f"X{number}: {'y' * 1_000}" for number in range(30))),
        get("/healthz?a=" + "a" * 16_000, "Connection: close"),
    ):
        assert told(bounded, fits).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "said",
    [
        b"\x00" * 100, b"A" * 1_000 + b"\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"*3\r\n$3\r\nSET\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        get("/v1/charges", "no colon"), get("/v1/charges", "X: a\x00b"), get("/v1/charges", "X\x00: b"),
        get("/v1/charges\x80"), get("http://"), b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: x\r\n\r\n",
        get(PIX, "Content-Length: -1"), get(PIX, "Content-Length: 2", "Content-Length: 3"),
        get(PIX, "Content-Length: 2", "Transfer-Encoding: chunked"),
        get(PIX, "Transfer-Encoding: chunked").replace(b"GET", b"POST") + b"zz\r\n{}\r\n0\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n", get("/healthz", "Connection: close", "Host: y"),
        get("/healthz", "Host: y").replace(b"/1.1", b"/1.0"),
    ],
    ids=lambda said: repr(said)[:40],
)  # fmt: skip
def test_what_is_no_request_is_answered_in_the_envelope(bounded: ApiProcess, said: bytes) -> None:
    envelope(told(bounded, said), Code.MALFORMED_REQUEST)


def test_what_was_asked_before_it_is_answered_before_it(bounded: ApiProcess) -> None:
    received = told(bounded, get("/healthz") + get("/v1/charges") + b"no request\r\n\r\n")
    first, second, third = (b"HTTP/1.1 " + part for part in received.split(b"HTTP/1.1 ")[1:])
    assert first.startswith(b"HTTP/1.1 200 ")
    assert second.startswith(b"HTTP/1.1 401 ")
    envelope(third, Code.MALFORMED_REQUEST)


def test_requests_that_wait_for_answers_are_bounded(server: ApiProcess) -> None:
    """Thousands fit into one segment, and all of them were begun before anybody else was served."""
    received = told(server, get("/healthz") * 40) + told(server, get("/healthz") * 5_000)
    assert received.startswith(b"HTTP/1.1 200 ")
    answers = [b"HTTP/1.1 " + part for part in received.split(b"HTTP/1.1 ")[1:]]
    assert sum(answer.startswith(b"HTTP/1.1 200 ") for answer in answers) < 1_000
    for answer in answers:
        if not answer.startswith(b"HTTP/1.1 200 "):
            envelope(answer, Code.RATE_LIMITED)
    envelope(answers[-1], Code.RATE_LIMITED)


def chunked(server: ApiProcess, merchant: Any, **without: str) -> tuple[bytes, dict[str, str], bytes]:
    """The head of a creation in chunks, its headers but those named in `without`, and its body as JSON."""
    headers = {
        "Authorization": f"Bearer {server.token(merchant)}", "Idempotency-Key": secrets.token_hex(8),
        "Content-Type": "application/json", "Transfer-Encoding": "chunked", "Connection": "close",
    }  # fmt: skip
    said = [f"{name}: {value}" for name, value in headers.items() if name not in without.values()]
    body = json.dumps({"account_id": str(merchant.account_id), "amount": "1.00"}).encode()
    return get(PIX, *said).replace(b"GET", b"POST", 1), headers, body


@pytest.mark.parametrize(
    ("name", "code"), [("Authorization", Code.UNAUTHENTICATED), ("Idempotency-Key", Code.IDEMPOTENCY_KEY_REQUIRED)]
)
def test_a_trailer_is_no_header(bounded: ApiProcess, merchant: Any, name: str, code: Code) -> None:
    head, headers, body = chunked(bounded, merchant, left_out=name)
    trailer = f"{name}: {headers[name]}\r\n".encode()
    envelope(told(bounded, head, b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(body), body, trailer)), code)
    head, _, body = chunked(bounded, merchant)
    whole = told(bounded, head, b"%x\r\n%b\r\n0\r\nChecksum: 1\r\n\r\n" % (len(body), body))
    assert whole.startswith(b"HTTP/1.1 201 ")


def test_blanks_around_a_headers_value_are_none_of_it(server: ApiProcess, merchant: Any) -> None:
    head, headers, body = chunked(server, merchant)
    key = headers["Idempotency-Key"].encode()
    for blanks, status in ((b"%b", 201), (b" \t%b", 200), (b"%b \t ", 200)):
        asked = head.replace(key, blanks % key)
        assert told(server, asked, b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)).startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize(
    "flood",
    [[b"a: b\r\n"] * 400_000, [b"X: ", *[b"y" * 1_000] * 2_000], [b"X" * 1_000] * 2_000],
    ids=["many", "one-long", "a-name"],
)
def test_a_flood_of_trailers_is_refused(bounded: ApiProcess, merchant: Any, flood: list[bytes]) -> None:
    head, _, body = chunked(bounded, merchant)
    with connect(bounded) as connection:
        connection.sendall(head + b"%x\r\n%b\r\n0\r\n" % (len(body), body))
        try:
            connection.sendall(b"".join(flood))
        except OSError:
            return  # closed on us in the middle of it
        received = rest(connection)
        if received:
            envelope(received, Code.HEADERS_TOO_LARGE)


def creation(server: ApiProcess, merchant: Any, *more: str) -> tuple[bytes, bytes]:
    """Head and body of one on a connection that stays open."""
    head, _, body = chunked(server, merchant)
    length = f"Content-Length: {len(body)}".encode()
    head = head.replace(b"Transfer-Encoding: chunked", length).replace(b"Connection: close", b"X-A: b")
    return head[:-2] + b"".join(each.encode() + b"\r\n" for each in more) + b"\r\n", body


def answers(connection: socket.socket) -> list[bytes]:
    """The statuses of all answers, the last of which closes."""
    return re.findall(rb"HTTP/1\.1 ([0-9]{3})", rest(connection))


def test_a_head_is_measured_apart_from_those_before_it(bounded: ApiProcess, merchant: Any) -> None:
    """Each is within its bound, and begins in a segment in which something of another request is."""
    large = [f"X-{number}: {'a' * 1_000}" for number in range(20)]
    head, body = creation(bounded, merchant, *large)
    last = get("/healthz", *large, "Connection: close")
    with connect(bounded) as connection:
        for at in range(0, len(head), 4_000):
            connection.sendall(head[at : at + 4_000])
            time.sleep(0.02)
        connection.sendall(body[:5])
        time.sleep(0.05)
        connection.sendall(body[5:] + head[:100])
        for at in range(100, len(head), 4_000):
            time.sleep(0.02)
            connection.sendall(head[at : at + 4_000])
        connection.sendall(body + last[:100])
        for at in range(100, len(last), 4_000):
            time.sleep(0.02)
            connection.sendall(last[at : at + 4_000])
        assert answers(connection) == [b"201", b"200", b"200"]


def test_a_head_that_begins_behind_a_body_is_bounded_too(bounded: ApiProcess, merchant: Any) -> None:
    head, body = creation(bounded, merchant)
    with connect(bounded) as connection:
        connection.sendall(head)
        time.sleep(0.1)
        connection.sendall(body + get("/healthz", *(f"X-{number}: {'a' * 1_000}" for number in range(45))))
        assert answers(connection) == [b"201", b"431"]


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
@pytest.mark.parametrize("pause_s", [0.0, 0.1], ids=["at-once", "apart"])
def test_an_upgrade_is_ignored_and_the_body_is_a_body(
    bounded: ApiProcess, merchant: Any, protocol: str, pause_s: float
) -> None:
    """Java's client asks for one with its first request. What its body says is no request."""
    upgrade = ("Connection: Upgrade, HTTP2-Settings", f"Upgrade: {protocol}", "HTTP2-Settings: AAMAAABk")
    head, body = creation(bounded, merchant, *upgrade)
    smuggled = get("/healthz")
    other = get("/v1/charges/cancel", *upgrade, f"Content-Length: {len(smuggled)}").replace(b"GET", b"POST", 1)
    chunks, _, _ = chunked(bounded, merchant)
    chunks = chunks.replace(b"Connection: close\r\n", "\r\n".join(upgrade).encode() + b"\r\n")
    with connect(bounded) as connection:
        for part in (
            head, body, other, smuggled, chunks, b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body),
            get("/healthz", *upgrade) + get("/healthz", "Connection: close"),
        ):  # fmt: skip
            connection.sendall(part)
            time.sleep(pause_s)
        assert answers(connection) == [b"201", b"415", b"201", b"200", b"200"]


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
def test_an_upgrade_on_a_connection_that_ends_is_ignored_too(
    bounded: ApiProcess, merchant: Any, version: bytes
) -> None:
    head, body = creation(bounded, merchant, "Connection: close, upgrade", "Upgrade: h2c")
    with connect(bounded) as connection:
        connection.sendall(head.replace(b"HTTP/1.1", b"HTTP/" + version) + body)
        assert answers(connection) == [b"201"]


def test_a_target_that_is_none_takes_no_answer_from_the_request_before_it(bounded: ApiProcess, merchant: Any) -> None:
    head, body = creation(bounded, merchant)
    with connect(bounded) as connection:
        connection.sendall(head + body + b"GET http:// HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answers(connection) == [b"201", b"400"]


def test_who_was_answered_before_the_body_is_not_answered_again(server: ApiProcess, merchant: Any) -> None:
    """Nor told that it did not come: that would be the answer to another request."""
    head, body = creation(server, merchant, "Expect: 100-continue")
    head = head.replace(b"Content-Length: %d" % len(body), b"Content-Length: 900000")
    with connect(server) as connection:
        connection.sendall(head)
        assert answers(connection) == [b"413"]


@pytest.mark.parametrize("in_chunks", [True, False], ids=["chunked", "with-its-length"])
def test_a_large_body_that_comes_after_its_head_is_a_body(bounded: ApiProcess, merchant: Any, in_chunks: bool) -> None:
    """In one segment, far beyond what a head may take."""
    head, _, body = chunked(bounded, merchant)
    whole = body + b" " * 200_000
    said = b"%x\r\n%b\r\n0\r\n\r\n" % (len(whole), whole)
    if not in_chunks:
        head, said = head.replace(b"Transfer-Encoding: chunked", b"Content-Length: %d" % len(whole)), whole
    with connect(bounded) as connection:
        for part in (head, said):
            connection.sendall(part)
            time.sleep(0.2)
        assert rest(connection).startswith(b"HTTP/1.1 201 ")


def test_a_body_in_chunks_of_one_byte_is_a_body(bounded: ApiProcess, merchant: Any) -> None:
    head, _, body = chunked(bounded, merchant)
    whole = body + b" " * 60_000
    assert told(bounded, head, *(b"1\r\n%c\r\n" % byte for byte in whole), b"0\r\n\r\n").startswith(b"HTTP/1.1 201 ")


def test_who_shuts_his_writing_side_is_answered_all_the_same(bounded: ApiProcess, merchant: Any) -> None:
    """RFC 9112 section 9.6 allows it, and what he asked for is done."""
    body = json.dumps({"account_id": str(merchant.account_id), "amount": "1.00"}).encode()
    headers = [
        f"Authorization: Bearer {bounded.token(merchant)}", f"Idempotency-Key: {secrets.token_hex(8)}",
        "Content-Type: application/json", f"Content-Length: {len(body)}",
    ]  # fmt: skip
    for said, status in ((get(PIX, *headers).replace(b"GET", b"POST", 1) + body, b"201"), (get("/v1/charges"), b"401")):
        with connect(bounded) as connection:
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            assert rest(connection).startswith(b"HTTP/1.1 " + status)


def test_a_request_cut_off_is_told_so(bounded: ApiProcess) -> None:
    for said in (b"GET /v1/charges HTTP/1.1\r\nHo", get(PIX, "Content-Length: 5").replace(b"GET", b"POST", 1) + b"{"):
        with connect(bounded) as connection:
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            envelope(rest(connection), Code.MALFORMED_REQUEST)


@only_linux
def test_one_address_holds_so_many_connections_and_others_are_served(bounded: ApiProcess) -> None:
    held = [connect(bounded, "127.0.0.2") for _ in range(20)]
    try:
        for connection in held:
            connection.sendall(get("/healthz"))
            assert answered(connection).startswith(b"HTTP/1.1 200 ")
        with connect(bounded, "127.0.0.2") as connection:
            envelope(rest(connection), Code.RATE_LIMITED)
        assert httpx.get(f"{bounded.base_url}/healthz", timeout=30).status_code == 200
        held.pop().close()
        with connect(bounded, "127.0.0.2") as connection:
            connection.sendall(get("/healthz"))
            assert answered(connection).startswith(b"HTTP/1.1 200 ")
    finally:
        for connection in held:
            connection.close()


@only_linux
def test_a_proxy_of_ours_holds_more_and_all_together_so_many(bounded: ApiProcess) -> None:
    held = [connect(bounded, "127.0.0.9") for _ in range(40)]
    try:
        for connection in held:
            connection.sendall(get("/healthz"))
            assert answered(connection).startswith(b"HTTP/1.1 200 ")
        with connect(bounded) as connection:
            envelope(rest(connection), Code.SERVICE_UNAVAILABLE)
    finally:
        for connection in held:
            connection.close()


SLOW = 3_000


@only_linux
@pytest.mark.slow
async def test_three_thousand_slow_connections_keep_no_merchant_from_creating_charges(
    server: ApiProcess, merchant: Any
) -> None:
    if raise_open_files() < SLOW + 500:
        pytest.skip(f"this machine opens {resource.getrlimit(resource.RLIMIT_NOFILE)[0]} files")
    token = await asyncio.to_thread(server.token, merchant)
    said = (b"", b"GET /v1/charges HTTP/1.1\r\nX: ", get(PIX, "Content-Length: 900").replace(b"GET", b"POST", 1) + b"{")
    slow = []
    for number in range(SLOW):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", server.port, local_addr=(f"127.0.0.{2 + number % 4}", 0)
        )
        # At once: opening all of them can take longer than a first byte may.
        writer.write(said[number % len(said)])
        slow.append((reader, writer))
    closed = asyncio.gather(*(asyncio.wait_for(_until_closed(reader), 60) for reader, _ in slow))
    statuses: list[int] = []
    async with httpx.AsyncClient(
        base_url=server.base_url, headers={"authorization": f"Bearer {token}"}, timeout=_ANSWER_S
    ) as client:
        while not closed.done() or len(statuses) < 100:
            body = {"account_id": str(merchant.account_id), "amount": "1.00"}
            made = await client.post(PIX, json=body, headers={"idempotency-key": secrets.token_hex(8)})
            statuses.append(made.status_code)
    assert set(statuses) == {201}
    answers = await closed
    unread = 0
    for number, (answer, (_, writer)) in enumerate(zip(answers, slow, strict=True)):
        writer.close()
        if number % len(said) and answer:
            envelope(answer, Code.REQUEST_TIMEOUT)
        else:
            assert answer == b""
            unread += number % len(said) > 0
    # On a machine that stands still, first bytes are not read by the time they are due: those connections said nothing.
    assert unread < SLOW // 10


async def _until_closed(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


PIECES = (
    b"GET ", b"POST ", b"/v1/charges ", b"/v1/charges/pix ", b"/pagar/x ", b"HTTP/1.1", b"HTTP/1.0", b"\r\n", b"\n",
    b"\r", b"Host: x\r\n", b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n",
    b"5\r\nhello\r\n", b"0\r\n\r\n", b"\r\n\r\n", b"{}", b"\x00", b"\xff", b":", b" ", b"Connection: close\r\n",
    b"Connection: upgrade\r\n", b"Upgrade: h2c\r\n", b"Expect: 100-continue\r\n", b"X: ", b"y" * 3_000, b"\t", b"#",
    b"?", b"%", b"//", b"\x16\x03\x01", b"Authorization: Bearer x\r\n", b"Content-Type: application/json\r\n",
    b"Idempotency-Key: k\r\n", b"OPTIONS * ",
)  # fmt: skip


def test_no_bytes_at_all_make_it_fail(server: ApiProcess) -> None:
    """Of a seed, so that a run can be repeated: whole requests with some bytes changed, and pieces in any order."""
    chance = random.Random(20_261_123)
    seen: set[int] = set()
    for _ in range(600):
        if chance.random() < 0.5:
            said = b"".join(chance.choices(PIECES, k=chance.randrange(1, 14)))
        else:
            whole = bytearray(get("/v1/charges", "Content-Length: 2") + b"{}")
            for _ in range(chance.randrange(1, 4)):
                whole[chance.randrange(len(whole))] = chance.randrange(256)
            said = bytes(whole)
        with connect(server) as connection:
            try:
                for part in (said[: len(said) // 2], said[len(said) // 2 :]):
                    connection.sendall(part)
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                continue
            answer = rest(connection)
        found = {int(status) for status in re.findall(rb"^HTTP/1\.[01] ([0-9]{3}) ", answer, re.M)}
        assert all(400 <= status < 500 or status in (100, 204) for status in found), (said, answer[:500])
        assert b"Traceback" not in answer
        assert not answer or b'"request_id"' in answer or found <= {100, 204} or b"<html" in answer, (
            said,
            answer[:500],
        )
        seen |= found
    assert {400, 401} <= seen
    assert httpx.get(f"{server.base_url}/healthz", timeout=_ANSWER_S).status_code == 200
    assert "Traceback" not in server.said()
    assert '"level":"error"' not in server.said()
