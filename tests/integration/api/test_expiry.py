"""An overdue charge expires exactly once: when a request reads or changes it, or by the sweeper (section 5)."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.body.reading import fingerprint
from tests.support.merchant import (
    ApiClient,
    ApiMerchant,
    Books,
    assert_books_are_clean,
    create_charge_in_the_past,
    paused,
    until_answer,
)
from tests.support.system import System

SWEPT_S_MAX = 30.0


async def _overdue(books: Books, client: ApiClient, **more: Any) -> str:
    return await create_charge_in_the_past(books, client, test=True, ago_s=120, lifetime_s=60, **more)


async def _assert_expired_once(client: ApiClient, charge_id: str) -> None:
    charge = await client.charge(charge_id)
    assert (charge["status"], charge["version"], charge["payment"]) == ("expired", 2, None)
    (event,) = await client.events(charge_id=charge_id)
    assert (event["type"], event["status"]) == ("charge.expired", "expired")
    assert event["expires_at"] == charge["expires_at"]


async def test_a_lookup_expires_an_overdue_charge(system: System, merchant: ApiMerchant, books: Books) -> None:
    with paused(system, "worker"):
        charge_id = await _overdue(books, merchant.sandbox)
        answers = await asyncio.gather(*(merchant.sandbox.charge(charge_id) for _ in range(30)))
        assert {answer["status"] for answer in answers} == {"expired"}
        await _assert_expired_once(merchant.sandbox, charge_id)


async def test_lists_filters_and_the_summary_show_overdue_charges_as_expired(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.sandbox
    with paused(system, "worker"):
        for asked in ({}, {"status": "expired"}, {"external_id": "late"}):
            charge_id = await _overdue(books, client, external_id="late")
            shown = {charge["charge_id"]: charge["status"] for charge in await client.all("/v1/charges", **asked)}
            assert shown[charge_id] == "expired"
            await _overdue(books, client, external_id="late")
            assert await client.all("/v1/charges", status="pending") == []
        summary = {row["status"]: row["count"] for row in (await client.get("/v1/charges/summary")).body["data"]}
        assert (summary["expired"], summary["pending"]) == (6, 0)


async def test_reading_the_feed_expires_overdue_charges(system: System, merchant: ApiMerchant, books: Books) -> None:
    with paused(system, "worker"):
        charge_id = await _overdue(books, merchant.sandbox)
        (event,) = await merchant.sandbox.events()
        assert (event["charge_id"], event["type"]) == (charge_id, "charge.expired")


@pytest.mark.parametrize("act", ["cancel", "cancel by id", "cancel by reference", "pay"])
async def test_an_overdue_charge_can_be_neither_paid_nor_cancelled(
    system: System, merchant: ApiMerchant, books: Books, act: str
) -> None:
    client = merchant.sandbox
    with paused(system, "worker"):
        charge_id = await _overdue(books, client, external_id="late")
        if act == "cancel":
            answer = await client.cancel(charge_id)
        elif act == "pay":
            answer = await client.pay(charge_id)
        else:
            name = {"charge_id": charge_id} if act == "cancel by id" else {"external_id": "late"}
            answer = await client.post("/v1/charges/cancel", name)
        # A reference finds pending charges only, and this one is no longer pending.
        expected = (404, "CHARGE_NOT_FOUND") if act == "cancel by reference" else (409, "CHARGE_NOT_PENDING")
        assert (answer.status, answer.code) == expected
        await _assert_expired_once(client, charge_id)


async def test_a_replayed_creation_shows_its_overdue_charge_as_expired(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.sandbox
    mark = fingerprint("POST", "/v1/charges/pix", client.body("10.00", expires_in=60))
    with paused(system, "worker"):
        charge_id = await _overdue(books, client, key="old", fingerprint=mark)
        answer = await client.create("10.00", key="old", expires_in=60)
        assert (answer.status, answer.headers["Idempotent-Replayed"]) == (200, "true")
        assert (answer.body["charge_id"], answer.body["status"]) == (charge_id, "expired")
        await _assert_expired_once(client, charge_id)


async def test_the_sweeper_expires_charges_that_nobody_reads(merchant: ApiMerchant, books: Books) -> None:
    """In each mode two charges are overdue and a third becomes overdue meanwhile. Only the write side is polled: an
    API read would expire them itself."""
    charge_ids = [
        await create_charge_in_the_past(books, client, test=test, ago_s=120, lifetime_s=lifetime_s)
        for client, test in ((merchant.sandbox, True), (merchant.production, False))
        for lifetime_s in (60, 60, 121.5)
    ]

    async def swept() -> bool:
        pending = "SELECT count(*) FROM charge WHERE charge_id = ANY($1::text[]::uuid[]) AND status = 'pending'"
        return bool(await books.fetchval(pending, charge_ids) == 0)

    await until_answer(swept, within_s=SWEPT_S_MAX)
    actors = "SELECT DISTINCT actor FROM journal WHERE charge_id = ANY($1::text[]::uuid[]) AND kind = 'charge.expired'"
    assert [row["actor"] for row in await books.fetch(actors, charge_ids)] == ["sweeper"]
    for charge_id in charge_ids[:3]:
        await _assert_expired_once(merchant.sandbox, charge_id)
    for charge_id in charge_ids[3:]:
        await _assert_expired_once(merchant.production, charge_id)


async def test_concurrent_reads_and_the_sweeper_expire_each_charge_once(merchant: ApiMerchant, books: Books) -> None:
    client = merchant.sandbox
    charge_ids = [await _overdue(books, client) for _ in range(30)]
    await asyncio.gather(
        *(client.charge(charge_id) for charge_id in charge_ids),
        *(client.cancel(charge_id) for charge_id in charge_ids),
        *(client.get("/v1/charges") for _ in range(10)),
        *(client.get("/v1/events") for _ in range(10)),
    )
    events = await client.events()
    assert sorted(event["charge_id"] for event in events) == sorted(charge_ids)
    assert {event["type"] for event in events} == {"charge.expired"}
    assert [event["sequence"] for event in events] == list(range(1, 31))


async def test_a_charge_stays_pending_until_it_expires(merchant: ApiMerchant, books: Books) -> None:
    charge_id = await create_charge_in_the_past(books, merchant.sandbox, test=True, ago_s=3_540, lifetime_s=3_600)
    charge = await merchant.sandbox.charge(charge_id)
    assert charge["status"] == "pending"
    assert datetime.fromisoformat(charge["expires_at"]) > datetime.now(UTC)
    assert datetime.fromisoformat(charge["expires_at"]) - datetime.fromisoformat(charge["created_at"]) == timedelta(
        hours=1
    )
    assert (await merchant.sandbox.pay(charge_id)).status == 200


async def test_the_books_are_clean_after_the_tests_of_this_file(system: System) -> None:
    assert_books_are_clean(system)
