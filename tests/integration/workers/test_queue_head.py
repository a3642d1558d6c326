"""A claim costs as much as the orders it takes; orders that left the queue during a long snapshot cost nothing."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import asyncpg
import msgspec
import pytest

import sql
from commands.bank_orders.kinds import OrderKind
from tests.support.database import own_database
from workers.orders.queue_head import LATE, UNTAKEN, QueueHead

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)

_WRITTEN = """
INSERT INTO bank_order (order_id, account_id, charge_id, test, bank, kind, request, due_at, created_at)
SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), false, '001', $1, '{}',
       $2::timestamptz - n * interval '1 second', $2 FROM generate_series(1, $3::integer) AS n
"""


class Order(NamedTuple):
    due_at: datetime


class RecordingQueue:
    """A QueueHead that records the due time from which each claim searched."""

    def __init__(self) -> None:
        self.clock_s = 100.0
        self.head = QueueHead(lambda: self.clock_s)
        self.since: list[datetime | None] = []
        self.took_s = 0.0

    async def claim(self, *due_at: datetime) -> None:
        async def claimed(since: datetime | None) -> Sequence[Order]:
            self.since.append(since)
            self.clock_s += self.took_s
            return [Order(each) for each in due_at]

        await self.head.claim(claimed, now=NOW)


async def test_claims_search_from_just_before_the_last_order_and_now_and_then_from_the_oldest() -> None:
    asked = RecordingQueue()
    await asked.claim(NOW - timedelta(minutes=2), NOW - timedelta(minutes=1))
    await asked.claim()
    # Registrations beyond their account's share are claimed before they are due; they do not move the start.
    await asked.claim(NOW, NOW + timedelta(minutes=1))
    await asked.claim()
    asked.clock_s += 5
    await asked.claim(NOW - timedelta(hours=1))
    await asked.claim()
    first = NOW - timedelta(minutes=1) - LATE
    old = NOW - timedelta(hours=1) - LATE
    assert asked.since == [None, first, first, NOW - LATE, None, old], (
        "old orders are searched from where the last claim left off"
    )


async def test_orders_that_a_search_of_the_whole_queue_did_not_take_are_left_to_the_next_one() -> None:
    """Withdrawals of blocked accounts stay due; each second a look at all of them would cost the more, the more there
    are."""
    asked = RecordingQueue()
    await asked.claim()
    await asked.claim()
    asked.clock_s += 5
    await asked.claim()
    await asked.claim(NOW)
    await asked.claim()
    assert asked.since == [None, NOW - UNTAKEN, None, NOW - UNTAKEN, NOW - LATE]


async def test_searches_of_the_whole_queue_take_a_twentieth_of_the_time() -> None:
    asked = RecordingQueue()
    asked.took_s = 1.0
    for _ in range(23):
        await asked.claim(NOW)
    assert [number for number, since in enumerate(asked.since) if since is None] == [0, 21]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("claim_pix", OrderKind.COB_REGISTER),
        ("claim_boletos", OrderKind.BOLETO_REGISTER),
        ("claim_money", OrderKind.REFUND_RETURN),
    ],
)
async def test_a_claim_does_not_scan_orders_deleted_behind_an_open_snapshot(
    servers: Any, name: str, kind: OrderKind
) -> None:
    async with own_database(servers, "queue_head") as url:
        holder: Any = await asyncpg.connect(url)
        conn: Any = await asyncpg.connect(url)
        held = holder.transaction(isolation="repeatable_read")
        await held.start()
        await holder.fetch("SELECT FROM bank_order")
        await conn.execute(_WRITTEN.replace("$1", f"'{kind}'").replace("$2", f"'{NOW - LATE}'").replace("$3", "5000"))
        await conn.execute("DELETE FROM bank_order")
        await conn.execute(_WRITTEN.replace("$1", f"'{kind}'").replace("$2", f"'{NOW}'").replace("$3", "5"))
        await conn.execute(f"PREPARE asked AS {sql.STATEMENTS[f'bank_order.{name}'].text}")
        blocks = []
        for since in ("NULL", f"'{NOW - LATE}'"):
            given = {"test": "false", "since": since, "now": f"'{NOW}'", "limit": "100", "lease": "'30 s'"}
            given["lane"] = f"'{kind.lane}'"
            listed = ", ".join(given[each] for each in sql.STATEMENTS[f"bank_order.{name}"].parameters)
            undone = conn.transaction()
            await undone.start()
            raw = await conn.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE asked({listed})")
            await undone.rollback()
            plan = msgspec.json.decode(raw)[0]["Plan"]
            assert plan["Actual Rows"] == 5, raw
            blocks.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
        assert blocks[1] < blocks[0] / 2, blocks
        await conn.close()
        await held.rollback()
        await holder.close()
