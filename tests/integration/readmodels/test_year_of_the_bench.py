"""The year of data that benches read looks as if the service had written it: sequence numbers, months and bodies of the
feed."""

from collections.abc import AsyncIterator
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest_asyncio

from bench.year import write_year
from readmodels.verify import verify
from runtime.postgres import Pool, open_pool
from tests.support.banking import make_account
from tests.support.database import own_database, owner_of
from tests.support.partners import paid, refunds

CHARGES = 600
EVENTS = ("payment.received", "refund.succeeded")
BODY = "SELECT event_body FROM journal WHERE kind = $1 AND event_id IS NOT NULL"


class Year(NamedTuple):
    url: str
    pool: Pool
    merchant: UUID


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def year(servers: Any) -> AsyncIterator[Year]:
    async with own_database(servers, "year") as app_url:
        url = owner_of(servers, app_url)
        pool = await open_pool(url, name="tests", size=4)
        merchant = await make_account(pool)
        await write_year(pool, merchant, CHARGES)
        yield Year(url, pool, merchant)
        await pool.close()


async def test_events_of_each_account_are_numbered_in_the_order_of_their_instants(year: Year) -> None:
    accounts = await year.pool.fetch(
        "SELECT count(*) AS events, max(sequence) AS last, max(c.event_sequence) AS clock,"
        " array_agg(e.created_at ORDER BY sequence) = array_agg(e.created_at ORDER BY e.created_at) AS in_order"
        " FROM read_event e JOIN account_clock c USING (account_id, test) GROUP BY account_id"
    )
    assert len(accounts) > 1
    assert all(each["events"] == each["last"] == each["clock"] and each["in_order"] for each in accounts)
    events = await year.pool.fetchval("SELECT count(*) FROM read_event WHERE account_id = $1", year.merchant)
    assert events > CHARGES / 2


async def test_each_event_is_stored_in_its_month(year: Year) -> None:
    assert await year.pool.fetchval("SELECT count(*) FROM read_event_production_other") == 0
    assert await year.pool.fetchval("SELECT count(DISTINCT tableoid) FROM read_event") >= 12


async def test_bodies_have_the_fields_that_the_service_writes(year: Year) -> None:
    charge_id, payment_id = await paid(year.pool, year.merchant, 1_000, None)
    await refunds(year.pool, year.merchant, [(charge_id, payment_id, 1_000)])
    for kind in EVENTS:
        of_service = await year.pool.fetchval(f"{BODY} AND charge_id = $2", kind, charge_id)
        of_year = await year.pool.fetchval(f"{BODY} AND charge_id <> $2 LIMIT 1", kind, charge_id)
        fields = [name for name in msgspec.json.decode(of_year) if name != "external_id"]
        assert fields == list(msgspec.json.decode(of_service)), kind


async def test_feed_and_ledger_match_the_journal(year: Year) -> None:
    found = await verify(year.url)
    # write_year does not write the payments, refunds and charges themselves.
    assert {each.table for each in found} <= {"books"}, found
