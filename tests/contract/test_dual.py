"""Dual charges over HTTP, with the worker and the simulated bank: both routes of creation, refusals, the state of each
leg, and one charge with one boleto and one cob for each key (contract sections 1, 4 to 7, 12 and 14)."""

import asyncio
import io
import re
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

import jsonschema_rs
import msgspec
import pytest
import pytest_asyncio
from msgspec.structs import replace
from pypdf import PdfReader

from commands.merchants.integrators import create_integrator
from domain.instants import SAO_PAULO, iso
from readmodels.charges.charge import BoletoDoc, ChargeDoc, PaymentDoc, legs_of
from tests.support.boleto_merchant import BOLETO, PAGADOR, in_days, issue, issue_boleto, redate
from tests.support.br_code_reader import parse_br_code
from tests.support.dual_merchant import (
    DUAL,
    PAYER,
    boleto_at_bank,
    cob_at_bank,
    cob_status,
    dual_body,
    issue_dual,
    issue_dual_charge,
    number_of,
    pix_boleto_body,
    status_by_leg,
    until_bank_orders_are_done,
)
from tests.support.merchant import Answer, ApiClient, ApiMerchant, Books, assert_books_are_clean, new_merchant
from tests.support.system import System

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
NOBODY = "01a1fdc2-2be1-7deb-b4f8-5fa37a19dbc1"
MISSING = "missing"
PENDING = {"pix": "pending", "boleto": "pending"}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def merchant(system: System) -> AsyncIterator[ApiMerchant]:
    async with new_merchant(system) as opened:
        yield opened


def refused(answer: Answer, status: int, code: str) -> dict[str, Any]:
    """Assert that the answer is this refusal. Returns its `error`."""
    assert (answer.status, answer.code) == (status, code), answer.raw
    error: dict[str, Any] = answer.body["error"]
    return error


def new_reference() -> str:
    return f"R-{uuid4().hex[:12].upper()}"


def ends_at(row: Any) -> datetime:
    """When the bank's cob expires."""
    created_at: datetime = row["created_at"]
    return created_at + timedelta(seconds=row["expires_in_s"])


async def nothing_is_payable(books: Books, reference: str) -> bool:
    """Whether the reference has no charge, no cob, and no boleto that is not written off."""
    open_boletos = "SELECT count(*) FROM simulated_boleto WHERE seu_numero = $1 AND written_off_at IS NULL"
    charges = "SELECT count(*) FROM charge WHERE external_id = $1"
    cobs = "SELECT count(*) FROM simulated_cob WHERE description = $1"
    found = [await books.fetchval(asked, reference) for asked in (open_boletos, charges, cobs)]
    return found == [0, 0, 0]


# --- What a dual charge looks like -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["sandbox", "production"])
@pytest.mark.parametrize("way", ["dual", "boleto"])
async def test_a_new_dual_charge_has_both_legs_here_and_at_the_bank(
    system: System, merchant: ApiMerchant, books: Books, mode: str, way: str
) -> None:
    client: ApiClient = getattr(merchant, mode)
    due, reference = in_days(20), new_reference()
    if way == "dual":
        body = dual_body("150.5", due_date=due, description="Aula de março", external_id=reference, send_email=False)
        answer = await client.ask("POST", DUAL, json=body, key=str(uuid4()))
    else:
        body = pix_boleto_body(amount="150.5", dataVencimento=due, descricao="Aula de março", external_id=reference)
        answer = await client.ask("POST", BOLETO, json=body, key=str(uuid4()))
    assert answer.status == 201, answer.raw
    made = answer.body
    boleto, pix = made["boleto"], made["pix"]
    assert made == {
        "charge_id": made["charge_id"], "account_id": client.account_id, "external_id": reference,
        "public_id": made["public_id"], "payment_url": f"{system.app_url}/pagar/{made['public_id']}",
        "pdf_url": f"{system.app_url}/pagar/{made['public_id']}/boleto.pdf",
        "payment_method": "boleto_pix", "status": "pending", "amount": "150.50",
        "description": "Aula de março",
        "pix": {
            "txid": made["charge_id"].replace("-", ""), "qr_code": pix["qr_code"],
            "qr_code_image": pix["qr_code_image"],
        },
        "boleto": {
            "nosso_numero": boleto["nosso_numero"], "seu_numero": reference, "linha_digitavel":
            boleto["linha_digitavel"],
            "codigo_barras": boleto["codigo_barras"], "qr_code": None, "tipo_cobranca": "boleto_pix",
            "data_vencimento": due,
        },
        "legs": [{"leg": "pix", "status": "pending"}, {"leg": "boleto", "status": "pending"}],
        "payment": None, "created_at": made["created_at"], "due_date": due,
        "effective_due_date": made["effective_due_date"], "expires_at": made["expires_at"], "paid_at": None,
        "cancelled_at": None, "refunded_amount": "0.00", "failure": None, "test": mode == "sandbox", "version": 1,
    }  # fmt: skip
    assert UUID.fullmatch(made["charge_id"])
    read = parse_br_code(pix["qr_code"])
    assert (read["01"], read["54"], read["62-05"]) == ("12", "150.50", "***")
    assert pix["qr_code_image"].startswith("data:image/png;base64,")
    # Without `expires_in` the PIX leg ends with the boleto: at midnight after its last day.
    end = datetime.fromisoformat(made["expires_at"]).astimezone(SAO_PAULO)
    assert (end - timedelta(days=1)).date().isoformat() == made["effective_due_date"]
    assert (end.hour, end.minute) == (0, 0)
    assert await client.charge(made["charge_id"]) == made
    assert await client.events(charge_id=made["charge_id"]) == []
    await until_bank_orders_are_done(books, made)
    assert await boleto_at_bank(books, made) == "open"
    cob = await cob_at_bank(books, made)
    assert (cob["world"], cob["status"], cob["amount_cents"]) == (mode, "ATIVA", 15050)
    # The cob's lifetime is whole seconds, rounded down when it is asked for. The bank counts from its registration.
    registered_after = cob["created_at"] - datetime.fromisoformat(made["created_at"])
    assert timedelta(seconds=-5) <= ends_at(cob) - end <= registered_after
    location = "SELECT location FROM simulated_location WHERE location_id = $1"
    assert await books.fetchval(location, cob["location_id"]) == read["26-25"]


async def test_charges_that_are_not_dual_have_no_legs(merchant: ApiMerchant) -> None:
    for charge in (await merchant.sandbox.created(), await issue_boleto(merchant.sandbox, tipo="boleto_hibrido")):
        assert "legs" not in charge
        assert "legs" not in await merchant.sandbox.charge(charge["charge_id"])


@pytest.mark.parametrize("lifetime_s", [60, 3600, 2592000])
async def test_expires_in_limits_the_pix_leg_and_never_exceeds_the_boletos_last_day(
    merchant: ApiMerchant, books: Books, lifetime_s: int
) -> None:
    made = await issue_dual_charge(merchant.sandbox, due_date=in_days(10), expires_in=lifetime_s)
    created_at, end = (datetime.fromisoformat(made[name]) for name in ("created_at", "expires_at"))
    boleto_end = datetime.fromisoformat((await issue_dual_charge(merchant.sandbox, due_date=in_days(10)))["expires_at"])
    assert end == min(created_at + timedelta(seconds=lifetime_s), boleto_end)
    await until_bank_orders_are_done(books, made)
    cob = await cob_at_bank(books, made)
    assert abs((ends_at(cob) - end).total_seconds()) <= 2


async def test_the_answer_does_not_contain_the_payer_and_unknown_fields_are_ignored(merchant: ApiMerchant) -> None:
    answer = await issue_dual(merchant.sandbox, surprise=[1], account_id=merchant.sandbox.account_id, send_email=True)
    assert answer.status == 201
    assert PAYER["document"].encode() not in answer.raw
    assert b"joao@example.com" not in answer.raw


@pytest.mark.parametrize("way", ["dual", "boleto"])
async def test_the_payers_document_hash_is_stored_with_the_charge_and_not_in_the_journal(
    merchant: ApiMerchant, books: Books, way: str
) -> None:
    client = merchant.sandbox
    answer = await (issue_dual(client) if way == "dual" else issue(client))
    assert answer.status == 201
    charge_id = answer.body["charge_id"]
    found = await books.fetchrow(
        "SELECT c.payer_document_hash, r.payer_document_hash AS read,"
        " (SELECT string_agg(payload::text, '') FROM journal j WHERE j.charge_id = c.charge_id) AS journaled"
        " FROM charge c JOIN read_charge r USING (charge_id, account_id) WHERE charge_id = $1::text::uuid", charge_id,
    )  # fmt: skip
    assert found is not None
    assert found["payer_document_hash"] == found["read"] is not None
    assert found["read"] not in found["journaled"]
    assert "payer_document_hash" not in found["journaled"]


async def test_a_dual_charge_for_a_company_or_without_optional_fields_is_issued(merchant: ApiMerchant) -> None:
    address = {name: value for name, value in PAYER["address"].items() if name != "number"}
    company = {"name": "Padaria", "document": "12345678000195", "person_type": "PESSOA_JURIDICA", "address": address}
    for payer in (company, {**company, "email": None, "phone": None, "address": {**address, "number": None}}):
        assert (await issue_dual(merchant.production, payer=payer)).status == 201


# --- What is refused, and with which code ----------------------------------------------------------------------------


@pytest.mark.parametrize("amount", [MISSING, None, 150, True, "", "0", "0.00", "-1", "1,00", "1.000", "100000000", {}])
async def test_any_fault_of_the_amount_is_amount_invalid(merchant: ApiMerchant, amount: Any) -> None:
    body = {**dual_body(), "due_date": 1, "payer": [], "amount": amount}
    if amount is MISSING:
        del body["amount"]
    error = refused(await issue_dual(merchant.sandbox, body=body), 400, "AMOUNT_INVALID")
    assert [each["field"] for each in error["fields"]] == ["amount"]


@pytest.mark.parametrize(
    "due", [MISSING, None, 20301231, "", "2030-13-01", "2030-02-29", "31/12/2030", "9999-12-31", "2020-01-01", "today"]
)
async def test_any_fault_of_the_due_date_is_invalid_due_date(merchant: ApiMerchant, due: Any) -> None:
    body = {**dual_body(), "due_date": in_days(0) if due == "today" else due}
    if due is MISSING:
        del body["due_date"]
    error = refused(await issue_dual(merchant.sandbox, body=body), 400, "INVALID_DUE_DATE")
    assert [each["field"] for each in error["fields"]] == ["due_date"]
    assert (await issue_dual(merchant.sandbox, due_date=in_days(1))).status == 201


@pytest.mark.parametrize("lifetime_s", [0, 59, 2592001, -60, "60", 60.5, 60.0, True, [], {}])
async def test_any_fault_of_expires_in_is_expires_in_invalid(merchant: ApiMerchant, lifetime_s: Any) -> None:
    error = refused(await issue_dual(merchant.sandbox, expires_in=lifetime_s), 400, "EXPIRES_IN_INVALID")
    assert [each["field"] for each in error["fields"]] == ["expires_in"]


@pytest.mark.parametrize("code", [5, "", "INTG-", "INTG-abc123", "INTG-000000"])
async def test_any_fault_of_the_integrador_code_is_integrador_code_invalid_and_makes_no_charge(
    merchant: ApiMerchant, books: Books, code: Any
) -> None:
    reference = new_reference()
    for body in (
        dual_body(integrador_code=code, external_id=reference),
        pix_boleto_body(integrador_code=code, external_id=reference),
    ):
        path = DUAL if "amount" in body else BOLETO
        answer = await merchant.sandbox.ask("POST", path, json=body, key=str(uuid4()))
        refused(answer, 400, "INTEGRADOR_CODE_INVALID")
    assert await nothing_is_payable(books, reference)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", MISSING), ("name", ""), ("name", 5), ("name", "x" * 201), ("name", "a\x00b"), ("document", MISSING),
        ("document", "529.982.247-25"), ("document", "12345678000195"), ("person_type", MISSING),
        ("person_type", "FISICA"), ("email", "x"), ("email", 5), ("phone", "1" * 33), ("phone", 5),
        ("address", MISSING), ("address", []), ("address.zip_code", MISSING), ("address.zip_code", "01310-100"),
        ("address.street", MISSING), ("address.street", " "), ("address.city", MISSING), ("address.state", MISSING),
        ("address.state", "XX"), ("address.number", "x" * 21), ("address.number", 12),
    ],
    ids=lambda value: repr(value)[:24],
)  # fmt: skip
async def test_an_invalid_field_of_the_payer_is_refused_by_its_name(
    merchant: ApiMerchant, field: str, value: Any
) -> None:
    payer: dict[str, Any] = {**PAYER, "address": dict(PAYER["address"])}
    *within, name = field.split(".")
    at = payer[within[0]] if within else payer
    at[name] = value
    if value is MISSING:
        del at[name]
    error = refused(await issue_dual(merchant.sandbox, payer=payer), 400, "VALIDATION_ERROR")
    assert [each["field"] for each in error["fields"]] == [f"payer.{field}"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("payer", None), ("payer", "x"), ("external_id", 5), ("external_id", "x" * 256), ("description", "x" * 501),
        ("description", "\x00"), ("send_email", "true"), ("send_email", 1), ("account_id", "x"), ("account_id", 5),
    ],
)  # fmt: skip
async def test_any_other_invalid_field_of_the_body_is_refused_by_its_name(
    merchant: ApiMerchant, field: str, value: Any
) -> None:
    answer = await issue_dual(merchant.sandbox, body={**dual_body(), field: value})
    assert [each["field"] for each in refused(answer, 400, "VALIDATION_ERROR")["fields"]] == [field]


async def test_check_digits_of_the_payers_document_are_enforced_in_production_only(merchant: ApiMerchant) -> None:
    payer = {**PAYER, "document": "12345678900"}
    assert (await issue_dual(merchant.sandbox, payer=payer)).status == 201
    error = refused(await issue_dual(merchant.production, payer=payer), 400, "VALIDATION_ERROR")
    assert [each["field"] for each in error["fields"]] == ["payer.document"]


async def test_of_several_refusals_the_first_in_the_contracts_order_wins(system: System, books: Books) -> None:
    async with new_merchant(system, kyc="pending") as other:
        client = other.production
        set_address = "UPDATE account SET address = $2 WHERE account_id = $1::text::uuid"
        whole = await books.fetchval("SELECT address FROM account WHERE account_id = $1::text::uuid", client.account_id)
        await books.execute(set_address, client.account_id, None)
        body = dual_body(account_id=NOBODY, due_date=in_days(0), integrador_code="INTG-000000")
        key = str(uuid4())

        async def ask() -> Answer:
            return await issue_dual(client, body=body, key=key)

        refused(await client.ask("POST", DUAL, json=body), 400, "IDEMPOTENCY_KEY_REQUIRED")
        await asyncio.to_thread(system.json, "pix", "suspend")
        try:
            refused(await ask(), 403, "KYC_REQUIRED")
            await books.execute(
                "UPDATE account SET kyc = 'approved' WHERE account_id = $1::text::uuid", client.account_id
            )
            refused(await ask(), 403, "PIX_AVULSO_SUSPENDED")
        finally:
            await asyncio.to_thread(system.json, "pix", "resume")
        refused(await ask(), 403, "ACCOUNT_MISMATCH")
        body["account_id"] = client.account_id
        refused(await ask(), 400, "INVALID_DUE_DATE")
        body["due_date"] = in_days(1)
        refused(await ask(), 400, "INTEGRADOR_CODE_INVALID")
        del body["integrador_code"]
        refused(await ask(), 422, "MERCHANT_ADDRESS_REQUIRED")
        await books.execute(set_address, client.account_id, whole)
        await asyncio.to_thread(system.json, "bank", "fault", "refuse")
        try:
            refused(await ask(), 502, "BANK_UNAVAILABLE")
        finally:
            await asyncio.to_thread(system.json, "bank", "fault", "up")
        assert (await ask()).status == 201
        # The sandbox does not require KYC.
        await books.execute("UPDATE account SET kyc = 'pending' WHERE account_id = $1::text::uuid", client.account_id)
        assert (await issue_dual(other.sandbox)).status == 201


async def test_while_pix_is_suspended_production_creates_no_dual_charge_and_answers_replays(
    system: System, merchant: ApiMerchant
) -> None:
    client, keys = merchant.production, [str(uuid4()), str(uuid4())]
    bodies = {DUAL: dual_body(), BOLETO: pix_boleto_body()}
    asked = list(zip(bodies.items(), keys, strict=True))
    before = [await client.ask("POST", path, json=body, key=key) for (path, body), key in asked]
    assert [answer.status for answer in before] == [201, 201]
    await asyncio.to_thread(system.json, "pix", "suspend")
    try:
        for path, body in bodies.items():
            refused(await client.ask("POST", path, json=body, key=str(uuid4())), 403, "PIX_AVULSO_SUSPENDED")
            assert (await merchant.sandbox.ask("POST", path, json=body, key=str(uuid4()))).status == 201
        again = [await client.ask("POST", path, json=body, key=key) for (path, body), key in asked]
        assert [(answer.status, answer.raw) for answer in again] == [(200, answer.raw) for answer in before]
        # Charges issued before the suspension can still be re-dated and cancelled.
        charge_id = before[0].body["charge_id"]
        assert (await redate(client, in_days(30), charge_id=charge_id)).status == 200
        assert (await client.cancel(charge_id)).status == 200
    finally:
        await asyncio.to_thread(system.json, "pix", "resume")
    for path, body in bodies.items():
        assert (await client.ask("POST", path, json=body, key=str(uuid4()))).status == 201


def _without(*path: str) -> dict[str, Any]:
    """A body without the field at this path."""
    body = msgspec.json.decode(msgspec.json.encode(dual_body()))
    *within, name = path
    at = body
    for each in within:
        at = at[each]
    del at[name]
    found: dict[str, Any] = body
    return found


def _payer(**more: Any) -> dict[str, Any]:
    return {"payer": {**PAYER, **more}}


def _address(**more: Any) -> dict[str, Any]:
    return _payer(address={**PAYER["address"], **more})


GOOD: list[dict[str, Any]] = [
    {}, {"amount": "0.01"}, {"amount": "99999999.99"}, {"expires_in": 60}, {"expires_in": 2592000},
    {"expires_in": None}, {"send_email": True}, {"send_email": None}, {"external_id": ""}, {"description": "a\nb"},
    {"integrador_code": None}, {"account_id": None}, {"more": 1}, _payer(email=None), _payer(phone=None), _payer(x=1),
    _payer(document="12345678000195", person_type="PESSOA_JURIDICA"), _address(number=None), _address(number=""),
]  # fmt: skip
BAD: list[dict[str, Any]] = [
    {"amount": "0"}, {"amount": 1}, {"amount": "100000000"}, {"due_date": "31/12/2030"}, {"due_date": None},
    {"expires_in": 59}, {"expires_in": 2592001}, {"expires_in": "60"}, {"send_email": "true"},
    {"external_id": "x" * 256}, {"description": "x" * 501}, {"integrador_code": "INTG-1"}, {"account_id": "x"},
    {"payer": None}, _payer(name=" "),
    _payer(document="1"), _payer(document="12345678000195"), _payer(person_type="x"), _payer(email="x"),
    _payer(phone="1" * 33), _payer(address=None), _address(zip_code="01310-100"), _address(state="sp"),
    _address(street=""), _address(city="x" * 201), _address(number="x" * 21),
    *({"body": _without(*path)} for path in (("amount",), ("due_date",), ("payer",), ("payer", "name"),
      ("payer", "document"), ("payer", "person_type"), ("payer", "address"), ("payer", "address", "zip_code"),
      ("payer", "address", "street"), ("payer", "address", "city"), ("payer", "address", "state"))),
]  # fmt: skip


async def test_a_dual_charge_is_accepted_exactly_when_the_schema_accepts_it_and_answered_by_it(
    merchant: ApiMerchant,
) -> None:
    document = (await merchant.sandbox.get("/v1/openapi.json")).body
    operation = document["paths"][DUAL]["post"]

    def valid(schema: dict[str, Any], instance: Any) -> bool:
        whole = {**schema, "components": document["components"]}
        return jsonschema_rs.Draft202012Validator(whole, validate_formats=True).is_valid(instance)

    for given, good in [(each, True) for each in GOOD] + [(each, False) for each in BAD]:
        body = given.get("body") or {**dual_body(), **given}
        assert valid(operation["requestBody"]["content"]["application/json"]["schema"], body) is good, given
        answer = await issue_dual(merchant.sandbox, body=body)
        assert answer.status == (201 if good else 400), answer.raw
        assert valid(operation["responses"][str(answer.status)]["content"]["application/json"]["schema"], answer.body)
    other = await merchant.sandbox.created()
    shown = document["components"]["schemas"]["ChargeProjection"]
    assert valid(shown, other)
    assert not valid(shown, other | {"legs": None})


# --- A key makes one charge ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["sandbox", "production"])
async def test_twenty_equal_requests_at_once_make_one_boleto_and_one_cob(
    merchant: ApiMerchant, books: Books, mode: str
) -> None:
    client: ApiClient = getattr(merchant, mode)
    key, reference = str(uuid4()), new_reference()
    body = dual_body(external_id=reference)
    answers = await asyncio.gather(*(issue_dual(client, body=body, key=key) for _ in range(20)))
    assert Counter(answer.status for answer in answers) == {201: 1, 200: 19}, [answer.raw[:200] for answer in answers]
    assert len({answer.raw for answer in answers}) == 1
    made = answers[0].body
    await until_bank_orders_are_done(books, made)
    boletos = "SELECT count(*) FROM simulated_boleto WHERE seu_numero = $1"
    assert await books.fetchval(boletos, reference) == 1
    assert await cob_status(books, made) == "ATIVA"
    again = await issue_dual(client, body=body, key=key)
    assert (again.status, again.headers["Idempotent-Replayed"]) == (200, "true")


async def test_a_key_used_on_one_route_is_refused_on_the_other_routes(merchant: ApiMerchant) -> None:
    key = str(uuid4())
    assert (await issue_dual(merchant.sandbox, key=key)).status == 201
    refused(await issue_dual(merchant.sandbox, "151.00", key=key), 409, "IDEMPOTENCY_KEY_REUSED")
    refused(await issue(merchant.sandbox, tipo="boleto_pix", key=key), 409, "IDEMPOTENCY_KEY_REUSED")
    refused(await merchant.sandbox.create(key=key), 409, "IDEMPOTENCY_KEY_REUSED")


@pytest.mark.parametrize("scenario", ["unavailable", "refuse"])
async def test_a_creation_the_bank_does_not_confirm_leaves_neither_leg(
    merchant: ApiMerchant, books: Books, scenario: str
) -> None:
    reference, key = new_reference(), str(uuid4())
    body = dual_body(external_id=reference, description=reference)
    answer = await issue_dual(merchant.sandbox, body=body, key=key, headers={"X-Sandbox-Bank": scenario})
    refused(answer, 502, "BANK_UNAVAILABLE")
    assert int(answer.headers["Retry-After"]) > 0
    assert await nothing_is_payable(books, reference)
    # The key is not used up, and the next attempt creates both legs.
    made = await issue_dual(merchant.sandbox, body=body, key=key)
    assert made.status == 201
    await until_bank_orders_are_done(books, made.body)
    assert (await boleto_at_bank(books, made.body), await cob_status(books, made.body)) == ("open", "ATIVA")


async def test_a_lost_answer_of_the_bank_makes_one_boleto_and_one_cob(merchant: ApiMerchant, books: Books) -> None:
    made = await issue_dual_charge(merchant.sandbox, headers={"X-Sandbox-Bank": "lost_reply"})
    await until_bank_orders_are_done(books, made)
    assert (await boleto_at_bank(books, made), await cob_status(books, made)) == ("open", "ATIVA")


# --- Cancelling and re-dating act on both legs or on none ------------------------------------------------------------


@pytest.mark.parametrize("mode", ["sandbox", "production"])
@pytest.mark.parametrize("by", ["id", "reference"])
async def test_cancelling_a_dual_charge_removes_both_legs_at_the_bank(
    merchant: ApiMerchant, books: Books, mode: str, by: str
) -> None:
    client: ApiClient = getattr(merchant, mode)
    reference = new_reference()
    made = await issue_dual_charge(client, external_id=reference)
    if by == "id":
        answer = await client.cancel(made["charge_id"])
    else:
        answer = await client.post("/v1/charges/cancel", {"external_id": reference, "reason": "paid_externally"})
    assert answer.status == 200, answer.raw
    ended = [{"leg": "pix", "status": "cancelled"}, {"leg": "boleto", "status": "cancelled"}]
    wanted = {"status": "cancelled", "version": 2, "cancelled_at": answer.body["cancelled_at"], "legs": ended}
    assert answer.body == made | wanted
    assert await boleto_at_bank(books, made) == "written_off"
    await until_bank_orders_are_done(books, made)
    assert await cob_status(books, made) in ("REMOVIDA_PELO_USUARIO_RECEBEDOR", "none")
    assert [event["type"] for event in await client.events(charge_id=made["charge_id"])] == ["charge.cancelled"]
    for again in (
        await client.cancel(made["charge_id"]),
        await redate(client, in_days(20), charge_id=made["charge_id"]),
    ):
        refused(again, 409, "CHARGE_NOT_PENDING")


async def test_a_new_due_date_moves_both_legs_of_a_dual_charge(merchant: ApiMerchant, books: Books) -> None:
    for client in (merchant.sandbox, merchant.production):
        made = await issue_dual_charge(client, due_date=in_days(10))
        for days in (25, 3):
            moved = await redate(client, in_days(days), charge_id=made["charge_id"])
            assert moved.status == 200, moved.raw
            assert (moved.body["due_date"], status_by_leg(moved.body)) == (in_days(days), PENDING)
            await until_bank_orders_are_done(books, made)
            end = datetime.fromisoformat(moved.body["expires_at"])
            assert (end.astimezone(SAO_PAULO) - timedelta(days=1)).date().isoformat() == moved.body[
                "effective_due_date"
            ]
            cob = await cob_at_bank(books, made)
            assert cob["status"] == "ATIVA"
            assert abs((ends_at(cob) - end).total_seconds()) <= 1
        assert moved.body["pix"] == made["pix"]


async def test_re_dating_never_extends_the_pix_leg_beyond_its_expires_in(merchant: ApiMerchant, books: Books) -> None:
    client = merchant.sandbox
    made = await issue_dual_charge(client, due_date=in_days(30), expires_in=20 * 86400)
    for days, own in ((40, True), (5, False), (60, True)):
        moved = await redate(client, in_days(days), charge_id=made["charge_id"])
        await until_bank_orders_are_done(books, made)
        cob_end = ends_at(await cob_at_bank(books, made))
        end = datetime.fromisoformat(moved.body["expires_at"])
        assert (moved.body["expires_at"] == made["expires_at"]) is own
        assert abs((cob_end - end).total_seconds()) <= 2


@pytest.mark.parametrize("scenario", ["unavailable", "refuse"])
async def test_a_cancellation_or_new_due_date_the_bank_does_not_confirm_changes_neither_leg(
    merchant: ApiMerchant, books: Books, scenario: str
) -> None:
    client, headers = merchant.sandbox, {"X-Sandbox-Bank": scenario}
    made = await issue_dual_charge(client)
    await until_bank_orders_are_done(books, made)
    before = dict(await cob_at_bank(books, made))
    path = f"/v1/charges/{made['charge_id']}/cancel"
    refused(await client.ask("POST", path, headers=headers), 502, "BANK_UNAVAILABLE")
    moved = await redate(client, in_days(30), charge_id=made["charge_id"], headers=headers)
    refused(moved, 502, "BANK_UNAVAILABLE")
    await until_bank_orders_are_done(books, made)
    assert await client.charge(made["charge_id"]) == made
    assert await boleto_at_bank(books, made) == "open"
    assert dict(await cob_at_bank(books, made)) == before


async def test_after_concurrent_re_datings_the_cob_ends_with_the_boleto(merchant: ApiMerchant, books: Books) -> None:
    client = merchant.sandbox
    made = await issue_dual_charge(client)
    answers = await asyncio.gather(
        *(redate(client, in_days(20 + days), charge_id=made["charge_id"]) for days in range(6))
    )
    assert {answer.status for answer in answers} == {200}
    await until_bank_orders_are_done(books, made)
    now = await client.charge(made["charge_id"])
    end = datetime.fromisoformat(now["expires_at"])
    assert abs((ends_at(await cob_at_bank(books, made)) - end).total_seconds()) <= 1


# --- Payment in the sandbox ------------------------------------------------------------------------------------------


async def test_simulate_payment_pays_the_boleto_and_removes_the_cob(merchant: ApiMerchant, books: Books) -> None:
    client = merchant.sandbox
    partner = await create_integrator(books, name="Parceiro", account_id=None, now=datetime.now(UTC))
    made = await issue_dual_charge(client, "99.90", integrador_code=partner.integrador_code)
    await until_bank_orders_are_done(books, made)
    answer = await client.pay(made["charge_id"])
    assert answer.status == 200, answer.raw
    paid = answer.body
    assert (paid["status"], paid["payment"]["method"], status_by_leg(paid)) == (
        "paid", "boleto", {"pix": "cancelled", "boleto": "paid"},
    )  # fmt: skip
    await until_bank_orders_are_done(books, made)
    assert await cob_status(books, made) == "REMOVIDA_PELO_USUARIO_RECEBEDOR"
    (item,) = await client.all("/v1/payments", charge_id=made["charge_id"])
    assert (item["payment_method"], item["method"], item["nosso_numero"], item["txid"], item["integrador_code"]) == (
        "boleto_pix", "boleto", number_of(made), None, partner.integrador_code,
    )  # fmt: skip
    assert item["anomaly"] is None
    for again in (await client.pay(made["charge_id"]), await client.cancel(made["charge_id"])):
        refused(again, 409, "CHARGE_NOT_PENDING")


async def test_a_second_payment_of_a_dual_charge_is_a_duplicate(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    made = await issue_dual_charge(client)
    for _ in range(2):
        answer = await client.post(f"/v1/sandbox/charges/{made['charge_id']}/pay", {})
        assert answer.status == 200, answer.raw
    items = await client.all("/v1/payments", charge_id=made["charge_id"])
    assert Counter(item["anomaly"] for item in items) == {None: 1, "duplicate": 1}


async def test_a_failed_dual_charge_has_neither_leg_at_the_bank(merchant: ApiMerchant, books: Books) -> None:
    client = merchant.sandbox
    made = await issue_dual_charge(client)
    await until_bank_orders_are_done(books, made)
    answer = await client.post(f"/v1/sandbox/charges/{made['charge_id']}/fail")
    assert answer.status == 200, answer.raw
    assert (answer.body["status"], status_by_leg(answer.body)) == (
        "failed",
        {"pix": "cancelled", "boleto": "cancelled"},
    )
    await until_bank_orders_are_done(books, made)
    assert (await boleto_at_bank(books, made), await cob_status(books, made)) == (
        "written_off", "REMOVIDA_PELO_USUARIO_RECEBEDOR",
    )  # fmt: skip


async def test_both_legs_expire_with_the_charge_and_a_late_payment_still_counts(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    made = await issue_dual_charge(client)
    answer = await client.post(f"/v1/sandbox/charges/{made['charge_id']}/expire")
    assert (answer.body["status"], status_by_leg(answer.body)) == ("expired", {"pix": "expired", "boleto": "expired"})
    # The page states neither a due date in the future as past, nor a last day to pay.
    async with client.http.get(made["payment_url"]) as shown:
        page = await shown.text()
    assert "Venceu em" in page
    assert f"{date.fromisoformat(made['due_date']):%d/%m/%Y}" not in page
    assert "pagável até" not in page
    # A payment that was under way counts, and shows the leg it came by.
    late = await client.post(f"/v1/sandbox/charges/{made['charge_id']}/pay", {})
    assert (late.body["status"], status_by_leg(late.body)) == ("paid", {"pix": "expired", "boleto": "paid"})


async def test_a_leg_stays_paid_when_the_charge_is_refunded(merchant: ApiMerchant, books: Books) -> None:
    client = merchant.sandbox
    made = await issue_dual_charge(client)
    assert (await client.pay(made["charge_id"])).status == 200
    asked = {"destination": {"pix_key": "joao@example.com", "document": PAGADOR["documento"]}}
    begun = await client.ask("POST", f"/v1/charges/{made['charge_id']}/refunds", json=asked, key=str(uuid4()))
    assert begun.status == 201, begun.raw
    await until_bank_orders_are_done(books, made)
    now = await client.charge(made["charge_id"])
    assert (now["status"], status_by_leg(now)) == ("refunded", {"pix": "cancelled", "boleto": "paid"})


_NOON = "2026-11-21T12:00:00.000Z"
_ONE = "2026-11-21T13:00:00.000Z"
_TWO = "2026-11-21T14:00:00.000Z"


@pytest.mark.parametrize(
    ("fields", "now", "pix", "boleto_status"),
    [
        ({}, _NOON, "pending", "pending"),
        ({"pix_expires_at": _ONE}, _NOON, "pending", "pending"),
        ({"pix_expires_at": _ONE}, _ONE, "expired", "pending"),
        ({"pix_expires_at": _ONE, "status": "cancelled", "cancelled_at": _NOON}, _TWO, "cancelled", "cancelled"),
        ({"pix_expires_at": _ONE, "status": "cancelled", "cancelled_at": _TWO}, _TWO, "expired", "cancelled"),
        ({"pix_expires_at": _ONE, "status": "failed"}, _TWO, "cancelled", "cancelled"),
        ({"status": "expired"}, "2027-01-01T00:00:00.000Z", "expired", "expired"),
        ({"status": "paid", "paid_at": _NOON, "payment": "boleto"}, _TWO, "cancelled", "paid"),
        ({"status": "paid", "paid_at": _NOON, "payment": "pix"}, _TWO, "paid", "cancelled"),
        ({"status": "refunded", "paid_at": _NOON, "payment": "pix"}, _TWO, "paid", "cancelled"),
        ({"pix_expires_at": _ONE, "status": "paid", "paid_at": _TWO, "payment": "boleto"}, _TWO, "expired", "paid"),
        ({"pix_expires_at": _ONE, "status": "paid", "paid_at": _NOON, "payment": "pix"}, _TWO, "paid", "cancelled"),
    ],
)
def test_a_legs_status_follows_from_the_charges_status_and_the_pix_legs_own_expiry(
    fields: dict[str, Any], now: str, pix: str, boleto_status: str
) -> None:
    boleto = BoletoDoc(
        nosso_numero="1", seu_numero="1", linha_digitavel="", codigo_barras="", tipo_cobranca="boleto_pix",
        data_vencimento="2026-11-30",
    )  # fmt: skip
    payment = PaymentDoc(
        payment_id="", charge_id="", payment_method="boleto_pix", method="pix", amount_cents=1, paid_at=_NOON,
        credited_at=_NOON, payer_sealed="", nosso_numero="1" if fields.get("payment") == "boleto" else None,
    )  # fmt: skip
    given = {"status": "pending", **fields, "payment": payment if "payment" in fields else None}
    doc = ChargeDoc(
        account_id="", charge_id="", test=True, public_id="", payment_method="boleto_pix", version=1, amount_cents=1,
        created_at=_NOON, boleto=boleto, expires_at="2026-12-01T03:00:00.000Z", **given,
    )  # fmt: skip
    assert [(each.leg, each.status) for each in legs_of(doc, now=now)] == [("pix", pix), ("boleto", boleto_status)]
    longer = replace(doc, pix_expires_at="2030-01-01T00:00:00.000Z")
    assert longer.pix_ends_at == doc.expires_at


# --- Lists, PDF, payer page ------------------------------------------------------------------------------------------


async def test_a_dual_charge_is_found_by_the_fields_of_either_leg(merchant: ApiMerchant, books: Books) -> None:
    client = merchant.sandbox
    reference = new_reference()
    partner = await create_integrator(books, name="Parceiro", account_id=None, now=datetime.now(UTC))
    boleto = await issue_boleto(client, external_id=reference)
    made = await issue_dual_charge(
        client, external_id=reference, due_date=in_days(33), integrador_code=partner.integrador_code
    )

    async def found(**asked: Any) -> list[dict[str, Any]]:
        return await client.all("/v1/charges", external_id=reference, **asked)

    assert await found(payment_method="boleto_pix") == [made]
    assert await found(payment_method="boleto") == [boleto]
    assert await found(payment_method=["boleto", "boleto_pix"], order="asc") == [boleto, made]
    assert await found(payment_method="pix") == []
    for asked in (
        {"nosso_numero": number_of(made)}, {"txid": made["pix"]["txid"]},
        {"due_from": in_days(33), "due_to": in_days(33)}, {"integrador_code": partner.integrador_code},
        {"payer_document": PAYER["document"], "payment_method": "boleto_pix"},
    ):  # fmt: skip
        assert await found(**asked) == [made], asked
    rows = (await client.get("/v1/charges/summary", external_id=reference, payment_method="boleto_pix")).body["data"]
    assert [(row["status"], row["count"], row["amount"]) for row in rows if row["count"]] == [("pending", 1, "150.00")]
    state = await client.get(f"/v1/charges/{made['charge_id']}")
    assert state.body == made


async def test_the_pdf_and_the_payer_page_show_line_and_qr_code(system: System, merchant: ApiMerchant) -> None:
    client = merchant.production
    made = await issue_dual_charge(client)
    headers = {"Authorization": f"Bearer {await client.token()}"}
    async with client.http.get(
        f"{system.base_url}/v1/charges/boleto/{made['charge_id']}/pdf", headers=headers
    ) as answer:
        assert (answer.status, answer.content_type) == (200, "application/pdf")
        (sheet,) = PdfReader(io.BytesIO(await answer.read())).pages
    text = sheet.extract_text().replace("\n", "")
    bare = re.sub(r"[ .]", "", text)
    assert made["boleto"]["linha_digitavel"] in bare
    assert made["pix"]["qr_code"].replace(" ", "").replace(".", "") in bare
    async with client.http.get(f"{system.app_url}/pagar/{made['public_id']}") as answer:
        html = await answer.text()
    assert made["pix"]["qr_code"].split("5913")[0] in html
    assert f'data-bare="{made["boleto"]["linha_digitavel"]}"' in html
    assert "O Pix vale até" not in html
    brief = await issue_dual_charge(client, expires_in=3600)
    async with client.http.get(f"{system.app_url}/pagar/{brief['public_id']}") as answer:
        assert "O Pix vale até" in await answer.text()
    # The PDF omits a QR Code that expires before the boleto.
    async with client.http.get(f"{system.app_url}/pagar/{brief['public_id']}/boleto.pdf") as answer:
        (sheet,) = PdfReader(io.BytesIO(await answer.read())).pages
    assert brief["pix"]["txid"] not in sheet.extract_text()
    assert "br.gov.bcb.pix" not in sheet.extract_text().replace("\n", "")


async def test_the_payer_page_does_not_show_an_expired_qr_code(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.sandbox
    made = await issue_dual_charge(client, expires_in=60)
    past = iso(datetime.now(UTC) - timedelta(seconds=1))
    change = "UPDATE read_charge SET changes = $2 WHERE charge_id = $1::text::uuid"
    await books.execute(change, made["charge_id"], msgspec.json.encode({"pix_expires_at": past}))
    try:
        async with client.http.get(f"{system.app_url}/pagar/{made['public_id']}") as answer:
            html = await answer.text()
        assert "Pix copia e cola" not in html
        assert made["boleto"]["linha_digitavel"] in html
        assert status_by_leg(await client.charge(made["charge_id"])) == {"pix": "expired", "boleto": "pending"}
    finally:
        await books.execute(change, made["charge_id"], None)


async def test_a_dual_charge_of_another_account_or_mode_is_not_found(system: System, merchant: ApiMerchant) -> None:
    made = await issue_dual_charge(merchant.sandbox)
    async with new_merchant(system) as other:
        for client in (other.sandbox, merchant.production):
            refused(await client.get(f"/v1/charges/{made['charge_id']}"), 404, "CHARGE_NOT_FOUND")
            refused(await client.cancel(made["charge_id"]), 404, "CHARGE_NOT_FOUND")
            refused(await redate(client, in_days(9), charge_id=made["charge_id"]), 404, "CHARGE_NOT_FOUND")
    assert status_by_leg(await merchant.sandbox.charge(made["charge_id"])) == PENDING


async def test_the_books_are_clean_after_the_tests_of_this_file(system: System) -> None:
    assert_books_are_clean(system)
