"""Production boletos paid at the simulated bank's own process: reported by callback or found by the reconciler,
confirmed at the bank, booked once; with less or more than the amount, twice, late, after cancellation (contract
sections 6 and 7)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import msgspec
import pytest

from banks.choice import open_banks
from domain.instants import SAO_PAULO, iso
from runtime.coordination.leases import release_lease, take_lease
from runtime.jobs import Jobs
from runtime.postgres import open_pool
from runtime.redis import open_redis
from runtime.seal import Seal
from runtime.settings import read_settings
from tests.support.boleto_merchant import at_bank, issue_boleto, issue_boleto_in_the_past, listen, redate, today
from tests.support.merchant import ApiClient, ApiMerchant, Books, assert_books_are_clean, until_answer
from tests.support.system import System
from tests.support.webhooks import receiving
from workers.context import Context
from workers.incoming.passes import lease_name
from workers.incoming.reconciler import reconcile_boletos

CALLBACK_TOKEN = "local"
NOWHERE = "http://127.0.0.1:1/boletos"


@pytest.fixture
def client(merchant: ApiMerchant) -> ApiClient:
    return merchant.production


def number_of(charge: dict[str, Any]) -> str:
    return str(charge["boleto"]["nosso_numero"])


async def pay(system: System, client: ApiClient, charge: dict[str, Any], **more: Any) -> None:
    """Pay at the bank, whatever state the boleto is in: the payer has it on paper."""
    body = {"number": number_of(charge), "force": True, **more}
    async with client.http.post(f"{system.bank_url}/simulated/pay", json=body) as answer:
        assert answer.status == 200, await answer.text()


async def pay_by_command(system: System, charge: dict[str, Any], *more: str) -> list[dict[str, Any]]:
    """Run `quita bank pay`; return the payments the bank took."""
    said = await asyncio.to_thread(system.json, "bank", "pay", "--charge-id", charge["charge_id"], *more)
    payments: list[dict[str, Any]] = said["payments"]
    return payments


async def wait_for_status(client: ApiClient, charge_id: str, status: str) -> dict[str, Any]:
    async def now() -> dict[str, Any] | None:
        charge = await client.charge(charge_id)
        return charge if charge["status"] == status else None

    found: dict[str, Any] = await until_answer(now)
    return found


async def payments_of(client: ApiClient, charge_id: str, count: int = 1) -> list[dict[str, Any]]:
    """The charge's payments, oldest first, once there are `count`."""

    async def there() -> list[dict[str, Any]] | None:
        found = await client.all("/v1/payments", charge_id=charge_id, order="asc")
        return found if len(found) >= count else None

    found: list[dict[str, Any]] = await until_answer(there)
    assert len(found) == count, found
    return found


async def call_back(system: System, client: ApiClient, items: Any, token: str = CALLBACK_TOKEN) -> int:
    """Send a callback as the bank does: BAIXA OPERACIONAL, an array of payments. Return the HTTP status."""
    url = f"{system.base_url}/bank/{token}/boletos"
    async with client.http.post(url, data=msgspec.json.encode(items)) as answer:
        await answer.read()
        return answer.status


def announcement(number: str, operation: int = 1) -> dict[str, Any]:
    return {"id": number, "numeroOperacao": operation, "valorPagoSacado": 150.0, "codigoEstadoBaixaOperacional": 2}


@asynccontextmanager
async def callbacks_lost(system: System) -> AsyncIterator[None]:
    """Let the bank send its callbacks to an address where nothing listens."""
    async with aiohttp.ClientSession() as http:
        url = f"{system.bank_url}/simulated/boleto-webhook"
        async with http.get(url) as answer:
            before = (await answer.json())["url"]
        async with http.post(url, json={"url": NOWHERE}) as answer:
            assert answer.status == 200
        try:
            yield
        finally:
            async with http.post(url, json={"url": before}) as answer:
                assert answer.status == 200


@asynccontextmanager
async def reconciler_resting(books: Books) -> AsyncIterator[None]:
    """Keep the reconciler from the bank's list: it takes a total for as many payments as were announced by then."""
    name = lease_name("001", "boleto")
    await until_answer(lambda: take_lease(books, name=name, holder="test", lease_s=600.0))
    try:
        yield
    finally:
        await release_lease(books, name=name, holder="test")


@asynccontextmanager
async def worker_context_of(system: System) -> AsyncIterator[Context]:
    """A worker's context on the running system, to run its duties from a test."""
    settings = read_settings(
        {
            "DATABASE_URL": system.database_url, "REDIS_URL": system.redis_url, "BANK_URL": system.bank_url,
            "SECRET_KEY": system.secret_key.hex(), "QUITA_HOME": str(system.home), "BASE_URL": system.base_url,
        }
    )  # fmt: skip
    pool = await open_pool(settings.database_url, name="tests", size=4)
    redis = open_redis(settings.redis_url, blocking=False)
    jobs, seal = Jobs(redis), Seal(settings.secret_key)
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
        yield Context(
            settings=settings, pool=pool, redis=redis, jobs=jobs, seal=seal,
            banks=open_banks(settings, pool, http, seal), now=lambda: datetime.now(UTC), worker="test",
        )  # fmt: skip
    for _ in range(2):  # a wake-up that ends while the first one waits may have begun a job
        await jobs.stop()
    await redis.aclose(close_connection_pool=True)
    await pool.close()


@pytest.mark.parametrize(
    ("tipo", "rail"), [("boleto", "boleto"), ("boleto_hibrido", "boleto"), ("boleto_hibrido", "pix")]
)
async def test_a_boleto_paid_at_the_bank_is_booked_and_reported_by_webhook(
    system: System, client: ApiClient, books: Books, tipo: str, rail: str
) -> None:
    async with receiving() as receiver:
        await listen(system, books, client, receiver.url)
        charge = await issue_boleto(client, "123.45", tipo=tipo, external_id="PED-1")
        (sent,) = await pay_by_command(system, charge, "--rail", rail)
        paid = await wait_for_status(client, charge["charge_id"], "paid")
        block = paid["payment"]
        assert paid == charge | {"status": "paid", "version": 2, "payment": block, "paid_at": block["paid_at"]}
        assert (block["method"], block["amount"], block["net_amount"], block["late"]) == (
            rail,
            "123.45",
            "123.45",
            False,
        )
        assert block["end_to_end_id"] == (sent["end_to_end_id"] if rail == "pix" else None)
        assert (block["interest"], block["fine"], block["discount"]) == ("0.00", "0.00", "0.00")
        # The bank reports the day only.
        assert datetime.fromisoformat(block["paid_at"]).astimezone(SAO_PAULO).date() == today()
        assert block["paid_at"] <= block["credited_at"] <= iso(datetime.now(UTC))
        (item,) = await payments_of(client, charge["charge_id"])
        assert item == block | {
            "charge_id": charge["charge_id"], "external_id": "PED-1", "account_id": client.account_id,
            "payment_method": tipo, "txid": item["txid"], "nosso_numero": number_of(charge), "integrador_code": None,
            "anomaly": None, "test": False,
        }  # fmt: skip
        assert (item["txid"] is not None) == (rail == "pix")
        assert [each["amount"] for each in await client.ledger()] == ["123.45"]
        assert await client.balance() == "123.45"
        (event,) = await client.events()
        await receiver.heard([event["event_id"]])
    (request,) = receiver.requests
    told = msgspec.json.decode(request.body)
    assert told.items() <= event.items()
    assert (told["event"], told["test"], told["status"], told["amount"], told["paid_at"]) == (
        "payment.received", False, "paid", "123.45", block["paid_at"],
    )  # fmt: skip


async def test_an_underpaid_boleto_stays_pending_and_can_be_cancelled(
    system: System, client: ApiClient, books: Books
) -> None:
    charge = await issue_boleto(client, "150.00")
    await pay(system, client, charge, amount="149.99")
    (payment,) = await payments_of(client, charge["charge_id"])
    assert (payment["amount"], payment["anomaly"]) == ("149.99", "amount_mismatch")
    pending = await client.charge(charge["charge_id"])
    assert (pending["status"], pending["payment"]) == ("pending", None)
    assert await client.balance() == "149.99"
    # The bank refuses changes of a boleto once any payment arrived, so no retry can succeed.
    answer = await redate(client, "2030-07-02", charge_id=charge["charge_id"])
    assert (answer.status, answer.code) == (409, "CHARGE_NOT_PENDING")
    answer = await client.cancel(charge["charge_id"])
    assert (answer.status, answer.body["status"]) == (200, "cancelled"), answer.raw
    assert [event["type"] for event in await client.events()] == ["payment.anomaly", "charge.cancelled"]
    assert await client.balance() == "149.99"


async def test_two_partial_payments_that_add_up_do_not_settle_a_boleto(system: System, client: ApiClient) -> None:
    charge = await issue_boleto(client, "150.00")
    await pay(system, client, charge, amount="100.00")
    await payments_of(client, charge["charge_id"])
    await pay(system, client, charge, amount="50.00")
    payments = await payments_of(client, charge["charge_id"], 2)
    assert [(each["amount"], each["anomaly"]) for each in payments] == [
        ("100.00", "amount_mismatch"), ("50.00", "amount_mismatch"),
    ]  # fmt: skip
    assert (await client.charge(charge["charge_id"]))["status"] == "pending"
    assert await client.balance() == "150.00"


@pytest.mark.parametrize("amount", ["150.01", "300.00"])
async def test_an_overpaid_boleto_is_paid_with_the_anomaly_amount_mismatch(
    system: System, client: ApiClient, amount: str
) -> None:
    charge = await issue_boleto(client, "150.00")
    await pay(system, client, charge, amount=amount)
    paid = await wait_for_status(client, charge["charge_id"], "paid")
    (payment,) = await payments_of(client, charge["charge_id"])
    assert (payment["amount"], payment["anomaly"]) == (amount, "amount_mismatch")
    assert (paid["amount"], paid["payment"]["amount"]) == ("150.00", amount)
    assert [event["type"] for event in await client.events()] == ["payment.received", "payment.anomaly"]
    assert await client.balance() == amount


async def test_a_boleto_paid_twice_at_once_is_credited_twice_and_the_second_is_a_duplicate(
    system: System, client: ApiClient
) -> None:
    charge = await issue_boleto(client, "150.00")
    await pay_by_command(system, charge, "--times", "2")
    paid = await wait_for_status(client, charge["charge_id"], "paid")
    # Booked in one moment, they may be listed in either order.
    payments = {each["anomaly"]: each for each in await payments_of(client, charge["charge_id"], 2)}
    assert {anomaly: each["amount"] for anomaly, each in payments.items()} == {None: "150.00", "duplicate": "150.00"}
    assert paid["payment"]["payment_id"] == payments[None]["payment_id"]
    assert [event["type"] for event in await client.events()] == ["payment.received", "payment.anomaly"]
    assert await client.balance() == "300.00"


async def test_a_boleto_paid_twice_is_two_payments_though_the_second_callback_comes_later(
    system: System, client: ApiClient, books: Books
) -> None:
    charge = await issue_boleto(client, "150.00")

    async def looked_into() -> bool:
        least = "SELECT min(attempts) FROM bank_hint WHERE txid = $1"
        return bool(await books.fetchval(least, number_of(charge)))

    async with reconciler_resting(books), callbacks_lost(system):
        await pay(system, client, charge, times=2)
        assert await call_back(system, client, [announcement(number_of(charge), 1)]) == 200
        await until_answer(looked_into)
        assert (await client.charge(charge["charge_id"]))["status"] == "pending"  # the total may be one payment or two
        assert await call_back(system, client, [announcement(number_of(charge), 2)]) == 200
        payments = await payments_of(client, charge["charge_id"], 2)
    assert {(each["anomaly"], each["amount"]) for each in payments} == {(None, "150.00"), ("duplicate", "150.00")}


async def test_a_callback_repeated_with_the_next_one_books_no_third_payment(system: System, client: ApiClient) -> None:
    charge = await issue_boleto(client, "150.00")
    first, second = (announcement(number_of(charge), operation) for operation in (1, 2))
    async with callbacks_lost(system):
        await pay(system, client, charge)
        assert await call_back(system, client, [first]) == 200
        await payments_of(client, charge["charge_id"])
        await pay(system, client, charge)
        assert await call_back(system, client, [first, second]) == 200
        payments = await payments_of(client, charge["charge_id"], 2)
    assert [each["amount"] for each in payments] == ["150.00", "150.00"]


async def test_one_payment_of_twice_the_amount_is_booked_as_one_payment(system: System, client: ApiClient) -> None:
    charge = await issue_boleto(client, "150.00")
    await pay(system, client, charge, amount="300.00")
    (payment,) = await payments_of(client, charge["charge_id"])
    assert (payment["anomaly"], payment["amount"]) == ("amount_mismatch", "300.00")


async def test_a_hybrid_boleto_paid_again_over_the_other_rail_is_a_duplicate(system: System, client: ApiClient) -> None:
    charge = await issue_boleto(client, "150.00", tipo="boleto_hibrido")
    await pay(system, client, charge, rail="pix")
    paid = await wait_for_status(client, charge["charge_id"], "paid")
    await pay(system, client, charge, rail="boleto")
    payments = await payments_of(client, charge["charge_id"], 2)
    assert [(each["amount"], each["anomaly"]) for each in payments] == [("150.00", None), ("150.00", "duplicate")]
    assert (await client.charge(charge["charge_id"]))["payment"] == paid["payment"]
    assert await client.balance() == "300.00"


async def test_money_that_arrives_after_a_cancellation_is_credited_and_the_charge_stays_cancelled(
    system: System, client: ApiClient, books: Books
) -> None:
    charge = await issue_boleto(client)
    cancelled = (await client.cancel(charge["charge_id"])).body
    assert (await at_bank(books, number_of(charge)))["written_off_at"] is not None
    await pay(system, client, charge)
    (payment,) = await payments_of(client, charge["charge_id"])
    assert (payment["amount"], payment["anomaly"]) == ("150.00", "paid_after_cancel")
    assert await client.charge(charge["charge_id"]) == cancelled
    assert [event["type"] for event in await client.events()] == ["charge.cancelled", "payment.anomaly"]
    assert await client.balance() == "150.00"


async def test_a_payment_after_expiry_makes_the_charge_paid_late(
    system: System, client: ApiClient, books: Books
) -> None:
    charge_id = await issue_boleto_in_the_past(system, books, client, test=False, due_on=today() - timedelta(days=15))
    expired = await client.charge(charge_id)
    assert expired["status"] == "expired"
    await pay(system, client, expired)
    paid = await wait_for_status(client, charge_id, "paid")
    assert (paid["payment"]["late"], paid["payment"]["amount"], paid["version"]) == (True, "150.00", 3)
    (payment,) = await payments_of(client, charge_id)
    assert (payment["anomaly"], payment["late"]) == (None, True)
    assert [event["type"] for event in await client.events()] == ["charge.expired", "payment.received"]


async def test_boleto_payments_without_a_callback_are_found_by_the_reconciler(
    system: System, client: ApiClient
) -> None:
    charge, other = await issue_boleto(client), await issue_boleto(client, tipo="boleto_hibrido")
    async with callbacks_lost(system), worker_context_of(system) as context:
        await pay(system, client, charge)
        await pay(system, client, other, rail="pix")

        async def found() -> bool:
            """The payments settle a moment later, and no callback arrives."""
            assert await reconcile_boletos(context, "001") <= 2, "a pass of another worker may have found them first"
            return {(await client.charge(each["charge_id"]))["status"] for each in (charge, other)} == {"paid"}

        await until_answer(found)
        # The next pass books nothing new.
        assert await reconcile_boletos(context, "001") == 0
    assert await client.balance() == "300.00"
    assert len(await client.events()) == 2


async def test_a_forged_callback_books_nothing_and_does_not_hide_a_true_payment(
    system: System, client: ApiClient, books: Books
) -> None:
    charge = await issue_boleto(client)
    number = number_of(charge)
    forged = [announcement(number, operation) for operation in range(20)]
    assert await call_back(system, client, forged) == 200
    assert await call_back(system, client, forged, token="guessed") == 404
    unknown = f"{number[:-1]}{(int(number[-1]) + 1) % 10}"
    unreadable: list[Any] = [[], {}, "x", [None, 7, {"id": 7}, {"id": "x"}, {}], {"pix": [{"id": number}]}, forged * 40]
    for junk in (*unreadable, [announcement("00099999990000000001")], [announcement(unknown)]):
        assert await call_back(system, client, junk) == 200

    async def looked_into() -> bool:
        least = "SELECT min(attempts) FROM bank_hint WHERE txid = $1"
        return bool(await books.fetchval(least, number))

    await until_answer(looked_into)
    assert await client.charge(charge["charge_id"]) == charge
    assert await client.all("/v1/payments") == await client.events() == []
    assert await client.balance() == "0.00"
    await pay(system, client, charge)
    await wait_for_status(client, charge["charge_id"], "paid")
    (payment,) = await payments_of(client, charge["charge_id"])
    assert (payment["amount"], payment["anomaly"]) == ("150.00", None)


async def test_a_callback_sent_a_hundred_times_books_one_payment(system: System, client: ApiClient) -> None:
    charge = await issue_boleto(client)
    await pay(system, client, charge)
    items = [announcement(number_of(charge))]
    statuses = await asyncio.gather(*(call_back(system, client, items) for _ in range(100)))
    assert set(statuses) == {200}
    await wait_for_status(client, charge["charge_id"], "paid")
    # Each differs from the first, so each is a hint of its own about the boleto.
    for operation in range(2, 12):
        await call_back(system, client, [announcement(number_of(charge), operation)])
    await asyncio.sleep(0.7)
    (payment,) = await payments_of(client, charge["charge_id"])
    assert payment["anomaly"] is None
    assert len(await client.events()) == 1
    assert await client.balance() == "150.00"


async def test_of_a_boleto_payment_and_a_cancellation_at_once_exactly_one_succeeds(
    system: System, client: ApiClient, books: Books
) -> None:
    """The payer pays without force, so the bank decides which came first; our books agree with it."""
    charges = await asyncio.gather(*(issue_boleto(client) for _ in range(12)))

    async def payer(charge: dict[str, Any], wait_s: float) -> bool:
        await asyncio.sleep(wait_s)
        async with client.http.post(f"{system.bank_url}/simulated/pay", json={"number": number_of(charge)}) as answer:
            await answer.read()
            assert answer.status in (200, 409)
            return answer.status == 200

    async def contest(charge: dict[str, Any], place: int) -> tuple[bool, int]:
        took, answer = await asyncio.gather(payer(charge, place * 0.002), client.cancel(charge["charge_id"]))
        return took, answer.status

    contests = await asyncio.gather(*(contest(charge, place) for place, charge in enumerate(charges)))
    for charge, (took, status) in zip(charges, contests, strict=True):
        now = await wait_for_status(client, charge["charge_id"], "paid" if took else "cancelled")
        # 502 while the payment is announced but not settled, 409 afterwards.
        assert status in ((409, 502) if took else (200,)), now
        row = await at_bank(books, number_of(charge))
        assert (row["payments"], row["written_off_at"] is None) == ((1, True) if took else (0, False))
    paid = sum(took for took, _ in contests)
    assert await client.balance() == f"{paid * 150}.00"
    assert len(await client.events()) == len(charges)


async def test_the_books_are_clean_after_the_tests_of_this_file(system: System) -> None:
    assert_books_are_clean(system)
