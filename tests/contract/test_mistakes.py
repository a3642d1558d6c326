"""What an engineer gets wrong in the first week, and what he is told: field, rule, how to repair it.

Each row is a mistake somebody made, the code it is refused with, and words that must stand in the answer. What a
refusal says is no promise to programs, so only the words that repair are looked for.
"""

import secrets
from base64 import b64encode
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from tests.support.boleto_merchant import PAGADOR, boleto_body, in_days, issued
from tests.support.dual_merchant import PAYER, dual_body
from tests.support.in_process import Api, Reply, bearer, envelope
from tests.support.merchant import ApiMerchant

JSON: Final = (b"content-type", b"application/json")
PIX: Final = "/v1/charges/pix"
BOLETO: Final = "/v1/charges/boleto"
DUAL: Final = "/v1/charges/dual"
NOBODY: Final = "01a1fdc2-2be1-7deb-b4f8-5fa37a19dbc1"
UUID_TOLD: Final = "a charge_id is a UUID"


class Mistake(NamedTuple):
    path: str
    sent: Any
    """Fields over those of a body that is right; ... leaves one out. Bytes are the whole body."""
    code: str
    says: tuple[str, ...]


def amount(given: Any, *says: str, path: str = PIX, field: str = "amount") -> Mistake:
    return Mistake(path, {field: given}, "AMOUNT_INVALID", (field, 'must be a string such as "10.50"', *says))


def wrong(path: str, sent: Any, *says: str, code: str = "VALIDATION_ERROR") -> Mistake:
    return Mistake(path, sent, code, says)


def payer_of_boleto(field: str, value: Any, *says: str) -> Mistake:
    pagador = {name: each for name, each in (PAGADOR | {field: value}).items() if each is not ...}
    return wrong(BOLETO, {"pagador": pagador}, f"pagador.{field}", *says)


BODIES: Final = (
    amount(10.5),
    amount(10),
    amount("10,50"),
    amount("10.505"),
    amount("R$ 10.50"),
    amount("1.000,00"),
    amount("0"),
    amount("-1.00"),
    amount(""),
    amount(None),
    amount(...),
    amount("999999999", 'at most "99999999.99"', path=BOLETO, field="valorCents"),
    amount(15000, path=BOLETO, field="valorCents"),
    wrong(BOLETO, {"valorCents": ..., "amount": "150.00"}, "valorCents", code="AMOUNT_INVALID"),
    amount("0.00", path=DUAL),
    # What is no JSON, and where it ceases to be.
    wrong(PIX, b"", "There is no body", code="MALFORMED_JSON"),
    wrong(PIX, b" \r\n", "There is no body", code="MALFORMED_JSON"),
    wrong(PIX, b'{\n "amount": "1.00",\n}', "line 3, column 1", code="MALFORMED_JSON"),
    wrong(PIX, b"{'amount': '1.00'}", "double quotes", "line 1, column 2", code="MALFORMED_JSON"),
    wrong(PIX, b'{"amount": "1.00"', "line 1, column 18", code="MALFORMED_JSON"),
    wrong(PIX, b'{"amount": 1.00 "a": 1}', "',' delimiter", "line 1, column 17", code="MALFORMED_JSON"),
    wrong(PIX, b'{"amount": NaN}', "NaN is no number", code="MALFORMED_JSON"),
    wrong(PIX, b'{"amount": undefined}', "line 1, column 12", code="MALFORMED_JSON"),
    wrong(PIX, b'{"name": "Jo\xe3o"}', "not UTF-8", "byte 13", code="MALFORMED_JSON"),
    wrong(PIX, b'{"name": "\\ud800"}', "surrogate pair", code="MALFORMED_JSON"),
    wrong(PIX, b'{"amount": "1.00", "amount": "2.00"}', "amount", "stands more than once", code="MALFORMED_JSON"),
    wrong(PIX, b"[" * 600, "nested deeper than 500", code="MALFORMED_JSON"),
    wrong(PIX, b'["1.00"]', "must be an object"),
    wrong(PIX, b"null", "must be an object"),
    # Fields that are missing, misspelt or of another type.
    wrong(PIX, {"account_id": ...}, "account_id", "is required"),
    wrong(PIX, {"account_id": ..., "accountId": NOBODY}, "is required: accountId is not its name"),
    wrong(PIX, {"account_id": "minha-conta"}, "account_id", "must be a UUID"),
    wrong(PIX, {"account_id": NOBODY}, "no such account for this token", "account_id", "GET /v1/me",
          code="CHARGE_NOT_FOUND"),
    wrong(BOLETO, {"account_id": NOBODY}, "is not this token's account", code="ACCOUNT_MISMATCH"),
    wrong(PIX, {"external_id": 1001}, "external_id", "must be text"),
    wrong(BOLETO, {"external_id": 1001, "descricao": 7}, "external_id", "descricao", "must be text"),
    wrong(PIX, {"external_id": "x" * 256}, "must have at most 255 characters"),
    wrong(PIX, {"description": {"a": 1}}, "description", "must be text"),
    wrong(PIX, {"send_email": "true"}, "send_email", "must be true or false"),
    wrong(PIX, {"payer": "Ana"}, "payer", "must be an object"),
    wrong(PIX, {"payer": {"document": "529.982.247-25"}}, "payer.document", "must be 11 or 14 digits"),
    wrong(PIX, {"payer": {"document": 52998224725}}, "payer.document", "must be text"),
    wrong(PIX, {"payer": {"email": "ana(at)example.com"}}, "payer.email", "must be an e-mail address"),
    wrong(PIX, {"metadata": {"order": 1001}}, "metadata.order", "must be text"),
    wrong(PIX, {"expires_in": "3600"}, "from 60 to 2592000", code="EXPIRES_IN_INVALID"),
    wrong(PIX, {"expires_in": 10}, "from 60 to 2592000", code="EXPIRES_IN_INVALID"),
    wrong(PIX, {"expires_in": 3600.5}, "from 60 to 2592000", code="EXPIRES_IN_INVALID"),
    payer_of_boleto("documento", "529.982.247-25", "must be 11 or 14 digits"),
    payer_of_boleto("documento", 52998224725, "must be text"),
    payer_of_boleto("documento", ..., "is required"),
    payer_of_boleto("tipoPessoa", "FISICA", "must be one of PESSOA_FISICA, PESSOA_JURIDICA"),
    payer_of_boleto("cep", "01310-100", "must be 8 digits"),
    payer_of_boleto("cep", 1310100, "must be text"),
    payer_of_boleto("uf", "sp", "27 states, in 2 capital letters"),
    payer_of_boleto("numero", 1578, "must be text"),
    payer_of_boleto("nome", "", "must not be empty"),
    payer_of_boleto("cidade", None, "must be text"),
    wrong(BOLETO, {"pagador": {"nome": "Ana"}}, "pagador.documento", "pagador.tipoPessoa", "pagador.cep",
          "pagador.logradouro", "pagador.cidade", "pagador.uf", "is required"),
    wrong(BOLETO, {"pagador": PAGADOR | {"tipoPessoa": "PESSOA_JURIDICA"}}, "must be 14 digits, as tipoPessoa says"),
    wrong(BOLETO, {"pagador": ...}, "pagador", "is required"),
    wrong(BOLETO, {"tipo": "pix"}, "must be one of boleto, boleto_hibrido, boleto_pix"),
    wrong(BOLETO, {"tipo": ...}, "tipo", "is required"),
    wrong(BOLETO, {"integrador_code": "ABC"}, "INTG- and 6 of A-Z 0-9", code="INTEGRADOR_CODE_INVALID"),
    wrong(DUAL, {"payer": PAYER | {"person_type": "PESSOA_JURIDICA"}}, "payer.document", "14 digits, as person_type"),
    wrong(DUAL, {"payer": PAYER | {"address": {"zip_code": "01310-100"}}}, "payer.address.zip_code",
          "payer.address.street", "must be 8 digits", "is required"),
    # Days.
    wrong(BOLETO, {"dataVencimento": in_days(0)}, "must be after today in São Paulo", "dataVencimento",
          code="INVALID_DUE_DATE"),
    wrong(DUAL, {"due_date": in_days(-1)}, "must be after today in São Paulo", "due_date", code="INVALID_DUE_DATE"),
    wrong(BOLETO, {"dataVencimento": "10/03/2027"}, "YYYY-MM-DD", code="INVALID_DUE_DATE"),
    wrong(BOLETO, {"dataVencimento": "2027-02-30"}, "an existing day", code="INVALID_DUE_DATE"),
    wrong(BOLETO, {"dataVencimento": ...}, "dataVencimento", "YYYY-MM-DD", code="INVALID_DUE_DATE"),
)  # fmt: skip


def body_of(api: Api, mistake: Mistake) -> Any:
    if isinstance(mistake.sent, bytes):
        return mistake.sent
    right = {PIX: api.pix(), BOLETO: boleto_body(), DUAL: dual_body()}[mistake.path]
    return {name: value for name, value in (right | mistake.sent).items() if value is not ...}


def told(reply: Reply) -> str:
    """Everything an engineer reads in a refusal."""
    error = envelope(reply)
    return " | ".join([error["message"], *(f"{each['field']} {each['message']}" for each in error.get("fields", ()))])


def repaired_by(reply: Reply, code: str, *says: str) -> None:
    assert reply.code() == code, reply
    words = told(reply)
    for each in says:
        assert each in words, (each, words)
    # The words of Python, or of a library, are nobody's.
    assert not [each for each in ("`", "str", "int", "Object", "null") if each in words.replace("a string", "").split()]


@pytest.mark.parametrize("mistake", BODIES, ids=lambda each: f"{each.path.rpartition('/')[2]} {each.sent!r:.60}")
async def test_a_mistake_in_a_body_is_told_with_its_repair(api: Api, mistake: Mistake) -> None:
    reply = await api.post(mistake.path, body_of(api, mistake), token=await api.token(), key=secrets.token_hex(8))
    repaired_by(reply, mistake.code, *mistake.says)


HEADERS: Final[tuple[tuple[tuple[tuple[bytes, bytes], ...], str, str], ...]] = (
    (((b"authorization", b"Bearer {token}"), JSON), "IDEMPOTENCY_KEY_REQUIRED", "needs an Idempotency-Key header"),
    (((b"authorization", b"Bearer {token}"), JSON, (b"idempotency-key", "ção".encode())), "IDEMPOTENCY_KEY_INVALID",
     "1 to 255 printable ASCII"),
    (((b"authorization", b"Bearer {token}"), (b"idempotency-key", b"k")), "UNSUPPORTED_MEDIA_TYPE", "application/json"),
    (((b"authorization", b"Bearer {token}"), (b"content-type", b"application/x-www-form-urlencoded"),
      (b"idempotency-key", b"k")), "UNSUPPORTED_MEDIA_TYPE", "application/json"),
    ((JSON,), "UNAUTHENTICATED", "send the header Authorization: Bearer"),
    (((b"x-api-key", b"{token}"), JSON), "UNAUTHENTICATED", "send the header Authorization: Bearer"),
    (((b"authorization", b"{token}"), JSON), "UNAUTHENTICATED", "is not one bearer token"),
    (((b"authorization", b"Basic " + b64encode(b"id:secret")), JSON), "UNAUTHENTICATED", "is not one bearer token"),
    (((b"authorization", b"Bearer a-client-secret"), JSON), "UNAUTHENTICATED", "is nobody's"),
    (((b"authorization", b"Bearer {token}"), JSON, (b"idempotency-key", b"k"), (b"x-sandbox-bank", b"down")),
     "VALIDATION_ERROR", "must be one of unavailable, slow"),
)  # fmt: skip


@pytest.mark.parametrize(("headers", "code", "says"), HEADERS, ids=lambda each: str(each)[:50])
async def test_a_mistake_in_a_header_is_told_with_its_repair(
    api: Api, headers: tuple[tuple[bytes, bytes], ...], code: str, says: str
) -> None:
    token = (await api.token()).encode()
    sent = [(name, value.replace(b"{token}", token)) for name, value in headers]
    repaired_by(await api.ask("POST", PIX, headers=sent, body=msgspec.json.encode(api.pix())), code, says)


@pytest.mark.parametrize(
    ("method", "path", "code", "says"),
    [
        ("POST", "/v1/charges/pix/", "ROUTE_NOT_FOUND", "Did you mean /v1/charges/pix?"),
        ("POST", "/v1//charges/pix", "ROUTE_NOT_FOUND", "Did you mean /v1/charges/pix?"),
        ("POST", "/v1/charge/pix", "ROUTE_NOT_FOUND", "Did you mean /v1/charges/pix?"),
        ("POST", "/charges/pix", "ROUTE_NOT_FOUND", "Did you mean /v1/charges/pix?"),
        ("POST", "/v1/charges/boletos/x/pdf", "ROUTE_NOT_FOUND", "Did you mean /v1/charges/boleto/{charge_id}/pdf?"),
        ("POST", "/v1/oauth/tokens", "ROUTE_NOT_FOUND", "Did you mean /v1/oauth/token?"),
        ("GET", "/v1/payment", "ROUTE_NOT_FOUND", "Did you mean /v1/payments?"),
        ("GET", "/v1/invoices", "ROUTE_NOT_FOUND", "There is nothing at this path."),
        ("GET", "/" + "x" * 5_000, "ROUTE_NOT_FOUND", "There is nothing at this path."),
        ("POST", "/v1/charges", "METHOD_NOT_ALLOWED", "does not answer to this method"),
        ("GET", "/v1/charges/{charge_id}", "CHARGE_NOT_FOUND", UUID_TOLD),
        ("GET", f"/v1/charges/{NOBODY.upper()}", "CHARGE_NOT_FOUND", UUID_TOLD),
        ("GET", "/v1/charges/m11k7bUFs4RQ-I9oiuV1ew", "CHARGE_NOT_FOUND", UUID_TOLD),
        ("GET", f"/v1/charges/{NOBODY}", "CHARGE_NOT_FOUND", "in this account and mode"),
        ("GET", "/v1/charges?page=2", "VALIDATION_ERROR", "page"),
        ("GET", "/v1/charges?status=PAID", "VALIDATION_ERROR", "pending, paid, expired"),
        ("GET", "/v1/charges?limit=0", "LIMIT_INVALID", "greater than 0"),
        ("GET", "/v1/charges?created_from=20/11/2026", "DATE_RANGE_INVALID", "YYYY-MM-DD"),
        ("GET", "/v1/charges?cursor=abc", "CURSOR_INVALID", "start again without one"),
        ("GET", f"/v1/accounts/{NOBODY}/balance", "WALLET_ACCOUNT_NOT_FOUND", "No such account"),
        ("POST", "/v1/withdrawals", "SANDBOX_ONLY", "is for production credentials"),
    ],
)
async def test_a_mistake_in_a_path_or_query_is_told_with_its_repair(
    api: Api, method: str, path: str, code: str, says: str
) -> None:
    path, _, query = path.partition("?")
    reply = await api.ask(method, path, query=query.encode(), headers=bearer(await api.token()))
    repaired_by(reply, code, says)


async def test_a_production_credential_is_told_that_it_simulates_nothing(api: Api) -> None:
    token = await api.token(mode="production")
    reply = await api.post(f"/v1/charges/{NOBODY}/simulate-payment", None, token=token)
    repaired_by(reply, "SANDBOX_ONLY", "is for test credentials")


@pytest.mark.parametrize(
    ("headers", "body", "status", "error", "says"),
    [
        ((), b"", 400, "invalid_request", "grant_type is missing"),
        ((JSON,), b"", 400, "invalid_request", "grant_type is missing"),
        ((JSON,), b"{}", 400, "invalid_request", "grant_type is missing: it is client_credentials"),
        (((b"content-type", b"text/plain"),), b"x", 400, "invalid_request", "application/x-www-form-urlencoded"),
        ((JSON,), b'{"grant_type": "password"}', 400, "unsupported_grant_type", "client_credentials"),
        ((JSON,), b'{"grant_type": "client_credentials"}', 401, "invalid_client", "authentication is missing"),
        ((JSON,), b'{"grant_type": "client_credentials", "client_id": "a", "client_secret": "b"}', 401,
         "invalid_client", "Unknown client or wrong secret"),
    ],
)  # fmt: skip
async def test_a_mistake_at_the_token_endpoint_is_told_with_its_repair(
    api: Api, headers: tuple[tuple[bytes, bytes], ...], body: bytes, status: int, error: str, says: str
) -> None:
    reply = await api.ask("POST", "/v1/oauth/token", headers=headers, body=body)
    assert (reply.status, reply.json()["error"]) == (status, error)
    assert says in reply.json()["error_description"]


async def test_whatever_a_charge_is_no_longer_pending_for_is_told(api: Api) -> None:
    token = await api.token()
    for first, status in (("cancel", "cancelled"), ("simulate-payment", "paid")):
        path = f"/v1/charges/{(await api.create())['charge_id']}"
        assert (await api.post(f"{path}/{first}", None, token=token)).status == 200
        for again in ("cancel", "simulate-payment"):
            reply = await api.post(f"{path}/{again}", None, token=token)
            repaired_by(reply, "CHARGE_NOT_PENDING", f"it is {status}.")


async def test_a_boleto_of_the_past_and_one_that_is_over_say_so(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    charge_id = (await issued(client))["charge_id"]
    late = await client.ask("PATCH", "/v1/charges/due-date", json={"charge_id": charge_id, "due_date": in_days(-1)})
    assert late.code == "INVALID_DUE_DATE"
    assert "to today in São Paulo or later" in late.body["error"]["message"]
    assert (await client.cancel(charge_id)).status == 200
    over = await client.ask("PATCH", "/v1/charges/due-date", json={"charge_id": charge_id, "due_date": in_days(5)})
    assert (over.code, over.body["error"]["message"]) == (
        "CHARGE_NOT_PENDING", "The charge is no longer pending: it is cancelled.",
    )  # fmt: skip


async def test_what_remains_of_a_payment_and_of_the_balance_is_told(api: Api) -> None:
    token = await api.token(api.second)
    path = PIX, api.pix() | {"account_id": str(api.second.account_id)}
    made = (await api.post(*path, token=token, key=secrets.token_hex(8))).json()
    refunds = f"/v1/charges/{made['charge_id']}/refunds"
    reply = await api.post(refunds, {}, token=token, key=secrets.token_hex(8))
    repaired_by(reply, "CHARGE_NOT_REFUNDABLE", "it is pending.")
    await api.post(f"/v1/charges/{made['charge_id']}/simulate-payment", None, token=token)
    reply = await api.post(refunds, {"amount": "3.00"}, token=token, key=secrets.token_hex(8))
    assert reply.status == 201, reply
    reply = await api.post(refunds, {"amount": "7.01"}, token=token, key=secrets.token_hex(8))
    repaired_by(reply, "REFUND_EXCEEDS", "what remains of the payment: 7.00.")
    token = await api.token(api.second, "production")
    reply = await api.post("/v1/withdrawals", {"amount": "12.00"}, token=token, key=secrets.token_hex(8))
    repaired_by(reply, "INSUFFICIENT_BALANCE", "it is 0.00.")
    blind = await api.token(api.second, "production", "withdrawals:create")
    reply = await api.post("/v1/withdrawals", {"amount": "12.00"}, token=blind, key=secrets.token_hex(8))
    assert (reply.code(), "0.00" in reply.body.decode()) == ("INSUFFICIENT_BALANCE", False), reply


async def test_cents_in_the_field_named_cents_are_warned_of_in_the_sandbox_alone(merchant: ApiMerchant) -> None:
    key = secrets.token_hex(8)
    made = await merchant.sandbox.ask("POST", BOLETO, json=boleto_body("15000"), key=key)
    assert made.body["amount"] == "15000.00"
    (warning,) = made.body["warnings"]
    assert '"15000" is R$ 15000.00' in warning
    again = await merchant.sandbox.ask("POST", BOLETO, json=boleto_body("15000"), key=key)
    assert (again.status, again.body["warnings"]) == (200, [warning])
    assert "warnings" not in await merchant.sandbox.charge(made.body["charge_id"])
    for client, amount_given in (
        (merchant.sandbox, "15000.00"),
        (merchant.sandbox, "999"),
        (merchant.production, "15000"),
    ):
        assert "warnings" not in await issued(client, amount_given)
