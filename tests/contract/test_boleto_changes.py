"""Cancelling, re-dating, listing, expiring and paying boletos over HTTP, with the same result at the simulated bank
(spec; contract sections 4, 6, 7, 8, 10 and 14)."""

import asyncio
import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

import aiohttp
import msgspec
import pytest

from commands.merchants.integrators import create_integrator
from domain.boleto.codes import barcode_of_line
from domain.instants import SAO_PAULO, iso
from tests.support.boleto_merchant import (
    at_bank,
    boleto_body,
    in_days,
    issue,
    issue_boleto,
    issue_boleto_in_the_past,
    listen,
    redate,
    today,
)
from tests.support.merchant import (
    Answer,
    ApiClient,
    ApiMerchant,
    Books,
    assert_books_are_clean,
    paused,
    until_answer,
)
from tests.support.system import System
from tests.support.webhooks import receiving

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
NOBODY = "01a1fdc2-2be1-7deb-b4f8-5fa37a19dbc1"


def refused(answer: Answer, status: int, code: str) -> None:
    assert (answer.status, answer.code) == (status, code), answer.raw


async def cancel(client: ApiClient, charge_id: str, scenario: str | None = None, **more: Any) -> Answer:
    """Cancel by the path's id, or with `more` in the body by POST /v1/charges/cancel."""
    headers = {} if scenario is None else {"X-Sandbox-Bank": scenario}
    if more:
        return await client.ask("POST", "/v1/charges/cancel", json={"charge_id": charge_id, **more}, headers=headers)
    return await client.ask("POST", f"/v1/charges/{charge_id}/cancel", headers=headers)


def number_of(charge: dict[str, Any]) -> str:
    return str(charge["boleto"]["nosso_numero"])


async def open_at_bank(books: Books, charge: dict[str, Any]) -> bool:
    row = await at_bank(books, number_of(charge))
    return bool(row["written_off_at"] is None and row["payments"] == 0)


async def wait_for_bank_orders(books: Books, charge: dict[str, Any]) -> None:
    """Wait until no bank order of this boleto is left."""

    async def over() -> bool:
        left = "SELECT count(*) FROM bank_order WHERE charge_id = $1::text::uuid"
        return bool(await books.fetchval(left, charge["charge_id"]) == 0)

    await until_answer(over)


# --- Cancelling ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", [None, "cancelled", "paid_externally"])
@pytest.mark.parametrize("mode", ["sandbox", "production"])
async def test_a_cancelled_boleto_is_written_off_and_shown_as_cancelled_everywhere(
    merchant: ApiMerchant, books: Books, mode: str, reason: str | None
) -> None:
    client: ApiClient = getattr(merchant, mode)
    charge = await issue_boleto(client, external_id="PED-7", tipo="boleto_hibrido")
    if reason is None:
        answer = await cancel(client, charge["charge_id"])
    else:
        answer = await client.post("/v1/charges/cancel", {"external_id": "PED-7", "reason": reason})
    assert answer.status == 200, answer.raw
    cancelled = answer.body
    assert cancelled == charge | {"status": "cancelled", "version": 2, "cancelled_at": cancelled["cancelled_at"]}
    assert charge["created_at"] <= cancelled["cancelled_at"] <= iso(datetime.now(UTC))
    row = await at_bank(books, number_of(charge))
    assert row["written_off_at"] is not None
    # The bank comes first: the boleto is written off before the charge is cancelled.
    assert iso(row["written_off_at"]) <= cancelled["cancelled_at"]
    assert await client.charge(charge["charge_id"]) == cancelled
    assert await client.all("/v1/charges", status="cancelled") == [cancelled]
    (event,) = await client.events()
    assert event == {
        "event": "charge.cancelled", "event_id": event["event_id"], "charge_id": charge["charge_id"],
        "account_id": client.account_id, "status": "cancelled", "amount": "150.00", "external_id": "PED-7",
        "test": mode == "sandbox", "reason": reason or "cancelled", "cancelled_at": cancelled["cancelled_at"],
        "version": 2, "type": "charge.cancelled", "sequence": 1, "created_at": event["created_at"],
    }  # fmt: skip
    assert UUID.fullmatch(event["event_id"])
    assert await client.balance() == "0.00"
    # Cancelling again changes nothing.
    for again in (
        await cancel(client, charge["charge_id"]),
        await cancel(client, charge["charge_id"], reason="cancelled"),
        await redate(client, in_days(20), charge_id=charge["charge_id"]),
    ):
        refused(again, 409, "CHARGE_NOT_PENDING")
    refused(await client.post("/v1/charges/cancel", {"external_id": "PED-7"}), 404, "CHARGE_NOT_FOUND")
    assert await client.charge(charge["charge_id"]) == cancelled
    assert len(await client.events()) == 1


async def test_a_webhook_delivers_payment_and_cancellation_and_not_an_unsubscribed_kind(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.sandbox
    async with receiving() as receiver:
        await listen(system, books, client, receiver.url)
        first, second = await issue_boleto(client, external_id="A"), await issue_boleto(client, external_id="B")
        assert (await redate(client, in_days(20), charge_id=first["charge_id"])).status == 200
        assert (await cancel(client, first["charge_id"])).status == 200
        assert (await client.pay(second["charge_id"])).status == 200
        events_by_id = {event["event_id"]: event for event in await client.events()}
        assert Counter(event["type"] for event in events_by_id.values()) == {
            "charge.due_date_changed": 1, "charge.cancelled": 1, "payment.received": 1,
        }  # fmt: skip
        wanted = {id for id, event in events_by_id.items() if event["type"] != "charge.due_date_changed"}
        await receiver.heard(wanted)
        await asyncio.sleep(0.3)
    for request in receiver.requests:
        event = events_by_id[request.event_id]
        assert msgspec.json.decode(request.body).items() <= event.items()
        assert request.headers["X-Service-Event"] == event["type"]
        assert event["test"] is True
    assert {request.event_id for request in receiver.requests} == wanted


@pytest.mark.parametrize("scenario", ["unavailable", "refuse"])
async def test_a_bank_that_does_not_confirm_the_write_off_leaves_the_charge_pending(
    merchant: ApiMerchant, books: Books, scenario: str
) -> None:
    client = merchant.sandbox
    charge = await issue_boleto(client, external_id="PED-1")
    for answer in (
        await cancel(client, charge["charge_id"], scenario),
        await client.ask(
            "POST", "/v1/charges/cancel", json={"external_id": "PED-1"}, headers={"X-Sandbox-Bank": scenario}
        ),
    ):
        refused(answer, 502, "BANK_UNAVAILABLE")
        assert int(answer.headers["Retry-After"]) > 0
        assert await client.charge(charge["charge_id"]) == charge
    await wait_for_bank_orders(books, charge)
    assert await client.charge(charge["charge_id"]) == charge
    assert await open_at_bank(books, charge)
    assert await client.events() == []
    # The request succeeds when it is repeated.
    assert (await cancel(client, charge["charge_id"])).status == 200
    assert not await open_at_bank(books, charge)


@pytest.mark.parametrize("scenario", ["lost_reply", "slow"])
async def test_a_slow_write_off_or_a_lost_reply_cancels_once(
    merchant: ApiMerchant, books: Books, scenario: str
) -> None:
    client = merchant.sandbox
    charge = await issue_boleto(client)
    assert (await cancel(client, charge["charge_id"], scenario)).status == 200
    assert not await open_at_bank(books, charge)
    assert [event["type"] for event in await client.events()] == ["charge.cancelled"]


async def test_an_unknown_sandbox_bank_scenario_is_refused_before_the_charge_is_looked_up(
    merchant: ApiMerchant,
) -> None:
    for answer in (
        await cancel(merchant.sandbox, NOBODY, "sleepy"),
        await redate(merchant.sandbox, in_days(3), charge_id=NOBODY, headers={"X-Sandbox-Bank": "sleepy"}),
    ):
        refused(answer, 400, "VALIDATION_ERROR")
        assert [each["field"] for each in answer.body["error"]["fields"]] == ["X-Sandbox-Bank"]
    refused(await cancel(merchant.production, NOBODY, "sleepy"), 404, "CHARGE_NOT_FOUND")


async def test_twenty_cancellations_at_once_cancel_once(merchant: ApiMerchant, books: Books) -> None:
    client = merchant.sandbox
    charge = await issue_boleto(client, external_id="PED-1")
    answers = await asyncio.gather(*(cancel(client, charge["charge_id"]) for _ in range(20)))
    assert Counter(answer.status for answer in answers) == {200: 1, 409: 19}, [answer.raw for answer in answers]
    assert {answer.code for answer in answers if answer.status == 409} == {"CHARGE_NOT_PENDING"}
    assert len(await client.events()) == 1


async def test_an_external_id_cancels_its_only_pending_charge_pix_or_boleto(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    boleto, pix = await issue_boleto(client, external_id="N-1"), await client.created(external_id="N-1")
    refused(await client.post("/v1/charges/cancel", {"external_id": "N-1"}), 409, "CANCEL_REFERENCE_AMBIGUOUS")
    assert (await client.cancel(pix["charge_id"])).status == 200
    answer = await client.post("/v1/charges/cancel", {"external_id": "N-1"})
    assert (answer.status, answer.body["charge_id"]) == (200, boleto["charge_id"])


async def test_concurrent_cancel_re_date_and_pay_leave_charge_and_bank_in_agreement(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.sandbox
    charges = await asyncio.gather(*(issue_boleto(client) for _ in range(12)))

    async def contest(charge: dict[str, Any], place: int) -> list[Answer]:
        at_once = [
            client.pay(charge["charge_id"]),
            cancel(client, charge["charge_id"]),
            redate(client, in_days(30), charge_id=charge["charge_id"]),
        ]
        turned = at_once[place % 3 :] + at_once[: place % 3]
        return list(await asyncio.gather(*turned))

    contests = await asyncio.gather(*(contest(charge, place) for place, charge in enumerate(charges)))
    for charge, answers in zip(charges, contests, strict=True):
        assert {answer.status for answer in answers} <= {200, 409}, [answer.raw for answer in answers]
        now = await client.charge(charge["charge_id"])
        row = await at_bank(books, number_of(charge))
        events = [event["type"] for event in await client.events(charge_id=charge["charge_id"])]
        ended = {"paid": "payment.received", "cancelled": "charge.cancelled"}[now["status"]]
        assert events in ([ended], ["charge.due_date_changed", ended])
        assert (row["payments"], row["written_off_at"] is not None) == (
            (1, False) if now["status"] == "paid" else (0, True)
        )
        assert sum(answer.status == 200 for answer in answers) == len(events)
        assert row["due_on"].isoformat() == now["due_date"]
        assert now["version"] == 1 + len(events)
    assert_books_are_clean(system)


# --- Re-dating -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["sandbox", "production"])
@pytest.mark.parametrize("by", ["charge_id", "external_id"])
async def test_a_new_due_date_changes_line_and_barcode_here_and_the_date_at_the_bank(
    merchant: ApiMerchant, books: Books, mode: str, by: str
) -> None:
    client: ApiClient = getattr(merchant, mode)
    charge = await issue_boleto(client, external_id="PED/2", tipo="boleto_hibrido", dataVencimento=in_days(5))
    # A Saturday before Carnival: payable until Ash Wednesday.
    answer = await redate(client, "2030-03-02", **{by: charge[by]})
    assert answer.status == 200, answer.raw
    moved = answer.body
    boleto = moved["boleto"]
    assert moved == charge | {
        "due_date": "2030-03-02", "effective_due_date": "2030-03-06", "version": 2,
        "boleto": charge["boleto"] | {
            "data_vencimento": "2030-03-02", "linha_digitavel": boleto["linha_digitavel"],
            "codigo_barras": boleto["codigo_barras"],
        },
    }  # fmt: skip
    assert barcode_of_line(boleto["linha_digitavel"]) == boleto["codigo_barras"] != charge["boleto"]["codigo_barras"]
    old, new = charge["boleto"]["codigo_barras"], boleto["codigo_barras"]
    assert (old[:4], old[9:]) == (new[:4], new[9:]), "only check digit and due-date factor change"
    assert int(new[5:9]) == 1000 + (date(2030, 3, 2) - date(2025, 2, 22)).days
    assert (await at_bank(books, number_of(charge)))["due_on"].isoformat() == "2030-03-02"
    assert await client.charge(charge["charge_id"]) == moved
    (event,) = await client.events()
    assert event == {
        "event": "charge.due_date_changed", "event_id": event["event_id"], "charge_id": charge["charge_id"],
        "account_id": client.account_id, "status": "pending", "amount": "150.00", "external_id": "PED/2",
        "test": mode == "sandbox", "due_date": "2030-03-02", "previous_due_date": charge["due_date"], "version": 2,
        "type": "charge.due_date_changed", "sequence": 1, "created_at": event["created_at"],
    }  # fmt: skip
    # Re-dating to the same day changes nothing.
    again = await redate(client, "2030-03-02", **{by: charge[by]})
    assert (again.status, again.body) == (200, moved)
    assert len(await client.events()) == 1
    # Re-dating to an earlier day shortens the time to pay.
    back = await redate(client, in_days(5), **{by: charge[by]})
    assert (back.status, back.body["boleto"]) == (200, charge["boleto"])
    assert back.body["effective_due_date"] == charge["effective_due_date"]


async def test_a_new_due_date_may_be_today_and_not_yesterday(merchant: ApiMerchant, books: Books) -> None:
    client = merchant.sandbox
    charge = await issue_boleto(client)
    for late in (in_days(-1), "2020-01-01"):
        refused(await redate(client, late, charge_id=charge["charge_id"]), 400, "INVALID_DUE_DATE")
    assert await client.charge(charge["charge_id"]) == charge
    answer = await redate(client, in_days(0), charge_id=charge["charge_id"])
    assert (answer.status, answer.body["due_date"], answer.body["status"]) == (200, in_days(0), "pending")
    assert answer.body["effective_due_date"] >= in_days(0)
    assert (await at_bank(books, number_of(charge)))["due_on"] == today()
    assert (await client.pay(charge["charge_id"])).status == 200


@pytest.mark.parametrize(
    "due",
    ["missing", None, 20301231, True, {}, [], "", "2030-02-30", "31/12/2030", "2030-12-31T00:00:00Z", "2049-10-14"],
    ids=repr,
)
async def test_any_fault_of_the_new_due_date_is_invalid_due_date(merchant: ApiMerchant, due: Any) -> None:
    more: list[dict[str, Any]] = [{"charge_id": NOBODY}, {"charge_id": NOBODY, "external_id": "x"}, {}]
    for named in more:
        body = named if due == "missing" else {"due_date": due, **named}
        answer = await merchant.sandbox.ask("PATCH", "/v1/charges/due-date", json=body)
        refused(answer, 400, "INVALID_DUE_DATE")
        assert [each["field"] for each in answer.body["error"]["fields"]] == ["due_date"]


@pytest.mark.parametrize(
    ("named", "status", "code"),
    [
        ({}, 400, "CANCEL_REFERENCE_REQUIRED"),
        ({"charge_id": None, "external_id": None}, 400, "CANCEL_REFERENCE_REQUIRED"),
        ({"charge_id": NOBODY, "external_id": "x"}, 400, "CANCEL_REFERENCE_REQUIRED"),
        ({"charge_id": 5}, 400, "VALIDATION_ERROR"),
        ({"external_id": ["x"]}, 400, "VALIDATION_ERROR"),
        ({"external_id": "x" * 256}, 400, "VALIDATION_ERROR"),
        ({"external_id": "\x00"}, 400, "VALIDATION_ERROR"),
        ({"charge_id": "x"}, 404, "CHARGE_NOT_FOUND"),
        ({"charge_id": NOBODY}, 404, "CHARGE_NOT_FOUND"),
        ({"external_id": "nobody's"}, 404, "CHARGE_NOT_FOUND"),
        ({"external_id": ""}, 404, "CHARGE_NOT_FOUND"),
    ],
    ids=repr,
)
async def test_a_re_dating_without_a_valid_reference_is_refused(
    merchant: ApiMerchant, named: dict[str, Any], status: int, code: str
) -> None:
    refused(await redate(merchant.sandbox, in_days(3), **named), status, code)


async def test_a_pix_charge_cannot_be_re_dated(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    pix = await client.created(external_id="N-2")
    refused(await redate(client, in_days(3), charge_id=pix["charge_id"]), 404, "CHARGE_NOT_FOUND")
    refused(await redate(client, in_days(3), external_id="N-2"), 404, "CHARGE_NOT_FOUND")
    # A PIX charge with the same external_id does not make the boleto's reference ambiguous.
    boleto = await issue_boleto(client, external_id="N-2")
    answer = await redate(client, in_days(3), external_id="N-2")
    assert (answer.status, answer.body["charge_id"]) == (200, boleto["charge_id"])
    assert await client.charge(pix["charge_id"]) == pix


async def test_an_external_id_of_several_pending_boletos_is_ambiguous(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    first, second = await issue_boleto(client, external_id="N-3"), await issue_boleto(client, external_id="N-3")
    await issue_boleto(merchant.production, external_id="N-3")
    refused(await redate(client, in_days(3), external_id="N-3"), 409, "CANCEL_REFERENCE_AMBIGUOUS")
    assert (await cancel(client, first["charge_id"])).status == 200
    assert (await redate(client, in_days(3), external_id="N-3")).body["charge_id"] == second["charge_id"]
    assert (await cancel(client, second["charge_id"])).status == 200
    refused(await redate(client, in_days(4), external_id="N-3"), 404, "CHARGE_NOT_FOUND")


async def test_a_boleto_that_is_not_pending_keeps_its_due_date(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    paid, cancelled = await issue_boleto(client), await issue_boleto(client)
    assert (await client.pay(paid["charge_id"])).status == 200
    assert (await cancel(client, cancelled["charge_id"])).status == 200
    for charge in (paid, cancelled):
        before = await client.charge(charge["charge_id"])
        # Its present due date is refused too: the state decides.
        for due in (in_days(20), charge["due_date"]):
            refused(await redate(client, due, charge_id=charge["charge_id"]), 409, "CHARGE_NOT_PENDING")
        assert await client.charge(charge["charge_id"]) == before


@pytest.mark.parametrize("scenario", ["unavailable", "refuse"])
async def test_a_bank_that_does_not_confirm_a_new_due_date_changes_nothing(
    merchant: ApiMerchant, books: Books, scenario: str
) -> None:
    client = merchant.sandbox
    charge = await issue_boleto(client)
    answer = await redate(client, in_days(30), charge_id=charge["charge_id"], headers={"X-Sandbox-Bank": scenario})
    refused(answer, 502, "BANK_UNAVAILABLE")
    assert int(answer.headers["Retry-After"]) > 0
    await wait_for_bank_orders(books, charge)
    assert await client.charge(charge["charge_id"]) == charge
    assert (await at_bank(books, number_of(charge)))["due_on"].isoformat() == charge["due_date"]
    assert await client.events() == []
    assert (await redate(client, in_days(30), charge_id=charge["charge_id"])).status == 200


@pytest.mark.parametrize("scenario", ["lost_reply", "slow"])
async def test_a_slow_re_dating_or_a_lost_reply_changes_the_due_date_once(
    merchant: ApiMerchant, books: Books, scenario: str
) -> None:
    client = merchant.sandbox
    charge = await issue_boleto(client)
    answer = await redate(client, in_days(30), charge_id=charge["charge_id"], headers={"X-Sandbox-Bank": scenario})
    assert (answer.status, answer.body["due_date"]) == (200, in_days(30))
    assert [event["type"] for event in await client.events()] == ["charge.due_date_changed"]
    assert (await at_bank(books, number_of(charge)))["due_on"].isoformat() == in_days(30)


async def test_ten_concurrent_re_datings_leave_the_same_due_date_here_and_at_the_bank(
    merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.sandbox
    charge = await issue_boleto(client)
    answers = await asyncio.gather(
        *(redate(client, in_days(20 + number), charge_id=charge["charge_id"]) for number in range(10))
    )
    assert {answer.status for answer in answers} == {200}, [answer.raw for answer in answers]
    now = await client.charge(charge["charge_id"])
    events = await client.events()
    assert now["due_date"] == (await at_bank(books, number_of(charge)))["due_on"].isoformat()
    assert now["due_date"] == events[-1]["due_date"]
    assert now["version"] == 11
    # Each change starts from the due date of the one before.
    days = [event["previous_due_date"] for event in events] + [now["due_date"]]
    assert days == [charge["due_date"]] + [event["due_date"] for event in events]


async def test_changes_of_a_boleto_younger_than_thirty_minutes_are_502_with_retry_after(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    """Banco do Brasil re-dates and writes off from thirty minutes after the registration on (contract section 6)."""
    client = merchant.production
    charge = await issue_boleto(client)

    async def rule(on: bool) -> None:
        async with aiohttp.ClientSession() as http:
            url = f"{system.bank_url}/simulated/boleto-rules"
            async with http.post(url, json={"apply_30_minutes": on}) as answer:
                assert answer.status == 200

    await rule(True)
    try:
        for answer in (
            await cancel(client, charge["charge_id"]),
            await redate(client, in_days(30), charge_id=charge["charge_id"]),
        ):
            refused(answer, 502, "BANK_UNAVAILABLE")
            # The bank's half hour, and a minute of margin for its clock.
            assert 1740 < int(answer.headers["Retry-After"]) <= 1860
        assert await client.charge(charge["charge_id"]) == charge
    finally:
        await rule(False)
    assert (await redate(client, in_days(30), charge_id=charge["charge_id"])).status == 200
    assert (await cancel(client, charge["charge_id"])).status == 200
    assert not await open_at_bank(books, charge)


# --- Lists -----------------------------------------------------------------------------------------------------------


async def test_boletos_are_listed_by_each_of_their_fields(merchant: ApiMerchant, books: Books) -> None:
    client = merchant.sandbox
    partner = await create_integrator(books, name="Parceiro", account_id=None, now=datetime.now(UTC))
    plain = await issue_boleto(client, dataVencimento=in_days(10))
    hybrid = await issue_boleto(client, tipo="boleto_hibrido", dataVencimento=in_days(20))
    brought = await issue_boleto(client, dataVencimento=in_days(30), integrador_code=partner.integrador_code)
    pix = await client.created()
    await issue_boleto(merchant.production, dataVencimento=in_days(10))

    async def found(**asked: Any) -> list[str]:
        return [each["charge_id"] for each in await client.all("/v1/charges", order="asc", **asked)]

    boletos = [each["charge_id"] for each in (plain, hybrid, brought)]
    assert await found() == [*boletos, pix["charge_id"]]
    assert await found(payment_method="boleto") == [boletos[0], boletos[2]]
    assert await found(payment_method="boleto_hibrido") == [boletos[1]]
    assert await found(payment_method=["boleto", "boleto_hibrido"]) == boletos
    assert await found(payment_method=["pix", "boleto_hibrido"]) == [boletos[1], pix["charge_id"]]
    assert await found(nosso_numero=number_of(hybrid)) == [boletos[1]]
    assert await found(nosso_numero="00031285570000000000") == []
    assert await found(integrador_code=partner.integrador_code) == [boletos[2]]
    assert await found(integrador_code="INTG-000000") == []
    assert await found(payer_document="52998224725") == boletos
    # Days are inclusive at both ends; a PIX charge has no due date.
    assert await found(due_from=in_days(10), due_to=in_days(20)) == boletos[:2]
    assert await found(due_from=in_days(11), due_to=in_days(29)) == [boletos[1]]
    assert await found(due_from=in_days(20)) == boletos[1:]
    assert await found(due_to=in_days(19)) == [boletos[0]]
    assert await found(due_from=in_days(20), payment_method="boleto") == [boletos[2]]
    assert await found(due_from=in_days(31)) == []
    refused(await client.get("/v1/charges", due_from=in_days(20), due_to=in_days(10)), 400, "DATE_RANGE_INVALID")
    # The list filters by the present due date.
    assert (await redate(client, in_days(25), charge_id=boletos[0])).status == 200
    assert await found(due_to=in_days(19)) == []
    assert await found(due_from=in_days(20), due_to=in_days(25)) == boletos[:2]
    assert (await cancel(client, boletos[1])).status == 200
    assert await found(due_from=in_days(20), due_to=in_days(25), status="pending") == [boletos[0]]
    counts = (await client.get("/v1/charges/summary", due_from=in_days(20), payment_method="boleto")).body["data"]
    assert [(row["status"], row["count"], row["amount"]) for row in counts if row["count"]] == [
        ("pending", 2, "300.00")
    ]


# --- Expiry ----------------------------------------------------------------------------------------------------------


async def _overdue(system: System, books: Books, client: ApiClient, **more: Any) -> str:
    """A boleto whose last day to pay has passed, not yet stored as expired. Returns its id."""
    return await issue_boleto_in_the_past(system, books, client, test=True, due_on=today() - timedelta(days=15), **more)


@pytest.mark.parametrize("act", ["read", "list", "list by status", "feed", "cancel", "cancel by id", "re-date", "pay"])
async def test_a_boleto_past_its_last_day_is_expired_on_every_read_and_change(
    system: System, merchant: ApiMerchant, books: Books, act: str
) -> None:
    client = merchant.sandbox
    with paused(system, "worker"):
        charge_id = await _overdue(system, books, client, external_id="PED-9")
        if act == "list":
            assert [each["status"] for each in await client.all("/v1/charges")] == ["expired"]
        elif act == "list by status":
            assert await client.all("/v1/charges", status="pending") == []
            assert len(await client.all("/v1/charges", status="expired")) == 1
        elif act == "feed":
            assert len(await client.events()) == 1
        elif act == "cancel":
            refused(await cancel(client, charge_id), 409, "CHARGE_NOT_PENDING")
        elif act == "cancel by id":
            refused(await cancel(client, charge_id, reason="paid_externally"), 409, "CHARGE_NOT_PENDING")
        elif act == "re-date":
            refused(await redate(client, in_days(3), charge_id=charge_id), 409, "CHARGE_NOT_PENDING")
        elif act == "pay":
            refused(await client.pay(charge_id), 409, "CHARGE_NOT_PENDING")
        charge = await client.charge(charge_id)
    assert (charge["status"], charge["version"], charge["payment"]) == ("expired", 2, None)
    (event,) = await client.events(charge_id=charge_id)
    assert (event["type"], event["status"], event["external_id"]) == ("charge.expired", "expired", "PED-9")
    # At 00:00 in São Paulo of the day after the last day to pay.
    ended = datetime.fromisoformat(event["expires_at"]).astimezone(SAO_PAULO)
    assert (ended - timedelta(days=1)).date().isoformat() == charge["effective_due_date"]
    assert (ended.hour, ended.minute, ended.second, ended.microsecond) == (0, 0, 0, 0)


async def test_an_overdue_boleto_is_not_found_by_external_id(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.sandbox
    with paused(system, "worker"):
        await _overdue(system, books, client, external_id="PED-9")
        refused(await client.post("/v1/charges/cancel", {"external_id": "PED-9"}), 404, "CHARGE_NOT_FOUND")
        refused(await redate(client, in_days(3), external_id="PED-9"), 404, "CHARGE_NOT_FOUND")
    assert [event["type"] for event in await client.events()] == ["charge.expired"]


async def test_the_sweeper_expires_an_overdue_boleto_once(system: System, merchant: ApiMerchant, books: Books) -> None:
    charge_ids = [await _overdue(system, books, merchant.sandbox) for _ in range(3)]

    async def swept() -> bool:
        pending = "SELECT count(*) FROM charge WHERE charge_id = ANY($1::text[]::uuid[]) AND status = 'pending'"
        return bool(await books.fetchval(pending, charge_ids) == 0)

    await until_answer(swept, within_s=30)
    events = await merchant.sandbox.events()
    assert Counter((event["type"], event["charge_id"]) for event in events) == {
        ("charge.expired", charge_id): 1 for charge_id in charge_ids
    }


async def test_a_boleto_is_expired_exactly_after_its_effective_due_date(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.sandbox
    for days in range(6):
        due_on = today() - timedelta(days=days)
        charge = await client.charge(await issue_boleto_in_the_past(system, books, client, test=True, due_on=due_on))
        in_time = charge["effective_due_date"] >= today().isoformat()
        assert charge["status"] == ("pending" if in_time else "expired"), charge["due_date"]
        assert in_time or days > 0


# --- Payment in the sandbox ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tipo", ["boleto", "boleto_hibrido"])
async def test_a_boleto_paid_in_the_sandbox_is_shown_as_paid_everywhere(
    merchant: ApiMerchant, books: Books, tipo: str
) -> None:
    client = merchant.sandbox
    partner = await create_integrator(books, name="Parceiro", account_id=None, now=datetime.now(UTC))
    charge = await issue_boleto(
        client, "99.90", tipo=tipo, external_id="PED-3", integrador_code=partner.integrador_code
    )
    answer = await client.pay(charge["charge_id"])
    assert answer.status == 200, answer.raw
    paid = answer.body
    block = paid["payment"]
    assert paid == charge | {"status": "paid", "version": 2, "payment": block, "paid_at": block["paid_at"]}
    assert block == {
        "payment_id": block["payment_id"], "method": "boleto", "amount": "99.90", "fee": "0.00", "net_amount": "99.90",
        "paid_at": block["paid_at"], "credited_at": block["credited_at"], "end_to_end_id": None,
        "payer": {"name": None, "document": None}, "interest": "0.00", "fine": "0.00", "discount": "0.00",
        "late": False, "refunded_amount": "0.00",
    }  # fmt: skip
    assert charge["created_at"] <= block["paid_at"] <= block["credited_at"] <= iso(datetime.now(UTC))
    assert await client.charge(charge["charge_id"]) == paid
    (item,) = await client.all("/v1/payments")
    assert item == block | {
        "charge_id": charge["charge_id"], "external_id": "PED-3", "account_id": client.account_id,
        "payment_method": tipo, "txid": None, "nosso_numero": number_of(charge),
        "integrador_code": partner.integrador_code, "anomaly": None, "test": True,
    }  # fmt: skip
    assert await client.all("/v1/payments", method="boleto") == [item]
    assert await client.all("/v1/payments", method="pix") == []
    (line,) = await client.ledger()
    assert (line["type"], line["direction"], line["amount"], line["balance_after"], line["payment_id"]) == (
        "payment", "credit", "99.90", "99.90", block["payment_id"],
    )  # fmt: skip
    assert (line["charge_id"], line["external_id"], line["test"]) == (charge["charge_id"], "PED-3", True)
    assert await client.balance() == "99.90"
    assert await merchant.production.balance() == "0.00"
    (event,) = await client.events()
    assert (event["type"], event["status"], event["amount"], event["method"]) == (
        "payment.received", "paid", "99.90", "boleto",
    )  # fmt: skip
    assert (event["paid_at"], event["payment_id"], event["test"]) == (block["paid_at"], block["payment_id"], True)
    for answer in (
        await client.pay(charge["charge_id"]),
        await cancel(client, charge["charge_id"]),
        await redate(client, in_days(20), charge_id=charge["charge_id"]),
    ):
        refused(answer, 409, "CHARGE_NOT_PENDING")
    assert await client.charge(charge["charge_id"]) == paid
    assert not await open_at_bank(books, charge)


async def test_twenty_concurrent_sandbox_payments_pay_once(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    charge = await issue_boleto(client)
    answers = await asyncio.gather(*(client.pay(charge["charge_id"]) for _ in range(20)))
    assert Counter(answer.status for answer in answers) == {200: 1, 409: 19}, [answer.raw for answer in answers]
    assert {answer.code for answer in answers if answer.status == 409} == {"CHARGE_NOT_PENDING"}
    assert await client.balance() == "150.00"
    assert len(await client.all("/v1/payments")) == len(await client.events()) == 1


async def test_a_boleto_that_is_not_pending_cannot_be_paid_in_the_sandbox(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    charge = await issue_boleto(client)
    assert (await cancel(client, charge["charge_id"])).status == 200
    refused(await client.pay(charge["charge_id"]), 409, "CHARGE_NOT_PENDING")
    assert await client.all("/v1/payments") == []


async def test_a_production_boleto_cannot_be_paid_by_simulate_payment(merchant: ApiMerchant, books: Books) -> None:
    client = merchant.production
    charge = await issue_boleto(client)
    for charge_id in (charge["charge_id"], NOBODY, "x", str(uuid4())):
        refused(await client.pay(charge_id), 403, "SANDBOX_ONLY")
    assert await client.charge(charge["charge_id"]) == charge
    assert await open_at_bank(books, charge)


async def test_payments_of_boletos_and_pix_share_one_dense_ledger_that_adds_up(
    system: System, merchant: ApiMerchant
) -> None:
    client = merchant.sandbox
    bodies = [boleto_body(f"{number + 1}.25") for number in range(10)]
    boletos = [answer.body for answer in await asyncio.gather(*(issue(client, body=body) for body in bodies))]
    pix = await asyncio.gather(*(client.created(f"{number + 1}.50") for number in range(10)))
    answers = await asyncio.gather(*(client.pay(charge["charge_id"]) for charge in (*boletos, *pix)))
    assert {answer.status for answer in answers} == {200}
    ledger = await client.ledger()
    assert [line["sequence"] for line in ledger] == list(range(1, 21))
    total = 0
    for line in ledger:
        total += int(line["amount"].replace(".", ""))
        assert int(line["balance_after"].replace(".", "")) == total
    assert total == sum(100 * (number + 1) + 25 + 100 * (number + 1) + 50 for number in range(10))
    assert await client.balance() == ledger[-1]["balance_after"]
    assert [event["sequence"] for event in await client.events()] == list(range(1, 21))


async def test_the_books_are_clean_after_the_tests_of_this_file(system: System) -> None:
    assert_books_are_clean(system)
