"""No input whatever gives a 500 (contract section 2): arbitrary data in any part of a request ends in a 4xx envelope.

The application is called in-process, so that it also gets bytes that a real server would refuse.
"""

import json
import secrets
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from api.app import ROUTES
from tests.support.in_process import Api, Reply, bearer, envelope, open_api

PIX = "/v1/charges/pix"
CANCEL = "/v1/charges/cancel"
TOKEN = "/v1/oauth/token"
JSON = (b"content-type", b"application/json")
OPEN_PATHS = (TOKEN, "/healthz", "/v1/openapi.json", "/bank/x", "/bank/x/pix", "/nope", "/")
PATHS = (*(route.path for route in ROUTES), *OPEN_PATHS)
LISTS = tuple(route for route in ROUTES if route.query)

quick = settings(
    max_examples=250,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


@pytest.fixture(scope="module")
async def api(servers: Any) -> AsyncIterator[Api]:
    async with open_api(servers.database_url, servers.redis_url) as opened:
        await opened.create(external_id="one")
        yield opened


def assert_no_5xx(reply: Reply, path: str = "") -> Reply:
    """Asserts that the reply is no 5xx, has a request id and JSON; an error has the envelope, or RFC 6749's form at the
    token endpoint."""
    assert reply.status < 500, reply
    assert reply.header("x-request-id"), reply
    assert b"Traceback" not in reply.body
    assert b'File "' not in reply.body
    if reply.status == 204:
        return reply
    assert reply.header("content-type") == "application/json", reply
    if reply.status >= 400:
        if path == TOKEN and reply.status in (400, 401):
            assert set(reply.json()) == {"error", "error_description"}, reply
        else:
            envelope(reply)
    else:
        reply.json()
    return reply


odd_text = st.sampled_from(
    [
        "", " ", "\0", "a\0b", "\ud800", "\udfff", "\ud83d\udcb8", "\u202e", "\ufeff", "\x7f", "\x1b[2J", "\r\n", "١٢",
        "１", "é" * 300, "x" * 10_000, "'; DROP TABLE charge; --", "${jndi:ldap://x}", "{{7*7}}", "%00", "../../etc",
        "<script>", "null", "-0", "1e400", "9" * 5000, "\u2028", "İ", "ß", "\U0010ffff", "a\u0301" * 200,
    ]
)  # fmt: skip
texts = odd_text | st.text(st.characters(codec=None, exclude_categories=()), max_size=40)
numbers = st.integers() | st.floats() | st.sampled_from([2**63, -(2**63) - 1, 2**64, 10**40, -1, 0, 59, 2592001])
leaves = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)
# As Python writes JSON, with lone surrogates escaped and NaN as NaN: more than JSON allows, on purpose.
literals = st.sampled_from(
    [
        b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1e400", b"9" * 5000, b"1" + b"0" * 4000, b"0." + b"1" * 5000,
        b"1e" + b"9" * 20, b"1e-" + b"9" * 20,
        b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\u0000"', b'"\xff"', b'"\xed\xa0\x80"', b'"\x00"',
        b"[" * 900 + b"]" * 900,
        b'{"a":1,"a":2}', b"01", b"1.", b"+1", b"'x'", b"undefined", b"// x", b'"\n"',
    ]
)  # fmt: skip

CREATE_FIELDS = ("account_id", "amount", "external_id", "description", "expires_in", "payer")
PAYER_FIELDS = ("name", "document", "email", "phone")
CANCEL_FIELDS = ("charge_id", "external_id", "reason")


def python_json(value: Any) -> bytes:
    return json.dumps(value).encode()


@quick
@given(name=st.sampled_from(CREATE_FIELDS), value=values)
@example(name="amount", value="9" * 5000)
@example(name="external_id", value="\ud800")
@example(name="payer", value={"name": "\0"})
async def test_any_value_in_any_field_of_a_creation_gives_no_5xx(api: Api, name: str, value: Any) -> None:
    body = python_json(api.pix() | {name: value})
    assert_no_5xx(await api.post(PIX, body, token=await api.token(), key=secrets.token_hex(8)))


@quick
@given(name=st.sampled_from(PAYER_FIELDS), value=values, mode=st.sampled_from(["test", "production"]))
async def test_any_value_in_any_field_of_a_payer_gives_no_5xx(api: Api, name: str, value: Any, mode: str) -> None:
    body = python_json(api.pix(payer={name: value}))
    assert_no_5xx(await api.post(PIX, body, token=await api.token(mode=mode), key=secrets.token_hex(8)))


@quick
@given(
    given_body=st.dictionaries(st.sampled_from((*CREATE_FIELDS, *PAYER_FIELDS, "more", "")) | texts, values, max_size=8)
)
async def test_any_object_as_the_body_of_a_creation_gives_no_5xx(api: Api, given_body: dict[str, Any]) -> None:
    assert_no_5xx(await api.post(PIX, python_json(given_body), token=await api.token(), key=secrets.token_hex(8)))


@quick
@given(given_body=st.dictionaries(st.sampled_from(CANCEL_FIELDS) | texts, values, max_size=4))
async def test_any_object_as_the_body_of_a_cancellation_gives_no_5xx(api: Api, given_body: dict[str, Any]) -> None:
    assert_no_5xx(await api.post(CANCEL, python_json(given_body), token=await api.token()))


@quick
@given(
    path=st.sampled_from([PIX, CANCEL, TOKEN]),
    name=st.sampled_from((*CREATE_FIELDS, *CANCEL_FIELDS, "grant_type", "client_id", "client_secret", "scope", "x")),
    literal=literals,
)
async def test_any_json_literal_in_any_field_gives_no_5xx(api: Api, path: str, name: str, literal: bytes) -> None:
    fields = {key: msgspec.json.encode(value) for key, value in api.pix().items()} | {name: literal}
    body = b"{%b}" % b",".join(b'"%b":%b' % (key.encode(), value) for key, value in fields.items())
    assert_no_5xx(await api.post(path, body, token=await api.token(), key=secrets.token_hex(8)), path)


@quick
@given(path=st.sampled_from([PIX, CANCEL, TOKEN, "/bank/x"]), body=st.binary(max_size=200))
@example(path=PIX, body=b"[" * 50_000)
@example(path=PIX, body=b'{"a":' * 50_000)
@example(path=PIX, body=b'{"amount":' + b"[" * 50_000 + b"]" * 50_000 + b"}")
@example(path=PIX, body=b'{"payer":' * 25_000 + b"1" + b"}" * 25_000)
@example(path=CANCEL, body=b'[{"a":' * 20_000)
@example(path=TOKEN, body=b"[" * 50_000)
@example(path=TOKEN, body=b'{"grant_type":' * 10_000)
@example(path=PIX, body=b'"' + b"\\ud800" * 40_000)
@example(path=PIX, body=b"\x00" * 1000)
@example(path=PIX, body=b"9" * 200_000)
@example(path=PIX, body=b'{"x":-' + b"9" * 200_000 + b"}")
@example(path=PIX, body=b"x" * 300_000)
async def test_any_bytes_as_a_body_give_no_5xx(api: Api, path: str, body: bytes) -> None:
    assert_no_5xx(await api.post(path, body, token=await api.token(), key=secrets.token_hex(8)), path)


@quick
@given(body=st.binary(max_size=200) | st.dictionaries(texts, texts, max_size=6).map(python_json))
async def test_any_body_of_any_content_type_at_the_token_endpoint_gives_no_5xx(api: Api, body: bytes) -> None:
    for kind in (b"application/x-www-form-urlencoded", b"application/json", b"multipart/form-data"):
        assert_no_5xx(await api.ask("POST", TOKEN, headers=[(b"content-type", kind)], body=body), TOKEN)


@quick
@given(
    fields=st.lists(
        st.tuples(st.sampled_from(["grant_type", "client_id", "client_secret", "scope", "x"]), texts), max_size=6
    )
)
async def test_any_form_fields_at_the_token_endpoint_give_no_5xx(api: Api, fields: list[tuple[str, str]]) -> None:
    body = "&".join(f"{name}={quote(value.encode('utf-8', 'surrogatepass'))}" for name, value in fields).encode()
    kind = (b"content-type", b"application/x-www-form-urlencoded")
    assert_no_5xx(await api.ask("POST", TOKEN, headers=[kind], body=body), TOKEN)
    whole = b"grant_type=client_credentials&" + body
    assert_no_5xx(await api.ask("POST", TOKEN, headers=[kind], body=whole), TOKEN)


header_names = st.sampled_from(
    [
        b"authorization", b"content-type", b"idempotency-key", b"x-sandbox-bank", b"accept", b"x-request-id", b"cookie",
        b"content-length", b"transfer-encoding", b"x-forwarded-for", b"host", b"range", b"if-none-match", b"te",
        b"content-encoding", b"accept-encoding", b"x-http-method-override", b"expect", b"",
    ]
)  # fmt: skip
header_values = (
    st.binary(max_size=60)
    | st.sampled_from(
        [b"", b"Bearer ", b"Bearer \xff", b"Basic \xff\xff", b"gzip", b"x" * 65_536, b"application/json", b"-1"]
    )
    | st.binary(max_size=20).map(lambda junk: b"Bearer " + junk)
)


@quick
@given(
    route=st.sampled_from(ROUTES),
    headers=st.lists(st.tuples(header_names | st.binary(min_size=1, max_size=20), header_values), max_size=6),
    good=st.booleans(),
)
async def test_any_headers_give_no_5xx(api: Api, route: Any, headers: list[tuple[bytes, bytes]], good: bool) -> None:
    own = [JSON, *bearer(await api.token())] if good else []
    path = route.path.replace(":str", "").replace(":path", "")
    # The server handles a false content length; see tests/integration/api/test_raw_sockets.py.
    given_headers = [header for header in headers if header[0].lower() != b"content-length"]
    assert_no_5xx(
        await api.ask(route.method, path, headers=[*own, *given_headers], body=msgspec.json.encode(api.pix()))
    )


@quick
@given(value=header_values)
async def test_any_idempotency_key_is_accepted_or_refused_with_400(api: Api, value: bytes) -> None:
    headers = [JSON, *bearer(await api.token()), (b"idempotency-key", value)]
    reply = assert_no_5xx(await api.ask("POST", PIX, headers=headers, body=msgspec.json.encode(api.pix())))
    assert reply.status in (200, 201, 400)


parameter_names = st.sampled_from(
    sorted({parameter.name for route in LISTS for parameter in route.query} | {"", "x", "limit[]", "Limit"})
)
parameter_values = (
    texts
    | st.sampled_from(
        ["1", "0", "-1", "asc", "paid", "2026-01-01", "9999-12-31", "0001-01-01", "9" * 30, "payment.received"]
    )
    | st.uuids().map(str)
    | st.dates().map(str)
)


@quick
@given(route=st.sampled_from(LISTS), pairs=st.lists(st.tuples(parameter_names, parameter_values), max_size=5))
@example(route=LISTS[0], pairs=[("limit", "9" * 5000)])
@example(route=LISTS[0], pairs=[("status", "paid")] * 200)
@example(route=LISTS[0], pairs=[("created_to", "9999-12-31"), ("created_from", "0001-01-01")])
async def test_any_parameters_of_a_list_give_no_5xx(api: Api, route: Any, pairs: list[tuple[str, str]]) -> None:
    query = "&".join(f"{quote(name)}={quote(value.encode('utf-8', 'surrogatepass'))}" for name, value in pairs).encode()
    path = route.path.replace("{account_id:str}", str(api.first.account_id))
    assert_no_5xx(await api.ask("GET", path, query=query, headers=bearer(await api.token())))


@quick
@given(
    route=st.sampled_from(LISTS), query=st.binary(max_size=80) | st.text("&=%;+[]0aF#?/", max_size=60).map(str.encode)
)
@example(route=LISTS[0], query=b"&" * 60_000)
@example(route=LISTS[0], query=b"a=" + b"%00" * 20_000)
@example(route=LISTS[0], query=b"%")
@example(route=LISTS[0], query=b"external_id=%")
@example(route=LISTS[0], query=b"external_id=%zz%f")
async def test_any_query_string_gives_no_5xx(api: Api, route: Any, query: bytes) -> None:
    path = route.path.replace("{account_id:str}", str(api.first.account_id))
    assert_no_5xx(await api.ask("GET", path, query=query, headers=bearer(await api.token())))


segments = st.sampled_from(
    [
        "%00", "%ff", "%ED%A0%80", "..", ".", "%2e%2e", "%2F", "%5c", "a" * 9_000, "%", "%zz", " ", "+", "%20",
        "\u00e9",
        "{charge_id}", "*", "-1", "null", "00000000-0000-0000-0000-000000000000", "%0d%0a", "summary", "pix", "cancel",
        "01a1fdc1-6ef8-7d8c-8c7a-bd0dfc3d4f45%0a", "urn:uuid:00000000-0000-0000-0000-000000000000", "\U0001f4b8",
        ";x=1",
    ]
) | st.text("abc%0/.-~\u00e9", max_size=20)  # fmt: skip


@quick
@given(
    path=st.sampled_from(PATHS),
    segment=segments,
    method=st.sampled_from(["GET", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW", "get", ""]),
    good=st.booleans(),
)
async def test_any_path_segment_and_any_method_give_no_5xx(
    api: Api, path: str, segment: str, method: str, good: bool
) -> None:
    for name in ("{charge_id:str}", "{account_id:str}", "{delivery_id:str}", "{key:path}"):
        path = path.replace(name, segment)
    headers = [JSON, (b"idempotency-key", secrets.token_hex(8).encode()), *bearer(await api.token() if good else None)]
    # Only a POST reaches the token endpoint; any other method is refused before it, with the envelope.
    reply = await api.ask(method, path, headers=headers, body=b"{}")
    if method == "HEAD":  # the head of GET's answer, without a body
        assert reply.body == b""
        assert reply.status < 500, reply
        assert reply.header("x-request-id"), reply
    else:
        assert_no_5xx(reply, path if method == "POST" else "")


@quick
@given(parts=st.lists(segments, max_size=6))
@example(parts=["x" * 70_000])
@example(parts=["a"] * 5_000)
async def test_any_path_gives_no_5xx(api: Api, parts: list[str]) -> None:
    for start in ("", "/v1", "/v1/charges"):
        assert_no_5xx(await api.ask("GET", "/".join([start, *parts]), headers=bearer(await api.token())))


async def test_after_all_other_inputs_a_charge_is_created_and_paid(api: Api) -> None:
    made = await api.create()
    reply = await api.post(f"/v1/charges/{made['charge_id']}/simulate-payment", None, token=await api.token())
    assert reply.json()["status"] == "paid"
