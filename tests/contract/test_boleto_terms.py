"""Fine, interest and discounts of boletos over HTTP: request, registration at the bank, payment and answers."""

import asyncio
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from domain.boleto.business_days import effective_due_date
from domain.boleto.terms import Discount, Fine, Interest, PaymentTerms
from domain.instants import SAO_PAULO
from tests.support.boleto_merchant import (
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
from tests.support.br_code_reader import parse_br_code
from tests.support.merchant import ApiClient, ApiMerchant, Books, assert_books_are_clean, until_answer
from tests.support.system import System

COMPANY = {**PAGADOR, "documento": "11222333000181", "tipoPessoa": "PESSOA_JURIDICA"}
LATE: dict[str, Any] = {"fine": {"percent": "2.00"}, "interest": {"percent_per_month": "1.00"}}


async def advance_to(client: ApiClient, day: date) -> None:
    """Set the sandbox's clock to noon of that day in São Paulo."""
    noon = datetime.combine(day, datetime.min.time(), SAO_PAULO) + timedelta(hours=12)
    answer = await client.post("/v1/sandbox/clock", {"to": f"{noon.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"})
    assert answer.status == 200, answer.raw


def amounts_of(payment: dict[str, Any]) -> tuple[str, ...]:
    return tuple(payment[name] for name in ("amount", "fine", "interest", "discount"))


def day_of(charge: dict[str, Any], name: str) -> date:
    return date.fromisoformat(charge[name])


async def events_of(client: ApiClient, charge_id: str) -> list[str]:
    return [each["type"] for each in await client.events(charge_id=charge_id, order="asc")]


# Creation


async def test_the_answer_shows_the_requested_terms_and_the_amount_due_today(merchant: ApiMerchant) -> None:
    asked = LATE | {"discounts": [{"until": in_days(3), "percent": "10"}, {"until": in_days(5), "percent": "5.5"}]}
    charge = await issue_boleto(merchant.sandbox, "149.90", **asked)
    due = day_of(charge, "effective_due_date")
    expected = {
        "fine": {"percent": "2.00"},
        "interest": {"percent_per_month": "1.00"},
        "discounts": [{"until": in_days(3), "percent": "10.00"}, {"until": in_days(5), "percent": "5.50"}],
        "payable_until": effective_due_date(due + timedelta(days=30)).isoformat(),
        "amount_due": {
            "date": in_days(0), "amount": "134.91", "fine": "0.00", "interest": "0.00", "discount": "14.99",
        },
    }  # fmt: skip
    assert expected.items() <= charge.items()
    assert charge["amount"] == "149.90"
    assert expected.items() <= (await merchant.sandbox.charge(charge["charge_id"])).items()
    (listed,) = await merchant.sandbox.all("/v1/charges", nosso_numero=charge["boleto"]["nosso_numero"])
    assert expected.items() <= listed.items()


async def test_a_boleto_without_terms_has_none_of_their_fields(merchant: ApiMerchant, books: Books) -> None:
    charge = await issue_boleto(merchant.sandbox)
    assert not {"fine", "interest", "discounts", "payable_until", "amount_due"} & set(charge)
    row = await at_bank(books, charge["boleto"]["nosso_numero"])
    assert (row["terms"], row["fine_from"], row["late_days"]) == (None, None, 0)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"fine": {"percent": "2.01"}}, "fine.percent"),
        ({"fine": {"percent": "2", "amount": "1"}}, "fine"),
        ({"fine": {}}, "fine"),
        ({"fine": {"percent": 2}}, "fine.percent"),
        ({"fine": {"percent": "0"}}, "fine.percent"),
        ({"fine": "2.00"}, "fine"),
        ({"fine": {"amount": "3.01"}}, "fine.amount"),
        ({"interest": {"percent_per_month": "1.01"}}, "interest.percent_per_month"),
        ({"interest": {"amount_per_day": "0.06"}}, "interest.amount_per_day"),
        ({"interest": {"amount_per_day": "x"}}, "interest.amount_per_day"),
        ({"discounts": {"until": in_days(1), "amount": "1"}}, "discounts"),
        ({"discounts": ["5%"]}, "discounts.0"),
        ({"discounts": [{"amount": "1"}]}, "discounts.0.until"),
        ({"discounts": [{"until": "2026-02-30", "amount": "1"}]}, "discounts.0.until"),
        # Two days after the due date: one, counted before midnight, is the due date itself after it.
        ({"discounts": [{"until": in_days(12), "amount": "1"}]}, "discounts.0.until"),
        ({"discounts": [{"until": in_days(-1), "amount": "1"}]}, "discounts.0.until"),
        ({"discounts": [{"until": in_days(1), "amount": "150"}]}, "discounts.0.amount"),
        ({"discounts": [{"until": in_days(2), "amount": "1"}, {"until": in_days(2), "amount": "1"}]},
         "discounts.1.until"),
        ({"discounts": [{"until": in_days(2), "amount": "1"}, {"until": in_days(3), "percent": "1"}]}, "discounts.1"),
        ({"discounts": [{"until": in_days(each), "amount": "1"} for each in (1, 2, 3, 4)]}, "discounts"),
        ({"payable_days_after_due": 1}, "payable_days_after_due"),
        ({"payable_days_after_due": 366}, "payable_days_after_due"),
        ({"payable_days_after_due": "30"}, "payable_days_after_due"),
    ],
)  # fmt: skip
async def test_terms_that_are_not_allowed_are_refused_by_their_field(
    merchant: ApiMerchant, wrong: dict[str, Any], field: str
) -> None:
    answer = await issue(merchant.sandbox, **wrong)
    assert (answer.status, answer.code) == (400, "VALIDATION_ERROR"), answer.raw
    assert [each["field"] for each in answer.body["error"]["fields"]] == [field], answer.raw


async def test_a_company_may_agree_on_a_higher_fine_and_interest_than_a_person(merchant: ApiMerchant) -> None:
    more: dict[str, Any] = {"fine": {"percent": "10.00"}, "interest": {"percent_per_month": "2.00"}}
    assert (await issue(merchant.sandbox, **more)).status == 400
    assert (await issue(merchant.sandbox, pagador=COMPANY, **more)).status == 201


async def test_a_key_used_with_other_terms_is_refused(merchant: ApiMerchant) -> None:
    key, body = str(uuid4()), boleto_body(**LATE)
    first = await issue(merchant.sandbox, body=body, key=key)
    again = await issue(merchant.sandbox, body=body, key=key)
    assert (first.status, again.status) == (201, 200)
    assert again.body["charge_id"] == first.body["charge_id"]
    other = await issue(merchant.sandbox, body=body | {"fine": {"percent": "1.00"}}, key=key)
    assert (other.status, other.code) == (409, "IDEMPOTENCY_KEY_REUSED")


# Payment


@pytest.mark.parametrize("tipo", ["boleto", "boleto_hibrido"])
async def test_a_boleto_paid_two_days_late_costs_fine_and_interest_and_is_no_anomaly(
    merchant: ApiMerchant, system: System, tipo: str
) -> None:
    client = merchant.sandbox
    asked = {"fine": {"percent": "3.00"}, "interest": {"percent_per_month": "2.00"}, "pagador": COMPANY}
    charge = await issue_boleto(client, "1000.00", tipo=tipo, **asked)
    late = day_of(charge, "effective_due_date") + timedelta(days=2)
    await advance_to(client, late)
    overdue = await client.charge(charge["charge_id"])
    assert (overdue["status"], overdue["amount"]) == ("pending", "1000.00")
    assert overdue["amount_due"] == {
        "date": late.isoformat(), "amount": "1031.33", "fine": "30.00", "interest": "1.33", "discount": "0.00",
    }  # fmt: skip
    before = await client.balance()
    paid = (await client.pay(charge["charge_id"])).body
    assert (paid["status"], paid["amount"]) == ("paid", "1000.00")
    assert amounts_of(paid["payment"]) == ("1031.33", "30.00", "1.33", "0.00")
    assert (paid["payment"]["net_amount"], paid["payment"]["late"]) == ("1031.33", True)
    assert "amount_due" not in paid
    async with client.http.get(paid["payment_url"]) as page:
        receipt = await page.text()
    for name, cents in (("Multa", "30,00"), ("Juros", "1,33")):
        assert f"<dt>{name}</dt><dd>R$ {cents}</dd>" in receipt
    assert "R$ 1.031,33" in receipt
    (item,) = await client.all("/v1/payments", charge_id=charge["charge_id"])
    assert (item["anomaly"], amounts_of(item)) == (None, amounts_of(paid["payment"]))
    assert await events_of(client, charge["charge_id"]) == ["payment.received"]
    assert (before, await client.balance()) == ("0.00", "1031.33")
    await asyncio.to_thread(assert_books_are_clean, system)


async def test_a_boleto_paid_early_costs_less_and_is_settled(merchant: ApiMerchant, system: System) -> None:
    client = merchant.sandbox
    discounts = [{"until": in_days(1), "amount": "20.00"}, {"until": in_days(2), "amount": "5.00"}]
    charge = await issue_boleto(client, "150.00", discounts=discounts)
    await advance_to(client, effective_due_date(today() + timedelta(days=1)) + timedelta(days=1))
    second = effective_due_date(today() + timedelta(days=2)) > effective_due_date(today() + timedelta(days=1))
    less = "145.00" if second else "150.00"
    assert (await client.charge(charge["charge_id"]))["amount_due"]["amount"] == less
    other = await issue_boleto(client, "150.00", discounts=[{"until": (today() + timedelta(days=9)).isoformat(),
                                                       "percent": "10"}])  # fmt: skip
    for each, amount, discount in ((charge, less, "5.00" if second else "0.00"), (other, "135.00", "15.00")):
        paid = (await client.pay(each["charge_id"])).body
        assert (paid["status"], paid["payment"]["late"]) == ("paid", False)
        assert amounts_of(paid["payment"]) == (amount, "0.00", "0.00", discount)
        assert await events_of(client, each["charge_id"]) == ["payment.received"]
    await asyncio.to_thread(assert_books_are_clean, system)


@pytest.mark.parametrize(("amount", "status"), [("150.00", "pending"), ("153.04", "pending"), ("153.06", "paid")])
async def test_a_late_payment_of_another_amount_than_the_days_is_an_amount_mismatch(
    merchant: ApiMerchant, amount: str, status: str
) -> None:
    client = merchant.sandbox
    charge = await issue_boleto(client, "150.00", **LATE)
    await advance_to(client, day_of(charge, "effective_due_date") + timedelta(days=1))
    answer = await client.post(f"/v1/sandbox/charges/{charge['charge_id']}/pay", {"amount": amount})
    assert answer.body["status"] == status, answer.raw
    (item,) = await client.all("/v1/payments", charge_id=charge["charge_id"])
    assert (item["anomaly"], item["amount"]) == ("amount_mismatch", amount)
    if status == "pending":
        # A later payment of the amount due settles the charge.
        assert (await client.pay(charge["charge_id"])).body["status"] == "paid"


async def test_of_two_payments_on_one_late_day_one_settles_and_one_is_a_duplicate(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    charge = await issue_boleto(client, "150.00", **LATE)
    await advance_to(client, day_of(charge, "effective_due_date") + timedelta(days=1))
    await client.post(f"/v1/sandbox/charges/{charge['charge_id']}/pay", {"times": 2})
    items = await client.all("/v1/payments", charge_id=charge["charge_id"])
    assert sorted((each["amount"], str(each["anomaly"])) for each in items) == [
        ("153.05", "None"), ("153.05", "duplicate"),
    ]  # fmt: skip


async def test_a_late_boleto_can_be_cancelled_until_its_last_day_and_expires_after_it(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    first, second = [await issue_boleto(client, payable_days_after_due=5, **LATE) for _ in range(2)]
    last = effective_due_date(day_of(first, "effective_due_date") + timedelta(days=5))
    assert first["payable_until"] == last.isoformat()
    await advance_to(client, last)
    assert (await client.charge(first["charge_id"]))["status"] == "pending"
    assert (await client.cancel(first["charge_id"])).body["status"] == "cancelled"
    await advance_to(client, last + timedelta(days=1))
    over = await client.charge(second["charge_id"])
    assert (over["status"], over["payable_until"]) == ("expired", last.isoformat())
    assert await events_of(client, second["charge_id"]) == ["charge.expired"]


async def test_a_refund_of_a_late_payment_returns_fine_and_interest_too(merchant: ApiMerchant, system: System) -> None:
    client = merchant.sandbox
    charge = await issue_boleto(client, "150.00", tipo="boleto_hibrido", **LATE)
    await advance_to(client, day_of(charge, "effective_due_date") + timedelta(days=1))
    await client.pay(charge["charge_id"])
    body = {"destination": {"pix_key": "ana@example.com", "document": PAGADOR["documento"]}}
    answer = await client.ask("POST", f"/v1/charges/{charge['charge_id']}/refunds", json=body, key=str(uuid4()))
    assert (answer.status, answer.body["amount"]) == (201, "153.05"), answer.raw

    async def returned() -> bool:
        return bool((await client.charge(charge["charge_id"]))["status"] == "refunded")

    await until_answer(returned)
    assert await client.balance() == "0.00"
    await asyncio.to_thread(assert_books_are_clean, system)


async def test_the_br_code_of_a_hybrid_with_terms_contains_no_amount(
    merchant: ApiMerchant,
) -> None:
    client = merchant.sandbox
    plain = await issue_boleto(client, "150.00", tipo="boleto_hibrido")
    assert parse_br_code(plain["boleto"]["qr_code"])["54"] == "150.00"
    for terms in (LATE, {"discounts": [{"until": in_days(3), "percent": "10"}]}):
        charge = await issue_boleto(client, "150.00", tipo="boleto_hibrido", **terms)
        assert "54" not in parse_br_code(charge["boleto"]["qr_code"])


# At the bank


async def test_a_boleto_is_registered_at_the_bank_with_the_agreed_terms(
    merchant: ApiMerchant, system: System, books: Books
) -> None:
    charge = await issue_boleto(
        merchant.production, "150.00", tipo="boleto_hibrido", discounts=[{"until": in_days(1), "amount": "5"}], **LATE
    )
    row = await at_bank(books, charge["boleto"]["nosso_numero"])
    due, effective = date.fromisoformat(charge["due_date"]), date.fromisoformat(charge["effective_due_date"])
    assert msgspec.json.decode(row["terms"], type=PaymentTerms) == PaymentTerms(
        fine=Fine(percent_bps=200), interest=Interest(month_bps=100),
        discounts=(Discount(until=today() + timedelta(days=1), amount_cents=500),),
    )  # fmt: skip
    assert row["fine_from"] == effective + timedelta(days=1)
    assert due + timedelta(days=row["late_days"]) == date.fromisoformat(charge["payable_until"])


async def test_a_late_production_payment_is_booked_with_the_amount_due_that_day(
    merchant: ApiMerchant, system: System, books: Books
) -> None:
    client = merchant.production
    due = today() - timedelta(days=4)
    terms = PaymentTerms(fine=Fine(percent_bps=200), interest=Interest(day_cents=10), payable_days=30)
    charge_id = await issue_boleto_in_the_past(system, books, client, test=False, due_on=due, terms=terms)
    before = await client.charge(charge_id)
    late = (today() - effective_due_date(due)).days
    expected = (f"{15000 + (300 + 10 * late if late else 0):05}", "300" if late else "0")
    said = await asyncio.to_thread(system.json, "bank", "pay", "--charge-id", charge_id)
    assert said["payments"][0]["amount"] == before["amount_due"]["amount"]
    assert said["payments"][0]["amount"].replace(".", "") == expected[0]

    async def paid() -> dict[str, Any] | None:
        charge = await client.charge(charge_id)
        return charge if charge["status"] == "paid" else None

    charge = await until_answer(paid)
    due_before = before["amount_due"]
    assert amounts_of(charge["payment"]) == tuple(
        due_before[name] for name in ("amount", "fine", "interest", "discount")
    )
    assert charge["payment"]["fine"].replace(".", "").lstrip("0") == expected[1].lstrip("0")
    (item,) = await client.all("/v1/payments", charge_id=charge_id)
    assert item["anomaly"] is None
    await asyncio.to_thread(assert_books_are_clean, system)


async def test_the_pix_of_a_hybrid_costs_the_amount_due_that_day_and_is_refunded_whole(
    merchant: ApiMerchant, system: System
) -> None:
    client = merchant.production
    charge = await issue_boleto(
        client, "150.00", tipo="boleto_hibrido", discounts=[{"until": in_days(3), "percent": "10"}], **LATE
    )
    charge_id = charge["charge_id"]
    said = await asyncio.to_thread(system.json, "bank", "pay", "--charge-id", charge_id, "--rail", "pix")
    assert said["payments"][0]["amount"] == "135.00"

    async def is_now(status: str) -> dict[str, Any] | None:
        found = await client.charge(charge_id)
        return found if found["status"] == status else None

    paid = await until_answer(lambda: is_now("paid"))
    assert (paid["payment"]["method"], amounts_of(paid["payment"])) == ("pix", ("135.00", "0.00", "0.00", "15.00"))
    assert paid["payment"]["end_to_end_id"] == said["payments"][0]["end_to_end_id"]
    (item,) = await client.all("/v1/payments", charge_id=charge_id)
    assert item["anomaly"] is None
    back = await client.ask("POST", f"/v1/charges/{charge_id}/refunds", json={}, key=str(uuid4()))
    assert (back.status, back.body["amount"]) == (201, "135.00"), back.raw
    await until_answer(lambda: is_now("refunded"))
    assert await client.balance() == "0.00"
    await asyncio.to_thread(assert_books_are_clean, system)


@pytest.mark.parametrize("mode", ["sandbox", "production"])
async def test_a_new_due_date_moves_the_fine_and_the_last_day_here_and_at_the_bank(
    merchant: ApiMerchant, books: Books, mode: str
) -> None:
    client: ApiClient = getattr(merchant, mode)
    charge = await issue_boleto(client, payable_days_after_due=2, **LATE)
    number = charge["boleto"]["nosso_numero"]
    for days in (23, 24, 25, 4):  # later, across a weekend, and earlier again
        moved = (await redate(client, in_days(days), charge_id=charge["charge_id"])).body
        effective = date.fromisoformat(moved["effective_due_date"])
        last = effective_due_date(effective + timedelta(days=2))
        assert moved["payable_until"] == last.isoformat()
        assert moved["fine"] == charge["fine"]
        row = await at_bank(books, number)
        assert (row["due_on"].isoformat(), row["fine_from"]) == (in_days(days), effective + timedelta(days=1))
        assert row["due_on"] + timedelta(days=row["late_days"]) == last


async def test_a_new_due_date_keeps_the_days_of_discounts_and_may_not_precede_them(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    charge = await issue_boleto(client, discounts=[{"until": in_days(5), "amount": "1.00"}])
    early = await redate(client, in_days(4), charge_id=charge["charge_id"])
    assert (early.status, early.code) == (400, "INVALID_DUE_DATE"), early.raw
    moved = await redate(client, in_days(40), charge_id=charge["charge_id"])
    assert (moved.status, moved.body["discounts"]) == (200, charge["discounts"])
