"""Lists, their filters and their sums show an overdue charge as expired, however many there are and whether or not the
expiry is recorded: recording it changes nothing in them."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from commands.charges.expire import expire_account, expire_charges
from domain.mode import Mode, Owner
from readmodels.charges.charge_list import STATUSES, ChargeFilters, StatusCents
from readmodels.charges.current_list import current_page, current_sums
from readmodels.dashboard.overview import standing
from readmodels.page import SortOrder
from runtime.ids import new_id
from runtime.postgres import Pool, open_pool, transaction
from tests.integration.readmodels.test_charge_summary import fold, issue, pay
from tests.support.banking import make_account
from tests.support.database import own_database
from tests.support.in_process import open_api
from tests.support.partners import new_charge

LATER = datetime.now(UTC) + timedelta(days=40)
"""By then every charge that was issued today and not paid is overdue."""
ASKED: list[dict[str, Any]] = [
    {}, {"statuses": ("pending",)}, {"statuses": ("expired",)}, {"statuses": ("paid",)},
    {"statuses": ("paid", "expired")}, {"statuses": ("pending", "expired")}, {"methods": ("pix",)},
    {"methods": ("boleto",)}, {"statuses": ("expired",), "created_to": LATER - timedelta(days=1)},
    {"statuses": ("pending",), "created_from": LATER - timedelta(days=1)}, {"external_id": "order-1"},
]  # fmt: skip


@pytest_asyncio.fixture(loop_scope="session")
async def own_pool(servers: Any) -> AsyncIterator[Pool]:
    """A database of its own, in which no worker or other test records an expiry."""
    async with own_database(servers, "current") as url:
        opened = await open_pool(url, name="tests", size=4)
        yield opened
        await opened.close()


async def _listed(pool: Pool, owner: Owner, order: SortOrder, given: dict[str, Any]) -> list[tuple[str, str]]:
    """Reads all pages, of seven charges at most; returns the charges as (id, status)."""
    found: list[tuple[str, str]] = []
    after = None
    while True:
        async with pool.acquire() as conn:
            docs, after = await current_page(conn, owner, ChargeFilters(**given, order=order), after, 7, now=LATER)
        assert len(docs) <= 7
        found += [(doc.charge_id, doc.status) for doc in docs]
        if after is None:
            return found


async def _all_lists_and_sums(pool: Pool, owner: Owner) -> list[Any]:
    shown: list[Any] = []
    for given in ASKED:
        async with pool.acquire() as conn:
            sums = await current_sums(conn, owner, ChargeFilters(**given), now=LATER)
        shown.append((given, sums, [await _listed(pool, owner, order, given) for order in SortOrder]))
    return shown


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("folded", [False, True])
async def test_recording_an_expiry_changes_neither_lists_nor_sums(own_pool: Pool, mode: Mode, folded: bool) -> None:
    account_id = await make_account(own_pool)
    owner = Owner(account_id, mode)
    charge_ids = await issue(own_pool, account_id, 30, mode)
    await pay(own_pool, charge_ids[:5])
    async with transaction(own_pool) as conn:
        await expire_charges(conn, charge_ids[5:9], now=LATER, actor="test")
    for _ in range(3):
        await new_charge(own_pool, account_id, 1_050, test=mode.test, at=LATER)
    if folded:
        await fold(own_pool)
    shown = await _all_lists_and_sums(own_pool, owner)
    _, sums, _ = shown[0]
    assert {status: each.count for status, each in sums.items() if each.count} == {
        "paid": 5, "expired": 25, "pending": 3,
    }  # fmt: skip
    assert sum(each.cents for each in sums.values()) == 33 * 1_050
    async with own_pool.acquire() as conn:
        assert (await standing(conn, owner, now=LATER)).open == StatusCents(3, 3 * 1_050)
    for given, sums, pages in shown:
        for page in pages:
            assert len(page) == len({charge_id for charge_id, _ in page})
            for status in STATUSES:
                assert sum(each == status for _, each in page) == sums[status].count, given
    assert await expire_account(own_pool, owner, now=LATER) == 21
    assert await _all_lists_and_sums(own_pool, owner) == shown


async def test_the_api_lists_an_overdue_charge_as_expired_before_its_expiry_is_recorded(
    servers: Any, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More charges are overdue than a read may record: here a read records none."""
    monkeypatch.setattr("commands.charges.expire.BATCHES_MAX", 0)
    async with open_api(servers.database_url, servers.redis_url) as api:
        token = await api.token()
        body = {**api.pix(), "expires_in": 60}
        made = await asyncio.gather(
            *(api.post("/v1/charges/pix", body, token=token, key=str(new_id())) for _ in range(12))
        )
        charge_ids = {each.json()["charge_id"] for each in made}
        await pool.execute(
            "INSERT INTO sandbox_clock (account_id, ahead_s, moved_at) VALUES ($1::text::uuid, 3600, now())",
            made[0].json()["account_id"],
        )
        token = await api.token(scope="charges:read")  # The API caches the clock of the first token for a moment.

        async def listed(query: str) -> dict[str, str]:
            data = (await api.get(f"/v1/charges{query}", token=token)).json()["data"]
            return {each["charge_id"]: each["status"] for each in data}

        assert await listed("") == dict.fromkeys(charge_ids, "expired")
        assert await listed("?status=expired") == dict.fromkeys(charge_ids, "expired")
        assert await listed("?status=pending") == {}
        summary = (await api.get("/v1/charges/summary", token=token)).json()["data"]
        assert {each["status"]: each["count"] for each in summary if each["count"]} == {"expired": 12}
