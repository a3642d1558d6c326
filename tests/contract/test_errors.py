"""The error envelope (contract section 2): one shape for every error, one table of codes, a page for each code."""

from typing import Any

import httpx
import msgspec
import pytest

from api.body.reading import read_object
from domain.errors import Code
from tests.support.counting import calls_made
from tests.support.in_process import Api, bearer, envelope
from tests.support.system import System

JSON = (b"content-type", b"application/json")
PIX = "/v1/charges/pix"

# The spec's table of codes and the contract's additions, copied from there.
STATUSES: dict[int, set[str]] = {
    400: {
        "IDEMPOTENCY_KEY_REQUIRED", "AMOUNT_INVALID", "INVALID_DUE_DATE", "CURSOR_INVALID", "LIMIT_INVALID",
        "INTEGRADOR_CODE_INVALID", "CANCEL_REFERENCE_REQUIRED", "VALIDATION_ERROR", "MALFORMED_JSON",
        "IDEMPOTENCY_KEY_INVALID", "EXPIRES_IN_INVALID", "DATE_RANGE_INVALID", "MALFORMED_REQUEST",
    },
    401: {"UNAUTHENTICATED"},
    403: {"ACCOUNT_MISMATCH", "KYC_REQUIRED", "PIX_AVULSO_SUSPENDED", "SANDBOX_ONLY", "INSUFFICIENT_SCOPE"},
    404: {
        "CHARGE_NOT_FOUND", "REFUND_NOT_FOUND", "WALLET_ACCOUNT_NOT_FOUND", "ROUTE_NOT_FOUND", "WITHDRAWAL_NOT_FOUND",
        "SCHEDULE_NOT_FOUND",
    },
    405: {"METHOD_NOT_ALLOWED"},
    409: {
        "IDEMPOTENCY_KEY_REUSED", "CHARGE_NOT_PENDING", "CHARGE_NOT_REFUNDABLE", "CANCEL_REFERENCE_AMBIGUOUS",
        "IDEMPOTENCY_IN_PROGRESS", "WITHDRAWAL_NOT_CANCELLABLE",
    },
    408: {"REQUEST_TIMEOUT"},
    413: {"PAYLOAD_TOO_LARGE"},
    414: {"URI_TOO_LONG"},
    415: {"UNSUPPORTED_MEDIA_TYPE"},
    422: {
        "REFUND_EXCEEDS", "MERCHANT_ADDRESS_REQUIRED", "INSUFFICIENT_BALANCE", "REFUND_DESTINATION_REQUIRED",
        "PAYER_EMAIL_REQUIRED", "WITHDRAWAL_BELOW_MINIMUM",
    },
    429: {"RATE_LIMITED"},
    431: {"HEADERS_TOO_LARGE"},
    500: {"INTERNAL_ERROR"},
    502: {"BANK_UNAVAILABLE"},
    503: {"SERVICE_UNAVAILABLE"},
}  # fmt: skip


def test_every_code_of_spec_and_contract_has_the_stated_status() -> None:
    for status, names in STATUSES.items():
        for name in names:
            assert Code[name].status == status


def test_every_code_has_its_own_value_and_message() -> None:
    assert list(Code.__members__) == [code.name for code in Code], "two names with one value would be one code"
    assert len({code.message for code in Code}) == len(Code)
    assert all(code.message.strip() and code.message.endswith(".") for code in Code)


def test_every_code_has_a_documentation_page(system: System) -> None:
    with httpx.Client(timeout=30) as client:
        for code in Code:
            page = client.get(f"{system.docs_url}/errors/{code.name}")
            assert page.status_code == 200
            assert code.name in page.text
        assert client.get(f"{system.docs_url}/errors/NO_SUCH_CODE").status_code == 404


def test_the_documentation_url_of_an_error_leads_to_its_page(system: System) -> None:
    with httpx.Client(base_url=system.base_url, timeout=30) as client:
        error = client.get("/v1/charges").json()["error"]
        page = client.get(error["documentation_url"])
    assert error["documentation_url"] == f"{system.docs_url}/errors/UNAUTHENTICATED"
    assert page.status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/", "/v1", "/v1/", "/v2/charges", "/nope", "/v1/charge", "/v1/charges/a/b/c", "/v1/charges/a/cancel/b", "*",
        "/V1/charges", "/v1/charges/../payments", "/v1/%2e%2e/charges", "/%00", "/%ff", "/v1/idempotency-keys/",
        "/v1/accounts/x", "/.env", "/v1/charges;x", "/metrics", "/healthz/", "//v1/charges",
        "/v1/charges/", "/v1//charges",
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_an_unknown_route_is_route_not_found(api: Api, method: str, path: str) -> None:
    for headers in ([], bearer(await api.token())):
        assert (await api.ask(method, path, headers=headers)).code() == "ROUTE_NOT_FOUND"


async def test_a_path_has_one_spelling_so_a_key_has_one_fingerprint(api: Api) -> None:
    headers = [
        *bearer(await api.token()),
        (b"idempotency-key", b"one-spelling"),
        (b"content-type", b"application/json"),
    ]
    body = msgspec.json.encode(api.pix("1.00"))
    for path in (f"{PIX}/", "/v1/charges//pix", f"/{PIX}", f"{PIX}//"):
        assert (await api.ask("POST", path, headers=headers, body=body)).code() == "ROUTE_NOT_FOUND"
    assert (await api.ask("POST", PIX, headers=headers, body=body)).status == 201
    assert (await api.ask("POST", "/v1/charges/%70ix", headers=headers, body=body)).status == 200


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        (PIX, "POST"),
        ("/v1/charges", "GET"),
        ("/v1/charges/summary", "GET"),
        ("/v1/charges/x", "GET"),
        ("/v1/charges/x/cancel", "POST"),
        ("/v1/charges/cancel", "POST"),
        ("/v1/charges/x/simulate-payment", "POST"),
        ("/v1/payments", "GET"),
        ("/v1/events", "GET"),
        ("/v1/accounts/x/balance", "GET"),
        ("/v1/accounts/x/ledger", "GET"),
        ("/v1/idempotency-keys/x", "GET"),
        ("/v1/oauth/token", "POST"),
        ("/v1/openapi.json", "GET"),
        ("/healthz", "GET"),
    ],
)
async def test_a_wrong_method_is_405_and_allow_names_the_right_one(api: Api, path: str, allowed: str) -> None:
    answered = {allowed, "HEAD"} if allowed == "GET" else {allowed}
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "TRACE", "BREW"} - answered:
        reply = await api.ask(method, path, headers=[JSON], body=b"{}")
        assert reply.status == 405
        assert method == "HEAD" or reply.code() == "METHOD_NOT_ALLOWED"
        assert allowed in str(reply.header("allow")).split(", ")
        assert answered <= set(str(reply.header("allow")).split(", "))
        assert method not in str(reply.header("allow")).split(", ")


@pytest.mark.parametrize("path", ["/v1/charges", "/v1/charges/{id}", "/v1/openapi.json", "/healthz", "/v1/charges/x"])
async def test_head_answers_like_get_without_the_body(api: Api, path: str) -> None:
    path = path.replace("{id}", (await api.create())["charge_id"])
    got, head = [await api.ask(method, path, headers=bearer(await api.token())) for method in ("GET", "HEAD")]
    assert (head.status, head.body) == (got.status, b"")
    assert head.header("content-length") == str(len(got.body))
    ours = {"x-request-id", "ratelimit-remaining", "ratelimit-reset"}
    assert [each for each in head.headers if each[0].decode() not in ours] == [
        each for each in got.headers if each[0].decode() not in ours
    ]


@pytest.mark.parametrize("path", [PIX, "/v1/charges", "/v1/oauth/token", "/healthz"])
async def test_options_answers_the_methods_and_a_request_id(api: Api, path: str) -> None:
    reply = await api.ask("OPTIONS", path)
    assert (reply.status, reply.body) == (204, b"")
    assert "OPTIONS" in str(reply.header("allow"))
    assert reply.header("x-request-id")


@pytest.mark.parametrize(
    "body",
    [
        b"", b" ", b"{", b"}", b'{"amount"}', b'{"amount":}', b"{'amount':'1'}", b'{"amount":"1.00",}', b"nul", b"\xff",
        b"\xef\xbb\xbf{}", b'{"a":"\xc3"}', b'{"a":"\\ud800"}', b'{"a\\udfff":1}', b'{"a":NaN}', b'{"a":Infinity}',
        b'{"a":1}{"b":2}', b"[" * 50_000, b'{"a":' * 50_000, b'{"a":' + b"9" * 5000 + b"}", b'{"a":"\n"}', b'{"a":01}',
        b'{"amount":"1.00","amount":"1.00"}', b'{"a":{"b":1,"b":2}}', b'{"a":"\x00"}', b"\x00", "{}".encode("utf-16"),
        b'{"a":1e99999999999999999999}', b'{"a":-1e-99999999999999999999}',
    ],
    ids=lambda body: repr(body)[:24],
)  # fmt: skip
@pytest.mark.parametrize("path", [PIX, "/v1/charges/cancel"])
async def test_a_body_that_is_no_json_is_malformed_json(api: Api, path: str, body: bytes) -> None:
    assert (await api.post(path, body, token=await api.token(), key="k")).code() == "MALFORMED_JSON"


async def test_brackets_inside_a_text_do_not_count_as_nesting(api: Api) -> None:
    body = {"account_id": str(api.first.account_id), "amount": "1.00", "note": "{[" * 2_000}
    assert (await api.post(PIX, body, token=await api.token(), key="brackets")).status == 201


def test_reading_a_body_of_many_brackets_makes_no_python_call_for_each() -> None:
    """No other request is answered while a body is read."""
    body = b'{"a":[' + b"[]," * 80_000 + b"[]]}"
    assert calls_made(lambda: read_object(body)) < 1_000


@pytest.mark.parametrize(
    ("first", "second"),
    [("1e400", "null"), ("1e400", "1e401"), ("0.1", "0.10000000000000000001"), ("1e400", '"1e400"')],
)
async def test_bodies_whose_numbers_differ_only_beyond_a_floats_precision_are_different(
    api: Api, first: str, second: str
) -> None:
    key = f"numbers {first} {second}"
    bodies = [
        f'{{"account_id": "{api.first.account_id}", "amount": "1.00", "z": {number}}}'.encode()
        for number in (first, first, second)
    ]
    replies = [await api.post(PIX, body, token=await api.token(), key=key) for body in bodies]
    assert [reply.status for reply in replies] == [201, 200, 409]


async def test_a_body_with_a_number_beyond_floats_and_an_escape_is_read(api: Api) -> None:
    body = f'{{"account_id": "{api.first.account_id}", "amount": "1.00", "z": 1e400, "n": "\\u00e3"}}'.encode()
    assert (await api.post(PIX, body, token=await api.token(), key="escape")).status == 201


async def test_ids_in_a_body_may_be_in_capitals(api: Api) -> None:
    body = {"account_id": str(api.first.account_id).upper(), "amount": "1.00"}
    made = await api.post(PIX, body, token=await api.token(), key="capitals")
    assert made.status == 201
    body = {"charge_id": made.json()["charge_id"].upper()}
    assert (await api.post("/v1/charges/cancel", body, token=await api.token())).json()["status"] == "cancelled"


@pytest.mark.parametrize("body", [b"[]", b"null", b"1", b'"{}"', b"true", b"[{}]", b"1e999"])
@pytest.mark.parametrize("path", [PIX, "/v1/charges/cancel"])
async def test_json_that_is_no_object_is_a_validation_error(api: Api, path: str, body: bytes) -> None:
    assert (await api.post(path, body, token=await api.token(), key="k")).code() == "VALIDATION_ERROR"


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"account_id": None}, "account_id"),
        ({"account_id": 1}, "account_id"),
        ({"account_id": "x"}, "account_id"),
        ({"account_id": ""}, "account_id"),
        ({"external_id": 1}, "external_id"),
        ({"external_id": "x" * 256}, "external_id"),
        ({"external_id": "a\x00"}, "external_id"),
        ({"external_id": "a\x1b[2J"}, "external_id"),
        ({"description": ["x"]}, "description"),
        ({"description": "x" * 501}, "description"),
        ({"description": "\x7f"}, "description"),
        ({"payer": []}, "payer"),
        ({"payer": "Ana"}, "payer"),
        ({"payer": {"name": 1}}, "payer.name"),
        ({"payer": {"name": "x" * 201}}, "payer.name"),
        ({"payer": {"name": "\x00"}}, "payer.name"),
        ({"payer": {"document": 12345678909}}, "payer.document"),
        ({"payer": {"document": "123.456.789-09"}}, "payer.document"),
        ({"payer": {"document": "1234567890"}}, "payer.document"),
        ({"payer": {"document": "12345678909\n"}}, "payer.document"),
        ({"payer": {"document": "١٢٣٤٥٦٧٨٩٠٩"}}, "payer.document"),
        ({"payer": {"document": "12ABC34501DE35"}}, "payer.document"),
        ({"payer": {"email": "ana"}}, "payer.email"),
        ({"payer": {"email": "@"}}, "payer.email"),
        ({"payer": {"email": "a@b@c"}}, "payer.email"),
        ({"payer": {"email": "<a@b.com>"}}, "payer.email"),
        ({"payer": {"email": ".a@b.com"}}, "payer.email"),
        ({"payer": {"email": "a.@b.com"}}, "payer.email"),
        ({"payer": {"email": "a@b..com"}}, "payer.email"),
        ({"payer": {"email": "a b@c"}}, "payer.email"),
        ({"payer": {"email": "a\n@c"}}, "payer.email"),
        ({"payer": {"email": "a@" + "b" * 253}}, "payer.email"),
        ({"payer": {"phone": 5511}}, "payer.phone"),
        ({"payer": {"phone": "1" * 33}}, "payer.phone"),
    ],
    ids=repr,
)
async def test_a_validation_error_names_the_field(api: Api, more: dict[str, Any], field: str) -> None:
    reply = await api.post(PIX, api.pix(**more), token=await api.token(), key="k")
    assert reply.code() == "VALIDATION_ERROR"
    assert [each["field"] for each in envelope(reply)["fields"]] == [field]


async def test_check_digits_are_enforced_in_production_only(api: Api) -> None:
    for mode, document, status in (
        ("test", "12345678900", 201), ("production", "12345678900", 400), ("production", "12345678909", 201),
        ("test", "11111111111", 201), ("production", "11111111111", 400), ("production", "11222333000181", 201),
        ("production", "11222333000180", 400),
    ):  # fmt: skip
        body = api.pix(payer={"name": "Ana", "document": document})
        reply = await api.post(PIX, body, token=await api.token(mode=mode), key=f"{mode}{document}")
        assert reply.status == status, (mode, document, reply)


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=-1", "limit=", "limit=1.0", "limit=1e1", "limit=%2B5", "limit=+5", "limit=5%0a",
        "limit=%D9%A5",
        "limit=0000", "limit=abc", "limit=1&limit=1", "limit=0x10", "limit=1_0", "limit=null", "limit=%EF%BC%95",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/v1/charges", "/v1/payments", "/v1/events", "/v1/accounts/{account}/ledger"])
async def test_a_limit_other_than_a_positive_whole_number_is_limit_invalid(api: Api, path: str, query: str) -> None:
    path = path.format(account=api.first.account_id)
    reply = await api.ask("GET", path, query=query.encode(), headers=bearer(await api.token()))
    assert reply.code() == "LIMIT_INVALID"


@pytest.mark.parametrize("query", ["limit=1", "limit=100", "limit=101", "limit=007", "limit=" + "9" * 4000, ""])
async def test_a_limit_above_the_maximum_is_accepted(api: Api, query: str) -> None:
    assert (await api.ask("GET", "/v1/charges", query=query.encode(), headers=bearer(await api.token()))).status == 200


@pytest.mark.parametrize(
    "query",
    [
        "nope=1", "status=nope", "status=", "status=PAID", "payment_method=card", "external_id=", "external_id=%00",
        "external_id=" + "x" * 256, "external_id=a&external_id=b", "order=up", "order=asc&order=desc", "txid=%ff",
        "external_id=%ED%A0%80", "Status=paid", "status[]=paid", "=", "a", "due_to", "&".join(["status=paid"] * 21),
        "&".join(["status=paid"] * 101), "page=2", "offset=10", "nosso_numero=%1b",
    ],
)  # fmt: skip
async def test_an_unknown_or_unreadable_parameter_of_a_list_is_refused(api: Api, query: str) -> None:
    for path in ("/v1/charges", "/v1/charges/summary"):
        reply = await api.ask("GET", path, query=query.encode(), headers=bearer(await api.token()))
        assert reply.code() == ("DATE_RANGE_INVALID" if query == "due_to" else "VALIDATION_ERROR")


@pytest.mark.parametrize(
    "query",
    [
        "{}_from=2026-02-30", "{}_from=20260101", "{}_from=2026-W01-1", "{}_from=2026-1-1", "{}_from=", "{}_to=today",
        "{}_from=2026-01-02&{}_to=2026-01-01", "{}_from=2026-01-01T00:00:00Z", "{}_from=0000-01-01",
        "{}_from=2026-01-01%0a", "{}_from=%EF%BC%92026-01-01",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/charges", "created"), ("/v1/charges", "due"), ("/v1/payments", "paid"), ("/v1/events", "created"),
        ("/v1/accounts/{account}/ledger", "created"),
    ],
)  # fmt: skip
async def test_an_invalid_date_or_range_of_a_list_is_date_range_invalid(
    api: Api, path: str, name: str, query: str
) -> None:
    path = path.format(account=api.first.account_id)
    reply = await api.ask("GET", path, query=query.replace("{}", name).encode(), headers=bearer(await api.token()))
    assert reply.code() == "DATE_RANGE_INVALID"


@pytest.mark.parametrize("day", ["0001-01-01", "0002-01-01", "1900-01-01", "9998-12-31", "9999-12-31", "2024-02-29"])
async def test_the_first_and_last_years_of_the_calendar_are_accepted_as_dates(api: Api, day: str) -> None:
    token = await api.token()
    for query in (f"created_from={day}", f"created_to={day}", f"due_from={day}&due_to={day}"):
        assert (await api.get(f"/v1/charges?{query}", token=token)).status == 200
    for query in (f"paid_from={day}", f"paid_to={day}"):
        assert (await api.get(f"/v1/payments?{query}", token=token)).status == 200
    for query in (f"created_from={day}", f"created_to={day}"):
        assert (await api.get(f"/v1/events?{query}", token=token)).status == 200
        assert (await api.get(f"/v1/accounts/{api.first.account_id}/ledger?{query}", token=token)).status == 200


async def test_every_answer_has_its_own_request_id(api: Api) -> None:
    token = await api.token()
    replies = [
        await api.get("/v1/charges", token=token),
        await api.get("/v1/charges", token=token),
        await api.get("/v1/charges", token=None),
        await api.get("/nope", token=None),
        await api.ask("PUT", "/v1/charges"),
        await api.get("/healthz", token=None),
        await api.get("/readyz", token=None),
        await api.get("/v1/openapi.json", token=None),
        await api.post("/v1/oauth/token", {}, token=None),
        await api.post(PIX, api.pix(), token=token, key="request ids"),
        await api.post(PIX, api.pix(), token=token, key="request ids"),
        await api.post("/bank/x", {}, token=None),
        await api.ask("OPTIONS", "/v1/charges"),
    ]
    ids = [reply.header("x-request-id") for reply in replies]
    assert all(ids)
    assert len(set(ids)) == len(ids)


async def test_a_request_id_sent_by_the_client_is_not_echoed(api: Api) -> None:
    reply = await api.ask("GET", "/v1/charges", headers=[(b"x-request-id", b"mine\x1b")])
    assert reply.code() == "UNAUTHENTICATED"
    assert b"mine" not in reply.body + b"".join(value for _, value in reply.headers)


async def test_an_unexpected_exception_is_internal_error_and_its_text_is_not_shown(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("secret of the house")

    token = await api.token()
    monkeypatch.setattr(api.app.state.context.charges, "find", broken)
    reply = await api.get("/v1/charges/00000000-0000-0000-0000-000000000000", token=token)
    assert reply.code() == "INTERNAL_ERROR"
    assert b"secret" not in reply.body


async def test_an_unreachable_database_is_service_unavailable_with_retry_after(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(*_: object) -> None:
        raise ConnectionRefusedError("no database at 10.0.0.1")

    token = await api.token()
    monkeypatch.setattr(api.app.state.context.charges, "find", gone)
    reply = await api.get("/v1/charges/00000000-0000-0000-0000-000000000000", token=token)
    assert reply.code() == "SERVICE_UNAVAILABLE"
    assert int(str(reply.header("retry-after"))) >= 1
    assert b"10.0.0.1" not in reply.body


async def test_a_body_of_256_kib_is_accepted_and_one_byte_more_is_payload_too_large(api: Api) -> None:
    token, most = await api.token(), 256 * 1024
    empty = b'{"amount":"1.00","account_id":"%b","x":""}' % str(api.first.account_id).encode()
    body = empty[:-2] + b"x" * (most - len(empty)) + empty[-2:]
    assert len(body) == most
    assert (await api.post(PIX, body, token=token, key="most")).status == 201
    assert (await api.post(PIX, body + b" ", token=token, key="more")).code() == "PAYLOAD_TOO_LARGE"
    assert (await api.post("/v1/charges/x/cancel", body + b" ", token=token)).code() == "PAYLOAD_TOO_LARGE"
