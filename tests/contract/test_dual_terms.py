"""Fine, interest and discounts of dual charges: both legs cost the same on each day, and the payment of either leg is
booked with that day's amount (docs/decisions/0054-terms-of-dual-charges.md)."""

import asyncio
import io
from base64 import urlsafe_b64decode
from datetime import date, datetime, timedelta
from json import loads
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from pypdf import PdfReader

from banks.banco_do_brasil.nosso_numero import printed_number
from domain.boleto.business_days import effective_due_date
from domain.boleto.terms import Discount, Fine, Interest, PaymentTerms, expires_at
from domain.brazilian import brl
from tests.support.boleto_merchant import BOLETO, PAGADOR, in_days, redate, today
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
    pay_at_bank,
    pix_boleto_body,
    status_by_leg,
    until_bank_orders_are_done,
    until_status,
)
from tests.support.merchant import ApiClient, ApiMerchant, Books, assert_books_are_clean, until_answer
from tests.support.system import System

LATE: dict[str, Any] = {"fine": {"percent": "2.00"}, "interest": {"percent_per_month": "1.00"}}
REMOVED = "REMOVIDA_PELO_USUARIO_RECEBEDOR"
_read_terms = msgspec.json.Decoder(PaymentTerms).decode


def amounts_of(payment: dict[str, Any]) -> tuple[str, ...]:
    return tuple(payment[name] for name in ("amount", "fine", "interest", "discount"))


async def payload_at(client: ApiClient, charge: dict[str, Any]) -> dict[str, Any]:
    """The payload that a payer's bank reads at the location in the QR Code."""
    location = parse_br_code(charge["pix"]["qr_code"])["26-25"]
    async with client.http.get(f"http://{location}") as answer:
        assert answer.status == 200
        _, payload, _ = (await answer.text()).split(".")
    decoded: dict[str, Any] = loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return decoded


@pytest.mark.parametrize("mode", ["sandbox", "production"])
@pytest.mark.parametrize("way", ["dual", "boleto"])
async def test_both_legs_are_registered_at_the_bank_with_the_agreed_terms(
    merchant: ApiMerchant, books: Books, mode: str, way: str
) -> None:
    client: ApiClient = getattr(merchant, mode)
    asked = LATE | {"discounts": [{"until": in_days(3), "percent": "10"}], "payable_days_after_due": 5}
    path, body = (DUAL, dual_body(**asked)) if way == "dual" else (BOLETO, pix_boleto_body(amount="150.00", **asked))
    answer = await client.ask("POST", path, json=body, key=str(uuid4()))
    assert answer.status == 201, answer.raw
    charge = answer.body
    due = date.fromisoformat(charge["due_date"])
    last = effective_due_date(effective_due_date(due) + timedelta(days=5))
    expected = {
        "fine": {"percent": "2.00"}, "interest": {"percent_per_month": "1.00"}, "payable_until": last.isoformat(),
        "discounts": [{"until": in_days(3), "percent": "10.00"}],
        "amount_due": {
            "date": in_days(0), "amount": "135.00", "fine": "0.00", "interest": "0.00", "discount": "15.00",
        },
    }  # fmt: skip
    assert expected.items() <= charge.items()
    assert await client.charge(charge["charge_id"]) == charge
    terms = PaymentTerms(
        fine=Fine(percent_bps=200), interest=Interest(month_bps=100), payable_days=5,
        discounts=(Discount(until=today() + timedelta(days=3), percent_bps=1000),),
    )  # fmt: skip
    # The PIX ends with the boleto's last day, and its BR Code names no amount: the amount depends on the day.
    assert datetime.fromisoformat(charge["expires_at"]) == expires_at(terms, due)
    assert "54" not in parse_br_code(charge["pix"]["qr_code"])
    await until_bank_orders_are_done(books, charge)
    cob = await cob_at_bank(books, charge)
    assert (cob["status"], cob["amount_cents"], cob["due_on"]) == ("ATIVA", 15000, due)
    assert _read_terms(cob["terms"]) == terms
    slip = await books.fetchrow("SELECT * FROM simulated_boleto WHERE number = $1", number_of(charge))
    assert slip is not None
    assert (slip["fine_from"], due + timedelta(days=slip["late_days"])) == (
        effective_due_date(due) + timedelta(days=1), last,
    )  # fmt: skip
    assert _read_terms(slip["terms"]).discounts == terms.discounts
    told_payer = await payload_at(client, charge)
    assert told_payer["valor"] == {"original": "150.00", "desconto": "15.00", "final": "135.00"}
    assert told_payer["calendario"]["dataDeVencimento"] == charge["due_date"]


@pytest.mark.parametrize(
    ("wrong", "code", "field"),
    [
        ({"fine": {"percent": "2.01"}}, "VALIDATION_ERROR", "fine.percent"),
        ({"interest": {}}, "VALIDATION_ERROR", "interest"),
        # Two days after the due date: one, counted before midnight, is the due date itself after it.
        ({"discounts": [{"until": in_days(12), "amount": "1"}]}, "VALIDATION_ERROR", "discounts.0.until"),
        ({"discounts": [{"until": in_days(-1), "amount": "1"}]}, "VALIDATION_ERROR", "discounts.0.until"),
        ({"payable_days_after_due": 1}, "VALIDATION_ERROR", "payable_days_after_due"),
        ({"expires_in": 3600, **LATE}, "EXPIRES_IN_INVALID", "expires_in"),
        ({"expires_in": 3600, "payable_days_after_due": 5}, "EXPIRES_IN_INVALID", "expires_in"),
    ],
)
async def test_terms_that_are_not_allowed_are_refused_by_their_field(
    merchant: ApiMerchant, wrong: dict[str, Any], code: str, field: str
) -> None:
    answer = await issue_dual(merchant.sandbox, **wrong)
    assert (answer.status, answer.code) == (400, code), answer.raw
    assert [each["field"] for each in answer.body["error"]["fields"]] == [field], answer.raw


async def test_a_company_may_agree_on_a_higher_fine_and_interest_than_a_person(merchant: ApiMerchant) -> None:
    more: dict[str, Any] = {"fine": {"percent": "10.00"}, "interest": {"percent_per_month": "2.00"}}
    company = {**PAYER, "document": "12345678000195", "person_type": "PESSOA_JURIDICA"}
    assert (await issue_dual(merchant.sandbox, **more)).status == 400
    assert (await issue_dual(merchant.sandbox, payer=company, **more)).status == 201


@pytest.mark.parametrize("leg", ["pix", "boleto"])
async def test_an_early_payment_of_either_leg_gets_the_discount_and_closes_the_other_leg(
    merchant: ApiMerchant, system: System, books: Books, leg: str
) -> None:
    client = merchant.production
    charge = await issue_dual_charge(client, discounts=[{"until": in_days(3), "amount": "20.00"}], **LATE)
    await until_bank_orders_are_done(books, charge)
    assert await pay_at_bank(system, client, charge, leg) == 200
    paid = await until_status(client, charge, "paid")
    assert (paid["payment"]["method"], amounts_of(paid["payment"])) == (leg, ("130.00", "0.00", "0.00", "20.00"))
    assert (paid["payment"]["late"], paid["amount"]) == (False, "150.00")
    other = "boleto" if leg == "pix" else "pix"
    assert status_by_leg(paid) == {leg: "paid", other: "cancelled"}
    (item,) = await client.all("/v1/payments", charge_id=charge["charge_id"])
    assert item["anomaly"] is None
    await until_bank_orders_are_done(books, charge)
    closed = ("written_off", "CONCLUIDA") if leg == "pix" else ("paid", REMOVED)
    assert (await boleto_at_bank(books, charge), await cob_status(books, charge)) == closed
    back = await client.ask("POST", f"/v1/charges/{charge['charge_id']}/refunds", json={} if leg == "pix" else {
        "destination": {"pix_key": "ana@example.com", "document": PAGADOR["documento"]}}, key=str(uuid4()))  # fmt: skip
    assert (back.status, back.body["amount"]) == (201, "130.00"), back.raw
    await until_status(client, charge, "refunded")
    await asyncio.to_thread(assert_books_are_clean, system)


@pytest.mark.parametrize("amount", [None, "150.00"])
async def test_a_late_pix_costs_fine_and_interest_and_a_smaller_payment_does_not_settle(
    merchant: ApiMerchant, system: System, books: Books, amount: str | None
) -> None:
    client = merchant.production
    charge = await issue_dual_charge(client, **LATE)
    await until_bank_orders_are_done(books, charge)
    # Both legs become due six days ago.
    due = today() - timedelta(days=6)
    late = (today() - effective_due_date(due)).days
    assert late > 0
    await books.execute("UPDATE simulated_cob SET due_on = $2 WHERE txid = $1", charge["pix"]["txid"], due)
    await books.execute("UPDATE boleto SET due_on = $2 WHERE charge_id = $1", UUID(charge["charge_id"]), due)
    interest = (2 * 15000 * 100 * late + 300_000) // 600_000
    more = {} if amount is None else {"amount": amount}
    assert await pay_at_bank(system, client, charge, "pix", **more) == 200
    if amount is None:
        paid = await until_status(client, charge, "paid")
        total = f"{15000 + 300 + interest}"
        assert amounts_of(paid["payment"]) == (f"{total[:-2]}.{total[-2:]}", "3.00", f"0.{interest:02}", "0.00")
        assert (paid["payment"]["method"], paid["payment"]["late"]) == ("pix", True)
        return

    items: list[dict[str, Any]] = await until_answer(lambda: client.all("/v1/payments", charge_id=charge["charge_id"]))
    assert [(each["anomaly"], each["amount"]) for each in items] == [("amount_mismatch", "150.00")]
    assert (await client.charge(charge["charge_id"]))["status"] == "pending"


async def test_a_new_due_date_moves_both_legs_and_their_terms(merchant: ApiMerchant, books: Books) -> None:
    client = merchant.production
    charge = await issue_dual_charge(
        client, payable_days_after_due=5, discounts=[{"until": in_days(3), "amount": "1"}], **LATE
    )
    assert (await redate(client, in_days(2), charge_id=charge["charge_id"])).code == "INVALID_DUE_DATE"
    for days in (40, 20):
        moved = await redate(client, in_days(days), charge_id=charge["charge_id"])
        assert moved.status == 200, moved.raw
        assert moved.body["pix"] == charge["pix"]
        due = today() + timedelta(days=days)
        last = effective_due_date(effective_due_date(due) + timedelta(days=5))
        assert moved.body["payable_until"] == last.isoformat()
        await until_bank_orders_are_done(books, charge)
        cob = await cob_at_bank(books, charge)
        assert (cob["due_on"], _read_terms(cob["terms"]).payable_days) == (due, 5)
        ends = cob["created_at"] + timedelta(seconds=cob["expires_in_s"])
        assert abs((ends - datetime.fromisoformat(moved.body["expires_at"])).total_seconds()) <= 1


async def test_cancelling_a_dual_charge_with_terms_removes_both_legs_at_the_bank(
    merchant: ApiMerchant, books: Books
) -> None:
    charge = await issue_dual_charge(merchant.production, **LATE)
    await until_bank_orders_are_done(books, charge)
    assert (await merchant.production.cancel(charge["charge_id"])).body["status"] == "cancelled"
    await until_bank_orders_are_done(books, charge)
    assert (await boleto_at_bank(books, charge), await cob_status(books, charge)) == ("written_off", REMOVED)


async def test_a_late_sandbox_charge_shows_its_cost_on_page_and_pdf_and_is_paid_with_it(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    charge = await issue_dual_charge(client, **LATE)
    late = date.fromisoformat(charge["effective_due_date"]) + timedelta(days=2)
    await client.post("/v1/sandbox/clock", {"to": f"{late.isoformat()}T15:00:00Z"})
    async with client.http.get(charge["payment_url"]) as answer:
        page = await answer.text()
    assert brl(15310) in page
    assert charge["pix"]["qr_code"] in page.replace("&#43;", "+")
    assert charge["boleto"]["linha_digitavel"][:5] in page
    async with client.http.get(charge["pdf_url"]) as answer:
        paper = PdfReader(io.BytesIO(await answer.read())).pages[0].extract_text()
    assert f"Se pago em {late:%d/%m/%Y}: R$ 153,10." in paper
    assert f"R$ 153,10 em {late:%d/%m/%Y}" in paper, "the amount stands beneath the QR Code"
    paid = (await client.pay(charge["charge_id"])).body
    assert (paid["status"], amounts_of(paid["payment"])) == ("paid", ("153.10", "3.00", "0.10", "0.00"))
    async with client.http.get(charge["payment_url"]) as answer:
        receipt = await answer.text()
    assert f'<dd class="code-text">{printed_number(number_of(charge))}</dd>' in receipt
