"""The year of data that benches read looks as if the service had written it: sequence numbers, months and bodies of the
feed."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio

import sql
from bench.year import fold_all, write_year
from readmodels.shadow import Shadows, prefer_real_tables
from readmodels.verify import plan_slice_by_index, verify
from readmodels.verify_scope import VerifyScope
from readmodels.verify_totals import DUE, FOLDED, ISSUED, ChargeTotals, first_account_day, given
from runtime.postgres import Pool, connect, open_pool
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


@pytest.mark.parametrize("totals", [ISSUED, DUE], ids=["issued", "due"])
async def test_a_slice_reads_its_charges_and_not_all_of_them(year: Year, totals: ChargeTotals) -> None:
    """Else a verification takes the square of what there is."""
    await fold_all(year.pool)
    await year.pool.execute("ANALYZE")
    conn: Any = await connect(year.url)
    async with conn.transaction():
        await plan_slice_by_index(conn)
        scope = VerifyScope(rows_max=100)
        account_days = await totals.next_slice(conn, scope, first_account_day(scope), test=False)
        await Shadows.make(conn, *totals.tables)
        statement = sql.STATEMENTS[f"verify_totals.fill_{totals.dated}"]
        asked = given(account_days, scope) | {"test": False}
        raw = await conn.fetchval(
            f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.text}", *(asked[name] for name in statement.parameters)
        )
    await conn.close()
    nodes = [msgspec.json.decode(raw)[0]["Plan"]]
    read = 0.0
    while nodes:
        node = nodes.pop()
        nodes += node.get("Plans", [])
        if node.get("Relation Name") in ("read_charge", "report_charge") and node["Node Type"] != "Bitmap Index Scan":
            read += node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
    assert 0 < read <= 3 * scope.rows_max, raw


_OF_DAYS = {
    "differences_of_days+report_entry": {"report_entry_day"},
    "differences_of_days+report_refund": {"report_refund_day"},
    "differences_of_days+report_integrator": {"report_integrator_day"},
    "differences_of_entry_days": {"span_entry_day"},
    "of_all": {"report_cohort_day", "report_wait_day", "report_due_day"},
}


async def test_a_slice_of_days_reads_those_and_not_every_accounts_whole_history(year: Year) -> None:
    await fold_all(year.pool)
    await year.pool.execute("ANALYZE")
    conn: Any = await connect(year.url)
    async with conn.transaction():
        # In this year few accounts have refunds or partners, and the planner would read their tables whole.
        await conn.execute(
            "INSERT INTO report_refund SELECT md5(n::text)::uuid, current_date - n / 50, 'pix', 'created', 0, 0"
            " FROM generate_series(1, 18000) AS n;"
            "INSERT INTO report_integrator SELECT md5(n::text)::uuid, current_date - n / 50, 'x', 0, 0, 0, 0, 0, 0"
            " FROM generate_series(1, 18000) AS n;"
            "ANALYZE report_refund, report_integrator"
        )
        await plan_slice_by_index(conn)
        await Shadows.make(conn, *FOLDED)
        await prefer_real_tables(conn)
        day = datetime.now(UTC).date() - timedelta(days=100)
        asked = {"day": day, "until": day + timedelta(days=1), "low": VerifyScope().low, "high": VerifyScope().high}
        for name, indexes in _OF_DAYS.items():
            statement = sql.STATEMENTS[f"verify_totals.{name}"]
            raw = await conn.fetchval(
                f"EXPLAIN (FORMAT JSON) {statement.text}", *(asked[each] for each in statement.parameters)
            )
            assert {each for each in indexes if f'"{each}"' in raw} == indexes, raw
    await conn.close()
