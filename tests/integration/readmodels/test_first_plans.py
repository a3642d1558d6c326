"""A plan that a connection makes while tables are empty finds rows by their keys. The connection keeps the plan until a
table is analyzed, and by then the table may have many rows (expect_few_values in
sql/migrations/baseline/0001_accounts.sql)."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import msgspec
import pytest
import pytest_asyncio

import sql
from tests.support.database import own_database, owner_of
from workers.incoming.statement import plan_comparison

# For each statement: the table that it looks up by key, and the index it must use.
_BY_KEY = {
    "read_charge.find": ("read_charge", "read_charge_pkey"),
    "read_charge.by_id": ("read_charge", "read_charge_pkey"),
    "found_charge.by_link": ("read_charge", "read_charge_public"),
    "boleto.standing": ("read_charge", "read_charge_pkey"),
    "mail.requested_charges": ("read_charge", "read_charge_pkey"),
    "read_refund.find": ("read_refund", "read_refund_pkey"),
    "read_withdrawal.find": ("read_withdrawal", "read_withdrawal_pkey"),
    "schedule.find": ("schedule", "schedule_pkey"),
    "anomaly.resolve": ("payment", "payment_pkey"),
    "bank_order.settle": ("bank_order", "bank_order_pkey"),
    "charge.lock": ("charge", "charge_pkey"),
    "journal.post": ("payment", "payment_pkey"),
    "charge.overdue_of_account": ("charge", "charge_overdue"),
    "simulated_bank.conclude": ("simulated_cob", "simulated_cob_pkey"),
    "simulated_bank.pix": ("simulated_pix", "simulated_pix_pkey"),
    "simulated_bank.standing": ("simulated_cob", "simulated_cob_pkey"),
    "simulated_boleto.boleto": ("simulated_boleto", "simulated_boleto_pkey"),
    "statement.boletos": ("suspense", "suspense_reference"),
    "report_fold.refunds": ("read_payment", "read_payment_pkey"),
}


# One merchant has twenty of every twenty-one charges, and a fifth of the charges are pending.
_BUSY = (
    "INSERT INTO read_charge (account_id, charge_id, test, created_at, status, payment_method, amount_cents, public_id,"
    " version, journal_id) SELECT md5(CASE n % 21 WHEN 0 THEN n % 20 ELSE 99 END::text)::uuid,"
    " (lpad(to_hex(n), 12, '0') || md5(n::text))::varchar(32)::uuid, false,"
    " timestamptz '2026-01-01 00:00Z' + n * interval '1 hour', CASE n % 5 WHEN 0 THEN 'pending' ELSE 'paid' END,"
    " CASE n % 7 WHEN 0 THEN 'boleto' ELSE 'pix' END, 1000, 'p' || n, 1, n FROM generate_series(1, 10500) AS n",
    "INSERT INTO read_ledger (account_id, test, sequence, entry_id, type, amount_cents, balance_after_cents,"
    " created_at) SELECT md5('99')::uuid, false, n, md5(n::text)::uuid,"
    " CASE n % 50 WHEN 0 THEN 'refund' ELSE 'payment' END, 1, n,"
    " timestamptz '2026-01-01 00:00Z' + n * interval '20 minutes' FROM generate_series(1, 25000) AS n",
    "ANALYZE read_charge",
    "ANALYZE read_ledger",
)


class _Database(NamedTuple):
    owner: Any
    app: Any
    """Both are connections. The application's has the settings of its role, and caches no statements."""


# Very many merchants, with a row or two each, of whom one may have very many.
_CROWD = (
    "INSERT INTO account (account_id, name, document, city, kyc, pix_key, created_at)"
    " SELECT md5(n::text)::uuid, 'Loja', '12345678000190', 'Recife', 'approved', 'k', now()"
    " FROM generate_series(1, 4000) AS n",
    "INSERT INTO read_refund (account_id, refund_id, test, created_at, status, charge_id, payment_id, paid_at, doc)"
    " SELECT account_id, gen_random_uuid(), false, now(), 'succeeded', gen_random_uuid(), gen_random_uuid(), now(),"
    " '{}' FROM account",
    "INSERT INTO mail (mail_id, account_id, charge_id, kind, to_sealed, to_hash, state, due_at, created_at, sent_at)"
    " SELECT gen_random_uuid(), account_id, gen_random_uuid(), 'charge', '', '', 'sent', now(), now(), now()"
    " FROM account",
    "INSERT INTO suspense (suspense_id, bank, kind, source, reference, amount_cents, received_at, found_at)"
    " SELECT gen_random_uuid(), '001', 'boleto_unknown', n || '/1', n::text, 1, now(), now()"
    " FROM generate_series(1, 4000) AS n",
    "ANALYZE account, read_refund, mail, suspense",
)


@asynccontextmanager
async def _database(servers: Any) -> AsyncIterator[_Database]:
    """Yields connections to a migrated database without rows."""
    async with own_database(servers, "first_plans") as url:
        opened = _Database(
            await asyncpg.connect(owner_of(servers, url)), await asyncpg.connect(url, statement_cache_size=0)
        )
        try:
            if opened.owner.get_server_version().major < 18:
                pytest.skip("PostgreSQL before 18 cannot be given statistics")
            yield opened
        finally:
            for each in opened:
                await each.close()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def empty(servers: Any) -> AsyncIterator[_Database]:
    async with _database(servers) as opened:
        yield opened


@pytest.mark.parametrize("name", _BY_KEY)
async def test_a_plan_made_on_an_empty_table_finds_rows_by_their_key(empty: _Database, name: str) -> None:
    table, index = _BY_KEY[name]
    assert await _indexes(empty.app, name, table) == {index}


async def test_it_still_is_in_a_crowd_of_merchants(servers: Any) -> None:
    """What most merchants have of a kind is little; what one of them has may be very much."""
    async with _database(servers) as crowd:
        for statement in _CROWD:
            await crowd.owner.execute(statement)
        for name, table, indexes in (
            ("payer.told_refunds", "read_refund", {"read_refund_charge"}),
            ("mail.settle", "mail", {"mail_pkey"}),
            ("mail.put_back", "mail", {"mail_pkey"}),
            ("mail.ask", "mail", {"mail_asked", "mail_asked_of"}),
            ("suspense.hold_sources", "suspense", {"suspense_pkey", "suspense_bank_source_key", "suspense_reference"}),
        ):
            assert await _indexes(crowd.app, name, table) == indexes, name
            scans = [each for each in await _scans(crowd.app, name, table) if "Scan" in each["Node Type"]]
            assert all("Index Cond" in each for each in scans), name


async def test_a_plan_made_over_a_few_rows_still_uses_the_primary_key(servers: Any) -> None:
    async with _database(servers) as few:
        await few.owner.execute(
            "INSERT INTO simulated_cob (world, txid, status, amount_cents, pix_key, created_at, expires_in_s,"
            " location_id) SELECT 'sandbox', md5(n::text), 'ATIVA', 1, 'k', now(), 60, n"
            " FROM generate_series(1, 300) AS n"
        )
        for name in ("simulated_bank.conclude", "simulated_bank.standing"):
            assert await _indexes(few.app, name, "simulated_cob") == {"simulated_cob_pkey"}


async def test_times_to_payment_are_ranked_once_for_the_whole_period(empty: _Database) -> None:
    """Joined to a period of which one row is expected, they would be ranked again for each of its days."""
    plan = await _plan(empty.app, "report.conversion")
    (took,) = [node for node in _nodes(plan) if node.get("Subplan Name") == "CTE took"]
    assert any(node["Node Type"] == "WindowAgg" for node in _nodes(took))


@pytest.mark.parametrize("of", ["pix", "boletos", "refunds", "withdrawals"])
async def test_a_banks_list_is_hashed_and_not_searched_for_each_item(empty: _Database, of: str) -> None:
    name = f"statement.{of}_not_listed"
    plans = [await _plan(empty.app, name)]
    statement = sql.STATEMENTS[name]
    now = datetime.now(UTC)
    asked = {
        "since": now, "until": now, "first_id": UUID(int=0), "last_id": UUID(int=1), "bank": "001", "transfers": True,
        "limit": 1, "listed": [UUID(int=n).hex for n in range(300_000)],
    }  # fmt: skip
    async with empty.app.transaction():
        await plan_comparison(empty.app)
        raw = await empty.app.fetchval(
            f"EXPLAIN (FORMAT JSON) {statement.text}", *(asked[each] for each in statement.parameters)
        )
    plans.append(msgspec.json.decode(raw)[0]["Plan"])
    for plan in plans:
        assert any("hashed SubPlan" in node.get("Filter", "") for node in _nodes(plan))


async def test_a_plan_made_over_few_payments_finds_refunds_and_payments_by_an_index(servers: Any) -> None:
    """Autovacuum does not analyze a table of 300 rows, and a plan is kept until the table is analyzed. Payments of a
    period are found by their instants, and not read from its beginning until now."""
    insert = (
        "INSERT INTO payment (account_id, payment_id, test, charge_id, source, method, amount_cents, settles,"
        " paid_at, credited_at) SELECT md5((n % 20)::text)::uuid, md5(n::text)::uuid, false, md5(n::text)::uuid,"
        " n::text, 'pix', 1, true, now(), now() FROM generate_series($1::integer, $2::integer) AS n"
    )
    async with _database(servers) as few:
        await few.owner.execute(insert, 1, 300)
        for table in ("payment", "read_refund"):
            for scan in await _scans(few.app, "refund.standing", table):
                assert "Index Cond" in scan, scan
        await few.owner.execute(insert, 301, 10_000)
        await few.owner.execute("ANALYZE payment")
        for of in ("pix", "boletos"):
            async with few.app.transaction():
                await plan_comparison(few.app)
                nodes = _nodes(await _plan(few.app, f"statement.{of}_not_listed"))
            assert {node["Index Name"] for node in nodes if node["Node Type"] == "Bitmap Index Scan"} == {
                "payment_paid"
            }


async def test_a_list_walks_its_own_index_over_thousands_of_rows_of_one_account(servers: Any) -> None:
    async with _database(servers) as some:
        for statement in _BUSY:
            await some.owner.execute(statement)
        for way in ("asc", "desc"):
            assert await _indexes(some.app, f"read_charge.by_status_{way}", "read_charge") == {
                "read_charge_status", "read_charge_pkey",
            }  # fmt: skip
            assert await _indexes(some.app, f"read_ledger.page_{way}+type", "read_ledger") == {"read_ledger_type"}


async def test_partitions_made_later_get_the_expected_statistics_too(empty: _Database) -> None:
    owner = empty.owner
    today = datetime.now(UTC).date()
    later = today.replace(year=today.year + 2, month=1, day=1)
    await owner.execute("SELECT make_months('read_event_sandbox', $1, $1)", later)
    await owner.execute("SELECT request_log_make_days($1, $1)", later)
    n_distinct = "SELECT n_distinct FROM pg_stats WHERE tablename = $1 AND attname = 'account_id'"
    for table in (f"read_event_sandbox_{later:%Y_%m}", f"request_log_{later:%Y_%m_%d}", "read_event_sandbox"):
        assert await owner.fetchval(n_distinct, table) == 2, table


async def test_tables_keyed_by_account_do_not_get_the_expected_statistics(empty: _Database) -> None:
    rows = await empty.owner.fetch("SELECT DISTINCT tablename FROM pg_stats WHERE schemaname = 'public'")
    with_statistics = {row[0] for row in rows}
    assert {"charge", "read_charge", "bank_order", "webhook_delivery_open", "simulated_cob"} <= with_statistics
    assert not with_statistics & {"account", "account_clock", "sandbox_clock", "webhook_lane", "simulated_fault"}


async def test_expected_statistics_do_not_replace_those_of_analyze(servers: Any) -> None:
    async with _database(servers) as analyzed:
        await analyzed.owner.execute(
            "INSERT INTO charge (account_id, charge_id, test, bank, payment_method, status, version, amount_cents,"
            " created_at, expires_at) SELECT md5(n::text)::uuid, md5(n::text)::uuid, true, '001', 'pix', 'pending', 1,"
            " 1, now(), now() FROM generate_series(1, 100) AS n"
        )
        await analyzed.owner.execute("ANALYZE charge")
        assert await analyzed.owner.fetchval("SELECT expect_few_values()") == 0
        n_distinct = "SELECT n_distinct FROM pg_stats WHERE tablename = 'charge' AND attname = 'account_id'"
        assert await analyzed.owner.fetchval(n_distinct) == -1  # -1 means that every row has another value.


async def _indexes(conn: Any, name: str, table: str) -> set[str]:
    """Returns the indexes through which a generic plan made now reads this table."""
    return {scan["Index Name"] for scan in await _scans(conn, name, table) if "Index Name" in scan}


async def _scans(conn: Any, name: str, table: str) -> list[dict[str, Any]]:
    return [node for node in _nodes(await _plan(conn, name)) if node.get("Relation Name") == table]


async def _plan(conn: Any, name: str) -> dict[str, Any]:
    """The plan of all values, made now."""
    statement = sql.STATEMENTS[name]
    await conn.execute(f"PREPARE asked AS {statement.text}")
    nulls = ", ".join(["NULL"] * len(statement.parameters))
    try:
        raw = await conn.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE asked({nulls})")
    finally:
        await conn.execute("DEALLOCATE PREPARE asked")
    plan: dict[str, Any] = msgspec.json.decode(raw)[0]["Plan"]
    return plan


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from _nodes(inner)
