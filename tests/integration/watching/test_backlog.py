"""Backlogs are measured by one worker of the installation, at a cost that does not grow with them."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

import sql
from domain.instants import SAO_PAULO
from readmodels.verify import verify
from runtime.coordination.clocks import compare_clocks
from runtime.jobs import Jobs
from runtime.local.ports import free_port
from runtime.metrics import DatabaseMeter
from runtime.postgres import Pool, open_pool, session
from runtime.settings import read_settings
from tests.support.database import own_database
from workers.context import Context, open_context
from workers.housekeeping.backlog import measure_backlog as measure
from workers.housekeeping.backlog import queues
from workers.housekeeping.verification import verify_nightly

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ROWS = 3_000
NAMES = sorted(name for name in sql.STATEMENTS if name.startswith("backlog."))
GIVEN = {"now": NOW, "counted_max": 10, "lanes_max": 10, "earned_until": NOW - timedelta(days=180)}

_SEED = (
    "INSERT INTO account (account_id, name, document, city, kyc, pix_key, created_at)"
    " VALUES ('00000000-0000-0000-0000-000000000001', 'Loja', '12345678000190', 'Recife', 'approved', 'k', now()),"
    " ('00000000-0000-0000-0000-000000000002', 'Bloqueada', '12345678000190', 'Recife', 'blocked', 'k', now())",
    """
    INSERT INTO withdrawal (account_id, withdrawal_id, status, version, amount_cents, created_at)
    SELECT account_id, account_id, 'pending', 1, 1000, '2026-05-01' FROM account
    """,
    """
    INSERT INTO bank_order (order_id, account_id, charge_id, test, bank, kind, request, state, due_at, created_at)
    SELECT account_id, account_id, account_id, false, '001', 'withdrawal_send', '{}', 'waiting',
           CASE kyc WHEN 'blocked' THEN timestamptz '2026-05-01' ELSE '2026-05-01 00:00:04' END, '2026-05-01'
    FROM account
    """,
    """
    INSERT INTO bank_order (order_id, account_id, charge_id, test, bank, kind, request, state, lease_until, due_at,
                            created_at)
    SELECT md5('o' || n)::uuid, '00000000-0000-0000-0000-000000000001', md5('c' || n)::uuid, n % 2 = 0, '001',
           CASE WHEN n % 3 = 0 THEN 'cob_register' ELSE 'refund_return' END, '{}',
           CASE WHEN n > 3006 THEN 'working' ELSE 'waiting' END, CASE WHEN n > 3006 THEN timestamptz '2026-07-01' END,
           CASE WHEN n <= 3000 THEN timestamptz '2026-05-01' WHEN n > 3006 THEN '2026-04-01' ELSE '2026-07-01' END
           + n * interval '1 s', '2026-05-01'
    FROM generate_series(1, 3012) n
    """,
    # One order for each lane and mode that has none yet.
    """
    INSERT INTO bank_order (order_id, account_id, charge_id, test, bank, kind, request, state, due_at, created_at)
    SELECT md5(kind || test)::uuid, '00000000-0000-0000-0000-000000000001', md5(kind || test)::uuid, test, '001', kind,
           '{}', 'waiting', timestamptz '2026-05-30' + place * interval '1 s', '2026-05-01'
    FROM unnest(ARRAY['cob_remove', 'boleto_register', 'boleto_write_off', 'boleto_reconcile', 'refund_transfer'])
         WITH ORDINALITY AS k (kind, place) CROSS JOIN (VALUES (true), (false)) AS m (test)
    """,
    # Being sent before its account was blocked: it waits for workers.
    """
    INSERT INTO withdrawal (account_id, withdrawal_id, status, version, amount_cents, created_at)
    VALUES ('00000000-0000-0000-0000-000000000002', md5('w')::uuid, 'processing', 1, 1000, '2026-05-01')
    """,
    """
    INSERT INTO bank_order (order_id, account_id, charge_id, test, bank, kind, request, state, due_at, created_at)
    VALUES (md5('w')::uuid, '00000000-0000-0000-0000-000000000002', md5('w')::uuid, false, '001', 'withdrawal_send',
            '{}', 'waiting', '2026-05-30', '2026-05-01')
    """,
    """
    INSERT INTO webhook_endpoint (endpoint_id, account_id, url, secret_sealed, kinds, created_at)
    SELECT account_id, account_id, 'https://loja.example/', '', '{}', '2026-05-01' FROM account
    """,
    # Both receivers fail in production only: one is broken, the other blocked until later. A sandbox was blocked until
    # just now.
    """
    INSERT INTO webhook_lane (endpoint_id, test, state, blocked_until)
    VALUES ('00000000-0000-0000-0000-000000000001', true, 'open', NULL),
           ('00000000-0000-0000-0000-000000000001', false, 'broken', NULL),
           ('00000000-0000-0000-0000-000000000002', true, 'open', '2026-05-31 23:59:59'),
           ('00000000-0000-0000-0000-000000000002', false, 'open', '2026-06-01 00:00:01')
    """,
    # Of each lane: as many due as its number, the first of them after as many seconds; one held, and one not due yet.
    """
    INSERT INTO webhook_delivery (delivery_id, endpoint_id, account_id, test, event_id, sequence, type, state, due_at,
                                  created_at)
    SELECT gen_random_uuid(), endpoint_id, endpoint_id, test, gen_random_uuid(), n, 'payment.received',
           CASE n WHEN 0 THEN 'held' ELSE 'pending' END,
           CASE n WHEN 9 THEN timestamptz '2026-07-01' ELSE timestamptz '2026-05-30' + n * place * interval '1 s' END,
           '2026-05-01'
    FROM (SELECT *, row_number() OVER (ORDER BY endpoint_id, test) AS place FROM webhook_lane) AS l
    CROSS JOIN generate_series(0, 9) AS n WHERE n <= place OR n = 9
    """,
    """
    INSERT INTO schedule (account_id, schedule_id, status, created_at, payment_method, amount_cents, frequency,
                          first_due_date, issue_days_before, send_email, payer_sealed, look_at, ordered)
    SELECT '00000000-0000-0000-0000-000000000001', md5(status || ordered || day)::uuid, status, '2026-05-01', 'pix',
           100, 'monthly', '2026-05-01', 5, false, '', day::timestamptz, ordered
    FROM (VALUES ('active', false, '2026-05-30'), ('active', false, '2026-05-31'), ('active', false, '2026-06-02'),
                 ('active', true, '2026-05-01'), ('paused', false, '2026-05-01')) AS s (status, ordered, day)
    """,
    """
    INSERT INTO bank_hint (bank, about, txid, received_at, due_at)
    SELECT '001', CASE n % 2 WHEN 0 THEN 'E' ELSE 'boleto:' END || n, n::text, '2026-05-01',
           CASE WHEN n > 3000 THEN timestamptz '2026-07-01' ELSE '2026-05-01' END + n * interval '1 s'
    FROM generate_series(1, 3001) n
    """,
    """
    INSERT INTO charge (account_id, charge_id, test, bank, payment_method, status, version, amount_cents, created_at,
                        expires_at)
    SELECT '00000000-0000-0000-0000-000000000001', md5('c' || n)::uuid, false, '001', 'pix', 'pending', 1, 1000,
           '2026-05-01', CASE WHEN n > 3000 THEN timestamptz '2026-07-01' ELSE '2026-05-02' END + n * interval '1 s'
    FROM generate_series(1, 3001) n
    """,
    "UPDATE charge SET status = 'expired' WHERE charge_id = md5('c1')::uuid",
    """
    INSERT INTO mail_request (charge_id, account_id, due_at)
    SELECT md5('c' || n)::uuid, '00000000-0000-0000-0000-000000000001',
           CASE WHEN n > 3000 THEN timestamptz '2026-07-01' ELSE '2026-05-02' END + n * interval '1 s'
    FROM generate_series(1, 3001) n
    """,
    """
    INSERT INTO mail (mail_id, account_id, charge_id, kind, to_sealed, to_hash, state, due_at, created_at)
    SELECT md5(state || day)::uuid, '00000000-0000-0000-0000-000000000001', md5(state || day)::uuid, 'charge', '', '',
           state, day::timestamptz, '2026-05-01'
    FROM (VALUES ('sent', '2026-05-01'), ('waiting', '2026-05-02'), ('waiting', '2026-07-01')) AS m (state, day)
    """,
    """
    INSERT INTO suspense (suspense_id, bank, kind, source, amount_cents, received_at, found_at)
    SELECT md5('s' || n)::uuid, '001', 'pix_without_txid', 's' || n, 7, '2026-05-02', '2026-05-02'
    FROM generate_series(1, 3000) n
    """,
    """
    INSERT INTO partner_share (share_id, account_id, test, payment_id, integrador_code, partner_id, amount_cents,
                               share_bps, share_cents, earned_at)
    SELECT md5('p' || n)::uuid, '00000000-0000-0000-0000-000000000001', n % 2 = 0, md5('p' || n)::uuid, 'INTG-ABCDEF',
           '00000000-0000-0000-0000-000000000001', 1000, 100, 10, timestamptz '2025-01-01' + n * interval '1 minute'
    FROM generate_series(1, 3000) n
    """,
    # One of each mode after its holding period, one in it, one already posted; and those of a partner in cell 1.
    """
    INSERT INTO partner_share (share_id, account_id, test, payment_id, integrador_code, partner_id, amount_cents,
                               share_bps, share_cents, earned_at, posted_at, sent_to)
    SELECT md5(s::text)::uuid, '00000000-0000-0000-0000-000000000001', test, md5(s::text)::uuid, 'INTG-ABCDEF',
           CASE WHEN away THEN '00000000-0000-7001-8000-000000000000' ELSE '00000000-0000-0000-0000-000000000001' END
           ::uuid, 1000, 100, 10, earned::timestamptz, CASE WHEN posted THEN now() END, CASE WHEN away THEN 1 END
    FROM (VALUES (false, '2025-12-03', false, false), (false, '2025-12-04', false, false),
                 (true, '2026-05-31', false, false), (false, '2024-01-01', true, false),
                 (true, '2024-01-01', true, false), (false, '2024-01-01', true, true),
                 (false, '2024-02-01', false, true), (true, '2024-02-02', false, true))
         AS s (test, earned, posted, away)
    """,
    """
    INSERT INTO journal (account_id, test, charge_id, version, kind, recorded_at, actor, request_id, payload)
    SELECT '00000000-0000-0000-0000-000000000001', true, md5('c' || n)::uuid, 1, 'charge.created',
           timestamptz '2026-05-01' + n * interval '1 s', 'test', 'r', '{}' FROM generate_series(1, 3000) n
    """,
    # Three rows of the journal and two of the audit log are sealed, each chain in two blocks; four are in the totals.
    """
    INSERT INTO seal (chain, last_id, rows, digest)
    VALUES ('journal', 1, 1, ''), ('journal', 3, 2, ''), ('audit', 1, 1, ''), ('audit', 2, 1, '')
    """,
    "UPDATE report_position SET journal_id = 4",
    """
    INSERT INTO audit (audit_id, account_id, email, at, action, facts, address_hash, request_id)
    SELECT gen_random_uuid(), gen_random_uuid(), 'ana@example.com', timestamptz '2026-05-01' + n * interval '1 s',
           'account.approved', '{}', '', 'r' FROM generate_series(1, 4) n
    """,
)  # fmt: skip

# With 100 differences.
_VERIFIED = """
WITH v AS (
    INSERT INTO verification (scope, nightly, feed_begins_at, ended_at) VALUES ($1::text::jsonb, false, '-infinity', $2)
    RETURNING verification_id
)
INSERT INTO verification_difference (verification_id, part, slice, began, "table", what, rows)
SELECT verification_id, 'journal', 1, '', 'journal', 'x', 100 FROM v
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def full(servers: Any) -> AsyncIterator[Pool]:
    async with own_database(servers, "backlog") as url:
        pool = await open_pool(url, name="tests", size=2)
        async with pool.acquire() as conn:
            for statement in _SEED:
                await conn.execute(statement)
        yield pool
        await pool.close()


def _scans(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "Relation Name" in plan:
        yield plan
    for inner in plan.get("Plans", ()):
        yield from _scans(inner)


@pytest.mark.parametrize("name", NAMES)
async def test_a_backlog_is_measured_from_the_first_entries_of_an_index(full: Pool, name: str) -> None:
    text, parameters = sql.STATEMENTS[name]
    async with full.acquire() as conn, conn.transaction():
        await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        given = [GIVEN[parameter] for parameter in parameters]
        plan = msgspec.json.decode(await conn.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}", *given))[0]["Plan"]
    for scan in _scans(plan):
        assert "Index" in scan["Node Type"], scan
        read = (scan["Actual Rows"] + scan.get("Rows Removed by Filter", 0)) * scan["Actual Loops"]
        assert read <= 10 * 8, (scan["Relation Name"], read)


async def test_each_backlog_reports_how_many_wait_and_since_when_the_oldest_waits(full: Pool) -> None:
    async with full.acquire() as conn:
        found = {
            (each.queue, each.mode): (each.waiting, each.oldest)
            for each in await queues(conn, now=NOW, held=timedelta(days=180))
        }
    # Orders alternate between the modes, and every third is of PIX. Rows beyond ROWS are not due yet, or leased.
    late_s = 29 * 86_400
    first_s = {
        ("bank_orders_pix", "production"): (ROWS // 6 + 1, 3),
        ("bank_orders_pix", "test"): (ROWS // 6 + 1, 6),
        ("bank_orders_refund", "production"): (ROWS // 3 + 1, 1),
        ("bank_orders_refund", "test"): (ROWS // 3 + 1, 2),
        ("bank_orders_boleto", "production"): (3, late_s + 2),
        ("bank_orders_boleto", "test"): (3, late_s + 2),
        ("bank_orders_withdrawal", "production"): (2, 4),
        ("bank_hints", "all"): (ROWS, 1),
        ("webhooks", "test"): (2 + 4, late_s + 2),
        ("webhooks_of_failing_receivers", "production"): (1 + 3, late_s + 1),
        ("schedules", "all"): (2, late_s),
        ("journal_seal", "all"): (ROWS - 3, 4),
        ("audit_seal", "all"): (2, 3),
        ("reports", "all"): (ROWS - 4, 5),
        ("expiry", "all"): (ROWS - 1, 86_402),
        ("mail_writing", "all"): (ROWS, 86_401),
        ("mail", "all"): (1, 86_400),
    }
    begins = datetime(2026, 5, 1, tzinfo=UTC)
    expected: dict[tuple[str, str], tuple[int, datetime | None]] = {
        key: (waiting, begins + timedelta(seconds=after_s)) for key, (waiting, after_s) in first_s.items()
    }
    earned = datetime(2025, 1, 1, tzinfo=UTC)
    expected |= {
        # A partner's share is due once its holding time is over; in the sandbox there is none.
        ("partner_shares", "production"): (ROWS // 2 + 1, earned + timedelta(days=180, minutes=1)),
        ("partner_shares", "test"): (ROWS // 2 + 1, earned + timedelta(minutes=2)),
        ("partner_shares_away", "all"): (2, datetime(2024, 2, 1, tzinfo=UTC)),
    }
    empty = [("bank_orders_withdrawal", "test"), ("webhooks", "production"), ("webhooks_of_failing_receivers", "test")]
    expected |= dict.fromkeys(empty, (0, None))
    assert found == expected


async def test_a_failing_receiver_with_most_of_the_due_deliveries_hides_no_other(
    full: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers that lag behind with all other receivers went unnoticed for as long as it failed."""
    monkeypatch.setattr("workers.housekeeping.backlog.COUNTED_MAX", 1)
    async with full.acquire() as conn:
        measured = await queues(conn, now=NOW, held=timedelta(days=180))
    first = datetime(2026, 5, 30, tzinfo=UTC)
    found = {(each.queue, each.mode): (each.waiting, each.oldest) for each in measured if "webhooks" in each.queue}
    assert found == {
        ("webhooks", "test"): (2 + 4, first + timedelta(seconds=2)),
        ("webhooks", "production"): (0, None),
        ("webhooks_of_failing_receivers", "test"): (0, None),
        ("webhooks_of_failing_receivers", "production"): (1 + 3, first + timedelta(seconds=1)),
    }


class _NoJobs(Jobs):
    def __init__(self) -> None:
        pass

    def wake(self, name: str) -> None:
        pass


@pytest_asyncio.fixture(loop_scope="session")
async def workers(servers: Any) -> AsyncIterator[list[Context]]:
    """Two workers of an installation of their own."""
    async with own_database(servers, "measuring") as url:
        env = {
            "DATABASE_URL": url, "REDIS_URL": servers.redis_url, "SECRET_KEY": "5e" * 32,
            "BANK_URL": f"http://127.0.0.1:{free_port()}", "VERIFY_HOUR": "2",
        }  # fmt: skip
        settings, stopping = read_settings(env), asyncio.Event()
        async with (
            open_context(settings, _NoJobs(), stopping) as first,
            open_context(settings, _NoJobs(), stopping) as second,
        ):
            second.worker += "-second"
            yield [first, second]


def gauge(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, labels)


async def test_one_worker_measures_all_backlogs_with_at_most_thirteen_statements(workers: list[Context]) -> None:
    first, second = workers
    for spent in sql.SPENT.values():
        spent.take_counts()
    assert await measure(first) == 0
    ran = {file: statements for file, spent in sql.SPENT.items() if (statements := spent.take_counts()[0])}
    assert ran.keys() <= {"lease", "backlog", "verify", "cell"}
    assert sum(ran.values()) <= 13
    assert gauge("quita_queue_waiting", cell="0", queue="mail", mode="all") == 0
    assert gauge("quita_cell_info", cell="0") == 1

    await measure(second)
    assert {file: spent.take_counts()[0] for file, spent in sql.SPENT.items() if spent.statements} == {"lease": 1}
    for name, labels in (("quita_queue_waiting", {"queue": "mail", "mode": "all"}), ("quita_cell_info", {})):
        assert gauge(name, cell="0", **labels) is None, "the gauges of a worker that no longer measures are removed"


async def test_gauges_show_open_suspense_and_differences_in_the_books(workers: list[Context]) -> None:
    first, _ = workers
    async with session(first.pool) as conn:
        await conn.execute(
            "INSERT INTO suspense (suspense_id, bank, kind, source, amount_cents, received_at, found_at, state,"
            " settled_at, return_reference)"
            " SELECT gen_random_uuid(), '001', 'pix_without_txid', 'E' || cents, cents, now() - h * interval '1 hour',"
            " now(), CASE WHEN h = 9 THEN 'returned' ELSE 'open' END, CASE h WHEN 9 THEN now() END,"
            " CASE h WHEN 9 THEN 'D1' END FROM (VALUES (1234, 2), (5, 1), (70000, 9)) AS s (cents, h)"
        )
        await conn.execute(
            "INSERT INTO report_cohort (account_id, day, payment_method, status, charges, cents)"
            " VALUES ($1, '2026-01-01', 'pix', 'paid', 3, 300), ($1, '2026-01-02', 'pix', 'paid', 3, 300)",
            UUID(int=7),
        )
        await conn.execute(_VERIFIED, "{}", datetime(2026, 1, 1, tzinfo=UTC))
    differences = sum(each.rows for each in await verify(first.settings.database_url))
    assert differences > 0
    async with session(first.pool) as conn:
        # Begun later, but unfinished or about a part of the rows.
        for scope in ("account_id", "since", "until"):
            await conn.execute(_VERIFIED, f'{{"{scope}": "x"}}', datetime(2026, 1, 1, tzinfo=UTC))
        await conn.execute(_VERIFIED, "{}", None)
        # Two events of the months that left the feed are not in the journal.
        await conn.execute(
            "UPDATE verification_part SET left_feed = -2 WHERE (verification_id, part) = ("
            " SELECT verification_id, part FROM verification_part ORDER BY verification_id DESC, part LIMIT 1)"
        )
        await conn.execute(
            "INSERT INTO seal (chain, last_id, rows, digest, sealed_at) VALUES ('journal', 1, 1, '', '2026-01-01'),"
            " ('journal', 2, 1, '', '2026-01-02'), ('audit', 3, 1, '', '2026-01-03')"
        )
        await conn.execute(
            "INSERT INTO journal (account_id, test, version, kind, recorded_at, actor, request_id, payload)"
            " SELECT $1, true, 1, 'charge.created', now(), 'test', 'r', '{}' FROM generate_series(1, 3)",
            UUID(int=7),
        )
    await measure(first)
    assert gauge("quita_suspense_open_cents", cell="0") == 1239
    assert gauge("quita_queue_waiting", cell="0", queue="suspense", mode="production") == 2
    oldest_s = gauge("quita_queue_oldest_seconds", cell="0", queue="suspense", mode="production")
    assert oldest_s == pytest.approx(2 * 3600, abs=120)
    assert gauge("quita_verify_differences", cell="0") == differences + 2
    completed = gauge("quita_verify_completed_timestamp_seconds", cell="0") or 0
    assert abs(completed - datetime.now(UTC).timestamp()) < 60
    sealed = datetime(2026, 1, 2, tzinfo=UTC).timestamp()
    assert gauge("quita_journal_sealed_timestamp_seconds", cell="0") == sealed
    assert gauge("quita_queue_waiting", cell="0", queue="journal_seal", mode="all") == 1


async def test_the_books_are_verified_once_each_night_by_one_worker_slice_by_slice(workers: list[Context]) -> None:
    first, second = workers
    night = datetime(2026, 6, 2, 5, 30, tzinfo=UTC)  # half past two in Sao Paulo

    def at(instant: datetime) -> None:
        for each in workers:
            each.now = lambda: instant

    at(night - timedelta(hours=1))
    assert await verify_nightly(first) == 0, "it is before the hour of the verification"
    at(night + timedelta(hours=1))
    assert await verify_nightly(first) == 0, "it is after that hour"
    at(night)
    none = msgspec.structs.replace(first.settings.watching, verify_percent=0)
    off = msgspec.structs.replace(first, settings=msgspec.structs.replace(first.settings, watching=none))
    assert await verify_nightly(off) == 0, "it is switched off"
    begun = "SELECT count(*) FROM verification WHERE nightly"
    assert await first.pool.fetchval(begun) == 0

    assert await verify_nightly(first) == 1
    assert await verify_nightly(second) == 0, "the other worker holds the lease"
    rounds = 1
    at(night + timedelta(hours=5))  # a verification that was begun is continued
    while await verify_nightly(first):
        rounds += 1
        assert rounds < 200
    assert await first.pool.fetchval("SELECT count(*) FROM verification WHERE nightly AND ended_at IS NOT NULL") == 1
    assert await second.pool.fetchval("SELECT count(*) FROM lease WHERE name = 'verification'") == 0
    # The beginning is taken from the database's clock, and the day is that of Sao Paulo.
    that_day = (await first.pool.fetchval("SELECT begun_at FROM verification WHERE nightly")).astimezone(SAO_PAULO)
    at(that_day.replace(hour=2, minute=30))
    assert await verify_nightly(second) == 0
    assert await first.pool.fetchval(begun) == 1
    assert rounds > 5, "a round is a slice"


async def test_resuming_a_manual_verification_does_not_resume_the_nightly_one(workers: list[Context]) -> None:
    from readmodels.verify import NothingToResume, resume

    first, _ = workers
    first.now = lambda: datetime(2026, 6, 2, 5, 30, tzinfo=UTC)
    assert await verify_nightly(first) == 1
    with pytest.raises(NothingToResume):
        await resume(first.settings.database_url)


async def test_statement_counts_reach_the_metrics_only_when_they_are_flushed(pool: Pool) -> None:
    meter, labels = DatabaseMeter(), {"file": "account"}
    suspended = sql.one("account.pix_suspended", bool)
    meter.flush_counts()
    before = gauge("quita_sql_statements_total", **labels) or 0
    async with session(pool) as conn:
        for _ in range(100):
            await suspended(conn)
    assert (gauge("quita_sql_statements_total", **labels) or 0) == before
    meter.flush_counts()
    assert gauge("quita_sql_statements_total", **labels) == before + 100
    assert (gauge("quita_sql_seconds_total", **labels) or 0) > 0


async def test_waits_for_a_pool_connection_are_counted(servers: Any) -> None:
    pool = await open_pool(servers.database_url, name="narrow", size=1)
    try:
        async with session(pool):
            second = asyncio.create_task(_use(pool))
            await asyncio.sleep(0.2)
            assert pool.in_use == 1
        await second
        DatabaseMeter().flush_counts()
        assert gauge("quita_pool_waits_total", pool="narrow") == 1
        assert (gauge("quita_pool_wait_seconds_total", pool="narrow") or 0) >= 0.1
        assert gauge("quita_pool_connections", pool="narrow", state="max") == 1
        assert pool.in_use == 0
    finally:
        await pool.close()


async def test_a_clock_that_differs_from_postgresqls_is_measured_and_logged(pool: Pool) -> None:
    for ahead_s in (0, 12, -12):
        with capture_logs() as logged:
            await compare_clocks(pool, lambda: datetime.now(UTC) + timedelta(seconds=ahead_s))  # noqa: B023  called here
        measured_s = gauge("quita_clock_ahead_seconds", pool=pool.name)
        assert measured_s == pytest.approx(ahead_s, abs=5)
        assert [line["event"] for line in logged if abs(line["ahead_s"]) > 5] == ["clock_differs"] * bool(ahead_s)


async def _use(pool: Pool) -> None:
    async with session(pool) as conn:
        await conn.execute("SELECT 1")
