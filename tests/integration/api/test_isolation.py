"""A resource of another merchant, one of the other mode and an unknown one get the same bytes as answer (spec, 9)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
import pytest_asyncio

from api.app import ROUTES
from domain.mode import Mode
from tests.support.merchant import Answer, ApiClient, ApiMerchant, book_bank_payments, database_of, new_merchant
from tests.support.system import System

UNKNOWN_ID = "01a1fdc2-2be1-7deb-b4f8-5fa37a19dbc1"


class Strangers(NamedTuple):
    """Two merchants. Each has a pending and a paid charge in each mode, both of a mode with the same external_id."""

    mine: ApiMerchant
    theirs: ApiMerchant
    charges: dict[tuple[str, str, str], str]
    """Charge ids by owner (mine, theirs), mode (sandbox, production) and status (pending, paid)."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def strangers(system: System) -> AsyncIterator[Strangers]:
    async with new_merchant(system) as mine, new_merchant(system) as theirs, database_of(system) as books:
        charges = {}
        for whose, merchant in (("mine", mine), ("theirs", theirs)):
            for mode, client in (("sandbox", merchant.sandbox), ("production", merchant.production)):
                payer = {"name": "Zé", "document": "52998224725"}
                for status in ("pending", "paid"):
                    charge = await client.created(external_id=f"{whose}/{mode}", payer=payer)
                    charges[whose, mode, status] = charge["charge_id"]
                await book_bank_payments(system, books, charge["charge_id"], 1000)
        yield Strangers(mine, theirs, charges)


def _id_routes() -> list[tuple[str, str]]:
    """Method and path of every route that takes an identifier in its path, from the table of routes."""
    return [(route.method, route.path) for route in ROUTES if "{" in route.path]


_OTHER_SPELLINGS: tuple[Callable[[str], str], ...] = (lambda each: f"{{{each}}}", lambda each: each.replace("-", ""))
_ROUTES = {(route.method, route.path): route for route in ROUTES}


async def _ask(client: ApiClient, method: Any, path: str, identifier: str) -> Answer:
    name = path[path.index("{") : path.index("}") + 1]
    route = _ROUTES[method, path]
    given: dict[str, Any] = {"json": {}} if route.body is not None else {}
    if route.key:
        given["key"] = str(uuid4())
    return await client.ask(method, path.replace(name, identifier), **given)


@pytest.mark.parametrize("mode", ["sandbox", "production"])
@pytest.mark.parametrize(("method", "path"), [each for each in _id_routes() if "charge_id" in each[1]])
async def test_a_foreign_charge_is_answered_like_an_unknown_one(
    strangers: Strangers, method: Any, path: str, mode: str
) -> None:
    only = _ROUTES[method, path].mode  # The other mode is refused before the charge is looked up.
    gated = only is not None and (only is Mode.SANDBOX) != (mode == "sandbox")
    client: ApiClient = getattr(strangers.mine, mode)
    other = "production" if mode == "sandbox" else "sandbox"
    unknown = (await _ask(client, method, path, UNKNOWN_ID)).but_for_the_request_id()
    assert unknown[0] == (403 if gated else 404)
    assert (b"SANDBOX_ONLY" if gated else b"CHARGE_NOT_FOUND") in unknown[1]
    foreign = [
        charge_id
        for (whose, its_mode, _), charge_id in strangers.charges.items()
        if whose == "theirs" or its_mode == other
    ]
    assert len(foreign) == 6
    for identifier in (*foreign, str(uuid4()), "x", UNKNOWN_ID.upper()):
        assert (await _ask(client, method, path, identifier)).but_for_the_request_id() == unknown
    for spelled in _OTHER_SPELLINGS:  # The answer depends on the spelling alone, not on who owns the charge.
        answers = [await _ask(client, method, path, spelled(each)) for each in (UNKNOWN_ID, *foreign)]
        assert {answer.but_for_the_request_id() for answer in answers} == {answers[0].but_for_the_request_id()}
        assert (answers[0].status, answers[0].code) == (unknown[0], "SANDBOX_ONLY" if gated else "CHARGE_NOT_FOUND")


async def test_a_lookup_batched_with_the_owners_still_gives_a_stranger_404(strangers: Strangers) -> None:
    """Lookups that arrive together share one statement; each caller still gets its own answer."""
    charge_id = strangers.charges["mine", "sandbox", "pending"]
    clients = [strangers.mine.sandbox, strangers.theirs.sandbox, strangers.mine.production, strangers.theirs.production]
    for client in clients:
        await client.token()
    answers = await asyncio.gather(*(client.get(f"/v1/charges/{charge_id}") for _ in range(30) for client in clients))
    assert [answer.status for answer in answers] == [200, 404, 404, 404] * 30


async def test_a_charge_is_not_found_by_another_spelling_of_its_id(strangers: Strangers) -> None:
    charge_id = strangers.charges["mine", "sandbox", "pending"]
    for spelled in (charge_id.upper(), charge_id.replace("-", ""), f"urn:uuid:{charge_id}", f"{{{charge_id}}}"):
        assert (await strangers.mine.sandbox.get(f"/v1/charges/{spelled}")).code == "CHARGE_NOT_FOUND"


@pytest.mark.parametrize(("method", "path"), [each for each in _id_routes() if "account_id" in each[1]])
async def test_a_foreign_account_is_answered_like_an_unknown_one(strangers: Strangers, method: str, path: str) -> None:
    client = strangers.mine.sandbox
    unknown = (await _ask(client, method, path, UNKNOWN_ID)).but_for_the_request_id()
    assert unknown[0] == 404
    assert b"WALLET_ACCOUNT_NOT_FOUND" in unknown[1]
    for identifier in (strangers.theirs.sandbox.account_id, client.account_id.upper(), "x"):
        assert (await _ask(client, method, path, identifier)).but_for_the_request_id() == unknown


async def test_every_path_identifier_of_the_routes_has_an_isolation_test() -> None:
    names = {path[path.index("{") + 1 : path.index(":")] for _, path in _id_routes()}
    # tests/contract/test_webhook_api.py tests the isolation of deliveries; test_refunds.py, test_schedules.py,
    # test_withdrawals.py and test_request_bodies.py test that of the resources they create.
    elsewhere = {"delivery_id", "refund_id", "schedule_id", "withdrawal_id", "request_id"}
    assert names == {"charge_id", "account_id", "key"} | elsewhere


@pytest.mark.parametrize("mode", ["sandbox", "production"])
async def test_a_foreign_external_id_or_charge_id_cancels_nothing(strangers: Strangers, mode: str) -> None:
    client: ApiClient = getattr(strangers.mine, mode)
    other = "production" if mode == "sandbox" else "sandbox"
    unknown = (await client.post("/v1/charges/cancel", {"external_id": "nobody's"})).but_for_the_request_id()
    assert unknown[0] == 404
    for reference in ("theirs/sandbox", "theirs/production", f"mine/{other}"):
        answer = await client.post("/v1/charges/cancel", {"external_id": reference})
        assert answer.but_for_the_request_id() == unknown
    for (whose, its_mode, _), charge_id in strangers.charges.items():
        if whose == "theirs" or its_mode == other:
            answer = await client.post("/v1/charges/cancel", {"charge_id": charge_id})
            assert answer.but_for_the_request_id() == unknown


async def test_a_charge_cannot_be_created_for_another_account(strangers: Strangers) -> None:
    client = strangers.mine.production
    answers = [await client.create(account_id=each) for each in (UNKNOWN_ID, strangers.theirs.sandbox.account_id)]
    assert answers[0].code == "CHARGE_NOT_FOUND"
    assert answers[0].but_for_the_request_id() == answers[1].but_for_the_request_id()
    for merchant, mode in (
        (strangers.theirs, "sandbox"),
        (strangers.theirs, "production"),
        (strangers.mine, "production"),
    ):
        assert len(await getattr(merchant, mode).all("/v1/charges")) == 2


@pytest.mark.parametrize("mode", ["sandbox", "production"])
async def test_lists_hold_only_the_callers_own_rows_of_the_mode(strangers: Strangers, mode: str) -> None:
    client: ApiClient = getattr(strangers.mine, mode)
    own = {strangers.charges["mine", mode, status] for status in ("pending", "paid")}
    paid = {strangers.charges["mine", mode, "paid"]}
    filters: list[dict[str, Any]] = [{}, {"payer_document": "52998224725"}, {"status": ["pending", "paid"]}]
    for asked in filters:
        assert {charge["charge_id"] for charge in await client.all("/v1/charges", **asked)} == own
    assert {payment["charge_id"] for payment in await client.all("/v1/payments")} == paid
    assert {event["charge_id"] for event in await client.events()} == paid
    assert {entry["charge_id"] for entry in await client.ledger()} == paid
    assert await client.balance() == "10.00"
    counts = (await client.get("/v1/charges/summary")).body["data"]
    assert {row["status"]: row["count"] for row in counts if row["count"]} == {"pending": 1, "paid": 1}


@pytest.mark.parametrize("mode", ["sandbox", "production"])
async def test_filters_with_foreign_identifiers_find_nothing(strangers: Strangers, mode: str) -> None:
    client: ApiClient = getattr(strangers.mine, mode)
    other = "production" if mode == "sandbox" else "sandbox"
    for (whose, its_mode, _), charge_id in strangers.charges.items():
        if whose == "mine" and its_mode != other:
            continue
        reference = f"{whose}/{its_mode}"
        for path, asked in (
            ("/v1/charges", {"txid": charge_id.replace("-", "")}),
            ("/v1/charges", {"external_id": reference}),
            ("/v1/payments", {"charge_id": charge_id}),
            ("/v1/payments", {"external_id": reference}),
            ("/v1/events", {"charge_id": charge_id}),
            ("/v1/events", {"external_id": reference}),
        ):
            nothing = await client.get(path, **asked)
            assert nothing.body == {"data": [], "next_cursor": None}, (path, asked)
