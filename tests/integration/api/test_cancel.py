"""A pending charge is cancelled once; exactly one of concurrent payment, cancellation and expiry wins (contract
section 5)."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from commands.charges.expire import expire_charges
from domain.charge import NEXT, Status
from domain.instants import iso
from tests.support.merchant import Answer, ApiMerchant, Books, assert_books_are_clean, new_merchant
from tests.support.system import System


def _assert_refused(answer: Answer, status: int, code: str) -> None:
    assert (answer.status, answer.code) == (status, code), answer.raw


async def test_a_cancelled_charge_shows_as_cancelled_in_lookup_list_and_feed_at_once(merchant: ApiMerchant) -> None:
    for client in (merchant.sandbox, merchant.production):
        charge = await client.created(external_id="pedido-1")
        answer = await client.cancel(charge["charge_id"])
        assert answer.status == 200
        cancelled = answer.body
        assert cancelled == charge | {
            "status": "cancelled",
            "version": charge["version"] + 1,
            "cancelled_at": cancelled["cancelled_at"],
        }
        assert charge["created_at"] <= cancelled["cancelled_at"] <= iso(datetime.now(UTC))
        assert await client.charge(charge["charge_id"]) == cancelled
        assert await client.all("/v1/charges", status="cancelled") == [cancelled]
        assert await client.all("/v1/charges", status="pending") == []
        (event,) = await client.events()
        assert event == {
            "event": "charge.cancelled",
            "event_id": event["event_id"],
            "charge_id": charge["charge_id"],
            "account_id": client.account_id,
            "status": "cancelled",
            "amount": "10.00",
            "external_id": "pedido-1",
            "test": charge["test"],
            "reason": "cancelled",
            "cancelled_at": cancelled["cancelled_at"],
            "version": 2,
            "type": "charge.cancelled",
            "sequence": 1,
            "created_at": event["created_at"],
        }
        assert await client.balance() == "0.00"


async def test_cancelling_again_is_refused_and_changes_nothing(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    charge = await client.created()
    cancelled = (await client.cancel(charge["charge_id"])).body
    for _ in range(2):
        _assert_refused(await client.cancel(charge["charge_id"]), 409, "CHARGE_NOT_PENDING")
        _assert_refused(await client.pay(charge["charge_id"]), 409, "CHARGE_NOT_PENDING")
    assert await client.charge(charge["charge_id"]) == cancelled
    assert len(await client.events()) == 1


async def test_a_paid_charge_is_not_cancelled(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    paid = await client.paid(external_id="pedido-1")
    _assert_refused(await client.cancel(paid["charge_id"]), 409, "CHARGE_NOT_PENDING")
    _assert_refused(
        await client.post("/v1/charges/cancel", {"charge_id": paid["charge_id"]}), 409, "CHARGE_NOT_PENDING"
    )
    # A reference finds pending charges only: there is none.
    _assert_refused(await client.post("/v1/charges/cancel", {"external_id": "pedido-1"}), 404, "CHARGE_NOT_FOUND")
    assert await client.charge(paid["charge_id"]) == paid


@pytest.mark.parametrize("reason", [None, "cancelled", "paid_externally"])
@pytest.mark.parametrize("by", ["charge_id", "external_id"])
async def test_a_charge_is_cancelled_by_either_identifier_and_its_event_has_the_reason(
    merchant: ApiMerchant, by: str, reason: str | None
) -> None:
    client = merchant.sandbox
    charge = await client.created(external_id="pedido/ação 1")
    body: dict[str, Any] = {by: charge[by]} | ({"reason": reason} if reason else {})
    answer = await client.post("/v1/charges/cancel", body)
    assert (answer.status, answer.body["status"]) == (200, "cancelled")
    (event,) = await client.events(type="charge.cancelled")
    assert event["reason"] == (reason or "cancelled")


async def test_a_reference_cancels_its_only_pending_charge_and_is_refused_when_ambiguous(merchant: ApiMerchant) -> None:
    client, other_mode = merchant.sandbox, merchant.production
    await client.paid(external_id="again")
    first, second = [await client.created(external_id="again") for _ in range(2)]
    elsewhere = await other_mode.created(external_id="again")
    _assert_refused(
        await client.post("/v1/charges/cancel", {"external_id": "again"}), 409, "CANCEL_REFERENCE_AMBIGUOUS"
    )
    assert (await client.post("/v1/charges/cancel", {"charge_id": first["charge_id"]})).status == 200
    assert (await client.post("/v1/charges/cancel", {"external_id": "again"})).body["charge_id"] == second["charge_id"]
    _assert_refused(await client.post("/v1/charges/cancel", {"external_id": "again"}), 404, "CHARGE_NOT_FOUND")
    assert (await other_mode.charge(elsewhere["charge_id"]))["status"] == "pending"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "CANCEL_REFERENCE_REQUIRED"),
        ({"charge_id": None, "external_id": None}, 400, "CANCEL_REFERENCE_REQUIRED"),
        ({"charge_id": str(uuid4()), "external_id": "x"}, 400, "CANCEL_REFERENCE_REQUIRED"),
        ({"reason": "cancelled"}, 400, "CANCEL_REFERENCE_REQUIRED"),
        ({"charge_id": str(uuid4())}, 404, "CHARGE_NOT_FOUND"),
        ({"charge_id": "no uuid"}, 404, "CHARGE_NOT_FOUND"),
        ({"external_id": "nobody's"}, 404, "CHARGE_NOT_FOUND"),
        ({"external_id": "x", "reason": "because"}, 400, "VALIDATION_ERROR"),
        ({"external_id": 7}, 400, "VALIDATION_ERROR"),
        ({"charge_id": ["x"]}, 400, "VALIDATION_ERROR"),
    ],
)
async def test_a_cancellation_that_names_no_charge_is_refused(
    merchant: ApiMerchant, body: dict[str, Any], status: int, code: str
) -> None:
    _assert_refused(await merchant.sandbox.post("/v1/charges/cancel", body), status, code)


async def test_fifty_cancellations_at_once_cancel_once(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    charge = await client.created()
    answers = await asyncio.gather(*(client.cancel(charge["charge_id"]) for _ in range(50)))
    assert Counter(answer.status for answer in answers) == {200: 1, 409: 49}
    assert len(await client.events()) == 1
    assert (await client.charge(charge["charge_id"]))["version"] == 2


async def test_exactly_one_of_concurrent_payment_cancellation_and_expiry_wins(system: System, books: Books) -> None:
    """The contest is repeated at other paces until each of the three has won: how they interleave depends on the
    machine."""
    won: set[str] = set()
    for pace_s in (0.003, 0.006, 0.0015, 0.012, 0.003, 0.006):
        async with new_merchant(system) as merchant:
            won |= await _contest(merchant, books, pace_s)
        if len(won) == 3:
            break
    assert won == {"paid", "cancelled", "expired"}, "one of the three never won: choose other paces"
    assert_books_are_clean(system)


async def _contest(merchant: ApiMerchant, books: Books, pace_s: float) -> set[str]:
    """Returns the final statuses of sixty charges that are paid, cancelled and expired at once.

    They expire by the command that a worker runs, with a clock that is 61 s ahead.
    """
    client = merchant.sandbox
    charges = [
        charge["charge_id"] for charge in await asyncio.gather(*(client.created(expires_in=60) for _ in range(60)))
    ]
    later = datetime.now(UTC) + timedelta(seconds=61)

    async def expire() -> None:
        # Expiry starts from the other end, so that somewhere all three meet.
        for at in range(len(charges) - 4, -1, -4):
            async with books.transaction():
                await expire_charges(books, [UUID(each) for each in charges[at : at + 4]], now=later, actor="test")

    async def contest(charge_id: str, place: int) -> list[Answer]:
        await asyncio.sleep(place * pace_s)
        both = [client.pay(charge_id), client.cancel(charge_id)]
        return list(await asyncio.gather(*(both if place % 2 else both[::-1])))

    _, *contests = await asyncio.gather(
        expire(), *(contest(charge_id, place) for place, charge_id in enumerate(charges))
    )
    answers = [answer for both in contests for answer in both]
    assert {answer.status for answer in answers} <= {200, 409}
    assert {answer.code for answer in answers if answer.status == 409} == {"CHARGE_NOT_PENDING"}
    won = Counter(answer.body["charge_id"] for answer in answers if answer.status == 200)
    assert set(won.values()) <= {1}

    shown = {charge["charge_id"]: charge for charge in await client.all("/v1/charges", limit=100)}
    events = await client.events()
    outcomes = Counter(charge["status"] for charge in shown.values())
    kinds = {"paid": "payment.received", "cancelled": "charge.cancelled", "expired": "charge.expired"}
    assert Counter((event["charge_id"], event["type"]) for event in events) == Counter(
        (charge_id, kinds[charge["status"]]) for charge_id, charge in shown.items()
    )
    assert [event["sequence"] for event in events] == list(range(1, len(charges) + 1))
    assert {charge_id for charge_id in charges if shown[charge_id]["status"] != "expired"} == set(won)
    assert await client.balance() == f"{outcomes['paid'] * 10}.00"
    assert len(await client.ledger()) == outcomes["paid"]

    # Each charge made exactly one transition, and the table NEXT allows it.
    reachable = {str(state) for state in NEXT[Status.PENDING].values()}
    for charge in shown.values():
        assert charge["status"] in reachable
        assert charge["version"] == 2
    return set(outcomes)
