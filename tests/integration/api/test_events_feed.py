"""The feed holds every event once, in order and without a gap in its numbers, also while others write (section 8)."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from tests.support.merchant import ApiClient, ApiMerchant, Books, assert_books_are_clean, book_bank_payments
from tests.support.system import System

WRITERS = 24
EACH = 8
POLLS_MAX = 5_000


async def _poll(client: ApiClient, until: int, limit: int) -> list[dict[str, Any]]:
    """Polls from the last sequence number seen, as a merchant does, until `until` events were seen; returns them."""
    seen: list[dict[str, Any]] = []
    for _ in range(POLLS_MAX):
        page = await client.get("/v1/events", after_sequence=seen[-1]["sequence"] if seen else 0, limit=limit)
        assert page.status == 200, page.raw
        seen += page.body["data"]
        if len(seen) >= until:
            return seen
    raise AssertionError(f"only {len(seen)} of {until} events")


async def test_pollers_see_every_event_once_and_in_order_while_others_write(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.sandbox
    total = WRITERS * EACH

    async def write(writer: int) -> None:
        for number in range(EACH):
            charge = await client.created(external_id=f"{writer}/{number}")
            done = await (client.cancel if number % 4 == 3 else client.pay)(charge["charge_id"])
            assert done.status == 200, done.raw

    *polled, _ = await asyncio.gather(
        _poll(client, total, 100), _poll(client, total, 3), *(write(writer) for writer in range(WRITERS))
    )
    for seen in polled[:2]:
        assert [event["sequence"] for event in seen] == list(range(1, total + 1))
        assert seen == await client.events()
        assert len({event["event_id"] for event in seen}) == total
        assert [event["created_at"] for event in seen] == sorted(event["created_at"] for event in seen)
        assert Counter(event["external_id"] for event in seen) == Counter(
            f"{writer}/{number}" for writer in range(WRITERS) for number in range(EACH)
        )
    payments = WRITERS * EACH * 3 // 4
    assert await client.balance() == f"{payments * 10}.00"
    entries = await client.ledger()
    assert [entry["sequence"] for entry in entries] == list(range(1, payments + 1))
    assert [entry["balance_after"] for entry in entries] == [f"{number * 10}.00" for number in range(1, payments + 1)]


async def test_an_event_is_in_the_feed_as_soon_as_the_request_is_answered(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    for number in range(1, 11):
        charge = await client.created()
        await (client.pay if number % 2 else client.cancel)(charge["charge_id"])
        newest = (await client.get("/v1/events", limit=1)).body["data"][0]
        assert (newest["sequence"], newest["charge_id"]) == (number, charge["charge_id"])


async def test_a_writer_reads_its_own_event_at_once_while_others_write_to_the_same_account(
    merchant: ApiMerchant,
) -> None:
    client = merchant.sandbox

    async def write(writer: int) -> None:
        for number in range(4):
            charge = await client.created()
            done = await (client.cancel if (writer + number) % 4 == 3 else client.pay)(charge["charge_id"])
            assert done.status == 200, done.raw
            (event,) = await client.events(charge_id=charge["charge_id"])
            # A page by sequence number also holds everything up to the writer's own event, without a gap.
            page = (await client.get("/v1/events", after_sequence=max(0, event["sequence"] - 50), limit=50)).body[
                "data"
            ]
            numbers = [each["sequence"] for each in page]
            assert event["sequence"] in numbers
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))

    await asyncio.gather(*(write(writer) for writer in range(WRITERS)))


async def test_a_transaction_open_elsewhere_withholds_no_event_from_the_feed(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    """One transaction writes another account's events, one is open in another database of the cluster."""
    client, url = merchant.sandbox, system.database_url
    elsewhere = urlunsplit(urlsplit(url)._replace(path="/template1"))
    async with AsyncExitStack() as opened:
        for each in (url, elsewhere):
            conn = await asyncpg.connect(each)
            opened.push_async_callback(conn.close)
            writing = conn.transaction()
            await writing.start()
            opened.push_async_callback(writing.rollback)
            assert await conn.fetchval("SELECT pg_current_xact_id()::text")
            if each == url:
                await conn.execute(
                    "INSERT INTO read_event (account_id, test, sequence, event_id, type, charge_id, created_at,"
                    " journal_id)"
                    " VALUES (gen_random_uuid(), true, 1, gen_random_uuid(), 'charge.expired', gen_random_uuid(),"
                    " now(), 0)"
                )
        for number in range(1, 6):
            paid = await client.paid()
            (event,) = (await client.get("/v1/events", after_sequence=number - 1)).body["data"]
            assert (event["sequence"], event["charge_id"]) == (number, paid["charge_id"])


async def test_the_feed_serves_the_same_bytes_as_the_webhook_body(merchant: ApiMerchant, books: Books) -> None:
    client = merchant.sandbox
    await client.paid(external_id='aspas " e \\ barra, ação 💸')
    (event,) = await client.events()
    body = await books.fetchval(
        "SELECT event_body FROM journal WHERE account_id = $1::text::uuid AND event_id IS NOT NULL", client.account_id
    )
    feed = await client.get("/v1/events")
    assert body[:-1] in feed.raw
    assert event["external_id"] == 'aspas " e \\ barra, ação 💸'


async def test_an_event_omits_external_id_when_the_charge_has_none(merchant: ApiMerchant) -> None:
    await merchant.sandbox.paid()
    (event,) = await merchant.sandbox.events()
    assert "external_id" not in event


async def test_after_sequence_lists_the_oldest_first(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    for _ in range(5):
        await client.paid()
    page = (await client.get("/v1/events", after_sequence=2, limit=2)).body
    assert [event["sequence"] for event in page["data"]] == [3, 4]
    following = (await client.get("/v1/events", after_sequence=2, limit=2, cursor=page["next_cursor"])).body
    assert [event["sequence"] for event in following["data"]] == [5]
    assert following["next_cursor"] is None
    assert (await client.get("/v1/events", after_sequence=5)).body == {"data": [], "next_cursor": None}
    assert (await client.get("/v1/events", after_sequence=2**62)).body["data"] == []
    for wrong in ("-1", "1.0", "abc", "", "9" * 30, "١"):
        answer = await client.get("/v1/events", after_sequence=wrong)
        assert (answer.status, answer.code) == (400, "VALIDATION_ERROR")
    against = await client.get("/v1/events", after_sequence=1, order="desc")
    assert (against.status, against.code) == (400, "VALIDATION_ERROR")


async def test_a_duplicate_payment_is_reported_as_a_payment_anomaly_event(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.sandbox
    paid = await client.paid("10.00", external_id="pedido-3")
    await book_bank_payments(system, books, paid["charge_id"], 1234)
    received, anomaly = await client.events()
    assert anomaly == {
        "event": "payment.anomaly",
        "event_id": anomaly["event_id"],
        "charge_id": paid["charge_id"],
        "account_id": client.account_id,
        "status": "paid",
        "amount": "12.34",
        "external_id": "pedido-3",
        "test": True,
        "paid_at": anomaly["paid_at"],
        "payment_id": anomaly["payment_id"],
        "method": "pix",
        "anomaly": "duplicate",
        "version": 2,
        "type": "payment.anomaly",
        "sequence": 2,
        "created_at": anomaly["created_at"],
    }
    assert received["payment_id"] != anomaly["payment_id"]


async def test_the_books_are_clean_after_the_tests_of_this_file(system: System) -> None:
    assert_books_are_clean(system)
