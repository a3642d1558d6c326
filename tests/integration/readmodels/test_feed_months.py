"""The feed is partitioned by month: there is always a partition to write into, and months older than 400 days leave the
feed as a whole."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import msgspec
import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from commands.bank_orders.boleto_orders import look
from commands.merchants.merchants import create_merchant
from commands.webhooks.endpoint import remove_endpoint, set_endpoint
from domain.mode import Mode, Owner
from readmodels.page import SortOrder
from readmodels.projector import Projection, project
from readmodels.verify import verify
from readmodels.verify_scope import Difference
from readmodels.webhooks.event_list import EventFilters, event_page
from runtime.ids import new_id
from runtime.postgres import Pool, open_pool
from runtime.seal import Seal
from sql.migrate import MONTHLY, MONTHS_AHEAD, migrate
from tests.support.database import own_database, owner_of
from workers.housekeeping import months
from workers.housekeeping.months import (
    EVENTS_KEPT,
    MOVED_MAX,
    detach_feed,
    forget_endpoints,
    keep_months,
    make,
)
from workers.orders.lease import settle

_JOURNAL = """
INSERT INTO journal (account_id, test, charge_id, version, kind, recorded_at, actor, payload, event_id, event_sequence,
                     event_body)
VALUES ($1, true, $2, 1, 'charge.expired', $3, 'test', '{}', $4, $5, '{"event":"charge.expired"}')
RETURNING journal_id
"""
_PLACED = """
INSERT INTO bank_order (order_id, test, bank, kind, request, state, attempts, due_at, created_at)
VALUES ($1, true, '001', 'cob_remove', '{}', 'working', 1, $2, $2)
"""
_SENT = """
INSERT INTO webhook_delivery (delivery_id, endpoint_id, account_id, test, event_id, sequence, type, due_at, created_at)
VALUES (webhook_delivery_id($1, $2), $1, $3, false, $2, $4, 'payment.received', $5, $5)
RETURNING delivery_id
"""


class Own(NamedTuple):
    """A migrated database that only these tests use, so that they take no month away from other tests."""

    url: str
    owner_url: str
    pool: Pool
    worker: Any


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def own(servers: Any) -> AsyncIterator[Own]:
    async with own_database(servers, "months") as url:
        opened = await open_pool(url, name="tests", size=10)
        yield Own(
            url,
            owner_of(servers, url),
            opened,
            SimpleNamespace(
                pool=opened, now=lambda: datetime.now(UTC), settings=SimpleNamespace(bank_history_kept_days=400)
            ),
        )
        await opened.close()


async def feed_months(conn: Any) -> list[str]:
    rows = await conn.fetch(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'read_event_sandbox'::regclass"
    )
    return sorted(row["name"] for row in rows)


async def drop_all_months(own: Own) -> None:
    """Drops all months, as if no worker and no start had made any for longer than months are made ahead."""
    conn = await asyncpg.connect(own.owner_url)
    for name in await feed_months(conn):
        if name != "read_event_sandbox_other":
            await conn.execute(f"ALTER TABLE read_event_sandbox DETACH PARTITION {name}")
            await conn.execute(f"DROP TABLE {name}")
    await conn.execute("DELETE FROM read_event_sandbox_other")  # Rows of an earlier test.
    await conn.close()


def month_names_until(last: datetime) -> list[str]:
    """Returns the names of the partitions from this month to the month of `last`."""
    now = datetime.now(UTC)
    months = range(now.year * 12 + now.month - 1, last.year * 12 + last.month)
    return [f"read_event_sandbox_{month // 12}_{month % 12 + 1:02}" for month in months]


async def record_event(conn: Any, account_id: UUID, sequence: int, at: datetime) -> None:
    """Writes an event to the journal and the feed."""
    journal_id = await conn.fetchval(_JOURNAL, account_id, new_id(), at, new_id(), sequence)
    await project(conn, [journal_id], [Projection.EVENTS])


async def month_of(conn: Any, account_id: UUID, sequence: int) -> str:
    found: str = await conn.fetchval(
        "SELECT tableoid::regclass::text FROM read_event WHERE account_id = $1 AND sequence = $2", account_id, sequence
    )
    return found


async def feed_sequences(conn: Any, account_id: UUID) -> list[int]:
    page = await event_page(conn, Owner(account_id, Mode.SANDBOX), EventFilters(order=SortOrder.ASC), None, 100)
    return [msgspec.json.decode(item)["sequence"] for item in page[0]]


async def test_an_event_is_stored_in_its_month_or_else_in_the_default_partition(conn: Any) -> None:
    now, account_id = datetime.now(UTC), new_id()
    await make(
        conn, parent="read_event_sandbox", first=now.date(), last=(now + MONTHS_AHEAD).date(), moved_max=MOVED_MAX
    )
    await record_event(conn, account_id, 1, now)
    await record_event(conn, account_id, 2, now + timedelta(days=3000))
    assert await month_of(conn, account_id, 1) == f"read_event_sandbox_{now:%Y_%m}"
    assert await month_of(conn, account_id, 2) == "read_event_sandbox_other"
    assert await feed_sequences(conn, account_id) == [1, 2]


async def test_a_month_made_late_takes_its_events_from_the_default_partition(conn: Any) -> None:
    account_id, at = new_id(), datetime(2033, 5, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    await record_event(conn, account_id, 1, at)
    await record_event(conn, account_id, 2, at + timedelta(milliseconds=1))
    assert await make(conn, parent="read_event_sandbox", first=at.date(), last=at.date(), moved_max=1) >= 1
    assert await month_of(conn, account_id, 1) == "read_event_sandbox_2033_05"
    assert await month_of(conn, account_id, 2) == "read_event_sandbox_other"
    # Its first instant belongs to a month, as does the first of all ids of its first millisecond.
    assert await make(conn, parent="read_event_sandbox", first=at.date(), last=date(2033, 6, 1), moved_max=1) == 1
    assert await month_of(conn, account_id, 2) == "read_event_sandbox_2033_06"
    june = UUID(int=int(datetime(2033, 6, 1, tzinfo=UTC).timestamp() * 1000) << 80)
    assert await conn.fetchval("SELECT month_begins('2033-06-01', true)") == str(june)
    last = UUID(int=june.int - (1 << 80) | 7 << 76)  # a UUIDv7 of the millisecond before
    assert await conn.fetchval("SELECT instant_of_id($1)", last) == at


async def test_months_are_made_ahead_and_made_once(conn: Any) -> None:
    first = datetime(2031, 1, 15, tzinfo=UTC).date()
    last = datetime(2031, 4, 1, tzinfo=UTC).date()
    await make(conn, parent="read_event_sandbox", first=first, last=last, moved_max=MOVED_MAX)
    assert {f"read_event_sandbox_2031_0{month}" for month in range(1, 5)} <= set(await feed_months(conn))
    assert await make(conn, parent="read_event_sandbox", first=first, last=last, moved_max=MOVED_MAX) == 0


async def test_a_month_older_than_400_days_leaves_the_feed_as_a_whole_and_is_archived(table_owner: Pool) -> None:
    """The test runs as the owner of the tables: only the owner may read a month that has left the feed."""
    async with table_owner.acquire() as conn:
        begun = conn.transaction()
        await begun.start()
        try:
            await _a_month_leaves(conn)
        finally:
            await begun.rollback()


async def _a_month_leaves(conn: Any) -> None:
    now, account_id = datetime.now(UTC), new_id()
    old = now - EVENTS_KEPT - timedelta(days=70)
    await make(conn, parent="read_event_sandbox", first=old.date(), last=now.date(), moved_max=MOVED_MAX)
    await record_event(conn, account_id, 1, old)
    await record_event(conn, account_id, 2, now - EVENTS_KEPT + timedelta(days=1))
    await record_event(conn, account_id, 3, now)
    assert await feed_sequences(conn, account_id) == [1, 2, 3]
    begins_at = "SELECT begins_at FROM feed_begin"
    tried = conn.transaction()
    await tried.start()
    await conn.execute("UPDATE feed_begin SET begins_at = $1", now)
    assert await detach_feed(conn, kept=EVENTS_KEPT) >= 2
    assert await conn.fetchval(begins_at) == now, "an older month that was made late does not move the beginning back"
    await tried.rollback()
    assert await detach_feed(conn, kept=EVENTS_KEPT) >= 2
    first_kept = (now - EVENTS_KEPT).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    assert await conn.fetchval(begins_at) == first_kept
    assert await feed_sequences(conn, account_id) == [2, 3]
    kept = await conn.fetchval(
        f"SELECT count(*) FROM read_event_sandbox_archive_{old:%Y_%m} WHERE account_id = $1",  # noqa: S608
        account_id,
    )
    assert kept == 1
    # A projection made again from the journal begins with the first month of the feed.
    await conn.execute("DELETE FROM read_event WHERE account_id = $1", account_id)
    ids = [row[0] for row in await conn.fetch("SELECT journal_id FROM journal WHERE account_id = $1", account_id)]
    await project(conn, ids, [Projection.EVENTS])
    assert await feed_sequences(conn, account_id) == [2, 3]
    assert await detach_feed(conn, kept=EVENTS_KEPT) == 0


async def test_months_that_merchants_may_still_read_can_be_neither_detached_nor_dropped(own: Own) -> None:
    before = await feed_months(own.pool)
    of_the_bank = ("bank_order_done", "bank_hint_done")
    for table in set(MONTHLY) - set(of_the_bank):
        with pytest.raises(asyncpg.RaiseError, match="400 days"):
            await own.pool.execute("SELECT detach_months($1, now() - interval '398 days')", table)
    with pytest.raises(asyncpg.RaiseError, match="400 days"):
        await own.pool.execute("SELECT drop_months('webhook_attempt', now())")
    for table in ("read_event_production", "read_event_sandbox", *of_the_bank):
        with pytest.raises(asyncpg.RaiseError, match="are kept"):
            await own.pool.execute("SELECT drop_months($1, now() - interval '500 days')", table)
    for call in (
        "make_months('webhook_delivery', now()::date, now()::date)",
        "detach_months('webhook_delivery', now())",
    ):
        with pytest.raises(asyncpg.RaiseError, match="is not partitioned by month"):
            await own.pool.execute(f"SELECT {call}")
    assert await feed_months(own.pool) == before


async def test_a_worker_whose_clock_is_ahead_keeps_the_months_that_merchants_may_still_read(servers: Any) -> None:
    async with own_database(servers, "ahead") as url:
        pool = await open_pool(url, name="tests", size=2)
        old = datetime.now(UTC) - timedelta(days=300)
        for table in MONTHLY:
            await make(pool, parent=table, first=old.date(), last=old.date(), moved_max=MOVED_MAX)
        before = await feed_months(pool)
        worker: Any = SimpleNamespace(
            pool=pool,
            now=lambda: datetime.now(UTC) + timedelta(days=200),
            settings=SimpleNamespace(bank_history_kept_days=400),
        )
        assert f"read_event_sandbox_{old:%Y_%m}" in before
        assert await keep_months(worker) == 0
        assert set(before) <= set(await feed_months(pool))
        await pool.close()


async def test_verify_does_not_report_the_numbers_of_detached_months_as_missing(servers: Any) -> None:
    async with own_database(servers, "left") as url:
        pool = await open_pool(url, name="tests", size=2)
        await _months_that_left(url, pool)
        await pool.close()


async def _months_that_left(url: str, conn: Pool) -> None:
    now, account_id = datetime.now(UTC), new_id()
    old = now - EVENTS_KEPT - timedelta(days=70)
    await make(conn, parent="read_event_sandbox", first=old.date(), last=now.date(), moved_max=MOVED_MAX)
    for sequence, at in enumerate((old, old, now), 1):
        await record_event(conn, account_id, sequence, at)
    await conn.execute(
        "INSERT INTO account_clock (account_id, test, event_sequence, latest_at) VALUES ($1, true, 3, $2)",
        account_id, now,
    )  # fmt: skip
    await detach_feed(conn, kept=EVENTS_KEPT)
    assert await verify(url) == []
    await conn.execute("UPDATE account_clock SET event_sequence = 4 WHERE account_id = $1", account_id)
    assert await verify(url) == [Difference("books", "numbers missing in a feed", 1)]
    # If all events have left the feed, the journal still knows how many there were.
    await conn.execute("UPDATE account_clock SET event_sequence = 3 WHERE account_id = $1", account_id)
    await conn.execute("DELETE FROM read_event WHERE account_id = $1", account_id)
    assert await verify(url) == [
        Difference("read_event", "missing or stale", 1),
        Difference("books", "numbers missing in months that left the feed", 1),
    ]


async def test_a_start_makes_the_months_of_the_next_half_year(own: Own) -> None:
    expected = [*month_names_until(datetime.now(UTC) + MONTHS_AHEAD), "read_event_sandbox_other"]
    assert len(expected) >= 7
    assert await feed_months(own.pool) == expected
    await drop_all_months(own)
    assert await migrate(own.owner_url) == []
    assert await feed_months(own.pool) == expected


@pytest.mark.parametrize("maker", ["a start", "a worker"])
async def test_missing_months_are_made_later_with_their_events_of_the_default_partition(own: Own, maker: str) -> None:
    await drop_all_months(own)
    account_id, now = new_id(), datetime.now(UTC)
    before = now - timedelta(days=65)
    for sequence, at in enumerate((before, now, now + timedelta(days=3000)), 1):
        await record_event(own.pool, account_id, sequence, at)
    await (migrate(own.owner_url) if maker == "a start" else keep_months(own.worker))
    lie_in = [await month_of(own.pool, account_id, sequence) for sequence in (1, 2, 3)]
    assert lie_in == [
        f"read_event_sandbox_{before:%Y_%m}",
        f"read_event_sandbox_{now:%Y_%m}",
        "read_event_sandbox_other",
    ]
    assert await feed_sequences(own.pool, account_id) == [1, 2, 3]


async def test_making_a_month_fails_no_concurrent_writer_and_takes_all_its_events(own: Own) -> None:
    await drop_all_months(own)
    accounts, over, written = [new_id() for _ in range(6)], asyncio.Event(), Counter[UUID]()
    month = f"read_event_sandbox_{datetime.now(UTC):%Y_%m}"

    async def write(account_id: UUID) -> None:
        while not over.is_set():
            async with own.pool.acquire() as conn, conn.transaction():
                await record_event(conn, account_id, written[account_id] + 1, datetime.now(UTC))
            written[account_id] += 1

    writers = [asyncio.create_task(write(account_id)) for account_id in accounts]
    try:
        async with asyncio.timeout(30):
            while min(written[account_id] for account_id in accounts) < 10:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            while month not in await feed_months(
                own.pool
            ):  # a round that waits long for its lock leaves it to the next
                await keep_months(own.worker)
            so_far = written.copy()
            while any(written[account_id] < so_far[account_id] + 10 for account_id in accounts):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    finally:
        over.set()
        await asyncio.gather(*writers)
    rows = await own.pool.fetch("SELECT account_id, tableoid::regclass::text AS month FROM read_event")
    assert Counter((row["account_id"], row["month"]) for row in rows) == Counter(
        {(account_id, month): count for account_id, count in written.items()}
    )


async def test_making_a_month_neither_waits_for_a_long_transaction_nor_blocks_writers(own: Own) -> None:
    await drop_all_months(own)
    account_id, other = new_id(), new_id()
    async with own.pool.acquire() as slow, slow.transaction():
        await record_event(slow, account_id, 1, datetime.now(UTC))
        began = time.monotonic()
        making = asyncio.create_task(keep_months(own.worker))
        await asyncio.sleep(0.1)
        await record_event(own.pool, other, 1, datetime.now(UTC))
        assert time.monotonic() - began < 4, "queued behind the new month, for as long as any session waits for a lock"
        assert await making == 0
        assert await feed_months(own.pool) == ["read_event_sandbox_other"]
    await keep_months(own.worker)
    assert f"read_event_sandbox_{datetime.now(UTC):%Y_%m}" in await feed_months(own.pool)
    assert (await feed_sequences(own.pool, account_id), await feed_sequences(own.pool, other)) == ([1], [1])


async def test_a_table_that_takes_too_long_keeps_no_month_from_any_other(
    own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = datetime.now(UTC) - EVENTS_KEPT - timedelta(days=70)
    await make(own.pool, parent="read_event_production", first=old.date(), last=old.date(), moved_max=MOVED_MAX)
    await drop_all_months(own)

    async def make_slowly(conn: Any, *, parent: str, **given: Any) -> int:
        if parent == "read_event_production":  # the first table of all
            await conn.execute("SET LOCAL statement_timeout = 1")
            await conn.execute("SELECT pg_sleep(60)")
        return await make(conn, parent=parent, **given)

    monkeypatch.setattr(months, "make", make_slowly)
    assert await keep_months(own.worker) == 0
    assert f"read_event_sandbox_{datetime.now(UTC):%Y_%m}" in await feed_months(own.pool)
    archived = f"read_event_production_archive_{old:%Y_%m}"
    assert await own.pool.fetchval("SELECT to_regclass($1)::text", archived) == archived


async def test_a_missing_month_with_too_many_events_is_told_made_at_a_start_and_readable_before(
    own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    await drop_all_months(own)
    account_id, now = new_id(), datetime.now(UTC)
    for sequence in (1, 2, 3):
        await record_event(own.pool, account_id, sequence, now)
    monkeypatch.setattr(months, "MOVED_MAX", 2)
    with capture_logs() as logs:
        await keep_months(own.worker)
    lacking = [(each["table"], each["months"]) for each in logs if each["event"] == "months_lacking"]
    assert lacking == [("read_event_sandbox", 1)]
    assert await month_of(own.pool, account_id, 3) == "read_event_sandbox_other"
    assert len(await feed_months(own.pool)) == len(month_names_until(now + MONTHS_AHEAD))
    assert await feed_sequences(own.pool, account_id) == [1, 2, 3]
    await migrate(own.owner_url)
    assert await month_of(own.pool, account_id, 3) == f"read_event_sandbox_{now:%Y_%m}"
    assert await feed_sequences(own.pool, account_id) == [1, 2, 3]


async def test_future_events_of_a_sandbox_do_not_block_the_months_of_production(own: Own) -> None:
    await drop_all_months(own)
    account_id, then = new_id(), datetime.now(UTC) + timedelta(days=40)
    for sequence in (1, 2, 3):
        await record_event(own.pool, account_id, sequence, then)  # The sandbox's clock is ahead.
    async with own.pool.acquire() as conn, conn.transaction():
        for table in ("read_event_sandbox", "read_event_production"):
            await make(conn, parent=table, first=then.date(), last=then.date(), moved_max=2)
    assert await month_of(own.pool, account_id, 3) == "read_event_sandbox_other"
    production = await own.pool.fetchval("SELECT to_regclass($1)::text", f"read_event_production_{then:%Y_%m}")
    assert production == f"read_event_production_{then:%Y_%m}"


def order_id_of(at: datetime) -> UUID:
    """Returns an id (UUIDv7) as an order has that was placed at this instant."""
    return UUID(int=int(at.timestamp() * 1000) << 80 | new_id().int % (1 << 80))


def as_leased(order_id: UUID) -> Any:
    return SimpleNamespace(order_id=order_id, attempts=1)


async def test_the_outcome_of_an_order_is_stored_and_archived_with_the_month_of_its_id(own: Own) -> None:
    """The outcome of an order that stayed open for longer than outcomes are kept is still stored."""
    now = datetime.now(UTC)
    old = now - timedelta(days=470)
    without_month = UUID("00000000-0000-4000-8000-000000000001")
    ids = [order_id_of(old), order_id_of(old + timedelta(days=32)), order_id_of(now), order_id_of(old), without_month]
    for order_id in ids:
        await own.pool.execute(_PLACED, order_id, now)

    async def end(order_id: UUID) -> str:
        async with own.pool.acquire() as conn:
            assert await settle(conn, [(as_leased(order_id), "done", b"{}")], now=now) == {order_id}
            found = await conn.fetchval(
                "SELECT tableoid::regclass::text FROM bank_order_done WHERE order_id = $1", order_id
            )
        return str(found)

    assert await end(ids[0]) == "bank_order_done_other"
    await keep_months(own.worker)
    archived = f"bank_order_done_archive_{old:%Y_%m}"
    owner = await asyncpg.connect(own.owner_url)
    assert await owner.fetchval(f"SELECT order_id FROM {archived}") == ids[0]  # noqa: S608
    await owner.close()
    assert await end(ids[1]) == "bank_order_done_other"
    assert await end(ids[2]) == f"bank_order_done_{now:%Y_%m}"
    async with own.pool.acquire() as conn:
        assert [await look(conn, each) is not None for each in ids[:3]] == [False, True, True]
    # Neither is an archived month made a second time, nor any month for an id that names none.
    for order_id in ids[3:]:
        assert await end(order_id) == "bank_order_done_other"
    await keep_months(own.worker)
    lying = await own.pool.fetch(
        "SELECT order_id FROM bank_order_done WHERE tableoid = 'bank_order_done_other'::regclass"
    )
    assert {row["order_id"] for row in lying} == set(ids[3:])


async def test_bank_orders_and_hints_are_kept_for_the_configured_number_of_days(own: Own) -> None:
    month, tables = datetime.now(UTC) - timedelta(days=200), ("bank_order_done", "bank_hint_done")
    for table in tables:
        await make(own.pool, parent=table, first=month.date(), last=month.date(), moved_max=MOVED_MAX)

    async def archived() -> list[bool]:
        names = [f"{table}_archive_{month:%Y_%m}" for table in tables]
        return [await own.pool.fetchval("SELECT to_regclass($1) IS NOT NULL", name) for name in names]

    await keep_months(own.worker)
    assert await archived() == [False, False]
    worker: Any = SimpleNamespace(
        pool=own.pool, now=own.worker.now, settings=SimpleNamespace(bank_history_kept_days=90)
    )
    await keep_months(worker)
    assert await archived() == [True, True]


async def test_a_removed_endpoint_is_deleted_in_batches_and_can_be_replaced_at_once(own: Own) -> None:
    """Removing an endpoint does not wait for its deliveries to be deleted, however many there are."""
    now, chance = datetime.now(UTC), bytes(32)
    async with own.pool.acquire() as conn, conn.transaction():
        made = await create_merchant(conn, name="Loja", address=True, kyc="approved", now=now)
        account_id = UUID(str(made.account_id))
        given: Any = {"allow_private": True, "now": now, "seal": Seal(bytes(32)), "chance": chance}
        first = await set_endpoint(conn, account_id, "https://loja.test/", **given)
        await conn.execute(
            "INSERT INTO webhook_delivery (delivery_id, endpoint_id, account_id, test, event_id, sequence, type,"
            " due_at, created_at)"
            " SELECT gen_random_uuid(), $1, $2, false, gen_random_uuid(), n, 'payment.received', $3, $3"
            " FROM generate_series(1, 1500) AS n", first.endpoint_id, account_id, now,
        )  # fmt: skip
        await remove_endpoint(conn, account_id)
        assert await conn.fetchval("SELECT count(*) FROM webhook_lane WHERE endpoint_id = $1", first.endpoint_id) == 0
        second = await set_endpoint(conn, account_id, "https://loja.test/", **given)
    assert second.endpoint_id != first.endpoint_id
    assert [await forget_endpoints(own.worker) for _ in range(4)] == [1_000, 500, 1, 0]
    assert await own.pool.fetchval("SELECT endpoint_id FROM webhook_endpoint") == second.endpoint_id


async def test_a_finished_delivery_moves_from_the_queue_to_its_month_and_leaves_with_it(own: Own) -> None:
    """No row is deleted singly. A delivery from before the feed's first month and its attempts are gone with their
    month; those of the last day that is kept are still there."""
    now = datetime.now(UTC)
    async with own.pool.acquire() as conn:
        made = await create_merchant(conn, name="Loja", address=True, kyc="approved", now=now)
        account_id, endpoint_id = UUID(str(made.account_id)), new_id()
        await conn.execute(
            "INSERT INTO webhook_endpoint (endpoint_id, account_id, url, secret_sealed, kinds, created_at)"
            " VALUES ($1, $2, 'https://loja.test/', '', '{}', $3)",
            endpoint_id, account_id, now,
        )  # fmt: skip
        ids = []
        for sequence, at in enumerate(
            [now - EVENTS_KEPT - timedelta(days=32), now - EVENTS_KEPT + timedelta(hours=1), now], 1
        ):
            event_id = order_id_of(at)
            ids.append(await conn.fetchval(_SENT, endpoint_id, event_id, account_id, sequence, at))
        await conn.execute(
            "INSERT INTO webhook_attempt (delivery_id, attempt, started_at, duration_ms, outcome)"
            " SELECT unnest($1::uuid[]), 1, now(), 5, 'delivered'", ids,
        )  # fmt: skip
        queue = "SELECT count(*) FROM webhook_delivery_open WHERE endpoint_id = $1"
        assert await conn.fetchval(queue, endpoint_id) == 3
        await conn.execute("UPDATE webhook_delivery SET state = 'delivered' WHERE delivery_id = ANY($1)", ids)
        assert await conn.fetchval(queue, endpoint_id) == 0
        assert await conn.fetchval(
            "SELECT tableoid::regclass::text FROM webhook_delivery WHERE delivery_id = $1", ids[2]
        ) == f"webhook_delivery_done_{now:%Y_%m}"  # fmt: skip
    await keep_months(own.worker)
    left = await own.pool.fetch("SELECT delivery_id FROM webhook_delivery ORDER BY sequence")
    assert [row["delivery_id"] for row in left] == ids[1:]
    told = await own.pool.fetch("SELECT delivery_id FROM webhook_attempt ORDER BY delivery_id")
    assert [row["delivery_id"] for row in told] == ids[1:]
    gone = f"webhook_delivery_done_archive_{now - EVENTS_KEPT - timedelta(days=32):%Y_%m}"
    assert await own.pool.fetchval("SELECT to_regclass($1)", gone) is None


async def test_a_delivery_id_is_derived_from_its_event_and_endpoint_and_has_the_events_time(conn: Any) -> None:
    """So the id is the same whichever process writes it, the primary key prevents a duplicate, and the id names the
    month."""
    endpoint_id, event_id = new_id(), new_id()
    one, again, other_event, other_endpoint = [
        await conn.fetchval("SELECT webhook_delivery_id($1, $2)", endpoint, event)
        for endpoint, event in (
            (endpoint_id, event_id), (endpoint_id, event_id), (endpoint_id, new_id()), (new_id(), event_id),
        )
    ]  # fmt: skip
    assert one == again
    assert len({one, other_event, other_endpoint}) == 3
    assert (one.version, one.int >> 80) == (7, event_id.int >> 80)
