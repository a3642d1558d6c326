"""The sweeper of overdue charges: several run side by side, and sandboxes may be ahead of real time."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from commands.charges.expire import Sweeper
from runtime.postgres import Pool, open_pool, transaction
from tests.support.banking import make_account, make_charges, new_locations
from tests.support.database import own_database
from workers.housekeeping.expiry import sweep_expired


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def own_pool(servers: Any) -> AsyncIterator[Pool]:
    """A database of the tests' own: in the shared one, charges of other tests are due as well."""
    async with own_database(servers, "sweeper") as url:
        opened = await open_pool(url, name="tests", size=4)
        yield opened
        await opened.close()


async def test_a_sweeper_skips_charges_that_another_sweeper_is_expiring(own_pool: Pool) -> None:
    """Two workers share the work: neither waits for the other's charges, and no charge expires twice."""
    account_id = await make_account(own_pool)
    charge_ids = set(await make_charges(own_pool, account_id, new_locations(4), test=False, amount_cents=1_000))
    later = datetime.now(UTC) + timedelta(days=40)
    held, left = set(list(charge_ids)[:2]), set(list(charge_ids)[2:])
    async with transaction(own_pool) as other:
        await other.execute("SELECT FROM charge WHERE charge_id = ANY($1) FOR UPDATE", list(held))
        async with asyncio.timeout(30):
            while await Sweeper(own_pool).sweep(now=later):
                pass
        assert await _expired(own_pool, charge_ids) == left
    while await Sweeper(own_pool).sweep(now=later):
        pass
    assert await _expired(own_pool, charge_ids) == charge_ids


async def test_a_worker_whose_clock_is_ahead_expires_no_charge_that_can_still_be_paid(own_pool: Pool) -> None:
    account_id = await make_account(own_pool)
    (charge_id,) = await make_charges(own_pool, account_id, new_locations(1), test=False)
    worker: Any = SimpleNamespace(
        pool=own_pool, now=lambda: datetime.now(UTC) + timedelta(days=1), jobs=SimpleNamespace(wake=print)
    )
    while await sweep_expired(worker, Sweeper(own_pool)):
        pass
    assert await _expired(own_pool, {charge_id}) == set()
    await own_pool.execute("UPDATE charge SET expires_at = now() WHERE charge_id = $1", charge_id)
    while await sweep_expired(worker, Sweeper(own_pool)):
        pass
    assert await _expired(own_pool, {charge_id}) == {charge_id}


async def _expired(pool: Pool, charge_ids: set[UUID]) -> set[UUID]:
    rows = await pool.fetch(
        "SELECT charge_id FROM charge WHERE charge_id = ANY($1) AND status = 'expired'", list(charge_ids)
    )
    return {row["charge_id"] for row in rows}


async def test_every_sandbox_ahead_of_real_time_is_swept_in_turn(
    own_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commands.charges.expire.CLOCKS_MAX", 2)
    charge_ids: set[UUID] = set()
    for _ in range(5):
        account_id = await make_account(own_pool)
        charge_ids |= set(await make_charges(own_pool, account_id, new_locations(1), test=True, amount_cents=1_000))
        await own_pool.execute(
            "INSERT INTO sandbox_clock (account_id, ahead_s, moved_at) VALUES ($1, $2, now())", account_id, 40 * 86_400
        )
    sweeper, now = Sweeper(own_pool), datetime.now(UTC)
    for _ in range(4):
        await sweeper.sweep(now=now)
    assert await _expired(own_pool, charge_ids) == charge_ids
