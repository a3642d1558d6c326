"""Creation and lookup of a PIX charge: fields, QR Code and bounds (contract section 5)."""

import asyncio
import re
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any
from uuid import UUID, uuid4

import pytest
from PIL import Image

from domain.instants import to_millisecond
from tests.support.code_reader import qr_text
from tests.support.merchant import ApiMerchant, Books
from tests.support.system import System

INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.mark.parametrize("mode", ["sandbox", "production"])
async def test_a_created_charge_has_every_field_and_is_readable_at_once(
    system: System, merchant: ApiMerchant, mode: str
) -> None:
    client = getattr(merchant, mode)
    payer = {"name": "Zé da Silva", "document": "52998224725", "email": "ze@example.com", "phone": "+5581999990000"}
    before = to_millisecond(datetime.now(UTC))
    answer = await client.create("1234.5", external_id="nota/42 ção", description="3 pães", payer=payer, expires_in=600)
    assert answer.status == 201
    assert answer.headers.get("Idempotent-Replayed") is None
    charge = answer.body
    assert charge == {
        "charge_id": charge["charge_id"],
        "account_id": client.account_id,
        "external_id": "nota/42 ção",
        "public_id": charge["public_id"],
        "payment_url": f"{system.app_url}/pagar/{charge['public_id']}",
        "pdf_url": None,
        "payment_method": "pix",
        "status": "pending",
        "amount": "1234.50",
        "description": "3 pães",
        "pix": charge["pix"],
        "boleto": None,
        "payment": None,
        "created_at": charge["created_at"],
        "due_date": None,
        "effective_due_date": None,
        "expires_at": charge["expires_at"],
        "paid_at": None,
        "cancelled_at": None,
        "refunded_amount": "0.00",
        "failure": None,
        "test": mode == "sandbox",
        "version": 1,
    }
    assert str(UUID(charge["charge_id"])) == charge["charge_id"]
    assert INSTANT.fullmatch(charge["created_at"])
    assert INSTANT.fullmatch(charge["expires_at"])
    created_at = datetime.fromisoformat(charge["created_at"])
    assert before <= created_at <= datetime.now(UTC)
    assert datetime.fromisoformat(charge["expires_at"]) - created_at == timedelta(seconds=600)
    assert len(b64decode(charge["public_id"] + "==", altchars=b"-_")) * 8 >= 128
    assert await client.charge(charge["charge_id"]) == charge
    assert await client.all("/v1/charges") == [charge]
    assert await client.events() == []
    # The answer shows no payer data.
    assert "52998224725" not in str(charge)


@pytest.mark.parametrize("mode", ["sandbox", "production"])
async def test_the_qr_code_is_dynamic_and_its_image_encodes_the_same_text(merchant: ApiMerchant, mode: str) -> None:
    charge = await getattr(merchant, mode).created("77.01")
    pix = charge["pix"]
    assert pix.keys() == {"txid", "qr_code", "qr_code_image"}
    assert re.fullmatch(r"[a-zA-Z0-9]{32}", pix["txid"])
    code = pix["qr_code"]
    assert code.startswith("000201010212")
    assert "540577.01" in code
    assert "62070503***6304" in code
    kind, data = pix["qr_code_image"].split(",", 1)
    assert kind == "data:image/png;base64"
    with Image.open(BytesIO(b64decode(data, validate=True))) as image:
        read = qr_text(image)
        modules = image.width // 4
        quiet = image.convert("L").crop((0, 0, image.width, 4 * 4))
    assert read == code
    assert modules >= 21 + 8
    assert quiet.getextrema() == (255, 255)


async def test_every_charge_has_identifiers_of_its_own(merchant: ApiMerchant, books: Books) -> None:
    charges = await asyncio.gather(*(merchant.sandbox.created() for _ in range(60)))
    for name in ("charge_id", "public_id"):
        assert len({charge[name] for charge in charges}) == len(charges)
    assert len({charge["pix"]["txid"] for charge in charges}) == len(charges)
    assert len({charge["pix"]["qr_code"] for charge in charges}) == len(charges)


async def test_omitted_fields_are_null_and_the_default_lifetime_is_a_day(merchant: ApiMerchant) -> None:
    nothing: dict[str, Any] = dict.fromkeys(("external_id", "description", "payer", "expires_in"))
    shapes: list[dict[str, Any]] = [{}, nothing, {"payer": {}}]
    for empty in shapes:
        charge = await merchant.sandbox.created(**empty)
        assert (charge["external_id"], charge["description"]) == (None, None)
        lifetime = datetime.fromisoformat(charge["expires_at"]) - datetime.fromisoformat(charge["created_at"])
        assert lifetime == timedelta(days=1)


async def test_unknown_and_read_only_fields_of_a_body_are_ignored(merchant: ApiMerchant) -> None:
    charge = await merchant.sandbox.created(status="paid", test=False, unknown={"a": [1, 2, {"b": None}]}, huge=10**40)
    assert (charge["status"], charge["test"]) == ("pending", True)


@pytest.mark.parametrize(
    ("amount", "shown"),
    [("0.01", "0.01"), ("1", "1.00"), ("1.5", "1.50"), ("007.00", "7.00"), ("9999999999.99", "9999999999.99")],
)
async def test_valid_amounts_are_accepted_and_shown_with_two_decimals(
    merchant: ApiMerchant, amount: str, shown: str
) -> None:
    charge = await merchant.sandbox.created(amount)
    assert charge["amount"] == shown
    paid = await merchant.sandbox.pay(charge["charge_id"])
    assert paid.body["payment"]["amount"] == await merchant.sandbox.balance() == shown


@pytest.mark.parametrize(
    "amount",
    [
        "0", "0.00", "-1.00", "+1.00", "1,00", "1.000", "1.", ".5", " 1.00", "1.00 ", "1.00\n", "1e3", "NaN",
        "Infinity", "1_000", "0x10", "12345678901", "", "١٢", "１.００", 10, 10.5, True, None, [], {}, "9" * 5000,
    ],
)  # fmt: skip
async def test_malformed_amounts_are_refused(merchant: ApiMerchant, amount: Any) -> None:
    answer = await merchant.sandbox.create(amount)
    assert (answer.status, answer.code) == (400, "AMOUNT_INVALID")


@pytest.mark.parametrize(("expires_in", "ok"), [(60, True), (2_592_000, True), (59, False), (2_592_001, False)])
async def test_a_lifetime_is_accepted_within_its_bounds_only(merchant: ApiMerchant, expires_in: int, ok: bool) -> None:
    answer = await merchant.sandbox.create(expires_in=expires_in)
    assert (answer.status, answer.code) == ((201, "") if ok else (400, "EXPIRES_IN_INVALID"))


@pytest.mark.parametrize("expires_in", ["600", 600.0, 1e3, True, 0, -60, 10**30, [600], {}])
async def test_malformed_lifetimes_are_refused(merchant: ApiMerchant, expires_in: Any) -> None:
    answer = await merchant.sandbox.create(expires_in=expires_in)
    assert (answer.status, answer.code) == (400, "EXPIRES_IN_INVALID")


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"account_id": "x"}, "account_id"),
        ({"account_id": None}, "account_id"),
        ({"external_id": 7}, "external_id"),
        ({"external_id": "x" * 256}, "external_id"),
        ({"external_id": "a\u0000b"}, "external_id"),
        ({"description": "x" * 501}, "description"),
        ({"payer": "Zé"}, "payer"),
        ({"payer": {"document": "1234567890"}}, "payer.document"),
        ({"payer": {"document": "529.982.247-25"}}, "payer.document"),
        ({"payer": {"document": 52998224725}}, "payer.document"),
        ({"payer": {"email": "nobody"}}, "payer.email"),
    ],
)
async def test_a_field_that_is_refused_is_named_in_the_answer(
    merchant: ApiMerchant, wrong: dict[str, Any], field: str
) -> None:
    answer = await merchant.sandbox.ask(
        "POST", "/v1/charges/pix", json=merchant.sandbox.body() | wrong, key=str(uuid4())
    )  # fmt: skip
    assert (answer.status, answer.code) == (400, "VALIDATION_ERROR")
    assert [each["field"] for each in answer.body["error"]["fields"]] == [field]
    assert await merchant.sandbox.all("/v1/charges") == []


async def test_fictional_documents_are_accepted_in_the_sandbox_only(merchant: ApiMerchant) -> None:
    for document in ("12345678900", "12345678000100"):
        assert (await merchant.sandbox.create(payer={"document": document})).status == 201
        answer = await merchant.production.create(payer={"document": document})
        assert (answer.status, answer.code) == (400, "VALIDATION_ERROR")
    assert (await merchant.production.create(payer={"document": "52998224725"})).status == 201


async def test_payer_data_is_stored_nowhere_in_the_clear(merchant: ApiMerchant, books: Books) -> None:
    payer = {"name": "Fulana Rara Silva", "document": "11144477735", "email": "rara@example.com"}
    charge = await merchant.sandbox.created(payer=payer)
    for table in ("charge", "read_charge", "journal", "bank_order", "bank_order_done"):
        text = await books.fetchval(
            f"SELECT string_agg(t::text, ' ') FROM {table} t WHERE charge_id = $1::text::uuid",  # noqa: S608
            charge["charge_id"],
        )
        assert text or table.startswith("bank_order"), (
            "only bank_order and bank_order_done may hold no row of the charge"
        )
        for secret in payer.values():
            assert secret not in (text or "")
            assert secret.encode().hex() not in (text or "")
