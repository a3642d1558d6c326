"""POST /v1/charges/boleto over HTTP, with the worker and the simulated bank: its answers, its refusals and their codes,
and one boleto for each idempotency key, here and at the bank (spec; contract sections 1, 4, 6, 14).
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

import msgspec
import pytest
import pytest_asyncio
from brcode.utils.brcodeId import brcodeJsonToBrcode, jsonFromBrcode
from redis.asyncio import Redis

from commands.merchants.integrators import create_integrator
from tests.support.boleto_merchant import (
    BOLETO,
    CONVENIO,
    DUE_DATE,
    PAGADOR,
    at_bank,
    boleto_body,
    in_days,
    issue,
    issue_boleto,
    issue_boleto_in_the_past,
    redate,
    today,
)
from tests.support.in_process import open_api
from tests.support.merchant import (
    Answer,
    ApiClient,
    ApiMerchant,
    Books,
    assert_books_are_clean,
    new_merchant,
    until_answer,
)
from tests.support.system import System

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
# Due dates and their last days to pay, from the calendar: a Tuesday, a Saturday, the Saturday before Carnival.
EFFECTIVE = {"2030-07-02": "2030-07-02", "2030-07-06": "2030-07-08", "2030-03-02": "2030-03-06"}
NOBODY = "01a1fdc2-2be1-7deb-b4f8-5fa37a19dbc1"
MISSING = "missing"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def merchant(system: System) -> AsyncIterator[ApiMerchant]:
    async with new_merchant(system) as opened:
        yield opened


def refused(answer: Answer, status: int, code: str) -> dict[str, Any]:
    """Assert that the answer is this refusal. Returns its `error`."""
    assert (answer.status, answer.code) == (status, code), answer.raw
    error: dict[str, Any] = answer.body["error"]
    return error


def fields(answer: Answer) -> list[str]:
    """The fields that a VALIDATION_ERROR names."""
    return [each["field"] for each in refused(answer, 400, "VALIDATION_ERROR")["fields"]]


async def boletos_of(books: Books, seu_numero: str) -> list[Any]:
    """The boletos the simulated bank has under this seu numero, in either world."""
    return list(await books.fetch("SELECT * FROM simulated_boleto WHERE seu_numero = $1", seu_numero))


def new_reference() -> str:
    """An external_id that fits the bank's field, so that a boleto can be found there by it."""
    return f"R-{uuid4().hex[:12].upper()}"


# --- What a boleto looks like ----------------------------------------------------------------------------------------


def digits_of_boleto(number: str, due_on: date, cents: int) -> tuple[str, str]:
    """Barcode and line, computed here from FEBRABAN's layout and Banco do Brasil's free field (carteira 17)."""
    # The due-date factor began again at 1000 on 2025-02-22.
    factor = 1000 + (due_on - date(2025, 2, 22)).days
    free = f"000000{number[3:]}17"
    assert len(free) == 25
    unchecked = f"0019{factor:04}{cents:010}{free}"
    weighed = sum(int(digit) * (2 + place % 8) for place, digit in enumerate(reversed(unchecked)))
    general = 11 - weighed % 11
    general = 1 if general in (0, 10, 11) else general

    def checked(part: str) -> str:
        doubled = "".join(str(int(digit) * (2 - place % 2)) for place, digit in enumerate(reversed(part)))
        return f"{part}{-sum(map(int, doubled)) % 10}"

    line = "".join(checked(part) for part in (f"0019{free[:5]}", free[5:15], free[15:]))
    return f"0019{general}{unchecked[4:]}", f"{line}{general}{factor:04}{cents:010}"


@pytest.mark.parametrize("mode", ["sandbox", "production"])
@pytest.mark.parametrize("tipo", ["boleto", "boleto_hibrido"])
async def test_a_new_boleto_is_answered_with_exactly_the_fields_of_the_projection(
    system: System, merchant: ApiMerchant, books: Books, mode: str, tipo: str
) -> None:
    client: ApiClient = getattr(merchant, mode)
    due = "2030-07-06"
    before = datetime.now(UTC)
    answer = await issue(
        client, "150.5", tipo=tipo, dataVencimento=due, descricao="Aula de março", external_id="Nº 1/é"
    )
    assert answer.status == 201, answer.raw
    made = answer.body
    boleto = made["boleto"]
    barcode, line = digits_of_boleto(boleto["nosso_numero"], date(2030, 7, 6), 15050)
    hybrid = tipo == "boleto_hibrido"
    assert made == {
        "charge_id": made["charge_id"], "account_id": client.account_id, "external_id": "Nº 1/é",
        "public_id": made["public_id"], "payment_url": f"{system.app_url}/pagar/{made['public_id']}",
        "pdf_url": f"{system.app_url}/pagar/{made['public_id']}/boleto.pdf", "payment_method": tipo,
        "status": "pending", "amount": "150.50",
        "description": "Aula de março", "pix": None,
        "boleto": {
            "nosso_numero": boleto["nosso_numero"], "seu_numero": str(int(boleto["nosso_numero"][10:])),
            "linha_digitavel": line, "codigo_barras": barcode, "qr_code": boleto["qr_code"] if hybrid else None,
            "tipo_cobranca": tipo, "data_vencimento": due,
        },
        "payment": None, "created_at": made["created_at"], "due_date": due, "effective_due_date": "2030-07-08",
        "expires_at": None, "paid_at": None, "cancelled_at": None, "refunded_amount": "0.00", "failure": None,
        "test": mode == "sandbox", "version": 1,
    }  # fmt: skip
    assert UUID.fullmatch(made["charge_id"])
    assert re.fullmatch(r"[A-Za-z0-9_-]{20,}", made["public_id"])
    assert INSTANT.fullmatch(made["created_at"])
    assert abs(datetime.fromisoformat(made["created_at"]) - before) < timedelta(seconds=10)
    assert re.fullmatch(f"000{CONVENIO}[0-9]{{10}}", boleto["nosso_numero"])
    if hybrid:
        read = jsonFromBrcode(boleto["qr_code"])
        assert brcodeJsonToBrcode({path: value for path, value in read.items() if path != "63"}) == boleto["qr_code"]
        assert (read["01"], read["54"], read["26"]["00"].lower()) == ("12", "150.50", "br.gov.bcb.pix")
        assert len(read["26"]["25"]) <= 77
    assert (await client.charge(made["charge_id"])) == made
    assert await client.all("/v1/charges", nosso_numero=boleto["nosso_numero"]) == [made]
    # The bank has exactly this boleto.
    row = await at_bank(books, boleto["nosso_numero"])
    assert (row["world"], row["amount_cents"], row["due_on"].isoformat(), row["seu_numero"]) == (
        mode, 15050, due, boleto["seu_numero"],
    )  # fmt: skip
    assert (row["token"] is not None) == hybrid
    assert await client.events(charge_id=made["charge_id"]) == []


@pytest.mark.parametrize(("due", "effective"), EFFECTIVE.items())
async def test_a_due_date_that_is_no_business_day_is_payable_on_the_next_one(
    merchant: ApiMerchant, due: str, effective: str
) -> None:
    made = await issue_boleto(merchant.sandbox, dataVencimento=due)
    assert (made["due_date"], made["effective_due_date"]) == (due, effective)
    assert made["boleto"]["data_vencimento"] == due


async def test_every_boleto_has_its_own_nosso_numero_and_line(merchant: ApiMerchant) -> None:
    made = await asyncio.gather(
        *(issue_boleto(client) for _ in range(40) for client in (merchant.sandbox, merchant.production))
    )
    assert len({each["boleto"]["nosso_numero"] for each in made}) == 80
    assert len({each["boleto"]["linha_digitavel"] for each in made}) == 80


@pytest.mark.parametrize(
    ("reference", "fits"),
    [
        ("PED-123", True), ("A", True), ("ABC DEF'GH-12345"[:15], True), ("A" * 15, True), (None, False), ("", False),
        ("A" * 16, False), ("ped-123", False), ("PED/123", False), ("ÁGUA", False), (" A", False), ("A ", False),
    ],
)  # fmt: skip
async def test_seu_numero_is_the_external_id_where_it_fits_and_else_our_counter(
    merchant: ApiMerchant, books: Books, reference: str | None, fits: bool
) -> None:
    made = await issue_boleto(merchant.sandbox, external_id=reference)
    boleto = made["boleto"]
    assert boleto["seu_numero"] == (reference if fits else str(int(boleto["nosso_numero"][10:])))
    assert made["external_id"] == reference
    stored = "SELECT seu_numero FROM simulated_boleto WHERE number = $1"
    assert await books.fetchval(stored, boleto["nosso_numero"]) == boleto["seu_numero"]


@pytest.mark.parametrize(("amount", "shown"), [("0.01", "0.01"), ("7", "7.00"), ("99999999.99", "99999999.99")])
async def test_the_amount_is_returned_with_two_decimals_and_encoded_in_the_barcode(
    merchant: ApiMerchant, amount: str, shown: str
) -> None:
    made = await issue_boleto(merchant.sandbox, amount)
    assert made["amount"] == shown
    assert made["boleto"]["codigo_barras"][9:19] == shown.replace(".", "").zfill(10)


async def test_unknown_fields_are_ignored_and_the_answer_does_not_contain_the_payer(merchant: ApiMerchant) -> None:
    answer = await issue(merchant.sandbox, surpresa={"a": [None]}, pagador={**PAGADOR, "apelido": 5}, account_id=None)
    assert answer.status == 201
    assert PAGADOR["documento"].encode() not in answer.raw
    assert "Conceição".encode() not in answer.raw


async def test_a_boleto_for_a_company_or_without_a_house_number_is_issued(merchant: ApiMerchant) -> None:
    company = {**PAGADOR, "tipoPessoa": "PESSOA_JURIDICA", "documento": "12345678000195"}
    assert (await issue(merchant.production, pagador=company)).status == 201
    assert (await issue(merchant.sandbox, pagador={k: v for k, v in PAGADOR.items() if k != "numero"})).status == 201
    assert (await issue(merchant.sandbox, pagador={**PAGADOR, "numero": None})).status == 201
    assert (await issue(merchant.sandbox, account_id=merchant.sandbox.account_id)).status == 201


@pytest.mark.parametrize(
    "more",
    [
        {"nome": "Ж 日本語 🎉"}, {"nome": "x" * 200}, {"nome": "Zoë & Søn – nº 3 “Ltda”\t™"}, {"nome": "ﷺ"},
        {"cidade": "São Tomé das Letras e mais trinta letras de um nome que não acaba"}, {"cidade": "日本"},
        {"logradouro": "Rua\nda\nQuebra 'A' \"B\" <c> \\", "numero": "S/N° – fundos"}, {"logradouro": "🏠"},
        {"logradouro": "x" * 200, "numero": "9" * 20}, {"cep": "00000000"},
    ],
    ids=lambda value: repr(value)[:30],
)  # fmt: skip
async def test_any_allowed_text_of_the_payer_is_registered_by_the_bank(
    merchant: ApiMerchant, more: dict[str, str]
) -> None:
    """The bank accepts few characters and short fields; texts that the API accepts must not end in a 502."""
    description = "Parcela 1/3 – não receber após… 💸\nlinha 2 " * 10
    answer = await issue(merchant.production, pagador={**PAGADOR, **more}, descricao=description, tipo="boleto_hibrido")
    assert answer.status == 201, answer.raw
    assert answer.body["description"] == description


# --- What is refused, and with which code ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "amount",
    [
        MISSING, None, 150, 150.0, True, {}, [], "", "0", "0.00", "-1", "+1", "1e3", "1,00", "1.000", " 1", "1\n",
        "١٢", "NaN", "100000000", "100000000.00", "9999999999.99", "99999999999", "1" * 400,
    ],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
async def test_any_fault_of_the_amount_is_amount_invalid_whatever_else_is_wrong(
    merchant: ApiMerchant, amount: Any
) -> None:
    others: list[dict[str, Any]] = [{}, {"dataVencimento": 1, "integrador_code": 1, "tipo": None, "pagador": []}]
    for more in others:
        body = {**boleto_body(), **more, "valorCents": amount}
        if amount is MISSING:
            del body["valorCents"]
        error = refused(await issue(merchant.sandbox, body=body), 400, "AMOUNT_INVALID")
        assert [each["field"] for each in error["fields"]] == ["valorCents"]


@pytest.mark.parametrize(
    "due",
    [
        MISSING, None, 20301231, True, {}, [], "", "tomorrow", "2030-13-01", "2030-02-29", "2030-00-10", "2030-1-1",
        "31/12/2030", "20301231", "2030-12-31T00:00:00Z", " 2030-12-31", "2030-12-31\n", "２０３０-12-31", "2030-W01-1",
        "0000-01-01", "2049-10-14", "9999-12-31", "2020-01-01",
    ],
    ids=lambda value: repr(value)[:24],
)  # fmt: skip
async def test_any_fault_of_the_due_date_is_invalid_due_date(merchant: ApiMerchant, due: Any) -> None:
    # A date in the past is checked after the payer's fields.
    pagador = PAGADOR if due == "2020-01-01" else {**PAGADOR, "uf": "XX"}
    for body in (boleto_body(), boleto_body(pagador=pagador)):
        body["dataVencimento"] = due
        if due is MISSING:
            del body["dataVencimento"]
        error = refused(await issue(merchant.sandbox, body=body), 400, "INVALID_DUE_DATE")
        assert [each["field"] for each in error["fields"]] == ["dataVencimento"]


async def test_a_due_date_of_tomorrow_or_the_barcodes_last_day_is_accepted_and_today_is_refused(
    merchant: ApiMerchant,
) -> None:
    for due in (in_days(-1), in_days(0)):
        refused(await issue(merchant.sandbox, dataVencimento=due), 400, "INVALID_DUE_DATE")
    for due in (in_days(1), "2049-10-13"):
        assert (await issue_boleto(merchant.sandbox, dataVencimento=due))["due_date"] == due


async def test_due_dates_are_compared_with_the_day_in_sao_paulo(servers: Any, pool: Any) -> None:
    """The account has no address: an accepted due date shows by the refusal that follows it, for the address."""
    async with open_api(servers.database_url, servers.redis_url) as api:
        await pool.execute("UPDATE account SET address = NULL WHERE account_id = $1", api.first.account_id)
        token = await api.token()
        headers = [(b"content-type", b"application/json"), (b"authorization", f"Bearer {token}".encode())]
        tonight = datetime.combine(today() + timedelta(days=1), datetime.min.time(), UTC) + timedelta(hours=2)
        # 23:00 in São Paulo is already the next day in UTC.
        for now, due, issuing, redating in (
            (tonight, 0, "INVALID_DUE_DATE", "CHARGE_NOT_FOUND"),
            (tonight, 1, "MERCHANT_ADDRESS_REQUIRED", "CHARGE_NOT_FOUND"),
            (tonight + timedelta(hours=2), 0, "INVALID_DUE_DATE", "INVALID_DUE_DATE"),
            (tonight + timedelta(hours=2), 1, "INVALID_DUE_DATE", "CHARGE_NOT_FOUND"),
            (tonight + timedelta(hours=2), 2, "MERCHANT_ADDRESS_REQUIRED", "CHARGE_NOT_FOUND"),
        ):
            api.app.state.context._now = lambda now=now: now
            # Tokens last an hour; this clock may be a day ahead.
            await pool.execute("UPDATE access_token SET expires_at = $1", now + timedelta(hours=1))
            api.app.state.context.callers._known.clear()
            body = boleto_body(dataVencimento=in_days(due))
            reply = await api.post(BOLETO, body, token=token, key=str(uuid4()))
            assert reply.code() == issuing, (now, due)
            body = {"charge_id": NOBODY, "due_date": in_days(due)}
            reply = await api.ask("PATCH", DUE_DATE, headers=headers, body=msgspec.json.encode(body))
            assert reply.code() == redating, (now, due)


@pytest.mark.parametrize(
    "code",
    [
        5, True, {}, ["INTG-ABC123"], "", "INTG-", "INTG-ABC12", "INTG-ABC1234", "INTG-abc123", "intg-ABC123",
        "INTG_ABC123", "INTG-ÁBC123", "INTG-ABC123\n", " INTG-ABC123", "INTG-000000",
    ],
    ids=repr,
)  # fmt: skip
async def test_any_fault_of_the_integrador_code_is_integrador_code_invalid_and_issues_no_boleto(
    merchant: ApiMerchant, books: Books, code: Any
) -> None:
    reference = new_reference()
    # An unknown code is checked after the field `tipo`, a malformed code before it.
    for tipo in ("boleto", "boleto" if code == "INTG-000000" else 7):
        answer = await issue(merchant.sandbox, integrador_code=code, external_id=reference, tipo=tipo)
        refused(answer, 400, "INTEGRADOR_CODE_INVALID")
    assert await boletos_of(books, reference) == []
    assert await merchant.sandbox.all("/v1/charges", external_id=reference) == []


async def test_an_inactive_integrador_code_is_refused_like_an_unknown_one_and_old_charges_keep_it(
    merchant: ApiMerchant, books: Books
) -> None:
    client, reference = merchant.sandbox, new_reference()
    partner = await create_integrator(books, name="Parceiro", account_id=None, now=datetime.now(UTC))
    code = partner.integrador_code
    key = str(uuid4())
    made = await issue_boleto(client, key=key, integrador_code=code)
    assert [each["charge_id"] for each in await client.all("/v1/charges", integrador_code=code)] == [made["charge_id"]]
    await books.execute("UPDATE integrator SET active = false WHERE integrador_code = $1", code)
    inactive = await issue(client, integrador_code=code, external_id=reference)
    unknown = await issue(client, integrador_code="INTG-000000", external_id=reference)
    refused(inactive, 400, "INTEGRADOR_CODE_INVALID")
    assert inactive.but_for_the_request_id() == unknown.but_for_the_request_id()
    assert await boletos_of(books, reference) == []
    # The earlier charge keeps its code, and a replay of its creation is still answered.
    assert (await issue(client, key=key, integrador_code=code)).status == 200
    assert [each["charge_id"] for each in await client.all("/v1/charges", integrador_code=code)] == [made["charge_id"]]


@pytest.mark.parametrize("given", ["theirs", NOBODY])
async def test_an_account_id_that_is_not_the_tokens_is_an_account_mismatch(
    system: System, merchant: ApiMerchant, given: str
) -> None:
    async with new_merchant(system) as other:
        account = other.sandbox.account_id if given == "theirs" else given
        refused(await issue(merchant.sandbox, account_id=account), 403, "ACCOUNT_MISMATCH")
        assert await other.sandbox.all("/v1/charges") == []


async def test_an_account_id_that_is_no_uuid_is_a_validation_error(merchant: ApiMerchant) -> None:
    for given in ("x", "", 5):
        assert fields(await issue(merchant.sandbox, account_id=given)) == ["account_id"]


@pytest.mark.parametrize("mode", ["sandbox", "production"])
@pytest.mark.parametrize(
    "address",
    [
        None,
        {},
        {"street": "Rua A", "city": "Recife", "state": "PE"},
        {"street": "Rua A", "city": "Recife", "zip_code": "50030000"},
        {"street": "Rua A", "state": "PE", "zip_code": "50030000"},
        {"city": "Recife", "state": "PE", "zip_code": "50030000"},
        {"street": "  ", "city": "Recife", "state": "PE", "zip_code": "50030000"},
        {"street": None, "city": "Recife", "state": "PE", "zip_code": "50030000"},
    ],
    ids=lambda value: ",".join(value) if value else repr(value),
)
async def test_a_merchant_without_a_whole_address_issues_no_boleto(
    system: System, books: Books, mode: str, address: Any
) -> None:
    async with new_merchant(system) as other:
        client: ApiClient = getattr(other, mode)
        whole = await books.fetchval("SELECT address FROM account WHERE account_id = $1::text::uuid", client.account_id)
        store = "UPDATE account SET address = $2 WHERE account_id = $1::text::uuid"
        await books.execute(store, client.account_id, None if address is None else msgspec.json.encode(address))
        key = str(uuid4())
        refused(await issue(client, key=key), 422, "MERCHANT_ADDRESS_REQUIRED")
        assert await client.all("/v1/charges") == []
        await books.execute(store, client.account_id, whole)
        assert (await issue(client, key=key)).status == 201, "a refusal does not use up the key"


async def test_a_merchant_created_without_an_address_issues_pix_charges_but_no_boleto(system: System) -> None:
    record = await asyncio.to_thread(system.create_merchant, address=False)
    client = ApiClient(system.base_url, record["account_id"], *record["test"].values())
    try:
        refused(await issue(client), 422, "MERCHANT_ADDRESS_REQUIRED")
        assert (await client.create()).status == 201, "a PIX charge needs no address"
    finally:
        await client.http.close()


async def test_boletos_require_kyc_in_production_only_and_an_approval_takes_effect_at_once(
    system: System, books: Books
) -> None:
    async with new_merchant(system, kyc="pending") as other:
        assert (await issue(other.sandbox)).status == 201
        refused(await issue(other.production), 403, "KYC_REQUIRED")
        assert await other.production.all("/v1/charges") == []
        approve = "UPDATE account SET kyc = 'approved' WHERE account_id = $1::text::uuid"
        await books.execute(approve, other.production.account_id)
        assert (await issue(other.production)).status == 201


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nome", MISSING), ("nome", None), ("nome", 5), ("nome", ""), ("nome", "  "), ("nome", "x" * 201),
        ("nome", "a\x00b"), ("documento", MISSING), ("documento", 52998224725), ("documento", ""),
        ("documento", "529.982.247-25"), ("documento", "5299822472"), ("documento", "529982247250"),
        ("documento", "12345678000195"), ("documento", "５２９９８２２４７２５"), ("documento", "5299822472A"),
        ("tipoPessoa", MISSING), ("tipoPessoa", "FISICA"), ("tipoPessoa", None), ("cep", MISSING), ("cep", 1310100),
        ("cep", "01310-100"), ("cep", "0131010"), ("cep", "013101000"), ("cep", "０１３１０１００"),
        ("logradouro", MISSING), ("logradouro", ""), ("logradouro", "x" * 201), ("cidade", MISSING), ("cidade", " "),
        ("cidade", {}), ("uf", MISSING), ("uf", "sp"), ("uf", "XX"), ("uf", "São Paulo"), ("uf", None), ("numero", 12),
        ("numero", "x" * 21),
    ],
    ids=lambda value: repr(value)[:24],
)  # fmt: skip
async def test_an_invalid_field_of_the_payer_is_refused_by_its_name(
    merchant: ApiMerchant, field: str, value: Any
) -> None:
    pagador: dict[str, Any] = {**PAGADOR, field: value}
    if value is MISSING:
        del pagador[field]
    assert fields(await issue(merchant.sandbox, pagador=pagador)) == [f"pagador.{field}"]


async def test_all_invalid_fields_of_the_payer_are_named_in_one_answer(merchant: ApiMerchant) -> None:
    answer = await issue(merchant.sandbox, pagador={**PAGADOR, "uf": "XX", "cep": "1", "documento": "1", "nome": " "})
    assert set(fields(answer)) == {"pagador.uf", "pagador.cep", "pagador.documento", "pagador.nome"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pagador", MISSING), ("pagador", None), ("pagador", []), ("tipo", MISSING), ("tipo", None), ("tipo", "pix"),
        ("tipo", "BOLETO"), ("tipo", 1), ("external_id", 7), ("external_id", "x" * 256), ("external_id", "\x00"),
        ("descricao", []), ("descricao", "x" * 501),
    ],
    ids=lambda value: repr(value)[:24],
)  # fmt: skip
async def test_any_other_invalid_field_of_the_body_is_refused_by_its_name(
    merchant: ApiMerchant, field: str, value: Any
) -> None:
    body = {**boleto_body(), field: value}
    if value is MISSING:
        del body[field]
    assert fields(await issue(merchant.sandbox, body=body)) == [field]


async def test_check_digits_of_the_payers_document_are_enforced_in_production_only(merchant: ApiMerchant) -> None:
    for kind, document in (("PESSOA_FISICA", "52998224726"), ("PESSOA_JURIDICA", "12345678000190")):
        pagador = {**PAGADOR, "tipoPessoa": kind, "documento": document}
        assert (await issue(merchant.sandbox, pagador=pagador)).status == 201
        assert fields(await issue(merchant.production, pagador=pagador)) == ["pagador.documento"]


async def test_of_several_refusals_the_first_in_the_contracts_order_wins(system: System, books: Books) -> None:
    """One request has every fault; the fault that is answered is corrected, one after the other, up to the bank."""
    async with new_merchant(system, kyc="pending") as other:
        client = other.production
        used = str(uuid4())
        body: dict[str, Any] = {
            **boleto_body(), "valorCents": "0", "dataVencimento": "never", "integrador_code": 5, "tipo": 5,
            "pagador": {**PAGADOR, "uf": "XX"}, "account_id": NOBODY,
        }  # fmt: skip
        past = boleto_body(dataVencimento=(today() - timedelta(days=30)).isoformat())
        await issue_boleto_in_the_past(
            system, books, client, test=False, due_on=today() - timedelta(days=30), key=used, body=past
        )
        headers = {"Content-Type": "text/plain"}
        raw: list[bytes] = [b" " * (256 * 1024 + 1)]

        async def ask() -> Answer:
            data = raw[0] if raw else msgspec.json.encode(body)
            async with client.http.post(client.base_url + BOLETO, data=data, headers=headers) as answer:
                said = await answer.read()
                return Answer(answer.status, msgspec.json.decode(said), answer.headers, said)

        narrow = {"grant_type": "client_credentials", "scope": "charges:read", **client._client}
        async with client.http.post(f"{client.base_url}/v1/oauth/token", data=narrow) as answer:
            reader = (await answer.json())["access_token"]
        await books.execute("UPDATE account SET address = NULL WHERE account_id = $1::text::uuid", client.account_id)

        refused(await ask(), 413, "PAYLOAD_TOO_LARGE")
        raw[0] = b"{"
        refused(await ask(), 415, "UNSUPPORTED_MEDIA_TYPE")
        headers["Content-Type"] = "application/json"
        refused(await ask(), 401, "UNAUTHENTICATED")
        headers["Authorization"] = f"Bearer {reader}"
        refused(await ask(), 403, "INSUFFICIENT_SCOPE")
        headers["Authorization"] = f"Bearer {await client.token()}"
        refused(await ask(), 400, "IDEMPOTENCY_KEY_REQUIRED")
        headers["Idempotency-Key"] = "k" * 256
        refused(await ask(), 400, "IDEMPOTENCY_KEY_INVALID")
        headers["Idempotency-Key"] = used
        refused(await ask(), 400, "MALFORMED_JSON")
        raw.clear()
        refused(await ask(), 400, "AMOUNT_INVALID")
        body["valorCents"] = "10.00"
        refused(await ask(), 400, "INVALID_DUE_DATE")
        body["dataVencimento"] = in_days(0)
        refused(await ask(), 400, "INTEGRADOR_CODE_INVALID")
        body["integrador_code"] = "INTG-000000"
        assert fields(await ask()) == ["tipo", "pagador.uf"]
        body["tipo"] = "boleto"
        assert fields(await ask()) == ["pagador.uf"]
        body["pagador"] = PAGADOR
        refused(await ask(), 409, "IDEMPOTENCY_KEY_REUSED")
        headers["Idempotency-Key"] = str(uuid4())
        refused(await ask(), 403, "KYC_REQUIRED")
        await books.execute("UPDATE account SET kyc = 'approved' WHERE account_id = $1::text::uuid", client.account_id)
        refused(await ask(), 403, "ACCOUNT_MISMATCH")
        body["account_id"] = client.account_id
        refused(await ask(), 400, "INVALID_DUE_DATE")
        body["dataVencimento"] = in_days(1)
        refused(await ask(), 400, "INTEGRADOR_CODE_INVALID")
        del body["integrador_code"]
        refused(await ask(), 422, "MERCHANT_ADDRESS_REQUIRED")
        whole = {"street": "Rua A", "number": "1", "city": "Recife", "state": "PE", "zip_code": "50030000"}
        store = "UPDATE account SET address = $2 WHERE account_id = $1::text::uuid"
        await books.execute(store, client.account_id, msgspec.json.encode(whole))
        await asyncio.to_thread(system.json, "bank", "fault", "refuse")
        try:
            refused(await ask(), 502, "BANK_UNAVAILABLE")
        finally:
            await asyncio.to_thread(system.json, "bank", "fault", "up")
        assert (await ask()).status == 201


@pytest.mark.parametrize("scope", ["charges:read", "payments:read"])
async def test_issuing_re_dating_cancelling_and_paying_a_boleto_require_charges_create(
    merchant: ApiMerchant, scope: str
) -> None:
    client = merchant.sandbox
    charge = await issue_boleto(client)
    narrow = {"grant_type": "client_credentials", "scope": scope, **client._client}
    async with client.http.post(f"{client.base_url}/v1/oauth/token", data=narrow) as answer:
        token = (await answer.json())["access_token"]
    for method, path, body in (
        ("POST", BOLETO, boleto_body()),
        ("PATCH", DUE_DATE, {"charge_id": charge["charge_id"], "due_date": in_days(20)}),
        ("POST", f"/v1/charges/{charge['charge_id']}/cancel", None),
        ("POST", f"/v1/charges/{charge['charge_id']}/simulate-payment", None),
    ):
        sent = {"Authorization": f"Bearer {token}", "Idempotency-Key": str(uuid4())}
        refused(await client.ask(method, path, json=body, headers=sent), 403, "INSUFFICIENT_SCOPE")
    assert await client.charge(charge["charge_id"]) == charge


# --- The suspension of standalone PIX --------------------------------------------------------------------------------


async def test_a_suspension_of_pix_does_not_affect_boletos_and_hybrid_boletos(
    system: System, merchant: ApiMerchant
) -> None:
    client, key = merchant.production, str(uuid4())
    made = await issue_boleto(client, key=key, tipo="boleto_hibrido", external_id=(name := new_reference()))
    await asyncio.to_thread(system.json, "pix", "suspend")
    try:
        for tipo in ("boleto", "boleto_hibrido"):
            assert (await issue(client, tipo=tipo)).status == 201
            assert (await issue(merchant.sandbox, tipo=tipo)).status == 201
        again = await issue(client, key=key, tipo="boleto_hibrido", external_id=name)
        assert (again.status, again.body) == (200, made)
        refused(await client.create(), 403, "PIX_AVULSO_SUSPENDED")
        refused(await issue(client, tipo="boleto_pix"), 403, "PIX_AVULSO_SUSPENDED")
        # A malformed body is refused as such, suspended or not.
        refused(await issue(client, "0", tipo="boleto_pix"), 400, "AMOUNT_INVALID")
        assert (await issue(merchant.sandbox, tipo="boleto_pix")).code != "PIX_AVULSO_SUSPENDED"
    finally:
        await asyncio.to_thread(system.json, "pix", "resume")
    assert (await issue(client, tipo="boleto_pix")).code != "PIX_AVULSO_SUSPENDED"


# --- A key makes one boleto ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["sandbox", "production"])
async def test_the_same_key_and_body_is_answered_with_the_charge_as_it_is_now(merchant: ApiMerchant, mode: str) -> None:
    client: ApiClient = getattr(merchant, mode)
    key, name = str(uuid4()), new_reference()
    first = await issue(client, key=key, external_id=name)
    assert first.status == 201
    assert "Idempotent-Replayed" not in first.headers
    again = await issue(client, key=key, external_id=name)
    assert (again.status, again.raw) == (200, first.raw)
    assert (again.headers["Idempotent-Replayed"], again.headers["Idempotency-Key"]) == ("true", key)
    charge_id = first.body["charge_id"]
    moved = await redate(client, in_days(40), charge_id=charge_id)
    assert moved.status == 200
    assert (await issue(client, key=key, external_id=name)).body == moved.body
    cancelled = await client.cancel(charge_id)
    assert (await issue(client, key=key, external_id=name)).body == cancelled.body
    assert len(await client.all("/v1/charges", external_id=name)) == 1
    key_state = await client.get(f"/v1/idempotency-keys/{key}")
    assert key_state.body == {
        "key": key, "state": "completed", "resource_type": "charge", "resource_id": charge_id,
        "first_used_at": first.body["created_at"], "replay_count": 3,
    }  # fmt: skip


async def test_a_replay_is_answered_also_after_the_due_date_has_passed(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client, key, due_on = merchant.sandbox, str(uuid4()), today() - timedelta(days=20)
    body = boleto_body(dataVencimento=due_on.isoformat())
    charge_id = await issue_boleto_in_the_past(system, books, client, test=True, due_on=due_on, key=key, body=body)
    answer = await issue(client, key=key, body=body)
    assert (answer.status, answer.body["charge_id"], answer.body["status"]) == (200, charge_id, "expired")
    refused(await issue(client, body=body), 400, "INVALID_DUE_DATE")


async def test_the_same_key_with_another_body_is_refused_and_makes_nothing(merchant: ApiMerchant, books: Books) -> None:
    client, key, name = merchant.sandbox, str(uuid4()), new_reference()
    await issue_boleto(client, key=key, external_id=name)
    others: list[dict[str, Any]] = [
        {"valorCents": "150.01"}, {"valorCents": "150"}, {"dataVencimento": in_days(11)}, {"tipo": "boleto_hibrido"},
        {"pagador": {**PAGADOR, "nome": "Outra"}}, {"desconhecido": 1},
    ]  # fmt: skip
    for other in others:
        body = {**boleto_body(external_id=name), **other}
        refused(await issue(client, key=key, body=body), 409, "IDEMPOTENCY_KEY_REUSED")
    assert len(await boletos_of(books, name)) == len(await client.all("/v1/charges", external_id=name)) == 1
    # Nor may a PIX charge use the key.
    refused(await client.create(key=key), 409, "IDEMPOTENCY_KEY_REUSED")


async def test_an_idempotency_key_belongs_to_its_account_and_mode(system: System, merchant: ApiMerchant) -> None:
    key = str(uuid4())
    async with new_merchant(system) as other:
        clients = [merchant.sandbox, merchant.production, other.sandbox, other.production]
        answers = [await issue(client, key=key) for client in clients]
    assert [answer.status for answer in answers] == [201] * 4
    assert len({answer.body["charge_id"] for answer in answers}) == 4


async def test_a_refused_request_does_not_use_up_its_idempotency_key(merchant: ApiMerchant, books: Books) -> None:
    client, key, name = merchant.sandbox, str(uuid4()), new_reference()
    refused(await issue(client, "0", key=key, external_id=name), 400, "AMOUNT_INVALID")
    refused(await issue(client, key=key, external_id=name, account_id=NOBODY), 403, "ACCOUNT_MISMATCH")
    refused(await issue(client, key=key, external_id=name, dataVencimento=in_days(0)), 400, "INVALID_DUE_DATE")
    for scenario in ("refuse", "unavailable"):
        answer = await issue(client, key=key, external_id=name, headers={"X-Sandbox-Bank": scenario})
        refused(answer, 502, "BANK_UNAVAILABLE")
        assert (await client.get(f"/v1/idempotency-keys/{key}")).body["state"] == "unknown"
    # The key also works with a corrected body.
    answer = await issue(client, "151.00", key=key, external_id=name)
    assert answer.status == 201
    assert len(await boletos_of(books, name)) == len(await client.all("/v1/charges", external_id=name)) == 1


@pytest.mark.parametrize("mode", ["sandbox", "production"])
async def test_thirty_equal_requests_at_once_make_one_boleto(
    system: System, merchant: ApiMerchant, books: Books, mode: str
) -> None:
    assert len(system.pids("api")) > 1
    client: ApiClient = getattr(merchant, mode)
    for _ in range(3):
        key, name = str(uuid4()), new_reference()
        answers = await asyncio.gather(*(issue(client, key=key, external_id=name) for _ in range(30)))
        assert Counter(answer.status for answer in answers) == {201: 1, 200: 29}
        assert len({answer.raw for answer in answers}) == 1
        assert len(await boletos_of(books, name)) == len(await client.all("/v1/charges", external_id=name)) == 1


async def test_equal_requests_wait_until_the_bank_has_answered_the_first(merchant: ApiMerchant, books: Books) -> None:
    client, key, name = merchant.sandbox, str(uuid4()), new_reference()
    slow = {"X-Sandbox-Bank": "slow"}
    asked = [asyncio.create_task(issue(client, key=key, external_id=name, headers=slow))]

    async def in_progress() -> bool:
        return bool((await client.get(f"/v1/idempotency-keys/{key}")).body["state"] == "in_progress")

    await until_answer(in_progress)
    asked += [asyncio.create_task(issue(client, key=key, external_id=name)) for _ in range(9)]
    other = asyncio.create_task(issue(client, "151.00", key=key, external_id=name))
    await asyncio.sleep(0.5)
    answered = any(each.done() for each in asked)
    assert not (answered and await in_progress()), "a request was answered before the bank"
    answers = await asyncio.gather(*asked)
    assert Counter(answer.status for answer in answers) == {201: 1, 200: 9}
    refused(await other, 409, "IDEMPOTENCY_KEY_REUSED")
    assert len(await boletos_of(books, name)) == 1


async def test_a_key_in_progress_is_shown_as_such_after_redis_is_flushed(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client, key, name = merchant.sandbox, str(uuid4()), new_reference()
    asked = asyncio.create_task(issue(client, key=key, external_id=name, headers={"X-Sandbox-Bank": "slow"}))
    path = f"/v1/idempotency-keys/{key}"

    async def in_progress() -> bool:
        return bool((await client.get(path)).body["state"] == "in_progress")

    await until_answer(in_progress)
    redis = Redis.from_url(system.redis_url)
    await redis.flushall()
    await redis.aclose()
    assert await in_progress()
    twin = await issue(client, key=key, external_id=name)
    first = await asked
    assert sorted((first.status, twin.status)) == [200, 201]
    assert first.raw == twin.raw
    assert (await client.get(path)).body["state"] == "completed"
    assert len(await boletos_of(books, name)) == 1


async def test_of_thirty_requests_with_one_key_and_two_bodies_one_body_wins(
    merchant: ApiMerchant, books: Books
) -> None:
    key, name = str(uuid4()), new_reference()
    answers = await asyncio.gather(
        *(issue(merchant.sandbox, f"{1 + number % 2}.00", key=key, external_id=name) for number in range(30))
    )
    assert Counter(answer.status for answer in answers) == {201: 1, 200: 14, 409: 15}
    assert {answer.code for answer in answers if answer.status == 409} == {"IDEMPOTENCY_KEY_REUSED"}
    assert len(await boletos_of(books, name)) == 1


async def _issue_and_hang_up(client: ApiClient, key: str, body: bytes, after_s: float | None) -> None:
    """Request a boleto and hang up after `after_s` seconds; None: as soon as the answer begins, before it is read."""
    host, port = client.base_url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        f"POST {BOLETO} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {await client.token()}\r\nIdempotency-Key: {key}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    await writer.drain()
    await (reader.read(1) if after_s is None else asyncio.sleep(after_s))
    writer.transport.abort()


async def test_a_client_that_hangs_up_neither_undoes_nor_duplicates_its_boleto(
    merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.sandbox
    await client.token()
    asked = {str(uuid4()): boleto_body(external_id=new_reference()) for _ in range(30)}
    # The first stays until its answer begins: at least one request gets through, however busy the machine is.
    await asyncio.gather(
        *(
            _issue_and_hang_up(client, key, msgspec.json.encode(body), place * 0.003 if place else None)
            for place, (key, body) in enumerate(asked.items())
        )
    )
    answers = await asyncio.gather(*(issue(client, key=key, body=body) for key, body in asked.items()))
    assert {answer.status for answer in answers} <= {200, 201}
    assert 200 in {answer.status for answer in answers}, "no request got through before its client hung up"
    for body in asked.values():
        (boleto,) = await boletos_of(books, body["external_id"])
        assert boleto["written_off_at"] is None
        assert len(await client.all("/v1/charges", external_id=body["external_id"])) == 1


# --- A bank in trouble -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", ["unavailable", "refuse"])
async def test_a_boleto_that_the_sandbox_bank_does_not_confirm_leaves_no_charge(
    merchant: ApiMerchant, books: Books, scenario: str
) -> None:
    client, name = merchant.sandbox, new_reference()
    answer = await issue(client, external_id=name, headers={"X-Sandbox-Bank": scenario})
    refused(answer, 502, "BANK_UNAVAILABLE")
    assert int(answer.headers["Retry-After"]) > 0
    assert await client.all("/v1/charges", external_id=name) == []
    assert await boletos_of(books, name) == []
    assert await client.events(external_id=name) == []


@pytest.mark.parametrize("scenario", ["lost_reply", "slow"])
async def test_a_lost_or_late_answer_of_the_bank_makes_one_boleto(
    merchant: ApiMerchant, books: Books, scenario: str
) -> None:
    client, name = merchant.sandbox, new_reference()
    made = await issue_boleto(client, external_id=name, headers={"X-Sandbox-Bank": scenario})
    (boleto,) = await boletos_of(books, name)
    assert (boleto["number"], boleto["written_off_at"]) == (made["boleto"]["nosso_numero"], None)
    assert await client.all("/v1/charges", external_id=name) == [made]


async def test_an_unknown_sandbox_bank_scenario_is_refused_and_production_ignores_the_header(
    merchant: ApiMerchant,
) -> None:
    for wrong in ("sleepy", "", "SLOW"):
        assert fields(await issue(merchant.sandbox, headers={"X-Sandbox-Bank": wrong})) == ["X-Sandbox-Bank"]
    for ignored in ("refuse", "sleepy"):
        assert (await issue(merchant.production, headers={"X-Sandbox-Bank": ignored})).status == 201


@pytest.mark.parametrize("fault", ["down", "refuse", "error500"])
async def test_a_failing_production_bank_leaves_no_charge_and_the_key_works_later(
    system: System, merchant: ApiMerchant, books: Books, fault: str
) -> None:
    client, key, name = merchant.production, str(uuid4()), new_reference()
    await asyncio.to_thread(system.json, "bank", "fault", fault)
    try:
        answer = await issue(client, key=key, external_id=name)
        refused(answer, 502, "BANK_UNAVAILABLE")
        assert int(answer.headers["Retry-After"]) > 0
        assert (await issue(merchant.sandbox)).status == 201, "the sandbox has its own bank"
    finally:
        await asyncio.to_thread(system.json, "bank", "fault", "up")
    assert await client.all("/v1/charges", external_id=name) == []
    assert (await issue(client, key=key, external_id=name)).status == 201
    open_now = [boleto for boleto in await boletos_of(books, name) if boleto["written_off_at"] is None]
    assert len(open_now) == 1


# --- Boletos of other accounts ---------------------------------------------------------------------------------------


async def test_a_boleto_of_another_account_or_mode_is_answered_like_an_unknown_id(
    system: System, merchant: ApiMerchant
) -> None:
    def asked(charge_id: str) -> list[tuple[str, str, Any]]:
        return [
            ("GET", f"/v1/charges/{charge_id}", None),
            ("GET", f"/v1/charges/boleto/{charge_id}/pdf", None),
            ("POST", f"/v1/charges/{charge_id}/cancel", None),
            ("POST", "/v1/charges/cancel", {"charge_id": charge_id}),
            ("PATCH", DUE_DATE, {"charge_id": charge_id, "due_date": in_days(20)}),
            ("POST", f"/v1/charges/{charge_id}/simulate-payment", None),
        ]

    async with new_merchant(system) as other:
        name = new_reference()
        mine = await issue_boleto(merchant.sandbox, external_id=name)
        live = await issue_boleto(other.production, external_id=name)
        for client, charge in ((other.sandbox, mine), (other.production, mine), (other.sandbox, live)):
            for (method, path, body), (_, nowhere, nothing) in zip(
                asked(charge["charge_id"]), asked(NOBODY), strict=True
            ):
                unknown = await client.ask(method, nowhere, json=nothing)
                foreign = await client.ask(method, path, json=body)
                assert foreign.but_for_the_request_id() == unknown.but_for_the_request_id(), (method, path)
                gated = path.endswith("simulate-payment") and client is other.production
                assert foreign.code == ("SANDBOX_ONLY" if gated else "CHARGE_NOT_FOUND"), (method, path)
        for method, path, more in (("POST", "/v1/charges/cancel", {}), ("PATCH", DUE_DATE, {"due_date": in_days(20)})):
            unknown = await other.sandbox.ask(method, path, json={"external_id": "nobody's", **more})
            foreign = await other.sandbox.ask(method, path, json={"external_id": name, **more})
            assert foreign.but_for_the_request_id() == unknown.but_for_the_request_id()
            refused(foreign, 404, "CHARGE_NOT_FOUND")
        assert await other.sandbox.all("/v1/charges", nosso_numero=mine["boleto"]["nosso_numero"]) == []
        assert await merchant.sandbox.charge(mine["charge_id"]) == mine
        assert await other.production.charge(live["charge_id"]) == live


async def test_the_books_are_clean_after_the_tests_of_this_file(system: System) -> None:
    assert_books_are_clean(system)
