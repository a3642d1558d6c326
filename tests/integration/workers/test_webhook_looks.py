"""How a worker finds lanes with due deliveries: from the deliveries, and in rotation while one look cannot see all."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from runtime.postgres import Pool, transaction
from tests.support.webhooks import (
    Merchant,
    create_merchant_with_endpoint,
    receiving,
    record_events,
    until,
    webhook_worker,
)
from workers.webhooks.dispatcher import take_lanes

pytestmark = pytest.mark.usefixtures("quiet")

_CLOSE = """
UPDATE webhook_lane l SET state = 'broken', blocked_until = $2
FROM webhook_endpoint e WHERE e.endpoint_id = l.endpoint_id AND e.account_id = $1
"""

_GROW = """
UPDATE webhook_lane l SET concurrency = 8
FROM webhook_endpoint e WHERE e.endpoint_id = l.endpoint_id AND e.account_id = $1
"""


async def _set_due_at(pool: Pool, merchant: Merchant, due_at: datetime) -> None:
    await pool.execute("UPDATE webhook_delivery SET due_at = $1 WHERE account_id = $2", due_at, merchant.account_id)


async def test_lanes_that_wait_for_a_retry_are_not_scanned(pool: Pool) -> None:
    await pool.execute("DELETE FROM webhook_delivery WHERE state = 'pending'")
    later = datetime.now(UTC) + timedelta(hours=1)
    waiting = [await create_merchant_with_endpoint(pool, "http://127.0.0.1:9/") for _ in range(20)]
    for each in waiting:
        await record_events(pool, each)
        await _set_due_at(pool, each, later)

    async def looked() -> list[tuple[bool, UUID, int, int]]:
        async with transaction(pool) as conn:
            looks = await take_lanes(
                conn, after_endpoint=UUID(int=0), after_test=False, scan_max=0, scanned_first=False, window=8,
                now=datetime.now(UTC), cap=10, cap_test=5, limit=128,
            )  # fmt: skip
        return [(look.found, look.endpoint_id, look.due_rows, look.scanned) for look in looks]

    assert await looked() == [(False, UUID(int=0), 0, 0)]
    due = waiting[7]
    await _set_due_at(pool, due, datetime.now(UTC))
    endpoint_id = await pool.fetchval("SELECT endpoint_id FROM webhook_endpoint WHERE account_id = $1", due.account_id)
    assert await looked() == [(True, endpoint_id, 1, 0)]


@pytest.mark.parametrize("scan_max", [1, 3])
async def test_a_lane_hidden_between_older_and_newer_backlogs_is_served_in_rotation(
    pool: Pool, redis_url: str, monkeypatch: pytest.MonkeyPatch, scan_max: int
) -> None:
    """The older and the newer backlogs belong to receivers whose lanes are closed, so they stay due."""
    monkeypatch.setattr("workers.webhooks.dispatcher._WINDOW", 2)
    monkeypatch.setattr("workers.webhooks.dispatcher._SCAN_MAX", scan_max)
    now = datetime.now(UTC)
    async with receiving() as receiver, webhook_worker(pool, redis_url, every_s=0.1):
        closed = [await create_merchant_with_endpoint(pool, receiver.url) for _ in range(6)]
        hidden = await create_merchant_with_endpoint(pool, receiver.url)
        for each in (*closed, hidden):
            await pool.execute(_CLOSE, each.account_id, now + timedelta(hours=1))
        for number, each in enumerate(closed):
            await record_events(pool, each, count=3)
            await _set_due_at(pool, each, now - timedelta(minutes=30) * (number % 2))
        await record_events(pool, hidden)
        await _set_due_at(pool, hidden, now - timedelta(minutes=10))
        await pool.execute(_CLOSE, hidden.account_id, now)
        await until(pool, hidden, "delivered")


async def test_hanging_receivers_of_the_sandbox_or_in_a_busy_worker_leave_room_for_others(
    pool: Pool, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, limit in {"IN_FLIGHT_MAX": 8, "IN_FLIGHT_TEST_MAX": 2, "_BUSY_MIN": 4}.items():
        monkeypatch.setattr(f"workers.webhooks.dispatcher.{name}", limit)
    async with receiving(lambda _: None) as hanging, receiving() as answering:
        well = await create_merchant_with_endpoint(pool, answering.url)
        for test in (True, True, False, False):
            each = await create_merchant_with_endpoint(pool, hanging.url)
            await pool.execute(_GROW, each.account_id)
            await record_events(pool, each, count=6, test=test)
        async with webhook_worker(pool, redis_url, every_s=0.05, attempt_s=60.0):
            # The first look begins two requests of each lane, but only two of both sandboxes together. From then on the
            # worker is busy, and a lane with two requests under way gets no more.
            await hanging.reached(6)
            for _ in range(3):
                await answering.heard(await record_events(pool, well, count=2))
            assert hanging.flying == 6
