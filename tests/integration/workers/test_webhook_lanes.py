"""A lane whose receiver fails is slowed, then paused; the merchant is notified, and held deliveries are sent later."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import msgspec
import pytest

from commands.webhooks import notices
from commands.webhooks.endpoint import (
    choose_kinds,
    remove_endpoint,
    resume,
    revoke_previous,
    rotate_secret,
    set_endpoint,
)
from commands.webhooks.notices import claim_unmailed, mark_mailed
from domain.errors import Refused
from domain.events import EventKind
from runtime.coordination.lanes import WEBHOOKS
from runtime.ids import new_id
from runtime.postgres import Pool, session, transaction
from tests.support.webhooks import (
    PATIENCE_S,
    SEAL,
    Merchant,
    Receiver,
    an_account,
    attempts_of,
    create_merchant_with_endpoint,
    receiving,
    record_events,
    rows_of,
    until,
    webhook_worker,
)
from workers.webhooks.lanes import end_release, hold, release_held

pytestmark = pytest.mark.usefixtures("quiet")

DAYS = 3


class Clock:
    """A worker's clock, which a test may put forward."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


async def lane_of(pool: Pool, merchant: Merchant, *, test: bool = False) -> dict[str, Any]:
    record = await pool.fetchrow(
        "SELECT * FROM webhook_lane WHERE endpoint_id = $1 AND test = $2", merchant.endpoint.endpoint_id, test
    )
    assert record is not None
    return dict(record)


async def eventually(true: Callable[[], Any]) -> None:
    """Wait until this (awaitable) condition holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not await true():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def wait_for_lane_state(pool: Pool, merchant: Merchant, state: str, *, test: bool = False) -> None:
    async def there() -> bool:
        return bool((await lane_of(pool, merchant, test=test))["state"] == state)

    await eventually(there)


async def notices_of(pool: Pool, merchant: Merchant) -> list[tuple[str, str, bool]]:
    records = await pool.fetch(
        "SELECT kind, event_type, test FROM notice WHERE account_id = $1 ORDER BY at, notice_id", merchant.account_id
    )
    return [(record["kind"], record["event_type"], record["test"]) for record in records]


async def merchant_with_broken_lane(pool: Pool, redis_url: str, receiver: Receiver, *, test: bool = False) -> Merchant:
    """A merchant whose lane has just broken, with five waiting deliveries."""
    merchant = await create_merchant_with_endpoint(pool, receiver.url)
    async with webhook_worker(pool, redis_url, delays_s=(30.0,) * 12, every_s=0.05):
        await record_events(pool, merchant, 5, test=test)
        await wait_for_lane_state(pool, merchant, "broken", test=test)
        await until(pool, merchant, "pending")
    return merchant


async def merchant_with_paused_lane(
    pool: Pool, redis_url: str, receiver: Receiver, clock: Clock, *, test: bool = False
) -> Merchant:
    """A merchant whose lane has been paused after three days of 503; `clock` stands at that moment."""
    merchant = await merchant_with_broken_lane(pool, redis_url, receiver, test=test)
    clock.ahead += timedelta(days=DAYS, minutes=1)
    async with webhook_worker(pool, redis_url, every_s=0.05, now=clock):
        await wait_for_lane_state(pool, merchant, "paused", test=test)
        await until(pool, merchant, "held")

        async def moved() -> bool:
            return not (await lane_of(pool, merchant, test=test))["holding"]

        await eventually(moved)
    return merchant


async def test_a_broken_lane_is_probed_one_at_a_time_and_waiting_deliveries_use_up_no_attempt(
    pool: Pool, redis_url: str
) -> None:
    async with receiving(lambda _: 503) as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        async with webhook_worker(pool, redis_url, delays_s=(0.2,) * 12, every_s=0.05):
            await record_events(pool, merchant, 40)
            await wait_for_lane_state(pool, merchant, "broken")
            before, began = len(receiver.requests), time.monotonic()
            await receiver.reached(before + 6)
            took_s = time.monotonic() - began
            probes = receiver.requests[before + 2 :]  # requests under way when the lane broke are no probes
            await until(pool, merchant, "pending")
    assert len(probes) <= took_s / 0.2 + 1, "one probe each 0.2 s"
    assert {each.flying for each in probes} == {1}
    rows = await rows_of(pool, merchant)
    assert states_of(rows)["pending"] == 40
    assert sum(attempt == 0 for _, _, attempt in rows) >= 40 - len(receiver.requests)


def states_of(rows: list[tuple[str, int, int]]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for state, _, _ in rows:
        counted[state] = counted.get(state, 0) + 1
    return counted


async def test_a_recovered_lane_starts_with_one_request_at_once_and_grows(pool: Pool, redis_url: str) -> None:
    well = [False]
    async with receiving(lambda _: 200 if well[0] else 503, delay_s=0.15) as receiver:
        merchant = await merchant_with_broken_lane(pool, redis_url, receiver)
        await record_events(pool, merchant, 60)
        before = len(receiver.requests)
        well[0] = True
        await pool.execute(
            "UPDATE webhook_lane SET blocked_until = now() WHERE endpoint_id = $1", merchant.endpoint.endpoint_id
        )
        await pool.execute("UPDATE webhook_delivery SET due_at = now() WHERE account_id = $1", merchant.account_id)
        async with webhook_worker(pool, redis_url, every_s=0.05):
            await until(pool, merchant, "delivered")
    flying = [each.flying for each in receiver.requests[before:]]
    assert flying[:2] == [1, 1], "a probe, and one more"
    assert max(flying[2:4]) <= 2, flying
    assert max(flying[4:8]) <= 4, flying
    assert 2 < max(flying) <= 10, flying
    assert (await lane_of(pool, merchant))["concurrency"] == 10, "those whose answer is not stored yet count as well"
    assert len({each.event_id for each in receiver.requests[before:]}) == len(flying)


async def test_a_refused_event_at_the_head_delays_no_other_and_keeps_its_own_schedule(
    pool: Pool, redis_url: str
) -> None:
    bad: list[str] = []

    def answers(n: int) -> int:
        return 500 if receiver.requests[n - 1].event_id in bad else 200

    async with receiving(answers) as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        bad += await record_events(pool, merchant)
        others = await record_events(pool, merchant, 30)
        async with webhook_worker(pool, redis_url, delays_s=(0.2, 0.4, 60.0), every_s=0.05):
            await receiver.heard(others)
            await receiver.reached(33)

            async def all_is_written() -> bool:
                return states_of(await rows_of(pool, merchant)) == {"pending": 1, "delivered": 30}

            await eventually(all_is_written)
    at = [each.at for each in receiver.requests if each.event_id in bad]
    first, second = at[1] - at[0], at[2] - at[1]
    # Not before the delay of its schedule, and long before the next delay, of a minute.
    assert 0.15 < first < 10
    assert 0.3 < second < 10


async def test_refused_events_at_the_head_do_not_keep_the_lane_of_a_healthy_receiver_broken(
    pool: Pool, redis_url: str
) -> None:
    bad: list[str] = []

    def answers(n: int) -> int:
        return 500 if receiver.requests[n - 1].event_id in bad else 200

    async with receiving(answers) as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        bad += await record_events(pool, merchant, 60)
        async with webhook_worker(pool, redis_url, delays_s=(0.05,) * 40, every_s=0.02, WEBHOOK_JITTER="0"):
            await wait_for_lane_state(pool, merchant, "broken")
            good = await record_events(pool, merchant)
            before = len(receiver.requests)
            await receiver.heard(good)
    probes = [each.event_id for each in receiver.requests]
    assert probes.index(good[0]) - before <= 14, "the newest delivery is probed among the oldest, not after all of them"


@pytest.mark.parametrize("test", [False, True])
async def test_three_days_without_a_success_pause_the_lane_hold_deliveries_and_give_a_notice(
    pool: Pool, redis_url: str, test: bool
) -> None:
    clock = Clock()
    async with receiving(lambda _: 503) as receiver:
        merchant = await merchant_with_paused_lane(pool, redis_url, receiver, clock, test=test)
        await record_events(pool, merchant, 3, test=test)
        sent = len(receiver.requests)
        async with webhook_worker(pool, redis_url, every_s=0.05, now=clock):
            await asyncio.sleep(0.4)
    assert len(receiver.requests) == sent, "nothing is sent to a paused lane"
    assert states_of(await rows_of(pool, merchant)) == {"held": 8}
    kind = "[TESTE/SANDBOX] payment.received" if test else "payment.received"
    assert await notices_of(pool, merchant) == [("webhook_failing", kind, test), ("webhook_paused", kind, test)]
    facts = msgspec.json.decode(
        await pool.fetchval(
            "SELECT facts FROM notice WHERE account_id = $1 AND kind = 'webhook_paused'", merchant.account_id
        )
    )
    assert facts["url"] == "http://127.0.0.1" != receiver.url, "the notice omits the path, which may be a secret"
    assert facts["failures"] >= 6
    assert (facts["outcome"], facts["status"], facts["reason"]) == ("rejected", 503, "no_success")
    other = await lane_of(pool, merchant, test=not test)
    assert other["state"] == "open"


async def test_a_paused_lane_is_probed_each_hour_and_sends_held_deliveries_in_order_on_recovery(
    pool: Pool, redis_url: str
) -> None:
    clock, well = Clock(), [False]
    async with receiving(lambda _: 200 if well[0] else 503, delay_s=0.02) as receiver:
        merchant = await merchant_with_paused_lane(pool, redis_url, receiver, clock)
        await record_events(pool, merchant, 30)
        sent = len(receiver.requests)
        async with webhook_worker(pool, redis_url, every_s=0.05, now=clock):
            for hour in range(1, 3):
                clock.ahead += timedelta(hours=1, seconds=10)
                await receiver.reached(sent + hour)
                await asyncio.sleep(0.3)
                assert len(receiver.requests) == sent + hour, "one probe an hour"
            well[0] = True
            clock.ahead += timedelta(hours=1, seconds=10)
            await until(pool, merchant, "delivered")
    numbers = [each.headers["X-Service-Delivery-Id"] for each in receiver.requests[sent + 3 :]]
    records = await pool.fetch(
        "SELECT delivery_id FROM webhook_delivery WHERE account_id = $1 ORDER BY sequence", merchant.account_id
    )
    place = {str(record["delivery_id"]): at for at, record in enumerate(records)}
    order = [place[each] for each in numbers]
    assert all(abs(at - rank) <= 12 for rank, at in enumerate(order)), (
        f"in order, except for requests in flight together: {order}"
    )
    flying = [each.flying for each in receiver.requests[sent + 2 :]]
    assert all(at_once <= min(10, rank) for rank, at_once in enumerate(flying, start=1)), flying
    assert [kind for kind, *_ in await notices_of(pool, merchant)] == [
        "webhook_failing",
        "webhook_paused",
        "webhook_recovered",
    ]
    assert (await lane_of(pool, merchant))["noticed"] is False


async def test_a_probe_of_a_paused_lane_uses_up_no_attempt(pool: Pool, redis_url: str) -> None:
    clock = Clock()
    async with receiving(lambda _: 503) as receiver:
        merchant = await merchant_with_paused_lane(pool, redis_url, receiver, clock)
        before = {step for _, step, _ in await rows_of(pool, merchant)}
        sent = len(receiver.requests)
        async with webhook_worker(pool, redis_url, every_s=0.05, now=clock):
            for hour in range(1, 6):
                clock.ahead += timedelta(hours=1, seconds=10)
                await receiver.reached(sent + hour)
                await until(pool, merchant, "held")
        probes = receiver.requests[sent:]
        assert len({each.event_id for each in probes}) == 5, "each probe sends another delivery"
    assert {step for _, step, _ in await rows_of(pool, merchant)} == before


async def test_resuming_a_lane_sends_every_held_delivery_once(pool: Pool, redis_url: str) -> None:
    clock, well = Clock(), [False]
    async with receiving(lambda _: 200 if well[0] else 503) as receiver:
        merchant = await merchant_with_paused_lane(pool, redis_url, receiver, clock)
        waiting = await record_events(pool, merchant, 20)
        sent = len(receiver.requests)
        well[0] = True
        async with transaction(pool) as conn:
            await resume(conn, merchant.account_id, [False, True])
        async with webhook_worker(pool, redis_url, every_s=0.05, now=clock):
            await until(pool, merchant, "delivered")
    ids = [each.event_id for each in receiver.requests[sent:]]
    assert len(ids) == len(set(ids)) == 25
    assert set(waiting) <= set(ids)
    assert (await notices_of(pool, merchant))[-1][0] == "webhook_recovered"


async def test_a_delivery_held_just_after_its_lane_was_resumed_is_sent_too(pool: Pool, redis_url: str) -> None:
    """Its transaction read the lane before it was resumed, and committed after all held deliveries had been sent."""
    clock, well = Clock(), [False]
    async with receiving(lambda _: 200 if well[0] else 503) as receiver:
        merchant = await merchant_with_paused_lane(pool, redis_url, receiver, clock)
        well[0] = True
        async with transaction(pool) as conn:
            await resume(conn, merchant.account_id, [False])
        async with webhook_worker(pool, redis_url, every_s=0.05, now=clock):
            await until(pool, merchant, "delivered")
        late = await record_events(pool, merchant)
        await pool.execute(
            "UPDATE webhook_delivery SET state = 'held' WHERE account_id = $1 AND state = 'pending'",
            merchant.account_id,
        )
        async with webhook_worker(pool, redis_url, every_s=0.05, now=clock):
            await receiver.heard(late)


async def test_resumed_deliveries_start_their_retry_schedule_anew(pool: Pool, redis_url: str) -> None:
    clock = Clock()
    async with receiving(lambda _: 503) as receiver:
        merchant = await merchant_with_paused_lane(pool, redis_url, receiver, clock)
        async with transaction(pool) as conn:
            await resume(conn, merchant.account_id, [False])
        async with webhook_worker(pool, redis_url, delays_s=(600.0,) * 12, every_s=0.05, now=clock):
            await until(pool, merchant, "pending")
            await wait_for_lane_state(pool, merchant, "broken")
    assert {step for _, step, _ in await rows_of(pool, merchant)} == {1}
    assert [kind for kind, *_ in await notices_of(pool, merchant)].count("webhook_failing") == 2, (
        "the failure after the resumption is notified anew"
    )


async def test_a_new_address_resumes_the_lanes(pool: Pool, redis_url: str) -> None:
    clock = Clock()
    async with receiving(lambda _: 503) as old, receiving() as new:
        merchant = await merchant_with_paused_lane(pool, redis_url, old, clock)
        async with transaction(pool) as conn:
            await set_endpoint(
                conn, merchant.account_id, new.url,
                allow_private=True, now=datetime.now(UTC), seal=SEAL, chance=bytes(32),
            )  # fmt: skip
        sent = len(old.requests)
        async with webhook_worker(pool, redis_url, every_s=0.05, now=clock):
            await until(pool, merchant, "delivered")
    assert len(old.requests) == sent
    assert len(new.requests) == 5


async def test_answers_of_the_old_address_after_a_move_do_not_count_against_the_lane(
    pool: Pool, redis_url: str
) -> None:
    busy = "HTTP/1.1 429 Busy\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n"
    async with receiving(lambda _: busy) as old, receiving() as new:
        old.answering.clear()
        merchant = await create_merchant_with_endpoint(pool, old.url)
        endpoint_id = merchant.endpoint.endpoint_id
        # One more failure in a row would give a notice.
        await pool.execute("UPDATE webhook_lane SET consecutive_failures = 4 WHERE endpoint_id = $1", endpoint_id)
        async with webhook_worker(pool, redis_url, delays_s=(0.2,) * 12, every_s=0.05) as worker:
            (first,) = await record_events(pool, merchant)
            worker.jobs.wake(WEBHOOKS)
            await old.reached(1)
            async with transaction(pool) as conn:
                await set_endpoint(
                    conn, merchant.account_id, new.url,
                    allow_private=True, now=datetime.now(UTC), seal=SEAL, chance=bytes(32),
                )  # fmt: skip
            before = await lane_of(pool, merchant)
            old.answering.set()

            async def answered() -> bool:
                return bool(await attempts_of(pool, merchant))

            await eventually(answered)
            assert await lane_of(pool, merchant) == before
            (second,) = await record_events(pool, merchant)
            await new.heard([first, second])
            await until(pool, merchant, "delivered")
    assert (await attempts_of(pool, merchant))[0] == (1, "rejected", 429)
    assert await notices_of(pool, merchant) == []


async def test_holding_and_releasing_in_portions_reach_every_delivery_of_the_lane_and_no_other(
    pool: Pool, conn: Any
) -> None:
    merchant, other, paused = [await create_merchant_with_endpoint(pool, "http://127.0.0.1:1/") for _ in range(3)]
    await record_events(pool, merchant, 2)
    await record_events(pool, merchant, test=True)
    await record_events(pool, other)
    await record_events(pool, paused)

    async def states_beside() -> list[str]:
        """Of the sandbox, of the other merchant, and of the one whose lane stays paused."""
        rows = await conn.fetch(
            "SELECT state FROM webhook_delivery WHERE account_id IN ($2, $3) OR account_id = $1 AND test"
            " ORDER BY test DESC, account_id = $3",
            merchant.account_id, other.account_id, paused.account_id,
        )  # fmt: skip
        return [row["state"] for row in rows]

    async def set_lane(columns: str) -> None:
        await conn.execute(
            f"UPDATE webhook_lane SET {columns} WHERE endpoint_id = $1 AND NOT test",  # noqa: S608  of this test
            merchant.endpoint.endpoint_id,
        )

    async def is_under_way(column: str) -> bool:
        lane = await conn.fetchrow(
            "SELECT * FROM webhook_lane WHERE endpoint_id = $1 AND NOT test", merchant.endpoint.endpoint_id
        )
        return bool(lane[column])

    await set_lane("state = 'paused', paused_at = now(), paused_reason = 'no_success', holding = true")
    for left in (True, True, False):
        await hold(conn, now=datetime.now(UTC), lanes_max=1_000, limit=1)
        assert await is_under_way("holding") is left
    assert await states_beside() == ["pending", "pending", "pending"]
    await conn.execute(
        "UPDATE webhook_delivery SET state = 'held' WHERE account_id = $1 AND test OR account_id = $2",
        merchant.account_id, paused.account_id,
    )  # fmt: skip
    await set_lane("state = 'open', paused_at = NULL, paused_reason = NULL, releasing_since = now() - '1 h'::interval")
    # A lane without a held delivery takes no place among the lanes of a round.
    await conn.execute(
        "UPDATE webhook_lane SET releasing_since = CASE WHEN endpoint_id = $2 THEN now() - '2 h'::interval END"
        " WHERE endpoint_id <> $1",
        merchant.endpoint.endpoint_id, other.endpoint.endpoint_id,
    )  # fmt: skip
    # The first delivery is of a sandbox whose clock was advanced.
    next_year = "UPDATE webhook_delivery SET created_at = now() + '1 year' WHERE endpoint_id = $1 AND sequence = 1"
    await conn.execute(next_year, merchant.endpoint.endpoint_id)
    due = "SELECT sequence FROM webhook_delivery WHERE endpoint_id = $1 AND state = 'pending' AND due_at < $2"
    for left, sequences in ((True, {1}), (False, {1, 2})):
        await release_held(conn, lanes_max=1, limit=1)
        await end_release(conn, late=timedelta(minutes=2), lanes_max=1_000)
        assert await is_under_way("releasing_since") is left
        assert {
            row["sequence"] for row in await conn.fetch(due, merchant.endpoint.endpoint_id, datetime.now(UTC))
        } == sequences
    assert await states_beside() == ["held", "pending", "held"]
    second = "SELECT due_at = created_at FROM webhook_delivery WHERE endpoint_id = $1 AND sequence = 2 AND NOT test"
    assert await conn.fetchval(second, merchant.endpoint.endpoint_id), "due before newer events"


async def test_a_delivery_held_for_fourteen_days_is_given_up_and_its_event_stays_in_the_feed(
    pool: Pool, redis_url: str
) -> None:
    clock = Clock()
    async with receiving(lambda _: 503) as receiver:
        merchant = await merchant_with_paused_lane(pool, redis_url, receiver, clock)
        await pool.execute(
            "UPDATE webhook_lane SET blocked_until = NULL WHERE endpoint_id = $1", merchant.endpoint.endpoint_id
        )
        async with webhook_worker(pool, redis_url, every_s=0.05, now=clock):
            clock.ahead = timedelta(
                days=DAYS + 13
            )  # counted from the pause, also for deliveries that had been due for three days
            await asyncio.sleep(0.3)
            await until(pool, merchant, "held")  # all five, once no probe is under way
            clock.ahead = timedelta(days=DAYS + 14, hours=1)
            await until(pool, merchant, "exhausted")
    count = await pool.fetchval("SELECT count(*) FROM read_event WHERE account_id = $1", merchant.account_id)
    assert count == 5


async def test_a_delivery_of_a_lane_paused_again_is_held_for_fourteen_days_again(pool: Pool, redis_url: str) -> None:
    clock = Clock()
    async with receiving(lambda _: 503) as receiver:
        merchant = await merchant_with_paused_lane(pool, redis_url, receiver, clock)
        clock.ahead = timedelta(days=13)
        async with transaction(pool) as conn:
            await resume(conn, merchant.account_id, [False])
        async with webhook_worker(pool, redis_url, every_s=0.05, now=clock):
            await wait_for_lane_state(pool, merchant, "broken")
            clock.ahead += timedelta(days=DAYS, minutes=1)
            await wait_for_lane_state(pool, merchant, "paused")
            await until(pool, merchant, "held")
            sent = len(receiver.requests)
            await asyncio.sleep(0.3)
            assert len(receiver.requests) == sent, "nothing is released to a lane that is paused again"
            clock.ahead += timedelta(days=13)
            await asyncio.sleep(0.3)
            await until(pool, merchant, "held")
            clock.ahead += timedelta(days=1, minutes=1)
            await until(pool, merchant, "exhausted")


async def test_410_is_retried_and_pauses_the_lane_only_after_ten_minutes(pool: Pool, redis_url: str) -> None:
    clock = Clock()
    async with receiving(lambda _: 410) as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        async with webhook_worker(pool, redis_url, delays_s=(300.0,) * 12, every_s=0.05, now=clock, WEBHOOK_JITTER="0"):
            await record_events(pool, merchant)
            for n in range(1, 4):
                await receiver.reached(n)
                await until(pool, merchant, "pending" if n < 3 else "held")
                clock.ahead += timedelta(seconds=301)
            assert (await lane_of(pool, merchant))["paused_reason"] == "gone"
            clock.ahead += timedelta(hours=5)
            await asyncio.sleep(0.3)
    assert len(receiver.requests) == 3
    assert [kind for kind, *_ in await notices_of(pool, merchant)] == ["webhook_paused"]


async def test_429_blocks_the_whole_lane_for_as_long_as_retry_after_says(pool: Pool, redis_url: str) -> None:
    slow_down = "HTTP/1.1 429 Slow down\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"
    async with receiving(lambda n: slow_down if n == 1 else 200) as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        async with webhook_worker(pool, redis_url, delays_s=(0.05,) * 12, every_s=0.05):
            await record_events(pool, merchant)
            await receiver.reached(1)
            await until(pool, merchant, "pending")
            await record_events(pool, merchant, 5)
            await until(pool, merchant, "delivered")
    gaps = [each.at - receiver.requests[0].at for each in receiver.requests[1:]]
    assert 0.95 <= min(gaps) < 10, gaps


async def test_resuming_a_lane_ends_a_wait_that_retry_after_asked_for(pool: Pool, redis_url: str) -> None:
    """A maintenance page says 503 and Retry-After: 3600, and is over in five minutes."""
    slow_down = "HTTP/1.1 503 Maintenance\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n"
    async with receiving(lambda n: slow_down if n == 1 else 200) as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        async with webhook_worker(pool, redis_url, delays_s=(0.05,) * 12, every_s=0.05) as worker:
            await record_events(pool, merchant)
            await receiver.reached(1)
            await until(pool, merchant, "pending")
            later = await record_events(pool, merchant, 3)
            async with transaction(pool) as conn:
                await resume(conn, merchant.account_id, [False])
            worker.jobs.wake(WEBHOOKS)
            await receiver.heard(later)
    assert (await lane_of(pool, merchant))["state"] == "open"


async def test_redeliveries_in_a_paused_lane_are_sent_one_at_a_time_and_held_again_when_refused(
    pool: Pool, redis_url: str
) -> None:
    clock = Clock()
    async with receiving(lambda _: 503) as receiver:
        merchant = await merchant_with_paused_lane(pool, redis_url, receiver, clock)
        sent = len(receiver.requests)
        await pool.execute(
            "UPDATE webhook_delivery SET state = 'pending', step = 0, due_at = now() WHERE account_id = $1",
            merchant.account_id,
        )
        async with webhook_worker(pool, redis_url, every_s=0.05, now=clock):
            await until(pool, merchant, "held")
    assert {each.flying for each in receiver.requests[sent:]} == {1}
    assert len(receiver.requests) == sent + 5


async def test_the_failing_notice_is_given_once_at_the_fifth_failure(pool: Pool, redis_url: str) -> None:
    clock = Clock()
    async with receiving(lambda _: 404) as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        # The delay after the fourth failure leaves time to check.
        delays_s = (0.05, 0.05, 0.05, 600.0, 0.05, 0.05)
        async with webhook_worker(pool, redis_url, delays_s=delays_s, every_s=0.02, now=clock, WEBHOOK_JITTER="0"):
            await record_events(pool, merchant, test=True)
            await receiver.reached(4)
            await until(pool, merchant, "pending")
            assert await notices_of(pool, merchant) == []
            clock.ahead = timedelta(minutes=11)
            await until(pool, merchant, "exhausted")
    assert await notices_of(pool, merchant) == [("webhook_failing", "[TESTE/SANDBOX] payment.received", True)]


async def test_notices_of_a_receiver_that_fails_and_recovers_in_turns_are_limited_per_day(
    pool: Pool, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "A_DAY_MAX", 2)
    async with receiving(lambda n: 404 if n % 6 else 200) as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        clock = Clock()
        async with webhook_worker(pool, redis_url, delays_s=(0.01,) * 12, every_s=0.02, now=clock, WEBHOOK_JITTER="0"):

            async def well(*, test: bool) -> bool:
                return not (await lane_of(pool, merchant, test=test))["noticed"]

            async def in_turns(count: int, *, test: bool = False) -> list[str]:
                before = len(await notices_of(pool, merchant))
                for _ in range(count):
                    await record_events(pool, merchant, test=test)
                    await until(pool, merchant, "delivered")
                    await eventually(partial(well, test=test))
                return [kind for kind, _, _ in (await notices_of(pool, merchant))[before:]]

            assert await in_turns(4) == ["webhook_failing", "webhook_recovered"] * 2
            assert await in_turns(1, test=True) == ["webhook_failing", "webhook_recovered"]
            clock.ahead = timedelta(hours=24, seconds=1)
            assert await in_turns(1) == ["webhook_failing", "webhook_recovered"]
    lasts = await pool.fetch(
        "SELECT kind, facts ->> 'last' AS last FROM notice WHERE account_id = $1 AND NOT test ORDER BY at, notice_id"
        " LIMIT 4",
        merchant.account_id,
    )
    assert [row["last"] for row in lasts] == [None, None, "true", "true"]


async def test_notices_of_a_pause_are_not_limited_per_day(pool: Pool) -> None:
    account_id, now = await an_account(pool), datetime.now(UTC)
    count = notices.A_DAY_MAX + 3

    async def given(kind: str) -> int:
        several = [
            notices.NewNotice(
                notice_id=new_id(), account_id=account_id, test=False, kind=kind, event_type="payment.received",
                endpoint_id=account_id, facts={},
            )
            for _ in range(count)
        ]  # fmt: skip
        async with transaction(pool) as conn:
            await notices.give_notice(conn, several[:5], now=now)
            await notices.give_notice(conn, several[5:], now=now + timedelta(seconds=1))
        kinds = await pool.fetch("SELECT kind FROM notice WHERE account_id = $1", account_id)
        return [row["kind"] for row in kinds].count(kind)

    assert await given("webhook_paused") == count
    assert await given("webhook_failing") == notices.A_DAY_MAX
    assert await given("webhook_recovered") == notices.A_DAY_MAX


async def test_a_notice_is_claimed_by_one_worker_and_again_once_the_lease_ends(pool: Pool, redis_url: str) -> None:
    async with receiving(lambda _: 503) as receiver:
        merchant = await merchant_with_broken_lane(pool, redis_url, receiver)
    now = datetime.now(UTC)

    async def claimed(at: datetime) -> set[UUID]:
        async with session(pool) as conn:
            rows = await claim_unmailed(conn, now=at, lease_until=at + timedelta(minutes=1), limit=1000)
        return {row.notice_id for row in rows if row.account_id == merchant.account_id}

    first = await claimed(now)
    assert len(first) == 1
    assert await claimed(now) == set()
    assert await claimed(now + timedelta(minutes=2)) == first
    async with session(pool) as conn:
        await mark_mailed(conn, notice_ids=list(first), now=now)
    assert await claimed(now + timedelta(minutes=9)) == set()


async def test_an_endpoint_receives_the_kinds_it_chose_and_always_the_two_of_the_spec(
    pool: Pool, redis_url: str
) -> None:
    async with receiving() as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        async with transaction(pool) as conn:
            await choose_kinds(conn, merchant.account_id, [EventKind.CHARGE_EXPIRED])
        for kind in ("charge.expired", "charge.failed", "payment.received"):
            await record_events(pool, merchant, kind=kind)
        async with webhook_worker(pool, redis_url, every_s=0.05):
            await until(pool, merchant, "delivered")
    assert sorted(each.headers["X-Service-Event"] for each in receiver.requests) == [
        "charge.expired",
        "payment.received",
    ]


async def test_a_revoked_secret_no_longer_signs(pool: Pool, redis_url: str) -> None:
    async with receiving() as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        async with transaction(pool) as conn:
            await rotate_secret(conn, merchant.account_id, now=datetime.now(UTC), seal=SEAL, chance=bytes(32))
            await revoke_previous(conn, merchant.account_id)
        async with webhook_worker(pool, redis_url, every_s=0.05):
            await record_events(pool, merchant)
            await receiver.reached(1)
    assert "X-Service-Signature-Previous" not in receiver.requests[0].headers


async def test_nothing_is_sent_to_a_removed_endpoint(pool: Pool, redis_url: str) -> None:
    async with receiving() as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        await record_events(pool, merchant, 3)
        async with transaction(pool) as conn:
            await remove_endpoint(conn, merchant.account_id)
        async with webhook_worker(pool, redis_url, every_s=0.05) as worker:
            await record_events(pool, merchant, 3)
            worker.jobs.wake(WEBHOOKS)
            await asyncio.sleep(0.3)
    assert receiver.requests == []
    async with transaction(pool) as conn:
        for asked in (
            remove_endpoint(conn, merchant.account_id),
            resume(conn, merchant.account_id, [True]),
            choose_kinds(conn, merchant.account_id, []),
            revoke_previous(conn, merchant.account_id),
        ):
            with pytest.raises(Refused):
                await asked


async def test_every_failed_delivery_of_a_batch_counts_as_a_consecutive_failure(pool: Pool, redis_url: str) -> None:
    async with receiving(lambda _: 404) as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        async with webhook_worker(pool, redis_url, delays_s=(600.0,), every_s=0.05):
            await record_events(pool, merchant, 25)

            async def all_tried() -> bool:
                return len(await attempts_of(pool, merchant)) == 25

            await eventually(all_tried)
    assert (await lane_of(pool, merchant))["consecutive_failures"] == 25
