"""Count and amount per status are exact at once, whether they come from daily totals or from the charges."""

import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

import readmodels.charges.charge_list as charge_list
from banks.protocol import Location
from commands.charges.pay import Confirmation, confirm_payments
from domain.instants import day_begins
from domain.mode import Mode, Owner
from readmodels.charges.charge_list import ChargeFilters, StatusCents, charge_summary
from readmodels.dashboard.overview import standing
from readmodels.reports.fold import fold_up_to, settled_up_to
from runtime.postgres import Pool, open_pool, transaction
from runtime.seal import Seal
from tests.support.banking import SECRET_KEY, make_account, make_charges
from tests.support.database import own_database, owner_of

SEAL = Seal(bytes.fromhex(SECRET_KEY))


@pytest_asyncio.fixture(loop_scope="session")
async def own_url(servers: Any) -> AsyncIterator[str]:
    """A database in which nobody else brings the totals up to date."""
    async with own_database(servers, "summary") as url:
        yield url


@pytest_asyncio.fixture(loop_scope="session")
async def own_pool(own_url: str) -> AsyncIterator[Pool]:
    opened = await open_pool(own_url, name="tests", size=4)
    yield opened
    await opened.close()


@pytest_asyncio.fixture(loop_scope="session")
async def own_owner(servers: Any, own_url: str) -> AsyncIterator[Pool]:
    opened = await open_pool(owner_of(servers, own_url), name="tests as owner", size=1)
    yield opened
    await opened.close()


async def issue(pool: Pool, account_id: UUID, count: int) -> list[UUID]:
    locations = [Location(secrets.randbits(60), f"pix.example.com/{secrets.token_hex(16)}") for _ in range(count)]
    return await make_charges(pool, account_id, locations, test=False, amount_cents=1_050)


async def pay(pool: Pool, charge_ids: list[UUID]) -> None:
    now = datetime.now(UTC)
    received = [
        Confirmation(charge_id=each, end_to_end_id=f"E{secrets.token_hex(12)}", amount_cents=1_050, paid_at=now)
        for each in charge_ids
    ]
    async with transaction(pool) as conn:
        await confirm_payments(conn, received, now=now, seal=SEAL)


async def fold(pool: Pool) -> None:
    async with pool.acquire() as conn:
        horizon = await settled_up_to(conn)
    assert horizon is not None
    async with transaction(pool) as conn:
        await fold_up_to(conn, horizon)


async def summed(pool: Pool, account_id: UUID, **given: Any) -> dict[str, tuple[int, str]]:
    async with pool.acquire() as conn:
        rows = await charge_summary(conn, Owner(account_id, Mode.PRODUCTION), ChargeFilters(**given))
    return {row.status: (row.count, row.amount) for row in rows if row.count}


async def test_what_changed_since_the_totals_were_made_is_counted_where_it_is_now(own_pool: Pool) -> None:
    account_id, other = await make_account(own_pool), await make_account(own_pool)
    first = await issue(own_pool, account_id, 4)
    await issue(own_pool, other, 3)
    assert await summed(own_pool, account_id) == {"pending": (4, "42.00")}
    await fold(own_pool)
    assert await summed(own_pool, account_id) == {"pending": (4, "42.00")}
    await pay(own_pool, first[:1])  # counted as pending in the totals
    await issue(own_pool, account_id, 2)  # not in the totals
    assert await summed(own_pool, account_id) == {"pending": (5, "52.50"), "paid": (1, "10.50")}
    assert await summed(own_pool, account_id, statuses=("paid",)) == {"paid": (1, "10.50")}
    assert await summed(own_pool, account_id, methods=("boleto",)) == {}
    await fold(own_pool)
    await pay(own_pool, first[1:])
    assert await summed(own_pool, account_id) == {"pending": (2, "21.00"), "paid": (4, "42.00")}
    assert await summed(own_pool, other) == {"pending": (3, "31.50")}


@pytest.mark.parametrize("folded", ["no", "half", "all"])
async def test_bounds_within_days_are_kept_to_the_instant(own_pool: Pool, own_owner: Pool, folded: str) -> None:
    """Charges lie on four days; each pair of bounds is compared with a count of the charges themselves."""
    account_id = await make_account(own_pool)
    midnight = day_begins(datetime.now(UTC).date())
    instants = [midnight - timedelta(hours=hours) for hours in (80, 60, 49, 48, 47, 30, 24, 1, 0)]
    for number, at in enumerate(instants):
        (charge_id,) = await issue(own_pool, account_id, 1)
        await own_owner.execute("ALTER TABLE journal DISABLE TRIGGER journal_is_append_only")
        await own_owner.execute(
            "UPDATE journal SET payload = jsonb_set(payload, '{charge,created_at}', to_jsonb($1::text))"
            " WHERE charge_id = $2",
            at.isoformat(), charge_id,
        )  # fmt: skip
        await own_pool.execute("UPDATE read_charge SET created_at = $1 WHERE charge_id = $2", at, charge_id)
        if number % 2:
            await pay(own_pool, [charge_id])
        if folded == "all" or (folded == "half" and number < len(instants) // 2):
            await fold(own_pool)
    bounds = [None, *(midnight - timedelta(hours=hours) for hours in (90, 72, 61, 48, 47.5, 30, 24, 12, 0, -1))]
    for begins in bounds:
        for ends in bounds:
            within = [
                number % 2 == 1
                for number, at in enumerate(instants)
                if (begins is None or at >= begins) and (ends is None or at < ends)
            ]
            counted = await summed(own_pool, account_id, created_from=begins, created_to=ends)
            assert counted.get("paid", (0, ""))[0] == within.count(True), (begins, ends)
            assert counted.get("pending", (0, ""))[0] == within.count(False), (begins, ends)


async def test_totals_that_lag_far_behind_are_not_asked(own_pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    account_id = await make_account(own_pool)
    await issue(own_pool, account_id, 3)
    await own_pool.execute("INSERT INTO report_cohort VALUES ($1, '2020-01-01', 'pix', 'paid', 7, 700)", account_id)
    assert (await summed(own_pool, account_id))["paid"] == (7, "7.00"), "the totals are asked"
    monkeypatch.setattr(charge_list, "LAG_ROWS_MAX", 0)
    assert await summed(own_pool, account_id) == {"pending": (3, "31.50")}


async def test_the_first_page_tells_all_that_is_open_however_much_it_is(own_pool: Pool) -> None:
    """1,100 charges in the totals, two since; what the page shows is no bound but the sum."""
    account_id = await make_account(own_pool)
    made = await issue(own_pool, account_id, 100)
    for _ in range(10):
        await issue(own_pool, account_id, 100)
    await fold(own_pool)
    await issue(own_pool, account_id, 2)
    await pay(own_pool, made[:1])
    async with own_pool.acquire() as conn:
        shown = await standing(conn, Owner(account_id, Mode.PRODUCTION), now=datetime.now(UTC))
    assert shown.open == StatusCents(1_101, 1_101 * 1_050)
    assert shown.expired == StatusCents(0, 0)
    assert shown.balance_cents == 1_050
