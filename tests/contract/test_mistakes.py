"""Mistakes of an integrator's first week, and the refusals they get: field, rule, and how to correct the request.

Each row is a mistake, the code of its refusal (and so its status), and words that the answer must contain. The wording
of a refusal is no promise to programs, so the tests look only for the words that help. An answer has grade A when it
states where the mistake is and how to correct it, B when it is right and says no more; no answer may mislead.
"""

import secrets
import sys
from base64 import b64encode
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from domain.errors import Code
from tests.support.boleto_merchant import PAGADOR, boleto_body, in_days, issue_boleto
from tests.support.dual_merchant import PAYER, dual_body
from tests.support.in_process import Api, Reply, bearer, envelope
from tests.support.merchant import ApiMerchant

JSON: Final = (b"content-type", b"application/json")
PIX: Final = "/v1/charges/pix"
BOLETO: Final = "/v1/charges/boleto"
DUAL: Final = "/v1/charges/dual"
NOBODY: Final = "01a1fdc2-2be1-7deb-b4f8-5fa37a19dbc1"
UUID_TOLD: Final = "a charge_id is a UUID"
# The JSON parser points at the comma from Python 3.13 on, and at the character after it before 3.13.
_TRAILING_COMMA: Final = "line 2, column 18" if sys.version_info >= (3, 13) else "line 3, column 1"


class Mistake(NamedTuple):
    path: str
    sent: Any
    """Fields that replace those of a correct body; ... leaves one out. Bytes are the whole body."""
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
    amount(..., path=BOLETO, field="valorCents"),
    wrong(BOLETO, {"valorCents": ..., "amount": "150.00"}, "valorCents", code="AMOUNT_INVALID"),
    amount("0.00", path=DUAL),
    # Bodies that are no JSON, and the position of the fault.
    wrong(PIX, b"", "There is no body", code="MALFORMED_JSON"),
    wrong(PIX, b" \r\n", "There is no body", code="MALFORMED_JSON"),
    wrong(PIX, b'{\n "amount": "1.00",\n}', _TRAILING_COMMA, code="MALFORMED_JSON"),
    wrong(PIX, b"{'amount': '1.00'}", "double quotes", "line 1, column 2", code="MALFORMED_JSON"),
    wrong(PIX, b'{"amount": "1.00"', "line 1, column 18", code="MALFORMED_JSON"),
    wrong(PIX, b'{"amount": 1.00 "a": 1}', "',' delimiter", "line 1, column 17", code="MALFORMED_JSON"),
    wrong(PIX, b'{"amount": NaN}', "NaN is no number", code="MALFORMED_JSON"),
    wrong(PIX, b'{"amount": undefined}', "line 1, column 12", code="MALFORMED_JSON"),
    wrong(PIX, b'{"name": "Jo\xe3o"}', "not UTF-8", "byte 13", code="MALFORMED_JSON"),
    wrong(PIX, b'\xef\xbb\xbf{"amount": "1.00"}', "byte order mark", code="MALFORMED_JSON"),
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
    wrong(BOLETO, {"account_id": NOBODY.upper()}, "is not this token's account", code="ACCOUNT_MISMATCH"),
    wrong(DUAL, {"account_id": NOBODY.upper()}, "is not this token's account", code="ACCOUNT_MISMATCH"),
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
    # Due dates.
    wrong(BOLETO, {"dataVencimento": in_days(0)}, "must be after today in São Paulo", "dataVencimento",
          code="INVALID_DUE_DATE"),
    wrong(DUAL, {"due_date": in_days(-1)}, "must be after today in São Paulo", "due_date", code="INVALID_DUE_DATE"),
    wrong(BOLETO, {"dataVencimento": "10/03/2027"}, "YYYY-MM-DD", code="INVALID_DUE_DATE"),
    wrong(BOLETO, {"dataVencimento": "2027-02-30"}, "an existing day", code="INVALID_DUE_DATE"),
    wrong(BOLETO, {"dataVencimento": ...}, "dataVencimento", "is required", "YYYY-MM-DD", code="INVALID_DUE_DATE"),
    wrong(DUAL, {"due_date": ..., "vencimento": in_days(5)}, "due_date", "is required", "vencimento is not its name",
          code="INVALID_DUE_DATE"),
)  # fmt: skip


def body_of(api: Api, mistake: Mistake) -> Any:
    if isinstance(mistake.sent, bytes):
        return mistake.sent
    right = {PIX: api.pix(), BOLETO: boleto_body(), DUAL: dual_body()}[mistake.path]
    return {name: value for name, value in (right | mistake.sent).items() if value is not ...}


def refusal_text(reply: Reply) -> str:
    """The whole text of a refusal: its message, and each field with its message."""
    error = envelope(reply)
    return " | ".join([error["message"], *(f"{each['field']} {each['message']}" for each in error.get("fields", ()))])


# Codes whose fixed message states where the mistake is and how to correct it.
SELF_EXPLAINING: Final = frozenset(
    {
        "IDEMPOTENCY_KEY_REQUIRED", "IDEMPOTENCY_KEY_REUSED", "IDEMPOTENCY_KEY_INVALID", "UNSUPPORTED_MEDIA_TYPE",
        "LIMIT_INVALID", "CURSOR_INVALID", "CANCEL_REFERENCE_REQUIRED", "CANCEL_REFERENCE_AMBIGUOUS",
        "REFUND_DESTINATION_REQUIRED", "MERCHANT_ADDRESS_REQUIRED", "PAYLOAD_TOO_LARGE", "WITHDRAWAL_BELOW_MINIMUM",
        "KYC_REQUIRED",
    }
)  # fmt: skip
# Grade B: more detail would reveal what other accounts have, or is not known.
WITHOUT_DETAIL: Final = frozenset({"CHARGE_NOT_FOUND", "WALLET_ACCOUNT_NOT_FOUND", "ROUTE_NOT_FOUND",
                                    "INSUFFICIENT_BALANCE", "INTEGRADOR_CODE_INVALID"})  # fmt: skip


def grade(reply: Reply) -> str:
    """A: the refusal helps to correct the request. B: it is right and may not say more. C: it should say more."""
    error = envelope(reply)
    if "fields" in error or error["message"] != Code[error["code"]].message or error["code"] in SELF_EXPLAINING:
        return "A"
    return "B" if error["code"] in WITHOUT_DETAIL else "C"


def assert_refusal(reply: Reply, code: str, *says: str, at: str = "A") -> None:
    """Assert the refusal's code and status, its grade, and the words that it must contain."""
    assert (reply.code(), reply.status) == (code, Code[code].status), reply
    assert grade(reply) == at, reply
    words = refusal_text(reply)
    for each in says:
        assert each in words, (each, words)
    # No refusal shows a type name of Python or a library.
    assert not [each for each in ("`", "str", "int", "Object", "null") if each in words.replace("a string", "").split()]


@pytest.mark.parametrize("mistake", BODIES, ids=lambda each: f"{each.path.rpartition('/')[2]} {each.sent!r:.60}")
async def test_a_mistake_in_a_body_is_refused_with_its_correction(api: Api, mistake: Mistake) -> None:
    reply = await api.post(mistake.path, body_of(api, mistake), token=await api.token(), key=secrets.token_hex(8))
    assert_refusal(reply, mistake.code, *mistake.says)


HEADERS: Final[tuple[tuple[tuple[tuple[bytes, bytes], ...], str, str], ...]] = (
    (((b"authorization", b"Bearer {token}"), JSON), "IDEMPOTENCY_KEY_REQUIRED", "needs an Idempotency-Key header"),
    (((b"authorization", b"Bearer {token}"), JSON, (b"idempotency-key", "ção".encode())), "IDEMPOTENCY_KEY_INVALID",
     "1 to 255 printable ASCII"),
    (((b"authorization", b"Bearer {token}"), JSON, (b"idempotency-key", b"k"), (b"idempotency-key", b"k")),
     "IDEMPOTENCY_KEY_INVALID", "stands more than once"),
    (((b"authorization", b"Bearer {token}"), JSON, JSON, (b"idempotency-key", b"k")), "UNSUPPORTED_MEDIA_TYPE",
     "stands more than once"),
    (((b"authorization", b"Bearer {token}"), (b"idempotency-key", b"k")), "UNSUPPORTED_MEDIA_TYPE", "application/json"),
    (((b"authorization", b"Bearer {token}"), (b"content-type", b"application/x-www-form-urlencoded"),
      (b"idempotency-key", b"k")), "UNSUPPORTED_MEDIA_TYPE", "application/json"),
    (((b"authorization", b"Bearer {token}"), JSON, (b"content-encoding", b"gzip"), (b"idempotency-key", b"k")),
     "UNSUPPORTED_MEDIA_TYPE", "as it is, without Content-Encoding"),
    ((JSON,), "UNAUTHENTICATED", "send the header Authorization: Bearer"),
    (((b"x-api-key", b"{token}"), JSON), "UNAUTHENTICATED", "send the header Authorization: Bearer"),
    (((b"authorization", b"{token}"), JSON), "UNAUTHENTICATED", "is not one bearer token"),
    (((b"authorization", b"Basic " + b64encode(b"id:secret")), JSON), "UNAUTHENTICATED", "is not one bearer token"),
    (((b"authorization", b"Bearer a-client-secret"), JSON), "UNAUTHENTICATED",
     "POST /v1/oauth/token gives one for client_id and client_secret"),
    (((b"authorization", b"Bearer "), JSON), "UNAUTHENTICATED", "is nobody's"),
    (((b"authorization", b"Bearer {token}"), (b"authorization", b"Bearer {token}"), JSON), "UNAUTHENTICATED",
     "is not one bearer token"),
    (((b"authorization", b"Bearer {token}"), JSON, (b"idempotency-key", b"k"), (b"x-sandbox-bank", b"down")),
     "VALIDATION_ERROR", "must be one of unavailable, slow"),
)  # fmt: skip


@pytest.mark.parametrize(("headers", "code", "says"), HEADERS, ids=lambda each: str(each)[:50])
async def test_a_mistake_in_a_header_is_refused_with_its_correction(
    api: Api, headers: tuple[tuple[bytes, bytes], ...], code: str, says: str
) -> None:
    token = (await api.token()).encode()
    sent = [(name, value.replace(b"{token}", token)) for name, value in headers]
    assert_refusal(await api.ask("POST", PIX, headers=sent, body=msgspec.json.encode(api.pix())), code, says)


WELL_FORMED: Final = ("No such charge in this account and mode", "a charge_id is a UUID")
PATHS: Final[tuple[tuple[str, str, str, str], ...]] = (
        ("POST", "/v1/charges/pix/", "ROUTE_NOT_FOUND", "Did you mean /v1/charges/pix?"),
        ("POST", "/v1//charges/pix", "ROUTE_NOT_FOUND", "Did you mean /v1/charges/pix?"),
        ("POST", "/v1/charge/pix", "ROUTE_NOT_FOUND", "Did you mean /v1/charges/pix?"),
        ("POST", "/charges/pix", "ROUTE_NOT_FOUND", "Did you mean /v1/charges/pix?"),
        ("POST", "/v1/charges/boletos/x/pdf", "ROUTE_NOT_FOUND", "Did you mean /v1/charges/boleto/{charge_id}/pdf?"),
        ("POST", "/v1/oauth/tokens", "ROUTE_NOT_FOUND", "Did you mean /v1/oauth/token?"),
        ("GET", "/v1/payment", "ROUTE_NOT_FOUND", "Did you mean /v1/payments?"),
        ("GET", "/v1/invoices", "ROUTE_NOT_FOUND", "There is nothing at this path."),
        ("GET", "/" + "x" * 5_000, "ROUTE_NOT_FOUND", "There is nothing at this path."),
        ("POST", "/v1/charges", "METHOD_NOT_ALLOWED", "does not answer to this method, but to GET"),
        ("POST", "/v1/charges", "METHOD_NOT_ALLOWED", "created at /v1/charges/pix, /v1/charges/boleto or"),
        ("DELETE", f"/v1/charges/{NOBODY}", "METHOD_NOT_ALLOWED", "POST /v1/charges/{charge_id}/cancel cancels"),
        ("PUT", f"/v1/charges/{NOBODY}", "METHOD_NOT_ALLOWED", "PATCH /v1/charges/due-date"),
        ("DELETE", f"/v1/withdrawals/{NOBODY}", "METHOD_NOT_ALLOWED", "/cancel cancels a withdrawal"),
        ("DELETE", f"/v1/charge-schedules/{NOBODY}", "METHOD_NOT_ALLOWED", "/cancel cancels a schedule"),
        ("GET", "/v1/charges/pix", "METHOD_NOT_ALLOWED", "but to POST"),
        ("PUT", "/v1/charges/due-date", "METHOD_NOT_ALLOWED", "but to PATCH"),
        ("GET", "/v1/charges/{charge_id}", "CHARGE_NOT_FOUND", "put the charge_id that its creation answered"),
        ("POST", "/v1/charges/<charge_id>/cancel", "CHARGE_NOT_FOUND", "in place of the name in the path"),
        ("GET", f"/v1/charges/{NOBODY.upper()}", "CHARGE_NOT_FOUND", UUID_TOLD),
        ("GET", "/v1/charges/m11k7bUFs4RQ-I9oiuV1ew", "CHARGE_NOT_FOUND", "looks like a public_id"),
        ("GET", "/v1/charges/01a1fdb96fd9743394a2937b5542916e", "CHARGE_NOT_FOUND", "GET /v1/charges?txid= finds"),
        ("POST", "/v1/charges/00031285570000000062/cancel", "CHARGE_NOT_FOUND", "?nosso_numero= finds a boleto"),
        ("GET", "/v1/charges/boleto/00031285570000000062/pdf", "CHARGE_NOT_FOUND", "?nosso_numero= finds a boleto"),
        ("GET", "/v1/charges/m11k7bUFs4RQ-I9oiuV1ew/refunds", "CHARGE_NOT_FOUND", "looks like a public_id"),
        ("GET", "/v1/charges/order-1001", "CHARGE_NOT_FOUND", UUID_TOLD),
        ("GET", f"/v1/charges/{NOBODY}", "CHARGE_NOT_FOUND", "in this account and mode"),
        ("GET", "/v1/charges?page=2", "VALIDATION_ERROR", "page"),
        ("GET", "/v1/charges?status=PAID", "VALIDATION_ERROR", "pending, paid, expired"),
        ("GET", "/v1/charges?status=pending,paid", "VALIDATION_ERROR", "status must be one of"),
        ("GET", "/v1/charges?limit=0", "LIMIT_INVALID", "greater than 0"),
        ("GET", "/v1/charges?limit=dez", "LIMIT_INVALID", "whole number"),
        ("GET", "/v1/charges?created_from=20/11/2026", "DATE_RANGE_INVALID", "YYYY-MM-DD"),
        ("GET", "/v1/charges?cursor=abc", "CURSOR_INVALID", "start again without one"),
        ("GET", f"/v1/accounts/{NOBODY}/balance", "WALLET_ACCOUNT_NOT_FOUND", "No such account"),
        ("GET", "/v1/payments?paid_from=2026-11-21&paid_to=2026-11-20", "DATE_RANGE_INVALID", "paid_to"),
        ("GET", "/v1/payments?paid_from=ontem", "DATE_RANGE_INVALID", "YYYY-MM-DD"),
        ("GET", "/v1/events?type=payment.paid", "VALIDATION_ERROR", "payment.received"),
        ("GET", "/v1/events?after_sequence=-1", "VALIDATION_ERROR", "after_sequence"),
        ("POST", "/v1/withdrawals", "SANDBOX_ONLY", "is for production credentials"),
        ("POST", "/v1/charge-schedules", "SANDBOX_ONLY", "is for production credentials"),
)  # fmt: skip


@pytest.mark.parametrize(("method", "path", "code", "says"), PATHS)
async def test_a_mistake_in_a_path_or_query_is_refused_with_its_correction(
    api: Api, method: str, path: str, code: str, says: str
) -> None:
    path, _, query = path.partition("?")
    reply = await api.ask(method, path, query=query.encode(), headers=bearer(await api.token()))
    known = says in (UUID_TOLD, "in this account and mode", "No such account", "There is nothing at this path.")
    assert_refusal(reply, code, says, at="B" if known else "A")
    if code == "METHOD_NOT_ALLOWED":
        assert (reply.header("allow") or "?") in refusal_text(reply)


async def test_the_hint_about_a_wrong_kind_of_id_depends_only_on_its_text(api: Api) -> None:
    """The caller's own charge, another account's and an unknown one get the same answer."""
    made = await api.create()
    for given, said in ((made["public_id"], "a public_id"), (made["pix"]["txid"], "a txid")):
        replies = [await api.get(f"/v1/charges/{each}", token=await api.token(whose))
                   for each in (given, given[::-1]) for whose in (api.first, api.second)]  # fmt: skip
        assert {each.code() for each in replies} == {"CHARGE_NOT_FOUND"}
        assert len({refusal_text(each) for each in replies}) == 1
        assert said in refusal_text(replies[0])


async def test_a_charge_of_another_account_or_mode_is_refused_like_an_unknown_one(api: Api) -> None:
    charge_id = (await api.create())["charge_id"]
    for token in (await api.token(mode="production"), await api.token(api.second)):
        reply = await api.get(f"/v1/charges/{charge_id}", token=token)
        assert_refusal(reply, "CHARGE_NOT_FOUND", "in this account and mode", at="B")


async def test_a_reused_key_and_a_missing_scope_are_refused_with_their_correction(api: Api) -> None:
    key = secrets.token_hex(8)
    assert (await api.post(PIX, api.pix(), token=await api.token(), key=key)).status == 201
    reply = await api.post(PIX, api.pix("11.00"), token=await api.token(), key=key)
    assert_refusal(reply, "IDEMPOTENCY_KEY_REUSED", "take a new one")
    reply = await api.post(PIX, api.pix(), token=await api.token(scope="charges:read"), key=secrets.token_hex(8))
    assert_refusal(reply, "INSUFFICIENT_SCOPE", "charges:create")


async def test_a_cancellation_by_no_two_or_ambiguous_references_is_refused_with_its_correction(api: Api) -> None:
    token = await api.token()
    both = {"charge_id": NOBODY, "external_id": "order-1001"}
    for given in ({}, both, {"reason": "cancelled"}):
        assert_refusal(await api.post("/v1/charges/cancel", given, token=token), "CANCEL_REFERENCE_REQUIRED",
                    "exactly one of charge_id and external_id")  # fmt: skip
    reply = await api.post("/v1/charges/cancel", {"external_id": "nobody's"}, token=token)
    assert_refusal(reply, "CHARGE_NOT_FOUND", at="B")
    reply = await api.post("/v1/charges/cancel", {"external_id": "a", "reason": "duplicada"}, token=token)
    assert_refusal(reply, "VALIDATION_ERROR", "reason", "must be cancelled or paid_externally")
    reference = secrets.token_hex(8)
    for _ in range(2):
        await api.create(external_id=reference)
    reply = await api.post("/v1/charges/cancel", {"external_id": reference}, token=token)
    assert_refusal(reply, "CANCEL_REFERENCE_AMBIGUOUS", "use charge_id")


def test_the_tables_hold_at_least_ninety_mistakes() -> None:
    assert len(BODIES) + len(HEADERS) + len(PATHS) + len(TOKENS) >= 90


async def test_simulating_a_payment_with_a_production_credential_is_refused_with_the_reason(api: Api) -> None:
    token = await api.token(mode="production")
    reply = await api.post(f"/v1/charges/{NOBODY}/simulate-payment", None, token=token)
    assert_refusal(reply, "SANDBOX_ONLY", "is for test credentials")


TOKENS: Final[tuple[tuple[tuple[tuple[bytes, bytes], ...], bytes, int, str, str], ...]] = (
        ((), b"", 400, "invalid_request", "grant_type is missing"),
        ((JSON,), b"", 400, "invalid_request", "grant_type is missing"),
        ((JSON,), b"{}", 400, "invalid_request", "grant_type is missing: it is client_credentials"),
        (((b"content-type", b"text/plain"),), b"x", 400, "invalid_request", "application/x-www-form-urlencoded"),
        ((JSON,), b'{"grant_type": "password"}', 400, "unsupported_grant_type", "client_credentials"),
        ((JSON,), b'{"grant_type": "client_credentials"}', 401, "invalid_client", "authentication is missing"),
        ((JSON,), b'{"grant_type": "client_credentials", "client_id": "a", "client_secret": "b"}', 401,
         "invalid_client", "Unknown client or wrong secret"),
)  # fmt: skip


@pytest.mark.parametrize(("headers", "body", "status", "error", "says"), TOKENS)
async def test_a_mistake_at_the_token_endpoint_is_refused_with_its_correction(
    api: Api, headers: tuple[tuple[bytes, bytes], ...], body: bytes, status: int, error: str, says: str
) -> None:
    reply = await api.ask("POST", "/v1/oauth/token", headers=headers, body=body)
    assert (reply.status, reply.json()["error"]) == (status, error)
    assert says in reply.json()["error_description"]


async def test_the_refusal_of_a_charge_that_is_not_pending_states_its_status(api: Api) -> None:
    token = await api.token()
    for first, status in (("cancel", "cancelled"), ("simulate-payment", "paid")):
        path = f"/v1/charges/{(await api.create())['charge_id']}"
        assert (await api.post(f"{path}/{first}", None, token=token)).status == 200
        for again in ("cancel", "simulate-payment"):
            reply = await api.post(f"{path}/{again}", None, token=token)
            assert_refusal(reply, "CHARGE_NOT_PENDING", f"it is {status}.")


async def test_the_refusal_of_a_re_dating_states_the_earliest_day_or_the_charges_status(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    charge_id = (await issue_boleto(client))["charge_id"]
    late = await client.ask("PATCH", "/v1/charges/due-date", json={"charge_id": charge_id, "due_date": in_days(-1)})
    assert late.code == "INVALID_DUE_DATE"
    assert "to today in São Paulo or later" in late.body["error"]["message"]
    assert (await client.cancel(charge_id)).status == 200
    over = await client.ask("PATCH", "/v1/charges/due-date", json={"charge_id": charge_id, "due_date": in_days(5)})
    assert (over.code, over.body["error"]["message"]) == (
        "CHARGE_NOT_PENDING", "The charge is no longer pending: it is cancelled.",
    )  # fmt: skip


async def test_the_refusal_of_a_late_refund_states_the_payment_day_in_sao_paulo(api: Api) -> None:
    token = await api.token()
    charge_id = (await api.create())["charge_id"]
    paid = await api.post(f"/v1/sandbox/charges/{charge_id}/pay", {"paid_at": "2020-06-02T01:30:00Z"}, token=token)
    assert paid.json()["paid_at"] == "2020-06-02T01:30:00.000Z", paid
    reply = await api.post(f"/v1/charges/{charge_id}/refunds", {}, token=token, key=secrets.token_hex(8))
    assert_refusal(reply, "CHARGE_NOT_REFUNDABLE", "it was paid on 2020-06-01, ")


async def test_refusals_of_refunds_and_withdrawals_state_the_remaining_amount_and_the_balance(api: Api) -> None:
    token = await api.token(api.second)
    path = PIX, api.pix() | {"account_id": str(api.second.account_id)}
    made = (await api.post(*path, token=token, key=secrets.token_hex(8))).json()
    refunds = f"/v1/charges/{made['charge_id']}/refunds"
    reply = await api.post(refunds, {}, token=token, key=secrets.token_hex(8))
    assert_refusal(reply, "CHARGE_NOT_REFUNDABLE", "it is pending.")
    await api.post(f"/v1/charges/{made['charge_id']}/simulate-payment", None, token=token)
    reply = await api.post(refunds, {"amount": "3.00"}, token=token, key=secrets.token_hex(8))
    assert reply.status == 201, reply
    reply = await api.post(refunds, {"amount": "7.01"}, token=token, key=secrets.token_hex(8))
    assert_refusal(reply, "REFUND_EXCEEDS", "what remains of the payment: 7.00.")
    token = await api.token(api.second, "production")
    reply = await api.post("/v1/withdrawals", {"amount": "12.00"}, token=token, key=secrets.token_hex(8))
    assert_refusal(reply, "INSUFFICIENT_BALANCE", "it is 0.00.")
    blind = await api.token(api.second, "production", "withdrawals:create")
    reply = await api.post("/v1/withdrawals", {"amount": "12.00"}, token=blind, key=secrets.token_hex(8))
    assert (reply.code(), "0.00" in reply.body.decode()) == ("INSUFFICIENT_BALANCE", False), reply


@pytest.mark.parametrize(
    ("path", "more", "warned"),
    [
        (PIX, {"expiresIn": 60}, ["expiresIn is no field and was ignored: expires_in is its name."]),
        (PIX, {"descripton": "x"}, ["descripton is no field and was ignored: description is its name."]),
        (PIX, {"payer": {"e-mail": "a@example.com"}},
         ["payer.e-mail is no field and was ignored: payer.email is its name."]),
        (PIX, {"cart": 7, "expires_in": 60, "expiresIn": 61, "x" * 5_000: 1}, []),
        (BOLETO, {"external_ID": "7"}, ["external_ID is no field and was ignored: external_id is its name."]),
        (BOLETO, {"multa": {"percent": "2.00"}, "juros": {"percent_per_month": "1.00"}, "desconto": []},
         ["multa is no field and was ignored: fine is its name.",
          "juros is no field and was ignored: interest is its name.",
          "desconto is no field and was ignored: discounts is its name."]),
        (DUAL, {"expires-in": 60}, ["expires-in is no field and was ignored: expires_in is its name."]),
    ],
)  # fmt: skip
async def test_a_misspelt_field_is_ignored_with_a_warning_in_the_sandbox(
    merchant: ApiMerchant, path: str, more: dict[str, Any], warned: list[str]
) -> None:
    key = secrets.token_hex(8)
    pix = {"account_id": merchant.sandbox.account_id, "amount": "10.00"}
    given = {PIX: pix, BOLETO: boleto_body(), DUAL: dual_body()}[path] | more
    made = await merchant.sandbox.ask("POST", path, json=given, key=key)
    assert (made.status, made.body.get("warnings", [])) == (201, warned)
    again = await merchant.sandbox.ask("POST", path, json=given, key=key)
    assert (again.status, again.body.get("warnings", [])) == (200, warned)
    if path == PIX:
        assert "warnings" not in (await merchant.production.ask("POST", path, json=given, key=key)).body


@pytest.mark.parametrize("name", ["ammount", "Amount", "valor", "amount_cents"])
async def test_a_refund_whose_amount_is_misspelt_is_refused(merchant: ApiMerchant, name: str) -> None:
    client = merchant.sandbox
    charge = await client.created("50.00")
    await client.pay(charge["charge_id"])
    path = f"/v1/charges/{charge['charge_id']}/refunds"
    refused = await client.ask("POST", path, json={name: "1.00"}, key=secrets.token_hex(8))
    assert (refused.status, refused.code) == (400, "AMOUNT_INVALID"), refused.raw
    fields = refused.body["error"]["fields"]
    assert fields == [{"field": "amount", "message": f"is left out, and {name} is not its name"}]
    for body, given_back in (({"amount": "1.00", name: "2.00"}, "1.00"), ({"cart": 7}, "49.00")):
        made = await client.ask("POST", path, json=body, key=secrets.token_hex(8))
        assert (made.status, made.body["amount"]) == (201, given_back), made.raw


async def test_an_amount_in_cents_in_valor_cents_gets_a_warning_in_the_sandbox_only(merchant: ApiMerchant) -> None:
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
        assert "warnings" not in await issue_boleto(client, amount_given)
