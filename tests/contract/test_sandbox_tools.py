"""The sandbox tools expire, fail and pay a test charge as can happen in production (contract section 14)."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from domain.instants import iso
from tests.support.boleto_merchant import issue_boleto
from tests.support.merchant import (
    ApiClient,
    ApiMerchant,
    assert_books_are_clean,
    database_of,
    new_merchant,
    until_answer,
)
from tests.support.system import System


@pytest.fixture(scope="module")
async def merchant(system: System) -> AsyncIterator[ApiMerchant]:
    async with new_merchant(system) as opened:
        yield opened


async def create_charge(client: ApiClient, kind: str) -> dict[str, Any]:
    return await (client.created("30.00") if kind == "pix" else issue_boleto(client, "30.00", tipo=kind))


async def tool(client: ApiClient, charge: dict[str, Any], name: str, json: Any = None) -> Any:
    return await client.ask("POST", f"/v1/sandbox/charges/{charge['charge_id']}/{name}", json=json)


KINDS = pytest.mark.parametrize("kind", ["pix", "boleto", "boleto_hibrido"])


@KINDS
async def test_expire_expires_a_pending_charge_and_records_one_event(merchant: ApiMerchant, kind: str) -> None:
    client = merchant.sandbox
    charge = await create_charge(client, kind)
    answer = await tool(client, charge, "expire")
    assert (answer.status, answer.body["status"]) == (200, "expired")
    again = await tool(client, charge, "expire")
    assert (again.status, again.code) == (409, "CHARGE_NOT_PENDING")
    events = await client.events(charge_id=charge["charge_id"])
    assert [event["type"] for event in events] == ["charge.expired"]
    late = await tool(client, charge, "pay", {})
    assert (late.body["status"], late.body["payment"]["late"]) == ("paid", True)


@KINDS
async def test_fail_makes_a_charge_failed_and_leaves_nothing_payable(
    system: System, merchant: ApiMerchant, kind: str
) -> None:
    client = merchant.sandbox
    charge = await create_charge(client, kind)
    answer = await tool(client, charge, "fail")
    assert (answer.status, answer.body["status"]) == (200, "failed")
    assert answer.body["failure"]["code"] == "SANDBOX_FAILURE"
    assert (await tool(client, charge, "fail")).code == "CHARGE_NOT_PENDING"
    assert [event["type"] for event in await client.events(charge_id=charge["charge_id"])] == ["charge.failed"]
    if kind != "pix":
        async with database_of(system) as books:
            number = charge["boleto"]["nosso_numero"]
            assert await books.fetchval(
                "SELECT written_off_at IS NOT NULL FROM simulated_boleto WHERE number = $1", number
            )


@KINDS
@pytest.mark.parametrize(
    ("body", "status", "anomalies"),
    [
        ({}, "paid", [None]),
        ({"amount": "29.99"}, "pending", ["amount_mismatch"]),
        ({"amount": "31.00"}, "paid", ["amount_mismatch"]),
    ],
)
async def test_pay_credits_any_amount_and_marks_a_mismatch(
    merchant: ApiMerchant, kind: str, body: dict[str, Any], status: str, anomalies: list[str | None]
) -> None:
    client = merchant.sandbox
    charge = await create_charge(client, kind)
    answer = await tool(client, charge, "pay", body)
    assert (answer.status, answer.body["status"]) == (200, status), answer.raw
    payments = await client.all("/v1/payments", charge_id=charge["charge_id"], order="asc")
    assert [payment["anomaly"] for payment in payments] == anomalies
    assert [payment["amount"] for payment in payments] == [body.get("amount", "30.00")]


async def test_pay_without_a_body_pays_the_whole_charge_once_and_now(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    charge = await create_charge(client, "pix")
    answer = await tool(client, charge, "pay")
    assert (answer.status, answer.body["status"]) == (200, "paid"), answer.raw
    (payment,) = await client.all("/v1/payments", charge_id=charge["charge_id"])
    assert (payment["amount"], payment["anomaly"]) == ("30.00", None)


@pytest.mark.parametrize("kind", ["pix", "boleto"])
async def test_further_payments_of_a_paid_charge_are_duplicates(merchant: ApiMerchant, kind: str) -> None:
    client = merchant.sandbox
    charge = await create_charge(client, kind)
    assert (await tool(client, charge, "pay", {"times": 2})).status == 200
    payments = await client.all("/v1/payments", charge_id=charge["charge_id"], order="asc")
    assert sorted((payment["amount"], payment["anomaly"] or "") for payment in payments) == [
        ("30.00", ""),
        ("30.00", "duplicate"),
    ]
    again = await tool(client, charge, "pay", {})
    assert again.status == 200
    assert len(await client.all("/v1/payments", charge_id=charge["charge_id"], anomaly="duplicate")) == 2


@KINDS
async def test_a_payment_after_a_cancellation_is_credited_as_paid_after_cancel(
    merchant: ApiMerchant, kind: str
) -> None:
    client = merchant.sandbox
    charge = await create_charge(client, kind)
    assert (await client.cancel(charge["charge_id"])).status == 200
    answer = await tool(client, charge, "pay", {})
    assert answer.body["status"] == "cancelled"
    (payment,) = await client.all("/v1/payments", charge_id=charge["charge_id"])
    assert payment["anomaly"] == "paid_after_cancel"


async def test_pay_with_paid_at_dates_the_payment_at_that_instant(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    charge = await create_charge(client, "pix")
    at = iso(datetime.now(UTC) - timedelta(days=1))
    answer = await tool(client, charge, "pay", {"paid_at": at})
    assert answer.body["payment"]["paid_at"] == at


async def test_the_simulated_bank_books_each_pix_of_a_sandbox_payment(system: System, merchant: ApiMerchant) -> None:
    charge = await create_charge(merchant.sandbox, "pix")
    await tool(merchant.sandbox, charge, "pay", {"amount": "12.34", "times": 3})
    async with database_of(system) as books:
        txid = charge["pix"]["txid"]

        async def three() -> bool:
            found = await books.fetch(
                "SELECT amount_cents FROM simulated_pix WHERE world = 'sandbox' AND txid = $1", txid
            )
            return [row[0] for row in found] == [1234] * 3

        await until_answer(three)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"amount": 30}, "AMOUNT_INVALID"),
        ({"amount": "0"}, "AMOUNT_INVALID"),
        ({"times": 0}, "VALIDATION_ERROR"),
        ({"times": 11}, "VALIDATION_ERROR"),
        ({"times": True}, "VALIDATION_ERROR"),
        ({"paid_at": "2999-01-01T00:00:00Z"}, "VALIDATION_ERROR"),
        ({"paid_at": "yesterday"}, "VALIDATION_ERROR"),
        ({"paid_at": "2026-02-30T00:00:00Z"}, "VALIDATION_ERROR"),
    ],
)
async def test_pay_with_an_invalid_body_is_refused_and_pays_nothing(
    merchant: ApiMerchant, body: dict[str, Any], code: str
) -> None:
    charge = await create_charge(merchant.sandbox, "pix")
    answer = await tool(merchant.sandbox, charge, "pay", body)
    assert (answer.status, answer.code) == (400, code)
    assert (await merchant.sandbox.charge(charge["charge_id"]))["status"] == "pending"


@pytest.mark.parametrize("name", ["expire", "fail", "pay"])
async def test_the_tools_refuse_production_tokens_and_charges_of_other_merchants(
    system: System, merchant: ApiMerchant, name: str
) -> None:
    charge = await create_charge(merchant.sandbox, "pix")
    body: dict[str, Any] | None = {} if name == "pay" else None
    denied = await tool(merchant.production, charge, name, body)
    assert (denied.status, denied.code) == (403, "SANDBOX_ONLY")
    async with new_merchant(system) as other:
        foreign = await tool(other.sandbox, charge, name, body)
        assert (foreign.status, foreign.code) == (404, "CHARGE_NOT_FOUND")
    assert (await merchant.sandbox.charge(charge["charge_id"]))["status"] == "pending"


@KINDS
@pytest.mark.parametrize("way", ["simulate-payment", "pay"])
@pytest.mark.parametrize("scenario", ["unavailable", "refuse"])
async def test_a_payment_that_the_payers_bank_does_not_make_leaves_the_charge_pending(
    merchant: ApiMerchant, kind: str, way: str, scenario: str
) -> None:
    client = merchant.sandbox
    charge = await create_charge(client, kind)
    path = f"/v1/charges/{charge['charge_id']}/simulate-payment"
    if way == "pay":
        path = f"/v1/sandbox/charges/{charge['charge_id']}/pay"
    body: dict[str, Any] | None = {} if way == "pay" else None
    refused = await client.ask("POST", path, json=body, headers={"X-Sandbox-Bank": scenario})
    assert (refused.status, refused.code) == (502, "BANK_UNAVAILABLE"), refused.raw
    assert int(refused.headers["Retry-After"]) > 0
    assert (await client.charge(charge["charge_id"]))["status"] == "pending"
    assert await client.all("/v1/payments", charge_id=charge["charge_id"]) == []

    async def paid() -> bool:
        # A boleto whose bank did not answer is looked up at the bank first: nothing was paid there.
        again = await client.ask("POST", path, json=body)
        assert again.status == 200 or again.code == "BANK_UNAVAILABLE", again.raw
        return bool(again.status == 200 and again.body["status"] == "paid")

    await until_answer(paid)
    assert len(await client.all("/v1/payments", charge_id=charge["charge_id"])) == 1


@KINDS
@pytest.mark.parametrize(("scenario", "least_s"), [("slow", 3.0), ("lost_reply", 0.0)])
async def test_a_slow_payers_bank_or_a_lost_reply_makes_one_payment(
    merchant: ApiMerchant, kind: str, scenario: str, least_s: float
) -> None:
    client = merchant.sandbox
    charge = await create_charge(client, kind)
    began = asyncio.get_running_loop().time()
    answer = await client.ask(
        "POST", f"/v1/charges/{charge['charge_id']}/simulate-payment", headers={"X-Sandbox-Bank": scenario}
    )
    assert (answer.status, answer.body["status"]) == (200, "paid"), answer.raw
    assert asyncio.get_running_loop().time() - began >= least_s
    assert len(await client.all("/v1/payments", charge_id=charge["charge_id"])) == 1


@pytest.mark.parametrize("name", ["simulate-payment", "fail", "pay"])
async def test_an_unknown_sandbox_bank_scenario_is_refused(merchant: ApiMerchant, name: str) -> None:
    charge = await create_charge(merchant.sandbox, "pix")
    path = f"/v1/{'' if name == 'simulate-payment' else 'sandbox/'}charges/{charge['charge_id']}/{name}"
    body: dict[str, Any] | None = {} if name == "pay" else None
    answer = await merchant.sandbox.ask("POST", path, json=body, headers={"X-Sandbox-Bank": "asleep"})
    assert (answer.status, answer.code) == (400, "VALIDATION_ERROR")
    assert (await merchant.sandbox.charge(charge["charge_id"]))["status"] == "pending"


@pytest.mark.parametrize("scenario", ["unavailable", "refuse"])
async def test_a_boleto_that_the_bank_does_not_write_off_stays_pending(merchant: ApiMerchant, scenario: str) -> None:
    charge = await create_charge(merchant.sandbox, "boleto")
    path = f"/v1/sandbox/charges/{charge['charge_id']}/fail"
    answer = await merchant.sandbox.ask("POST", path, headers={"X-Sandbox-Bank": scenario})
    assert (answer.status, answer.code) == (502, "BANK_UNAVAILABLE")
    assert (await merchant.sandbox.charge(charge["charge_id"]))["status"] == "pending"


async def test_the_books_are_clean_after_the_tests_of_this_file(system: System, merchant: ApiMerchant) -> None:
    assert_books_are_clean(system)
    ledger = await merchant.sandbox.ledger()
    assert [entry["sequence"] for entry in ledger] == list(range(1, len(ledger) + 1))
