"""Money that arrives is credited once and to the cent, in whatever state its charge is (contract sections 5, 7 and
10)."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from domain.errors import Code, Refused
from domain.instants import SAO_PAULO, day_begins, iso, to_millisecond
from tests.support.merchant import (
    ApiClient,
    ApiMerchant,
    Books,
    assert_books_are_clean,
    book_bank_payments,
    create_charge_in_the_past,
    database_of,
)
from tests.support.system import System


async def assert_the_ledger_adds_up(client: ApiClient) -> list[dict[str, Any]]:
    """Asserts that the sequence has no gap, that every balance_after follows from the one before, and that the balance
    is the sum; returns the entries."""
    entries = await client.ledger()
    assert [entry["sequence"] for entry in entries] == list(range(1, len(entries) + 1))
    running = Decimal(0)
    for entry in entries:
        running += Decimal(entry["amount"]) * (1 if entry["direction"] == "credit" else -1)
        assert Decimal(entry["balance_after"]) == running
    assert Decimal(await client.balance()) == running
    assert entries == sorted(entries, key=lambda entry: (entry["created_at"], entry["sequence"]))
    return entries


async def test_an_account_without_movement_has_a_zero_balance(merchant: ApiMerchant) -> None:
    for client in (merchant.sandbox, merchant.production):
        answer = await client.get(f"/v1/accounts/{client.account_id}/balance")
        assert answer.body == {"balance": "0.00", "currency": "BRL"}
        assert await client.ledger() == []
        assert await client.all("/v1/payments") == []


async def test_a_hundred_concurrent_simulated_payments_pay_the_charge_once(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    charge = await client.created("33.33")
    answers = await asyncio.gather(*(client.pay(charge["charge_id"]) for _ in range(100)))
    assert Counter(answer.status for answer in answers) == {200: 1, 409: 99}
    assert {answer.code for answer in answers if answer.status == 409} == {"CHARGE_NOT_PENDING"}
    (payment,) = await client.all("/v1/payments")
    (entry,) = await assert_the_ledger_adds_up(client)
    (event,) = await client.events()
    assert (payment["amount"], entry["amount"], event["amount"], await client.balance()) == ("33.33",) * 4
    assert payment["payment_id"] == entry["payment_id"] == event["payment_id"]
    assert (await client.charge(charge["charge_id"]))["version"] == 2


async def test_a_paid_charge_carries_its_receipt(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    charge = await client.created("250.10", external_id="pedido-9")
    paid = (await client.pay(charge["charge_id"])).body
    receipt = paid["payment"]
    assert paid == charge | {"status": "paid", "version": 2, "paid_at": receipt["paid_at"], "payment": receipt}
    assert receipt == {
        "payment_id": receipt["payment_id"],
        "method": "pix",
        "amount": "250.10",
        "fee": "0.00",
        "net_amount": "250.10",
        "paid_at": receipt["paid_at"],
        "credited_at": receipt["paid_at"],
        "end_to_end_id": receipt["end_to_end_id"],
        "payer": {"name": "PAGADOR DE TESTE", "document": receipt["payer"]["document"]},
        "interest": "0.00",
        "fine": "0.00",
        "discount": "0.00",
        "late": False,
        "refunded_amount": "0.00",
    }
    assert len(receipt["end_to_end_id"]) == 32
    assert "*" in receipt["payer"]["document"]
    (payment,) = await client.all("/v1/payments")
    assert payment == receipt | {
        "charge_id": charge["charge_id"],
        "external_id": "pedido-9",
        "account_id": client.account_id,
        "payment_method": "pix",
        "txid": charge["pix"]["txid"],
        "nosso_numero": None,
        "integrador_code": None,
        "anomaly": None,
        "test": True,
    }


async def test_a_test_payment_moves_no_production_money(merchant: ApiMerchant) -> None:
    charge = await merchant.production.created()
    answer = await merchant.production.pay(charge["charge_id"])
    assert (answer.status, answer.code) == (403, "SANDBOX_ONLY")
    await merchant.sandbox.paid()
    assert await merchant.sandbox.balance() == "10.00"
    assert await merchant.production.balance() == "0.00"
    assert await merchant.production.events() == []


async def test_the_ledger_stays_exact_under_concurrent_payments(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    amounts = [f"{number}.{number:02}" for number in range(1, 61)]
    await asyncio.gather(*(client.paid(amount) for amount in amounts))
    entries = await assert_the_ledger_adds_up(client)
    assert sorted(Decimal(entry["amount"]) for entry in entries) == [Decimal(amount) for amount in amounts]


async def _charge_and_money(
    client: ApiClient, charge_id: str
) -> tuple[str, list[tuple[str, str | None]], list[str], str]:
    """Returns the charge's status, its payments as (amount, anomaly), the types of its events in order, the balance."""
    payments = await client.all("/v1/payments", charge_id=charge_id, order="asc")
    return (
        (await client.charge(charge_id))["status"],
        [(payment["amount"], payment["anomaly"]) for payment in payments],
        [event["type"] for event in await client.events(charge_id=charge_id)],
        await client.balance(),
    )


async def test_a_payment_below_the_amount_is_credited_but_does_not_pay_the_charge(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.sandbox
    charge = await client.created("10.00")
    await book_bank_payments(system, books, charge["charge_id"], 999)
    shown = await _charge_and_money(client, charge["charge_id"])
    assert shown == ("pending", [("9.99", "amount_mismatch")], ["payment.anomaly"], "9.99")
    # The missing cent does not pay it either: each payment is compared with the amount on its own.
    await book_bank_payments(system, books, charge["charge_id"], 1)
    assert (await _charge_and_money(client, charge["charge_id"]))[0] == "pending"
    await book_bank_payments(system, books, charge["charge_id"], 1000)
    status, payments, events, balance = await _charge_and_money(client, charge["charge_id"])
    assert (status, balance) == ("paid", "20.00")
    assert sorted(payments, key=str) == [("0.01", "amount_mismatch"), ("10.00", None), ("9.99", "amount_mismatch")]
    assert events == ["payment.anomaly", "payment.anomaly", "payment.received"]
    assert (await client.charge(charge["charge_id"]))["payment"]["amount"] == "10.00"


async def test_a_payment_above_the_amount_pays_the_charge_and_is_an_anomaly(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.sandbox
    charge = await client.created("10.00")
    await book_bank_payments(system, books, charge["charge_id"], 1001)
    shown = await _charge_and_money(client, charge["charge_id"])
    assert shown == ("paid", [("10.01", "amount_mismatch")], ["payment.received", "payment.anomaly"], "10.01")
    assert (await client.charge(charge["charge_id"]))["payment"]["amount"] == "10.01"


async def test_a_second_payment_is_a_duplicate_and_is_credited(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.sandbox
    paid = await client.paid("10.00")
    await book_bank_payments(system, books, paid["charge_id"], 1000, 700)
    status, payments, events, balance = await _charge_and_money(client, paid["charge_id"])
    assert (status, balance) == ("paid", "27.00")
    assert sorted(payments, key=str) == [("10.00", "duplicate"), ("10.00", None), ("7.00", "duplicate")]
    assert events == ["payment.received", "payment.anomaly", "payment.anomaly"]
    assert await client.charge(paid["charge_id"]) == paid


async def test_a_payment_after_a_cancellation_is_credited_and_the_charge_stays_cancelled(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.sandbox
    charge = await client.created("10.00")
    cancelled = (await client.cancel(charge["charge_id"])).body
    await book_bank_payments(system, books, charge["charge_id"], 1000)
    shown = await _charge_and_money(client, charge["charge_id"])
    events = ["charge.cancelled", "payment.anomaly"]
    assert shown == ("cancelled", [("10.00", "paid_after_cancel")], events, "10.00")
    assert await client.charge(charge["charge_id"]) == cancelled


async def test_a_payment_made_in_time_wins_over_expiry_however_late_it_is_reported(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.sandbox
    in_time = datetime.now(UTC) - timedelta(seconds=90)
    unseen = await create_charge_in_the_past(books, client, test=True, ago_s=120, lifetime_s=60)
    await book_bank_payments(system, books, unseen, 1000, paid_at=in_time)
    assert (await _charge_and_money(client, unseen))[:3] == ("paid", [("10.00", None)], ["payment.received"])

    seen = await create_charge_in_the_past(books, client, test=True, ago_s=120, lifetime_s=60)
    assert (await client.charge(seen))["status"] == "expired"
    await book_bank_payments(system, books, seen, 1000, paid_at=in_time)
    assert (await _charge_and_money(client, seen))[:3] == (
        "paid",
        [("10.00", None)],
        ["charge.expired", "payment.received"],
    )
    for charge_id in (unseen, seen):
        receipt = (await client.charge(charge_id))["payment"]
        assert (receipt["late"], receipt["paid_at"]) == (False, iso(to_millisecond(in_time)))


async def test_a_payment_after_expiry_pays_the_charge_and_is_marked_late(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.sandbox
    charge_id = await create_charge_in_the_past(books, client, test=True, ago_s=120, lifetime_s=60)
    await book_bank_payments(system, books, charge_id, 1000)
    assert (await _charge_and_money(client, charge_id))[:3] == (
        "paid",
        [("10.00", None)],
        ["charge.expired", "payment.received"],
    )
    assert (await client.charge(charge_id))["payment"]["late"] is True


async def test_the_credit_instant_of_a_payment_is_that_of_its_ledger_entry(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    """A transaction that waited for the account's clock row, or whose own clock is behind, writes its entry after one
    with a later clock: both instants are moved to that of the entry before."""
    client = merchant.production
    midnight = day_begins((datetime.now(UTC) - timedelta(days=1)).astimezone(SAO_PAULO).date())
    first, behind = [
        await create_charge_in_the_past(books, client, test=False, ago_s=3 * 86_400, lifetime_s=7 * 86_400)
        for _ in range(2)
    ]
    await book_bank_payments(system, books, first, 1000, now=midnight + timedelta(milliseconds=20))
    await book_bank_payments(system, books, behind, 1000, 1000, now=midnight - timedelta(milliseconds=20))
    payments, lines = await client.all("/v1/payments"), await assert_the_ledger_adds_up(client)
    assert len(payments) == 3
    at = {line["payment_id"]: line["created_at"] for line in lines}
    assert {payment["payment_id"]: payment["credited_at"] for payment in payments} == at
    assert (await client.charge(behind))["payment"]["credited_at"] == iso(midnight + timedelta(milliseconds=20))
    stored = await books.fetch("SELECT payment_id, credited_at FROM payment WHERE account_id = $1", client.account_id)
    assert {str(row["payment_id"]): iso(row["credited_at"]) for row in stored} == at


async def test_a_confirmation_reported_a_hundred_times_at_once_is_one_payment(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.sandbox
    charge = await client.created("10.00")
    sources = ["E9999999720261121000000000000000"] * 10

    async def tell() -> None:
        async with database_of(system) as own:
            await book_bank_payments(system, own, charge["charge_id"], *([1000] * 10), end_to_end_ids=sources)

    await asyncio.gather(*(tell() for _ in range(10)))
    assert await _charge_and_money(client, charge["charge_id"]) == (
        "paid",
        [("10.00", None)],
        ["payment.received"],
        "10.00",
    )


async def test_a_payment_for_an_unknown_charge_is_refused_as_charge_not_found(system: System, books: Books) -> None:
    (outcome,) = await book_bank_payments(system, books, "01a1fdc2-2be1-7deb-b4f8-5fa37a19dbc1", 1000)
    assert isinstance(outcome, Refused)
    assert outcome.code is Code.CHARGE_NOT_FOUND


async def test_payments_can_be_filtered_by_kind_of_anomaly(system: System, merchant: ApiMerchant, books: Books) -> None:
    client = merchant.sandbox
    plain = await client.paid("1.00")
    twice = await client.paid("2.00")
    await book_bank_payments(system, books, twice["charge_id"], 200)
    less = await client.created("3.00")
    await book_bank_payments(system, books, less["charge_id"], 299)
    gone = await client.created("4.00")
    await client.cancel(gone["charge_id"])
    await book_bank_payments(system, books, gone["charge_id"], 400)
    expected = {"duplicate": twice, "amount_mismatch": less, "paid_after_cancel": gone}
    for anomaly, charge in expected.items():
        (payment,) = await client.all("/v1/payments", anomaly=anomaly)
        assert (payment["charge_id"], payment["anomaly"]) == (charge["charge_id"], anomaly)
    assert len(await client.all("/v1/payments")) == 5
    (first,) = await client.all("/v1/payments", charge_id=plain["charge_id"])
    assert first["anomaly"] is None
    anomalies = await client.events(type="payment.anomaly")
    assert [event["anomaly"] for event in anomalies] == ["duplicate", "amount_mismatch", "paid_after_cancel"]
    await assert_the_ledger_adds_up(client)


async def test_the_books_are_clean_after_the_tests_of_this_file(system: System) -> None:
    assert_books_are_clean(system)
