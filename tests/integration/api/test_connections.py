"""Connections have deadlines and bounds; a malformed request is answered in the error envelope where possible."""

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
# These tests connect from other addresses of the same machine.
only_linux = pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 exists on Linux only")


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
    """An API process with the default deadlines, so that requests sent in parts are in time on a stalled machine."""
    with api_process(servers, tmp_path_factory.mktemp("api"), **BOUNDS) as made:
        yield made


def connect(server: ApiProcess, address: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), _ANSWER_S, source_address=(address, 0))


def read_until_closed(connection: socket.socket) -> bytes:
    """Returns everything that arrives until the server closes."""
    received = b""
    try:
        while part := connection.recv(65_536):
            received += part
    except ConnectionResetError:
        pass
    return received


def read_health_answer(connection: socket.socket) -> bytes:
    """Returns one answer of /healthz, whose body ends in a brace."""
    received = b""
    while not received.endswith(b"}"):
        part = connection.recv(65_536)
        assert part, "the server closed the connection"
        received += part
    return received


def exchange(server: ApiProcess, *parts: bytes) -> bytes:
    with connect(server) as connection:
        for part in parts:
            connection.sendall(part)
        return read_until_closed(connection)


def assert_refused_with(answer: bytes, code: Code) -> None:
    """Asserts that `answer` is exactly one answer: the error envelope of this code, with Connection: close."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    assert first.startswith(f"HTTP/1.1 {code.status} "), answer[:300]
    assert headers["content-type"] == "application/json"
    assert headers["connection"] == "close"
    assert int(headers["content-length"]) == len(body), "bytes follow the one answer"
    error = json.loads(body)["error"]
    assert error["code"] == code.name
    assert error["request_id"].lower() == headers["x-request-id"]
    assert error["documentation_url"].endswith(f"/errors/{code.name}")


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode("latin-1")


def test_the_server_raises_its_limit_of_open_files_to_the_hard_limit(server: ApiProcess) -> None:
    soft, hard = re.search(
        r"^Max open files +(\S+) +(\S+)", Path(f"/proc/{server.pid}/limits").read_text(), re.M
    ).groups()  # type: ignore[union-attr]
    assert soft == hard


def test_a_connection_that_sends_nothing_is_closed(server: ApiProcess) -> None:
    with connect(server) as connection:
        assert read_until_closed(connection) == b""


def test_blank_lines_do_not_extend_the_deadline_of_the_first_byte(server: ApiProcess) -> None:
    with connect(server) as connection:
        _send_byte_by_byte(connection, b"\r\n" * 100)
        assert read_until_closed(connection) == b""


def test_an_unfinished_head_is_answered_408_after_its_deadline(server: ApiProcess) -> None:
    assert_refused_with(exchange(server, b"GET /v1/charges HTTP/1.1\r\nHost: x\r\nX-Half"), Code.REQUEST_TIMEOUT)


def test_a_slowly_sent_head_does_not_extend_its_deadline(server: ApiProcess) -> None:
    with connect(server) as connection:
        _send_byte_by_byte(connection, get("/v1/charges", "X: " + "y" * 200))
        assert_refused_with(read_until_closed(connection), Code.REQUEST_TIMEOUT)


def test_a_slowly_sent_body_is_answered_408_and_creates_nothing(server: ApiProcess, merchant: Any) -> None:
    token, key = server.token(merchant), secrets.token_hex(8)
    headers = [
        f"Authorization: Bearer {token}", f"Idempotency-Key: {key}", "Content-Type: application/json",
        "Content-Length: 90",
    ]  # fmt: skip
    head = get(PIX, *headers).replace(b"GET", b"POST", 1)
    with connect(server) as connection:
        connection.sendall(head)
        _send_byte_by_byte(connection, b" " * 80)
        assert_refused_with(read_until_closed(connection), Code.REQUEST_TIMEOUT)
    used = httpx.get(
        f"{server.base_url}/v1/idempotency-keys/{key}", headers={"authorization": f"Bearer {token}"}, timeout=_ANSWER_S
    )
    assert used.json()["state"] == "unknown"


def _send_byte_by_byte(connection: socket.socket, said: bytes) -> None:
    """Sends `said` one byte every 0.1 s, until the server answers or closes."""
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


def test_an_idle_connection_is_kept_between_requests_and_closed_after_its_deadline(server: ApiProcess) -> None:
    with connect(server) as connection:
        for _ in range(3):
            connection.sendall(get("/healthz"))
            assert read_health_answer(connection).startswith(b"HTTP/1.1 200 ")
            time.sleep(1)  # Three pauses together are longer than the deadline of a first byte.
        assert read_until_closed(connection) == b""


def test_a_connection_whose_client_reads_no_answers_is_closed(server: ApiProcess) -> None:
    """Otherwise the answers would hold memory and a task for as long as the client likes."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.settimeout(_ANSWER_S)
        connection.connect(("127.0.0.1", server.port))
        asked = get("/v1/openapi.json") * 40
        connection.sendall(asked)
        time.sleep(6)
        received = read_until_closed(connection)
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
                continue  # The server closed in the middle of the flood.
            received = read_until_closed(connection)
            if received:
                assert_refused_with(received, Code.HEADERS_TOO_LARGE)
    assert httpx.get(f"{server.base_url}/healthz", timeout=_ANSWER_S).status_code == 200


@pytest.mark.parametrize("parts", [1, 50], ids=["at-once", "in-pieces"])
def test_oversized_headers_are_answered_431_and_an_oversized_target_414(bounded: ApiProcess, parts: int) -> None:
    large = get("/v1/charges", *(f"X{number}: {'y' * 1_000}" for number in range(33)))
    long = get("/v1/charges?external_id=" + "a" * 17_000)
    for said, code in ((large, Code.HEADERS_TOO_LARGE), (long, Code.URI_TOO_LONG)):
        size = -(-len(said) // parts)
        assert_refused_with(exchange(bounded, *(said[at : at + size] for at in range(0, len(said), size))), code)
    for fits in (
        get("/healthz", "Connection: close", *(f"X{number}: {'y' * 1_000}" for number in range(30))),
        get("/healthz?a=" + "a" * 16_000, "Connection: close"),
    ):
        assert exchange(bounded, fits).startswith(b"HTTP/1.1 200 ")


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
def test_malformed_requests_are_answered_400_in_the_error_envelope(bounded: ApiProcess, said: bytes) -> None:
    assert_refused_with(exchange(bounded, said), Code.MALFORMED_REQUEST)


def test_requests_before_a_malformed_one_are_answered_first(bounded: ApiProcess) -> None:
    received = exchange(bounded, get("/healthz") + get("/v1/charges") + b"no request\r\n\r\n")
    first, second, third = (b"HTTP/1.1 " + part for part in received.split(b"HTTP/1.1 ")[1:])
    assert first.startswith(b"HTTP/1.1 200 ")
    assert second.startswith(b"HTTP/1.1 401 ")
    assert_refused_with(third, Code.MALFORMED_REQUEST)


def test_pipelined_requests_beyond_the_bound_are_answered_429(server: ApiProcess) -> None:
    """Thousands of requests fit into one segment; without a bound all of them start before other clients are served."""
    received = exchange(server, get("/healthz") * 40) + exchange(server, get("/healthz") * 5_000)
    assert received.startswith(b"HTTP/1.1 200 ")
    answers = [b"HTTP/1.1 " + part for part in received.split(b"HTTP/1.1 ")[1:]]
    assert sum(answer.startswith(b"HTTP/1.1 200 ") for answer in answers) < 1_000
    for answer in answers:
        if not answer.startswith(b"HTTP/1.1 200 "):
            assert_refused_with(answer, Code.RATE_LIMITED)
    assert_refused_with(answers[-1], Code.RATE_LIMITED)


def chunked_creation(server: ApiProcess, merchant: Any, **without: str) -> tuple[bytes, dict[str, str], bytes]:
    """Returns the head of a chunked creation without the headers named in `without`, all its headers, and its body."""
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
def test_a_trailer_does_not_count_as_a_header(bounded: ApiProcess, merchant: Any, name: str, code: Code) -> None:
    head, headers, body = chunked_creation(bounded, merchant, left_out=name)
    trailer = f"{name}: {headers[name]}\r\n".encode()
    assert_refused_with(exchange(bounded, head, b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(body), body, trailer)), code)
    head, _, body = chunked_creation(bounded, merchant)
    whole = exchange(bounded, head, b"%x\r\n%b\r\n0\r\nChecksum: 1\r\n\r\n" % (len(body), body))
    assert whole.startswith(b"HTTP/1.1 201 ")


def test_blanks_around_a_header_value_are_stripped(server: ApiProcess, merchant: Any) -> None:
    head, headers, body = chunked_creation(server, merchant)
    key = headers["Idempotency-Key"].encode()
    for blanks, status in ((b"%b", 201), (b" \t%b", 200), (b"%b \t ", 200)):
        asked = head.replace(key, blanks % key)
        assert exchange(server, asked, b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)).startswith(
            b"HTTP/1.1 %d " % status
        )


@pytest.mark.parametrize(
    "flood",
    [[b"a: b\r\n"] * 400_000, [b"X: ", *[b"y" * 1_000] * 2_000], [b"X" * 1_000] * 2_000],
    ids=["many", "one-long", "a-name"],
)
def test_a_flood_of_trailers_is_refused(bounded: ApiProcess, merchant: Any, flood: list[bytes]) -> None:
    head, _, body = chunked_creation(bounded, merchant)
    with connect(bounded) as connection:
        connection.sendall(head + b"%x\r\n%b\r\n0\r\n" % (len(body), body))
        try:
            connection.sendall(b"".join(flood))
        except OSError:
            return  # The server closed in the middle of the flood.
        received = read_until_closed(connection)
        if received:
            assert_refused_with(received, Code.HEADERS_TOO_LARGE)


def kept_alive_creation(server: ApiProcess, merchant: Any, *more: str) -> tuple[bytes, bytes]:
    """Returns head and body of a creation with Content-Length that leaves the connection open."""
    head, _, body = chunked_creation(server, merchant)
    length = f"Content-Length: {len(body)}".encode()
    head = head.replace(b"Transfer-Encoding: chunked", length).replace(b"Connection: close", b"X-A: b")
    return head[:-2] + b"".join(each.encode() + b"\r\n" for each in more) + b"\r\n", body


def read_statuses(connection: socket.socket) -> list[bytes]:
    """Returns the statuses of all answers until the server closes."""
    return re.findall(rb"HTTP/1\.1 ([0-9]{3})", read_until_closed(connection))


def test_each_head_of_a_connection_is_measured_on_its_own(bounded: ApiProcess, merchant: Any) -> None:
    """Each head is within its bound, and starts in a segment that holds a part of another request."""
    large = [f"X-{number}: {'a' * 1_000}" for number in range(20)]
    head, body = kept_alive_creation(bounded, merchant, *large)
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
        assert read_statuses(connection) == [b"201", b"200", b"200"]


def test_a_head_that_starts_in_the_segment_of_a_body_is_bounded_too(bounded: ApiProcess, merchant: Any) -> None:
    head, body = kept_alive_creation(bounded, merchant)
    with connect(bounded) as connection:
        connection.sendall(head)
        time.sleep(0.1)
        connection.sendall(body + get("/healthz", *(f"X-{number}: {'a' * 1_000}" for number in range(45))))
        assert read_statuses(connection) == [b"201", b"431"]


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
@pytest.mark.parametrize("pause_s", [0.0, 0.1], ids=["at-once", "apart"])
def test_an_upgrade_is_ignored_and_the_body_is_not_read_as_a_request(
    bounded: ApiProcess, merchant: Any, protocol: str, pause_s: float
) -> None:
    """Java's client asks for an upgrade with its first request. A request hidden in a body must not be answered."""
    upgrade = ("Connection: Upgrade, HTTP2-Settings", f"Upgrade: {protocol}", "HTTP2-Settings: AAMAAABk")
    head, body = kept_alive_creation(bounded, merchant, *upgrade)
    smuggled = get("/healthz")
    other = get("/v1/charges/cancel", *upgrade, f"Content-Length: {len(smuggled)}").replace(b"GET", b"POST", 1)
    chunks, _, _ = chunked_creation(bounded, merchant)
    chunks = chunks.replace(b"Connection: close\r\n", "\r\n".join(upgrade).encode() + b"\r\n")
    with connect(bounded) as connection:
        for part in (
            head, body, other, smuggled, chunks, b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body),
            get("/healthz", *upgrade) + get("/healthz", "Connection: close"),
        ):  # fmt: skip
            connection.sendall(part)
            time.sleep(pause_s)
        assert read_statuses(connection) == [b"201", b"415", b"201", b"200", b"200"]


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
def test_an_upgrade_with_connection_close_is_ignored_too(bounded: ApiProcess, merchant: Any, version: bytes) -> None:
    head, body = kept_alive_creation(bounded, merchant, "Connection: close, upgrade", "Upgrade: h2c")
    with connect(bounded) as connection:
        connection.sendall(head.replace(b"HTTP/1.1", b"HTTP/" + version) + body)
        assert read_statuses(connection) == [b"201"]


def test_a_malformed_target_does_not_suppress_the_answer_to_the_request_before_it(
    bounded: ApiProcess, merchant: Any
) -> None:
    head, body = kept_alive_creation(bounded, merchant)
    with connect(bounded) as connection:
        connection.sendall(head + body + b"GET http:// HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_statuses(connection) == [b"201", b"400"]


def test_a_request_answered_before_its_body_came_is_answered_only_once(server: ApiProcess, merchant: Any) -> None:
    """A second answer, that the body did not come in time, would be read as the answer to another request."""
    head, body = kept_alive_creation(server, merchant, "Expect: 100-continue")
    head = head.replace(b"Content-Length: %d" % len(body), b"Content-Length: 900000")
    with connect(server) as connection:
        connection.sendall(head)
        assert read_statuses(connection) == [b"413"]


@pytest.mark.parametrize("in_chunks", [True, False], ids=["chunked", "with-its-length"])
def test_a_large_body_sent_after_its_head_is_accepted(bounded: ApiProcess, merchant: Any, in_chunks: bool) -> None:
    """The body comes in one segment, far larger than a head may be."""
    head, _, body = chunked_creation(bounded, merchant)
    whole = body + b" " * 200_000
    said = b"%x\r\n%b\r\n0\r\n\r\n" % (len(whole), whole)
    if not in_chunks:
        head, said = head.replace(b"Transfer-Encoding: chunked", b"Content-Length: %d" % len(whole)), whole
    with connect(bounded) as connection:
        for part in (head, said):
            connection.sendall(part)
            time.sleep(0.2)
        assert read_until_closed(connection).startswith(b"HTTP/1.1 201 ")


def test_a_body_in_chunks_of_one_byte_is_accepted(bounded: ApiProcess, merchant: Any) -> None:
    head, _, body = chunked_creation(bounded, merchant)
    whole = body + b" " * 60_000
    assert exchange(bounded, head, *(b"1\r\n%c\r\n" % byte for byte in whole), b"0\r\n\r\n").startswith(
        b"HTTP/1.1 201 "
    )


def test_a_client_that_shuts_its_writing_side_is_still_answered(bounded: ApiProcess, merchant: Any) -> None:
    """RFC 9112 section 9.6 allows the half-close, and the request is carried out."""
    body = json.dumps({"account_id": str(merchant.account_id), "amount": "1.00"}).encode()
    headers = [
        f"Authorization: Bearer {bounded.token(merchant)}", f"Idempotency-Key: {secrets.token_hex(8)}",
        "Content-Type: application/json", f"Content-Length: {len(body)}",
    ]  # fmt: skip
    for said, status in ((get(PIX, *headers).replace(b"GET", b"POST", 1) + body, b"201"), (get("/v1/charges"), b"401")):
        with connect(bounded) as connection:
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            assert read_until_closed(connection).startswith(b"HTTP/1.1 " + status)


def test_a_truncated_request_is_answered_400(bounded: ApiProcess) -> None:
    for said in (b"GET /v1/charges HTTP/1.1\r\nHo", get(PIX, "Content-Length: 5").replace(b"GET", b"POST", 1) + b"{"):
        with connect(bounded) as connection:
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            assert_refused_with(read_until_closed(connection), Code.MALFORMED_REQUEST)


@only_linux
def test_connections_of_one_address_are_bounded_and_other_addresses_are_served(bounded: ApiProcess) -> None:
    held = [connect(bounded, "127.0.0.2") for _ in range(20)]
    try:
        for connection in held:
            connection.sendall(get("/healthz"))
            assert read_health_answer(connection).startswith(b"HTTP/1.1 200 ")
        with connect(bounded, "127.0.0.2") as connection:
            assert_refused_with(read_until_closed(connection), Code.RATE_LIMITED)
        assert httpx.get(f"{bounded.base_url}/healthz", timeout=30).status_code == 200
        held.pop().close()
        with connect(bounded, "127.0.0.2") as connection:
            connection.sendall(get("/healthz"))
            assert read_health_answer(connection).startswith(b"HTTP/1.1 200 ")
    finally:
        for connection in held:
            connection.close()


@only_linux
def test_a_trusted_proxy_may_hold_more_connections_up_to_the_bound_of_the_process(bounded: ApiProcess) -> None:
    held = [connect(bounded, "127.0.0.9") for _ in range(40)]
    try:
        for connection in held:
            connection.sendall(get("/healthz"))
            assert read_health_answer(connection).startswith(b"HTTP/1.1 200 ")
        with connect(bounded) as connection:
            assert_refused_with(read_until_closed(connection), Code.SERVICE_UNAVAILABLE)
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
        # Sent at once: opening all of them can take longer than the deadline of a first byte.
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
            assert_refused_with(answer, Code.REQUEST_TIMEOUT)
        else:
            assert answer == b""
            unread += number % len(said) > 0
    # On a stalled machine some first bytes are not read by their deadline: such connections are closed without answer.
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


def test_random_bytes_never_break_the_server(server: ApiProcess) -> None:
    """Whole requests with some bytes changed, and pieces in any order; seeded, so that a run can be repeated."""
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
            answer = read_until_closed(connection)
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
