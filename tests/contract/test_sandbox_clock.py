"""The sandbox's clock: all that is due has happened when a move is answered; no other clock moves (section 14)."""

import asyncio
import secrets
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from commands.webhooks.endpoint import resume
from domain.boleto.business_days import effective_due_date
from domain.instants import SAO_PAULO, iso
from tests.support.boleto_merchant import at_bank, issue, issue_boleto, listen, redate
from tests.support.dual_merchant import issue_dual_charge, status_by_leg
from tests.support.in_process import Api
from tests.support.merchant import (
    Answer,
    ApiClient,
    ApiMerchant,
    Books,
    assert_books_are_clean,
    new_merchant,
    paused,
    until_answer,
)
from tests.support.system import System
from tests.support.webhooks import receiving

CLOCK = "/v1/sandbox/clock"
DAY_S = 86_400


async def advance(client: ApiClient, by: str) -> datetime:
    """Advance the clock. Returns the time it shows then."""
    answer = await client.post(CLOCK, {"advance": by})
    assert answer.status == 200, answer.raw
    return at(answer.body["now"])


def at(instant: str) -> datetime:
    return datetime.fromisoformat(instant)


def day_on(clock: datetime, days: int) -> str:
    return (clock.astimezone(SAO_PAULO).date() + timedelta(days=days)).isoformat()


async def get_from_every_process(client: ApiClient, path: str) -> list[Answer]:
    """The answers to 24 concurrent requests, which reach every process of the API."""
    return await asyncio.gather(*(client.get(path) for _ in range(24)))


# Reading and moving the clock


async def test_the_clock_shows_real_time_until_it_is_advanced_and_runs_on_from_there(merchant: ApiMerchant) -> None:
    first = (await merchant.sandbox.get(CLOCK)).body
    assert first["advanced_seconds"] == 0
    assert first["now"] == first["real_time"]
    answer = await merchant.sandbox.post(CLOCK, {"advance": "P3DT12H"})
    assert answer.status == 200
    assert answer.body["advanced_seconds"] == 3 * DAY_S + DAY_S // 2
    assert at(answer.body["now"]) - at(answer.body["real_time"]) == timedelta(days=3, hours=12)
    await advance(merchant.sandbox, "PT36H")
    shown = (await merchant.sandbox.get(CLOCK)).body
    assert shown["advanced_seconds"] == 5 * DAY_S
    await asyncio.sleep(0.002)  # its resolution is a millisecond
    later = (await merchant.sandbox.get(CLOCK)).body
    assert at(later["now"]) > at(shown["now"])


async def test_moving_the_clock_to_an_instant_it_has_reached_does_not_move_it(merchant: ApiMerchant) -> None:
    to = iso(datetime.now(UTC) + timedelta(days=2))
    first, again = [await merchant.sandbox.post(CLOCK, {"to": to}) for _ in range(2)]
    assert first.status == again.status == 200
    assert at(to) <= at(first.body["now"]) < at(to) + timedelta(seconds=10)
    assert again.body["advanced_seconds"] == first.body["advanced_seconds"]
    past = await merchant.sandbox.post(CLOCK, {"to": iso(datetime.now(UTC) - timedelta(days=400))})
    assert (past.status, past.body["advanced_seconds"]) == (200, first.body["advanced_seconds"])


async def test_concurrent_advances_of_the_clock_add_up(merchant: ApiMerchant) -> None:
    answers = await asyncio.gather(*(merchant.sandbox.post(CLOCK, {"advance": "PT1H"}) for _ in range(10)))
    assert sorted(answer.body["advanced_seconds"] for answer in answers) == [3600 * n for n in range(1, 11)]


INVALID_MOVES: tuple[dict[str, Any], ...] = (
    {}, {"advance": "P3D", "to": "2027-01-01T00:00:00Z"}, {"advance": None}, {"advance": ""}, {"advance": "P0D"},
    {"advance": "-P1D"}, {"advance": "P1M"}, {"advance": "P1Y"}, {"advance": "P1.5D"}, {"advance": "P"},
    {"advance": "P1DT"}, {"advance": "P367D"}, {"advance": "PT١S"}, {"advance": 3}, {"advance": "P1D\n"},
    {"to": "tomorrow"}, {"to": "2027-02-30T00:00:00Z"}, {"to": "2027-01-01T00:00:00+00:00"}, {"to": 1},
    {"to": "9999-12-31T23:59:59Z"}, {"to": "0001-01-01T00:00:00"},
)  # fmt: skip


async def test_an_invalid_move_is_refused_and_does_not_move_the_clock(merchant: ApiMerchant) -> None:
    for body in INVALID_MOVES:
        answer = await merchant.sandbox.post(CLOCK, body)
        assert (answer.status, answer.code) == (400, "VALIDATION_ERROR"), (body, answer.raw)
    assert (await merchant.sandbox.get(CLOCK)).body["advanced_seconds"] == 0


async def test_the_clock_goes_at_most_ten_years_ahead(merchant: ApiMerchant, books: Books) -> None:
    await advance(merchant.sandbox, "P1D")
    await books.execute("UPDATE sandbox_clock SET ahead_s = $1 WHERE account_id::text = $2", 3659 * DAY_S,
                        merchant.sandbox.account_id)  # fmt: skip
    await advance(merchant.sandbox, "P1D")
    beyond = await merchant.sandbox.post(CLOCK, {"advance": "PT1S"})
    assert (beyond.status, beyond.code) == (400, "VALIDATION_ERROR")
    charge = await issue_boleto(merchant.sandbox, dataVencimento=day_on(datetime.now(UTC) + timedelta(days=3660), 3))
    assert (await merchant.sandbox.pay(charge["charge_id"])).body["status"] == "paid"


async def test_a_production_credential_cannot_read_or_move_the_clock(system: System, merchant: ApiMerchant) -> None:
    for answer in (await merchant.production.get(CLOCK), await merchant.production.post(CLOCK, {"advance": "P1D"})):
        assert (answer.status, answer.code) == (403, "SANDBOX_ONLY")
    assert (await merchant.sandbox.get(CLOCK)).body["advanced_seconds"] == 0


# Expiry and payment by the clock


async def test_charges_due_by_the_moved_clock_are_expired_in_every_process_at_once(
    system: System, merchant: ApiMerchant
) -> None:
    client = merchant.sandbox
    assert len(system.pids("api")) > 1
    warm = await get_from_every_process(client, "/v1/charges")  # every process has cached the caller
    assert {answer.status for answer in warm} == {200}
    pix = [await client.created(expires_in=2 * DAY_S, external_id="due") for _ in range(5)]
    boletos = [
        await issue_boleto(client, tipo=tipo, dataVencimento=day_on(datetime.now(UTC), 1))
        for tipo in ("boleto", "boleto_hibrido")
    ]
    both = await issue_dual_charge(client, due_date=day_on(datetime.now(UTC), 1))
    due = [charge["charge_id"] for charge in (*pix, *boletos, both)]
    lasting = await client.created(expires_in=30 * DAY_S)
    with paused(system, "worker"):  # no sweeper runs
        await advance(client, "P10D")
        for answer in await get_from_every_process(client, "/v1/charges?limit=100"):
            shown = {charge["charge_id"]: charge["status"] for charge in answer.body["data"]}
            assert [shown[charge_id] for charge_id in due] == ["expired"] * len(due)
            assert shown[lasting["charge_id"]] == "pending"
        for answer in await get_from_every_process(client, f"/v1/charges/{due[0]}"):
            assert (answer.body["status"], answer.body["version"]) == ("expired", 2)
        cancels = await asyncio.gather(*(client.cancel(charge_id) for charge_id in due))
        assert {(answer.status, answer.code) for answer in cancels} == {(409, "CHARGE_NOT_PENDING")}
        by_reference = await client.post("/v1/charges/cancel", {"external_id": "due"})
        assert by_reference.code == "CHARGE_NOT_FOUND"
        assert (await client.pay(due[0])).code == "CHARGE_NOT_PENDING"
        events = await client.events()
    assert sorted(event["charge_id"] for event in events) == sorted(due)
    assert {event["type"] for event in events} == {"charge.expired"}
    assert [event["sequence"] for event in events] == list(range(1, len(due) + 1))
    assert (await client.pay(lasting["charge_id"])).status == 200
    assert_books_are_clean(system)


async def test_the_sweeper_expires_charges_by_each_accounts_own_clock(merchant: ApiMerchant, books: Books) -> None:
    client = merchant.sandbox
    charge = await client.created(expires_in=3600)
    same = await merchant.production.created(expires_in=3600)
    # Move the clock in the database only: no request expires the charge.
    await books.execute("INSERT INTO sandbox_clock VALUES ($1::text::uuid, 7200, now())", client.account_id)
    status = "SELECT status FROM charge WHERE charge_id::text = $1"

    async def swept() -> bool:
        return bool(await books.fetchval(status, charge["charge_id"]) == "expired")

    await until_answer(swept, within_s=30)
    assert await books.fetchval(status, same["charge_id"]) == "pending"


async def test_a_charge_created_before_the_clock_moved_is_payable_until_its_own_expiry(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    charge = await client.created(expires_in=2 * DAY_S)
    boleto = await issue_boleto(client, dataVencimento=day_on(datetime.now(UTC), 5))
    clock = await advance(client, "P1D")
    paid = (await client.pay(charge["charge_id"])).body
    assert paid["status"] == "paid"
    assert clock <= at(paid["paid_at"]) < clock + timedelta(seconds=10)
    assert paid["payment"]["credited_at"] == paid["payment"]["paid_at"]
    settled = (await client.pay(boleto["charge_id"])).body
    assert settled["status"] == "paid"
    assert clock <= at(settled["paid_at"]) < clock + timedelta(seconds=10)
    assert settled["payment"]["late"] is False


async def test_a_payment_after_the_due_date_of_the_sandboxs_clock_is_late(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    boleto = await issue_boleto(client, dataVencimento=day_on(datetime.now(UTC), 1))
    clock = await advance(client, "P10D")
    assert (await client.pay(boleto["charge_id"])).code == "CHARGE_NOT_PENDING"
    late = (await client.post(f"/v1/sandbox/charges/{boleto['charge_id']}/pay", {})).body
    assert (late["status"], late["payment"]["late"]) == ("paid", True)
    assert at(late["paid_at"]).date() == clock.date()


async def test_of_expired_charges_with_an_earlier_paid_at_the_boleto_is_late_and_the_pix_is_not(
    merchant: ApiMerchant,
) -> None:
    """Sections 5 and 6: a boleto payment confirmed after expiry is late; a PIX made before expiry is not."""
    client = merchant.sandbox
    now = datetime.now(UTC)
    boleto = await issue_boleto(client, dataVencimento=day_on(now, 2))
    pix = await client.created(expires_in=2 * DAY_S)
    await advance(client, "P10D")
    for charge, late in ((boleto, True), (pix, False)):
        assert (await client.charge(charge["charge_id"]))["status"] == "expired"
        in_time = {"paid_at": iso(now + timedelta(days=1))}
        paid = (await client.post(f"/v1/sandbox/charges/{charge['charge_id']}/pay", in_time)).body
        assert (paid["status"], paid["payment"]["late"]) == ("paid", late)
        assert at(paid["paid_at"]) < now + timedelta(days=2)


# New charges


async def test_new_charges_are_dated_by_the_sandboxs_clock(merchant: ApiMerchant, books: Books) -> None:
    client = merchant.sandbox
    clock = await advance(client, "P20D")
    pix = await client.created(expires_in=3600)
    assert clock <= at(pix["created_at"]) < clock + timedelta(seconds=10)
    assert at(pix["expires_at"]) - at(pix["created_at"]) == timedelta(hours=1)
    assert pix["status"] == "pending"
    for days in (-20, -1, 0):
        refused = await issue(client, dataVencimento=day_on(clock, days))
        assert (refused.status, refused.code) == (400, "INVALID_DUE_DATE")
    boleto = await issue_boleto(client, tipo="boleto_hibrido", dataVencimento=day_on(clock, 1))
    assert clock <= at(boleto["created_at"]) < clock + timedelta(seconds=10)
    assert (
        boleto["effective_due_date"] == effective_due_date(datetime.fromisoformat(day_on(clock, 1)).date()).isoformat()
    )
    booked = await at_bank(books, boleto["boleto"]["nosso_numero"])
    assert booked["issued_on"].isoformat() == day_on(clock, 0)
    assert booked["registered_at"] >= clock
    for charge in (pix, boleto):
        paid = await client.pay(charge["charge_id"])
        assert (paid.status, paid.body["status"]) == (200, "paid"), paid.raw
    assert [charge["charge_id"] for charge in await client.all("/v1/charges", order="asc")] == [
        pix["charge_id"], boleto["charge_id"],
    ]  # fmt: skip


async def test_the_earliest_new_due_date_of_a_boleto_is_today_by_the_sandboxs_clock(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    boleto = await issue_boleto(client, dataVencimento=day_on(datetime.now(UTC), 30))
    clock = await advance(client, "P20D")
    past = await redate(client, day_on(clock, -1), charge_id=boleto["charge_id"])
    assert (past.status, past.code) == (400, "INVALID_DUE_DATE")
    today = await redate(client, day_on(clock, 0), charge_id=boleto["charge_id"])
    assert (today.status, today.body["due_date"]) == (200, day_on(clock, 0)), today.raw
    await advance(client, "P10D")
    assert (await client.charge(boleto["charge_id"]))["status"] == "expired"


async def test_each_leg_of_a_dual_charge_expires_by_the_sandboxs_clock(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    charge = await issue_dual_charge(client, due_date=day_on(datetime.now(UTC), 20), expires_in=3600)
    await advance(client, "PT2H")
    for answer in await get_from_every_process(client, f"/v1/charges/{charge['charge_id']}"):
        assert status_by_leg(answer.body) == {"pix": "expired", "boleto": "pending"}
    await advance(client, "P30D")
    assert status_by_leg(await client.charge(charge["charge_id"])) == {"pix": "expired", "boleto": "expired"}


async def test_the_ninety_days_of_a_refund_are_counted_by_the_sandboxs_clock(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    first, second = [(await client.paid())["charge_id"] for _ in range(2)]
    await advance(client, "P89D")
    asked = await client.ask("POST", f"/v1/charges/{first}/refunds", json={}, key=str(uuid4()))
    assert asked.status == 201, asked.raw
    clock = await advance(client, "P2D")

    async def ended() -> bool:
        return bool((await client.charge(first))["status"] == "refunded")

    await until_answer(ended)
    late = await client.ask("POST", f"/v1/charges/{second}/refunds", json={}, key=str(uuid4()))
    assert (late.status, late.code) == (409, "CHARGE_NOT_REFUNDABLE")
    assert at(asked.body["created_at"]) < clock


# Webhooks, payers, tokens and the bank


async def test_webhooks_contain_sandbox_instants_and_are_signed_and_sent_in_real_time(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.sandbox
    async with receiving() as receiver:
        await listen(system, books, client, receiver.url)
        clock = await advance(client, "P40D")
        began = time.time()
        charge = await client.paid()
        await receiver.reached(1)
    (request,) = receiver.requests
    stamp = int(request.headers["webhook-timestamp"])
    assert began - 2 <= stamp <= time.time() + 2, "a receiver refuses a timestamp that is not real time"
    (event,) = await client.events()
    assert request.body.decode()[:-1] in (await client.get("/v1/events")).raw.decode()
    assert at(event["paid_at"]) >= clock
    assert clock <= at(event["created_at"]) < clock + timedelta(seconds=10)
    assert (await client.all("/v1/events", created_from=day_on(clock, 0)))[0]["charge_id"] == charge["charge_id"]

    async def attempted_delivery() -> Any:
        (delivery,) = (await client.get("/v1/webhook-deliveries")).body["data"]
        return delivery if delivery["attempts"] else None

    delivery = await until_answer(attempted_delivery)
    assert abs(at(delivery["attempts"][0]["started_at"]).timestamp() - began) < 10
    again = (await client.post(f"/v1/webhook-deliveries/{delivery['delivery_id']}/redeliver")).body
    assert again["next_attempt_at"] is None or at(again["next_attempt_at"]) < clock - timedelta(days=39)


async def test_deliveries_held_by_a_pause_are_sent_at_the_resume_whatever_the_clock_shows(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.sandbox
    pause = (
        "UPDATE webhook_lane l SET state = 'paused', paused_at = now(), blocked_until = now() + interval '1 hour'"
        " FROM webhook_endpoint e WHERE e.endpoint_id = l.endpoint_id AND e.account_id::text = $1 AND l.test"
    )
    async with receiving() as receiver:
        await listen(system, books, client, receiver.url)
        await books.execute(pause, client.account_id)
        await advance(client, "P200D")
        await client.paid()
        state = "SELECT state FROM webhook_delivery WHERE account_id::text = $1"
        assert await books.fetchval(state, client.account_id) == "held"
        async with books.transaction():
            await resume(books, UUID(client.account_id), [True])
        await receiver.reached(1)


async def test_the_payer_page_shows_the_charges_state_by_the_sandboxs_clock(
    system: System, merchant: ApiMerchant
) -> None:
    client = merchant.sandbox
    short, boleto = (
        await client.created(expires_in=DAY_S),
        await issue_boleto(client, dataVencimento=day_on(datetime.now(UTC), 1)),
    )
    await advance(client, "PT23H")
    fresh = await client.created(expires_in=3600)
    async with aiohttp.ClientSession() as http:

        async def state(charge: dict[str, Any]) -> Any:
            async with http.get(f"{system.app_url}/pagar/{charge['public_id']}/estado") as answer:
                return (await answer.json())["status"]

        async def page(charge: dict[str, Any], path: str = "") -> str:
            async with http.get(f"{system.app_url}/pagar/{charge['public_id']}{path}") as answer:
                assert answer.status == 200
                return await answer.text(errors="replace")

        assert [await state(each) for each in (short, boleto, fresh)] == ["pending"] * 3
        assert "TESTE" in await page(fresh)
        await advance(client, "P9D")
        assert [await state(each) for each in (short, boleto, fresh)] == ["expired"] * 3
        assert "venceu" in await page(short)
        async with http.get(f"{system.app_url}/pagar/{boleto['public_id']}/boleto.pdf") as answer:
            assert answer.status == 404


async def test_idempotency_keys_and_tokens_live_in_real_time(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    clock = await advance(client, "P300D")
    key = str(uuid4())
    made = await client.create(key=key)
    await advance(client, "P2D")
    again = await client.create(key=key)
    assert (made.status, again.status, again.body["status"]) == (201, 200, "expired")
    used = (await client.get(f"/v1/idempotency-keys/{key}")).body
    assert at(used["first_used_at"]) < clock - timedelta(days=299)
    assert (await client.get("/v1/charges")).status == 200, "the token of an hour outlives three hundred sandbox days"


async def test_charges_are_registered_and_removed_at_the_bank_at_once_whatever_the_clock_shows(
    merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.sandbox
    await advance(client, "P60D")
    charge = await client.created(expires_in=600)
    both = await issue_dual_charge(client, due_date=day_on(datetime.now(UTC) + timedelta(days=60), 3))
    for each in (charge, both):

        async def booked(txid: str = each["pix"]["txid"]) -> Any:
            return await books.fetchval("SELECT status FROM simulated_cob WHERE txid = $1", txid)

        assert await until_answer(booked) == "ATIVA"
    assert (await client.cancel(both["charge_id"])).body["status"] == "cancelled"
    assert (await client.cancel(charge["charge_id"])).body["status"] == "cancelled"

    async def removed() -> bool:
        return bool(
            await books.fetchval(
                "SELECT count(*) = 2 FROM simulated_cob WHERE txid = ANY($1) AND status LIKE 'REMOVIDA%'",
                [charge["pix"]["txid"], both["pix"]["txid"]],
            )
        )

    await until_answer(removed)


async def test_boleto_orders_are_retried_in_real_time(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    clock = await advance(client, "P60D")
    unheard = await issue(
        client, dataVencimento=day_on(clock, 3), headers={"X-Sandbox-Bank": "lost_reply"}, external_id="lost"
    )
    assert unheard.status == 201, "the retry finds the boleto registered"
    never = await issue(client, dataVencimento=day_on(clock, 3), headers={"X-Sandbox-Bank": "unavailable"})
    assert (never.status, never.code) == (502, "BANK_UNAVAILABLE")


# Production and other accounts


async def test_production_and_other_accounts_are_not_affected_by_the_clock(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    async with new_merchant(system) as other:
        mine, theirs = merchant.production, other.sandbox
        before = [await each.created(expires_in=3600) for each in (mine, theirs)]
        boleto = await issue_boleto(mine, dataVencimento=day_on(datetime.now(UTC), 1))
        await advance(merchant.sandbox, "P366D")
        for client, charge in zip((mine, theirs), before, strict=True):
            assert await client.charge(charge["charge_id"]) == charge
            assert (await client.events()) == []
            fresh = await client.created(expires_in=3600)
            assert abs(at(fresh["created_at"]).timestamp() - time.time()) < 10
        assert (await mine.charge(boleto["charge_id"]))["status"] == "pending"
        assert (await issue(mine, dataVencimento=day_on(datetime.now(UTC), 0))).code == "INVALID_DUE_DATE"
        assert (await mine.cancel(before[0]["charge_id"])).status == 200
        (event,) = await mine.events()
        assert abs(at(event["created_at"]).timestamp() - time.time()) < 10
        assert (await theirs.get(CLOCK)).body["advanced_seconds"] == 0
    assert_books_are_clean(system)


STEPS = st.lists(
    st.tuples(st.sampled_from(["advance", "create", "look", "list", "cancel"]), st.integers(1, 200 * 3600)),
    min_size=1,
    max_size=6,
)


@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS)
async def test_after_any_sequence_of_calls_production_lives_in_real_time(
    api: Api, pool: Any, table_owner: Any, monkeypatch: pytest.MonkeyPatch, steps: list[tuple[str, int]]
) -> None:
    """The same calls in both modes of one account: the sandbox follows the sum of its advances, production does not."""
    monkeypatch.setattr("commands.sandbox_clock.SPREAD_S", 0.0)  # one process, whose cache is cleared below
    account = str(api.first.account_id)
    await table_owner.execute("DELETE FROM sandbox_clock WHERE account_id = $1", api.first.account_id)
    tokens = {test: await api.token(mode="test" if test else "production") for test in (True, False)}
    ahead_s = 0
    mine: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    cancelled: dict[str, datetime] = {}
    for kind, seconds in (("create", 3600), *steps, ("list", 0)):
        api.app.state.context.callers._known.clear()
        if kind == "advance":
            answer = await api.post(CLOCK, {"advance": f"PT{seconds}S"}, token=tokens[True])
            ahead_s += seconds
            assert answer.json()["advanced_seconds"] == ahead_s
            continue
        for test, token in tokens.items():
            now = datetime.now(UTC) + timedelta(seconds=ahead_s if test else 0)
            if kind == "create":
                body = {"account_id": account, "amount": "1.00", "expires_in": max(60, seconds)}
                made = (await api.post("/v1/charges/pix", body, token=token, key=secrets.token_hex(8))).json()
                assert abs(at(made["created_at"]) - now) < timedelta(seconds=5)
                mine[test].append(made)
                continue
            if kind == "cancel" and mine[test]:
                charge_id = mine[test][-1]["charge_id"]
                if (await api.post(f"/v1/charges/{charge_id}/cancel", None, token=token)).status == 200:
                    cancelled.setdefault(charge_id, now)
            if kind == "list":
                assert (await api.get("/v1/charges", token=token)).status == 200
            for charge in mine[test]:
                shown = (await api.get(f"/v1/charges/{charge['charge_id']}", token=token)).json()
                over = at(charge["expires_at"]) <= now
                if shown["status"] == "cancelled":
                    off = at(shown["cancelled_at"]) - cancelled[charge["charge_id"]]
                    assert abs(off) < timedelta(seconds=30)
                elif abs(at(charge["expires_at"]) - now) > timedelta(seconds=5):
                    assert (shown["status"] == "expired") == over, (test, charge["expires_at"], now)
    await table_owner.execute("DELETE FROM sandbox_clock WHERE account_id = $1", api.first.account_id)
