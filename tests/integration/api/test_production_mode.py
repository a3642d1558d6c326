"""Production mode against the process of the simulated bank: a worker registers the charge, a payer pays it, a callback
announces the payment and a query confirms it. The bank may be down, slow, refuse, or be impersonated (contract section
5)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any
from uuid import uuid4

import msgspec
import pytest
import pytest_asyncio
from aiohttp import web
from redis.asyncio import Redis
from standardwebhooks import Webhook

from tests.support.listening import listening
from tests.support.merchant import (
    Answer,
    ApiClient,
    ApiMerchant,
    Books,
    assert_books_are_clean,
    kill_process,
    new_merchant,
    until_answer,
    until_replaced,
)
from tests.support.orders import including_ended_orders
from tests.support.system import System, until

CALLBACK_TOKEN = "local"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def merchant(system: System) -> AsyncIterator[ApiMerchant]:
    async with new_merchant(system) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _bank_is_up_again(system: System) -> Iterator[None]:
    yield
    system.json("bank", "fault", "up")


async def _set_bank_fault(system: System, fault: str) -> None:
    await asyncio.to_thread(system.json, "bank", "fault", fault)


async def _cob_at_bank(books: Books, charge_id: str, world: str = "production") -> Any:
    return await books.fetchrow(
        "SELECT * FROM simulated_cob WHERE world = $1 AND txid = $2", world, charge_id.replace("-", "")
    )


async def _wait_for_status(client: ApiClient, charge_id: str, status: str) -> dict[str, Any]:
    async def now() -> dict[str, Any] | None:
        charge = await client.charge(charge_id)
        return charge if charge["status"] == status else None

    found: dict[str, Any] = await until_answer(now)
    return found


async def _order_state(books: Books, charge_id: str, kind: str) -> str:
    return str(
        await books.fetchval(
            including_ended_orders("SELECT state FROM bank_order WHERE charge_id = $1::text::uuid AND kind = $2"),
            charge_id,
            kind,
        )
    )


async def test_a_charge_is_registered_at_the_bank_then_paid_and_a_webhook_reports_it(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.production
    received: list[tuple[dict[str, str], bytes]] = []

    async def receive(request: web.Request) -> web.Response:
        received.append((dict(request.headers), await request.read()))
        return web.Response()

    app = web.Application()
    app.router.add_post("/hook", receive)
    async with listening(app) as url:
        endpoint = await asyncio.to_thread(system.json, "webhook", "set", client.account_id, f"{url}/hook")
        charge = await client.created("123.45", external_id="nota-7", description="mesa 4", payer={"name": "Zé"})
        cob = await until_answer(lambda: _cob_at_bank(books, charge["charge_id"]))
        assert (cob["status"], cob["amount_cents"]) == ("ATIVA", 12345)
        # The bank's charge expires with ours: the lifetime is not counted from the registration.
        waited_s = (cob["created_at"] - datetime.fromisoformat(charge["created_at"])).total_seconds()
        assert 86_400 - waited_s - 1 <= cob["expires_in_s"] <= 86_400
        assert (await client.charge(charge["charge_id"]))["status"] == "pending"

        (pix,) = (await asyncio.to_thread(system.json, "bank", "pay", "--charge-id", charge["charge_id"]))["payments"]
        paid = await _wait_for_status(client, charge["charge_id"], "paid")
        assert paid["payment"]["end_to_end_id"] == pix["end_to_end_id"]
        assert (paid["payment"]["amount"], paid["payment"]["late"], paid["test"]) == ("123.45", False, False)
        assert paid["paid_at"] == pix["paid_at"]
        assert await client.balance() == "123.45"

        async def arrived() -> bool:
            return bool(received)

        await until_answer(arrived)
        headers, body = received[0]
        event = msgspec.json.decode(body)
        assert (event["event"], event["test"], event["charge_id"]) == ("payment.received", False, charge["charge_id"])
        assert headers["X-Service-Event"] == "payment.received"
        Webhook(endpoint["secret"]).verify(body, {name.lower(): value for name, value in headers.items()})
        (listed,) = await client.events(charge_id=charge["charge_id"])
        assert event.items() <= listed.items()


async def test_every_repeated_payment_is_credited_and_marked_as_duplicate(
    system: System, merchant: ApiMerchant
) -> None:
    client = merchant.production
    charge = await client.created("5.00", external_id="twice")
    await asyncio.to_thread(system.json, "bank", "pay", "--charge-id", charge["charge_id"], "--times", "3")

    async def three_payments_arrived() -> bool:
        return len(await client.all("/v1/payments", charge_id=charge["charge_id"])) == 3

    await until_answer(three_payments_arrived)
    payments = await client.all("/v1/payments", charge_id=charge["charge_id"])
    assert sorted(str(payment["anomaly"]) for payment in payments) == ["None", "duplicate", "duplicate"]
    assert (await client.charge(charge["charge_id"]))["status"] == "paid"


async def test_a_payment_below_the_amount_leaves_the_charge_pending(system: System, merchant: ApiMerchant) -> None:
    client = merchant.production
    charge = await client.created("5.00")
    pay = ("bank", "pay", "--charge-id", charge["charge_id"], "--amount", "4.99")
    await asyncio.to_thread(system.json, *pay)

    async def payments() -> list[dict[str, Any]]:
        return await client.all("/v1/payments", charge_id=charge["charge_id"])

    (payment,) = await until_answer(payments)
    assert (payment["amount"], payment["anomaly"]) == ("4.99", "amount_mismatch")
    assert (await client.charge(charge["charge_id"]))["status"] == "pending"


async def test_a_cancelled_charge_is_removed_at_the_bank(system: System, merchant: ApiMerchant, books: Books) -> None:
    client = merchant.production
    charge = await client.created()
    await until_answer(lambda: _cob_at_bank(books, charge["charge_id"]))
    assert (await client.cancel(charge["charge_id"])).status == 200

    async def removed() -> bool:
        return bool((await _cob_at_bank(books, charge["charge_id"]))["status"] == "REMOVIDA_PELO_USUARIO_RECEBEDOR")

    await until_answer(removed)
    # A payer may hold the code already: money that still arrives is credited, and the charge stays cancelled.
    await asyncio.to_thread(system.json, "bank", "pay", "--charge-id", charge["charge_id"])

    async def credited() -> list[dict[str, Any]]:
        return await client.all("/v1/payments", charge_id=charge["charge_id"])

    (payment,) = await until_answer(credited)
    assert (payment["amount"], payment["anomaly"]) == ("10.00", "paid_after_cancel")
    assert (await client.charge(charge["charge_id"]))["status"] == "cancelled"


async def test_an_unreachable_bank_delays_only_the_registration(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.production
    await _set_bank_fault(system, "down")
    charges = await asyncio.gather(*(client.created() for _ in range(5)))
    await asyncio.sleep(0.7)  # By now a first attempt has failed.
    for charge in charges:
        assert await _cob_at_bank(books, charge["charge_id"]) is None
        assert (await client.charge(charge["charge_id"]))["status"] == "pending"
    assert (await client.cancel(charges[0]["charge_id"])).status == 200
    await _set_bank_fault(system, "up")
    for charge in charges[1:]:
        await until_answer(lambda: _cob_at_bank(books, charge["charge_id"]))  # noqa: B023
        await asyncio.to_thread(system.json, "bank", "pay", "--charge-id", charge["charge_id"])
        await _wait_for_status(client, charge["charge_id"], "paid")
    assert await _cob_at_bank(books, charges[0]["charge_id"]) is None


async def test_a_lost_reply_to_a_registration_leaves_one_charge_at_the_bank(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.production
    await _set_bank_fault(system, "lost_reply")
    charge = await client.created()
    await until_answer(lambda: _cob_at_bank(books, charge["charge_id"]))
    assert (await client.charge(charge["charge_id"]))["status"] == "pending"
    await _set_bank_fault(system, "up")

    async def settled() -> bool:
        return await _order_state(books, charge["charge_id"], "cob_register") == "done"

    await until_answer(settled)
    count = "SELECT count(*) FROM simulated_cob WHERE txid = $1"
    assert await books.fetchval(count, charge["charge_id"].replace("-", "")) == 1
    assert (await client.charge(charge["charge_id"]))["status"] == "pending"
    assert await client.events(charge_id=charge["charge_id"]) == []


async def _assert_failed_once(client: ApiClient, charge_id: str) -> None:
    failed = await _wait_for_status(client, charge_id, "failed")
    assert failed["failure"]["code"] == "BANK_REFUSED"
    assert failed["failure"]["message"]
    (event,) = await client.events(charge_id=charge_id)
    assert (event["type"], event["status"], event["failure"]) == ("charge.failed", "failed", failed["failure"])
    answer = await client.cancel(charge_id)
    assert (answer.status, answer.code) == (409, "CHARGE_NOT_PENDING")


async def test_a_charge_that_the_bank_refuses_becomes_failed(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    await _set_bank_fault(system, "refuse")
    charge = await merchant.production.created()
    await _assert_failed_once(merchant.production, charge["charge_id"])
    assert await _cob_at_bank(books, charge["charge_id"]) is None


async def test_the_sandbox_bank_refuses_on_request(merchant: ApiMerchant) -> None:
    charge = await merchant.sandbox.created(headers={"X-Sandbox-Bank": "refuse"})
    await _assert_failed_once(merchant.sandbox, charge["charge_id"])


@pytest.mark.parametrize("scenario", ["unavailable", "slow", "lost_reply"])
async def test_the_sandbox_bank_fails_on_request_and_the_charge_is_still_registered_once(
    merchant: ApiMerchant, books: Books, scenario: str
) -> None:
    """The merchant sees nothing of the trouble."""
    charge = await merchant.sandbox.created(headers={"X-Sandbox-Bank": scenario})

    async def settled() -> bool:
        return await _order_state(books, charge["charge_id"], "cob_register") == "done"

    await until_answer(settled)
    assert (await _cob_at_bank(books, charge["charge_id"], "sandbox"))["status"] == "ATIVA"
    assert await merchant.sandbox.charge(charge["charge_id"]) == charge


async def test_an_unknown_scenario_is_refused_and_production_ignores_scenarios(merchant: ApiMerchant) -> None:
    wrong = await merchant.sandbox.create(headers={"X-Sandbox-Bank": "sleepy"})
    assert (wrong.status, wrong.code) == (400, "VALIDATION_ERROR")
    assert (await merchant.production.create(headers={"X-Sandbox-Bank": "refuse"})).status == 201


async def _call_back(system: System, client: ApiClient, body: Any, token: str = CALLBACK_TOKEN) -> int:
    url = f"{system.base_url}/bank/{token}/pix"
    async with client.http.post(url, data=msgspec.json.encode(body)) as answer:
        await answer.read()
        return answer.status


async def test_a_forged_callback_credits_nothing_and_does_not_block_the_real_payment(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.production
    charge = await client.created("77.00")
    balance = await client.balance()
    txid = charge["charge_id"].replace("-", "")
    made_up = [f"E999999972026112110000000000000{number:02}" for number in range(20)]
    forged = [
        {"endToEndId": each, "txid": txid, "valor": "77.00", "horario": "2026-11-21T10:00:00Z"} for each in made_up
    ]
    assert await _call_back(system, client, {"pix": forged}) == 200
    assert await _call_back(system, client, {"pix": forged}, token="guessed") == 404
    unreadable: list[Any] = [{"pix": "x"}, [], {"pix": [None, 7, {"txid": 7}, {"txid": txid}]}, "x"]
    for junk in unreadable:
        assert await _call_back(system, client, junk) == 200

    async def all_hints_tried() -> bool:
        least = "SELECT coalesce(min(attempts), 0) FROM bank_hint WHERE about = ANY($1)"
        return bool(await books.fetchval(least, made_up))

    await until_answer(all_hints_tried)
    assert (await client.charge(charge["charge_id"]))["status"] == "pending"
    assert await client.all("/v1/payments", charge_id=charge["charge_id"]) == []
    assert await client.balance() == balance
    await asyncio.to_thread(system.json, "bank", "pay", "--charge-id", charge["charge_id"])
    await _wait_for_status(client, charge["charge_id"], "paid")


async def test_a_genuine_callback_sent_a_hundred_times_is_one_payment(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.production
    charge = await client.created("8.00")
    (pix,) = (await asyncio.to_thread(system.json, "bank", "pay", "--charge-id", charge["charge_id"]))["payments"]
    hint = {"pix": [{"endToEndId": pix["end_to_end_id"], "txid": pix["txid"], "valor": "8.00"}]}
    statuses = await asyncio.gather(*(_call_back(system, client, hint) for _ in range(100)))
    assert set(statuses) == {200}
    await _wait_for_status(client, charge["charge_id"], "paid")
    await asyncio.sleep(0.5)
    (payment,) = await client.all("/v1/payments", charge_id=charge["charge_id"])
    assert payment["anomaly"] is None
    assert len(await client.events(charge_id=charge["charge_id"])) == 1


async def test_without_locations_and_without_the_bank_only_new_charges_are_refused(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    """A new charge is refused with 502 and its key stays free; a replay is still answered."""
    client, old_key, new_key = merchant.production, str(uuid4()), str(uuid4())
    charge = await client.created(key=old_key)
    await _set_bank_fault(system, "down")
    down_at = await books.fetchval("SELECT clock_timestamp()")

    async def silence_noted() -> bool:
        return bool(await books.fetchval("SELECT silent_at > $1 FROM pix_pool WHERE NOT test", down_at))

    # Twice: the worker may still store locations that the bank made before. It notes silence once it has none to store.
    await books.execute("DELETE FROM pix_location WHERE NOT test")
    await until_answer(silence_noted)
    await books.execute("DELETE FROM pix_location WHERE NOT test")
    for index in range(len(system.pids("api"))):  # The locations that the old processes held go with them.
        await asyncio.to_thread(until_replaced, system, "api", kill_process(system, "api", index))
    await asyncio.to_thread(until, lambda: system.quita("status").returncode == 0)
    redis = Redis.from_url(system.redis_url)
    await redis.flushall()  # In real use the old key's lock would have lapsed by now.
    await redis.aclose()

    refused, *replayed = await asyncio.gather(
        client.create(key=new_key), *(client.create(key=old_key) for _ in range(10))
    )
    assert (refused.status, refused.code) == (502, "BANK_UNAVAILABLE")
    assert {answer.status for answer in replayed} == {200}
    assert {answer.body["charge_id"] for answer in replayed} == {charge["charge_id"]}
    assert (await client.get(f"/v1/idempotency-keys/{new_key}")).body["state"] == "unknown"
    assert (await merchant.sandbox.create()).status == 201
    await _set_bank_fault(system, "up")
    made: Answer = await client.create(key=new_key)
    assert made.status == 201


async def test_the_books_are_clean_after_the_tests_of_this_file(system: System) -> None:
    assert_books_are_clean(system)
