"""Every event is delivered to its merchant, on time and signed; no merchant waits for the receiver of another."""

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from redis.asyncio import Redis
from standardwebhooks import Webhook

from commands.webhooks.endpoint import (
    OLD_SECRETS_MAX,
    SECRETS_FULL,
    remove_endpoint,
    rotate_secret,
    set_endpoint,
)
from domain.errors import Code, Refused
from domain.webhooks.signature import sign, standard_signature
from runtime.coordination.lanes import WEBHOOKS
from runtime.ids import new_id
from runtime.postgres import Pool, session, transaction
from runtime.seal import WEBHOOK_SECRET
from tests.support.webhooks import (
    NOWHERE,
    PATIENCE_S,
    SEAL,
    an_account,
    attempts_of,
    create_merchant_with_endpoint,
    enqueue,
    paths,
    receiving,
    record_events,
    rows_of,
    until,
    webhook_worker,
)
from workers.webhooks.dispatcher import claim

pytestmark = pytest.mark.usefixtures("quiet")


async def test_every_attempt_of_a_delivery_sends_the_same_bytes_with_a_new_signature(
    pool: Pool, redis_url: str
) -> None:
    async with receiving(lambda n: 200 if n == 3 else 500) as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        # The delays add up to more than a second, so that the attempts have more than one timestamp.
        async with webhook_worker(pool, redis_url, delays_s=(0.6, 0.6), every_s=0.05, WEBHOOK_JITTER="0"):
            (event_id,) = await record_events(pool, merchant)
            assert await until(pool, merchant, "delivered") == [("delivered", 3, 3)]
    seen = receiver.requests
    assert len(seen) == 3
    assert {each.event_id for each in seen} == {event_id}
    assert len({each.body for each in seen}) == 1
    assert len({each.headers["X-Service-Delivery-Id"] for each in seen}) == 1
    assert [each.headers["X-Service-Attempt"] for each in seen] == ["1", "2", "3"]
    assert len({each.headers["X-Service-Timestamp"] for each in seen}) > 1
    for each in seen:
        Webhook(merchant.endpoint.secret).verify(each.body, each.headers)
        signature = sign(merchant.endpoint.secret, int(each.headers["X-Service-Timestamp"]), each.body)
        assert each.headers["X-Service-Signature"] == f"sha256={signature}"
    assert await attempts_of(pool, merchant) == [
        (1, "rejected", 500),
        (2, "rejected", 500),
        (3, "delivered", 200),
    ]


async def test_a_retry_carries_the_timestamp_of_its_own_attempt(pool: Pool, redis_url: str) -> None:
    offset, began = [timedelta()], time.monotonic()
    async with receiving(lambda n: 503 if n == 1 else 200) as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        async with webhook_worker(
            pool, redis_url, delays_s=(3600.0,), every_s=0.05, now=lambda: datetime.now(UTC) + offset[0]
        ):
            await record_events(pool, merchant)
            await receiver.reached(1)
            await until(pool, merchant, "pending")
            offset[0] = timedelta(hours=2)
            await until(pool, merchant, "delivered")
    first, second = (int(each.headers["X-Service-Timestamp"]) for each in receiver.requests)
    assert 7200 <= second - first <= 7200 + time.monotonic() - began + 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_a_failure_and_is_not_followed(pool: Pool, redis_url: str, status: int) -> None:
    async with receiving() as other:
        moved = f"HTTP/1.1 {status} Moved\r\nLocation: {other.url}\r\nContent-Length: 0\r\n\r\n"
        async with receiving(lambda _: moved) as receiver:
            merchant = await create_merchant_with_endpoint(pool, receiver.url)
            async with webhook_worker(pool, redis_url, delays_s=(0.01,), every_s=0.05):
                await record_events(pool, merchant)
                await until(pool, merchant, "exhausted")
    assert len(receiver.requests) == 2
    assert other.requests == []
    assert await attempts_of(pool, merchant) == [(1, "rejected", status), (2, "rejected", status)]


@pytest.mark.parametrize(
    "answer",
    [
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 299 Fine\r\nContent-Length: 3\r\n\r\n\0\xff!",
        "HTTP/1.1 200 OK\r\nContent-Length: 500\r\nConnection: close\r\n\r\ncut",
        "HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n" + "x" * 70000,
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n??",
    ],
    ids=["204", "299 with NUL", "200 never finished", "200 long", "200 false gzip"],
)
async def test_any_2xx_is_success_whatever_its_body(pool: Pool, redis_url: str, answer: str) -> None:
    async with receiving(lambda _: answer) as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        async with webhook_worker(pool, redis_url, every_s=0.05):
            await record_events(pool, merchant)
            await until(pool, merchant, "delivered")
    assert len(receiver.requests) == 1
    kept = await pool.fetchval(
        "SELECT max(length(answer)) FROM webhook_attempt JOIN webhook_delivery USING (delivery_id)"
        " WHERE account_id = $1",
        merchant.account_id,
    )
    assert kept <= 1024


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n", "rejected"),
        ("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\n\r\n", "rejected"),
        ("SSH-2.0-OpenSSH_9.6\r\n\r\n", "network_error"),
    ],
    ids=["410", "101", "no HTTP"],
)
async def test_a_delivery_answered_otherwise_than_2xx_is_sent_again(
    pool: Pool, redis_url: str, answer: str, outcome: str
) -> None:
    async with receiving(lambda n: 200 if n == 2 else answer) as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        async with webhook_worker(pool, redis_url, every_s=0.05):
            await record_events(pool, merchant)
            await until(pool, merchant, "delivered")
    assert [each[1] for each in await attempts_of(pool, merchant)] == [outcome, "delivered"]


async def test_a_closed_port_is_tried_until_the_schedule_is_used_up(pool: Pool, redis_url: str) -> None:
    merchant = await create_merchant_with_endpoint(pool, "http://127.0.0.1:1/")
    async with webhook_worker(pool, redis_url, delays_s=(0.01, 0.01), every_s=0.05):
        await record_events(pool, merchant)
        assert await until(pool, merchant, "exhausted") == [("exhausted", 3, 3)]
    assert [each[1] for each in await attempts_of(pool, merchant)] == ["connection_refused"] * 3


async def test_a_retry_waits_as_long_as_retry_after_says(pool: Pool, redis_url: str) -> None:
    slow_down = "HTTP/1.1 429 Slow down\r\nRetry-After: 1800\r\nContent-Length: 0\r\n\r\n"
    async with receiving(lambda _: slow_down) as receiver:
        merchant, before = await create_merchant_with_endpoint(pool, receiver.url), datetime.now(UTC)
        async with webhook_worker(pool, redis_url):
            await record_events(pool, merchant)
            await receiver.reached(1)
            await until(pool, merchant, "pending")
    due_at = await pool.fetchval("SELECT due_at FROM webhook_delivery WHERE account_id = $1", merchant.account_id)
    assert before <= due_at - timedelta(seconds=1800) <= datetime.now(UTC)


async def test_after_a_rotation_both_secrets_verify_for_a_day_and_then_the_new_one_alone(
    pool: Pool, redis_url: str
) -> None:
    offset = [timedelta()]
    async with receiving() as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        async with transaction(pool) as conn:
            new = await rotate_secret(
                conn, merchant.account_id, now=datetime.now(UTC), seal=SEAL, chance=os.urandom(32)
            )
        async with webhook_worker(pool, redis_url, every_s=0.05, now=lambda: datetime.now(UTC) + offset[0]):
            await record_events(pool, merchant)
            await until(pool, merchant, "delivered")  # stored, or its lease would have ended a day later
            offset[0] = timedelta(hours=24, minutes=1)
            await record_events(pool, merchant)
            await receiver.reached(2)
    during, after = receiver.requests
    old = merchant.endpoint.secret
    timestamp = int(during.headers["X-Service-Timestamp"])
    assert new.endpoint_id == merchant.endpoint.endpoint_id
    assert new.secret != old
    assert during.headers["X-Service-Signature"] == f"sha256={sign(new.secret, timestamp, during.body)}"
    assert during.headers["X-Service-Signature-Previous"] == f"sha256={sign(old, timestamp, during.body)}"
    Webhook(old).verify(during.body, during.headers)
    Webhook(new.secret).verify(during.body, during.headers)
    assert "X-Service-Signature-Previous" not in after.headers
    assert " " not in after.headers["webhook-signature"]


async def test_a_second_rotation_leaves_the_first_old_secret_its_whole_day(pool: Pool, redis_url: str) -> None:
    offset = [timedelta()]

    async def rotated(chance: bytes) -> str:
        async with transaction(pool) as conn:
            now = datetime.now(UTC) + offset[0]
            return (await rotate_secret(conn, merchant.account_id, now=now, seal=SEAL, chance=chance)).secret

    async with receiving() as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        first, second = merchant.endpoint.secret, await rotated(os.urandom(32))
        offset[0] = timedelta(hours=20)
        third = await rotated(os.urandom(32))
        sent = []
        async with webhook_worker(pool, redis_url, every_s=0.05, now=lambda: datetime.now(UTC) + offset[0]):
            for hours in (20, 25, 45):
                offset[0] = timedelta(hours=hours)
                await record_events(pool, merchant)
                await until(pool, merchant, "delivered")
                sent.append(receiver.requests[-1])
    for request, live in zip(sent, ([first, second, third], [second, third], [third]), strict=True):
        timestamp = int(request.headers["X-Service-Timestamp"])
        event_id = request.headers["webhook-id"]
        assert set(request.headers["webhook-signature"].split()) == {
            standard_signature(secret, event_id, timestamp, request.body) for secret in live
        }
        old = [f"sha256={sign(each, timestamp, request.body)}" for each in reversed(live[:-1])]
        assert request.headers.get("X-Service-Signature-Previous", "") == ", ".join(old)
        assert request.headers["X-Service-Signature"] == f"sha256={sign(third, timestamp, request.body)}"


async def test_a_rotation_is_refused_while_the_maximum_number_of_old_secrets_still_signs(pool: Pool) -> None:
    merchant = await create_merchant_with_endpoint(pool, "http://127.0.0.1:1/")
    now = datetime.now(UTC)

    async def rotate(at: datetime) -> None:
        async with transaction(pool) as conn:
            await rotate_secret(conn, merchant.account_id, now=at, seal=SEAL, chance=os.urandom(32))

    results = await asyncio.gather(*(rotate(now) for _ in range(OLD_SECRETS_MAX + 3)), return_exceptions=True)
    refused = [each for each in results if each is not None]
    assert len(refused) == 3
    assert all(isinstance(each, Refused) and each.fields == {"secret": SECRETS_FULL} for each in refused)
    await rotate(now + timedelta(hours=24))
    count = "SELECT count(*) FROM webhook_old_secret WHERE account_id = $1"
    assert await pool.fetchval(count, merchant.account_id) == 1, "secrets whose day is over are deleted"
    async with transaction(pool) as conn:
        await remove_endpoint(conn, merchant.account_id)
    assert await pool.fetchval(count, merchant.account_id) == 0


async def test_an_endpoint_receives_only_the_two_kinds_of_the_spec_by_default(pool: Pool, redis_url: str) -> None:
    async with receiving() as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        async with webhook_worker(pool, redis_url, every_s=0.05):
            await record_events(pool, merchant, kind="charge.expired")
            await record_events(pool, merchant, kind="charge.cancelled")
            await until(pool, merchant, "delivered")
            await asyncio.sleep(0.1)
    assert [each.headers["X-Service-Event"] for each in receiver.requests] == ["charge.cancelled"]


@pytest.mark.parametrize("rotates", [False, True])
async def test_a_new_address_gets_what_waits_and_the_secret_stays_valid_for_running_receivers(
    pool: Pool, redis_url: str, rotates: bool
) -> None:
    async with receiving() as receiver:
        merchant = await create_merchant_with_endpoint(pool, "http://127.0.0.1:1/")
        await record_events(pool, merchant)
        async with transaction(pool) as conn:
            again = await set_endpoint(
                conn, merchant.account_id, receiver.url,
                allow_private=True, now=datetime.now(UTC), seal=SEAL, chance=os.urandom(32),
            )  # fmt: skip
            assert again == merchant.endpoint
            if rotates:
                now, chance = datetime.now(UTC), os.urandom(32)
                again = await rotate_secret(conn, merchant.account_id, now=now, seal=SEAL, chance=chance)
        async with webhook_worker(pool, redis_url, every_s=0.05):
            await until(pool, merchant, "delivered")
    assert (again == merchant.endpoint) != rotates
    sent = receiver.requests[0]
    Webhook(again.secret).verify(sent.body, sent.headers)
    if rotates:
        signed = sign(merchant.endpoint.secret, int(sent.headers["X-Service-Timestamp"]), sent.body)
        assert sent.headers["X-Service-Signature-Previous"] == f"sha256={signed}"


@pytest.mark.parametrize(
    ("cap", "cap_test", "env"), [(10, 5, {}), (24, 2, {"WEBHOOK_REQUESTS": "24", "SANDBOX_WEBHOOK_REQUESTS": "2"})]
)
async def test_requests_in_flight_to_an_endpoint_never_exceed_the_cap_with_three_workers(
    pool: Pool, redis_url: str, cap: int, cap_test: int, env: dict[str, Any]
) -> None:
    async with (
        receiving(delay_s=0.1) as live,
        receiving(delay_s=0.1) as sandbox,
        AsyncExitStack() as workers,
    ):
        one, two = (
            await create_merchant_with_endpoint(pool, live.url),
            await create_merchant_with_endpoint(pool, sandbox.url),
        )
        await record_events(pool, one, 150)
        await record_events(pool, two, 60, test=True)
        for _ in range(3):
            await workers.enter_async_context(webhook_worker(pool, redis_url, every_s=0.02, **env))
        await until(pool, one, "delivered")
        await until(pool, two, "delivered")
    assert Counter(each.event_id for each in live.requests).most_common(1)[0][1] == 1
    assert len(live.requests) == 150
    assert len(sandbox.requests) == 60
    assert cap / 2 < live.flying_max <= cap
    assert cap_test / 2 < sandbox.flying_max <= cap_test


async def test_receivers_that_never_answer_do_not_delay_other_receivers(pool: Pool, redis_url: str) -> None:
    async with receiving(lambda _: None) as hanging, receiving() as healthy:
        silent = [await create_merchant_with_endpoint(pool, hanging.url) for _ in range(10)]
        merchant = await create_merchant_with_endpoint(pool, healthy.url)
        # An attempt at a receiver that does not answer takes longer than a test waits for an event.
        async with webhook_worker(pool, redis_url, attempt_s=2 * PATIENCE_S) as worker:
            for each in silent:
                await record_events(pool, each, 30)
            worker.jobs.wake(WEBHOOKS)
            await hanging.reached(10)
            await record_events(pool, merchant, 20)
            worker.jobs.wake(WEBHOOKS)
            await healthy.reached(20)
    assert hanging.flying_max <= 10 * 2, "a new lane begins with two requests at once"


async def test_trouble_in_the_sandbox_does_not_delay_production_of_the_same_endpoint(
    pool: Pool, redis_url: str
) -> None:
    def silent_in_sandbox(n: int) -> int | None:
        return None if b"sandbox" in receiver.requests[n - 1].headers["X-Service-Event"].encode() else 200

    async with receiving(silent_in_sandbox) as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        await pool.execute(
            "UPDATE webhook_endpoint SET kinds = kinds || '{sandbox.kind}' WHERE account_id = $1",
            merchant.account_id,
        )
        # An attempt at a receiver that does not answer takes longer than a test waits for an event.
        async with webhook_worker(pool, redis_url, attempt_s=2 * PATIENCE_S) as worker:
            await record_events(pool, merchant, 40, test=True, kind="sandbox.kind")
            worker.jobs.wake(WEBHOOKS)
            await receiver.reached(2)
            live = await record_events(pool, merchant, 20)
            worker.jobs.wake(WEBHOOKS)
            await receiver.heard(live)


async def test_two_workers_deliver_each_event_once_when_nothing_fails(pool: Pool, redis_url: str) -> None:
    async with receiving() as receiver:
        merchants = [await create_merchant_with_endpoint(pool, receiver.url) for _ in range(8)]
        async with (
            webhook_worker(pool, redis_url, every_s=0.02) as worker,
            webhook_worker(pool, redis_url, every_s=0.02),
        ):
            told: list[str] = []
            for _ in range(5):
                for merchant in merchants:
                    told += await record_events(pool, merchant, 3)
                worker.jobs.wake(WEBHOOKS)
            for merchant in merchants:
                await until(pool, merchant, "delivered")
    assert sorted(each.event_id for each in receiver.requests) == sorted(told)


async def test_a_single_event_is_sent_at_once_when_its_lane_of_jobs_is_woken(pool: Pool, redis_url: str) -> None:
    """The goal is 30 ms from commit to receiver (`python -m bench deliveries`); without the wake-up, ten seconds."""
    async with receiving() as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        async with webhook_worker(pool, redis_url, every_s=10.0) as worker:
            took_ms: list[float] = []
            for n in range(1, 12):
                await record_events(pool, merchant)
                began = time.monotonic()
                worker.jobs.wake(WEBHOOKS)
                await receiver.reached(n)
                took_ms.append((receiver.requests[-1].at - began) * 1000)
                await asyncio.sleep(0.03)
    assert sorted(took_ms)[len(took_ms) // 2] < 2_000, took_ms


async def test_without_redis_an_event_is_delivered_within_the_interval_of_the_worker(pool: Pool) -> None:
    """Each second the worker looks for deliveries that no wake-up announced."""
    async with receiving() as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        async with webhook_worker(pool, NOWHERE) as worker:
            await asyncio.sleep(0.1)
            await record_events(pool, merchant)
            worker.jobs.wake(WEBHOOKS)
            await receiver.reached(1)


async def test_flushing_redis_loses_no_event(pool: Pool, redis_url: str) -> None:
    client = Redis.from_url(redis_url)
    async with receiving() as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        async with webhook_worker(pool, redis_url) as worker:
            told: list[str] = []
            for _ in range(20):
                told += await record_events(pool, merchant)
                worker.jobs.wake(WEBHOOKS)
                await client.flushall()
            await receiver.reached(20)
            await until(pool, merchant, "delivered")
    await client.aclose()
    assert {each.event_id for each in receiver.requests} == set(told)


async def test_the_delivery_of_a_killed_worker_is_sent_again_after_its_lease(
    pool: Pool, redis_url: str, servers: Any
) -> None:
    async with receiving(lambda n: None if n == 1 else 200) as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        (event_id,) = await record_events(pool, merchant)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            __file__,
            servers.database_url,
            redis_url,
            env={**os.environ, "PYTHONPATH": paths()},
        )
        try:
            await receiver.reached(1)
        finally:
            process.send_signal(signal.SIGKILL)
            await process.wait()
        assert await rows_of(pool, merchant) == [("sending", 0, 1)]
        await pool.execute("UPDATE webhook_delivery SET lease_until = now() WHERE account_id = $1", merchant.account_id)
        async with webhook_worker(pool, redis_url, every_s=0.1):
            assert await until(pool, merchant, "delivered") == [("delivered", 1, 2)]
    assert [each.event_id for each in receiver.requests] == [event_id, event_id]
    assert len({each.body for each in receiver.requests}) == 1
    assert await attempts_of(pool, merchant) == [(1, "worker_lost", None), (2, "delivered", 200)]


async def test_a_delivery_that_cost_five_workers_is_set_aside(pool: Pool, redis_url: str) -> None:
    merchant = await create_merchant_with_endpoint(pool, "http://127.0.0.1:1/")
    await record_events(pool, merchant)
    await pool.execute(
        "UPDATE webhook_delivery SET state = 'sending', attempt = 7, step = 2, losses = 4, lease_until = now()"
        " WHERE account_id = $1",
        merchant.account_id,
    )
    async with webhook_worker(pool, redis_url):
        assert await until(pool, merchant, "stuck") == [("stuck", 2, 7)]


async def test_a_worker_that_stalled_past_its_lease_does_not_send_the_delivery(
    pool: Pool, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker may hold the lease by then, and the receiver would get the event twice."""

    async def and_stands_still(*args: Any, **given: Any) -> Any:
        claimed = await claim(*args, **given)
        await asyncio.sleep(0.1)  # longer than the lease
        return claimed

    monkeypatch.setattr("workers.webhooks.dispatcher.claim", and_stands_still)
    async with receiving() as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        await record_events(pool, merchant)
        async with webhook_worker(pool, redis_url, lease_s=0.05, every_s=0.05):
            await until(pool, merchant, "stuck")
    assert receiver.requests == []


async def test_a_late_answer_after_a_lost_lease_does_not_undo_a_newer_attempt(pool: Pool, redis_url: str) -> None:
    async with receiving(lambda n: 200 if n == 2 else 500, delay_s=0.5) as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        async with webhook_worker(pool, redis_url, lease_s=0.2, every_s=0.05):  # each attempt outlives its lease
            await record_events(pool, merchant)
            await receiver.reached(2)
            await until(pool, merchant, "delivered")
            outcomes: dict[int, str] = {}
            async with asyncio.timeout(PATIENCE_S):  # until the answer of each attempt is stored
                while len(outcomes) < len(receiver.requests) or "worker_lost" in outcomes.values():
                    await asyncio.sleep(0.01)
                    outcomes = {attempt: outcome for attempt, outcome, _ in await attempts_of(pool, merchant)}
            assert {row[0] for row in await rows_of(pool, merchant)} == {"delivered"}
    assert outcomes[1] == "rejected", "the attempt was stored as lost, then corrected by its answer"
    assert outcomes[2] == "delivered"
    counted = await pool.fetch(
        "SELECT outcome, sum(attempts) AS attempts FROM report_attempt_told WHERE account_id = $1 GROUP BY outcome",
        merchant.account_id,
    )
    assert {row["outcome"]: row["attempts"] for row in counted} == dict(Counter(outcomes.values())) | {"worker_lost": 0}


async def test_a_late_2xx_after_a_lost_lease_ends_the_delivery(pool: Pool, redis_url: str) -> None:
    async def blocked(until_at: datetime | None) -> None:
        await pool.execute(
            "UPDATE webhook_lane SET blocked_until = $2 WHERE endpoint_id = $1", merchant.endpoint.endpoint_id, until_at
        )

    async with receiving() as receiver:
        receiver.answering.clear()
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        async with webhook_worker(pool, redis_url, every_s=0.05, attempt_s=2 * PATIENCE_S):
            await record_events(pool, merchant)
            await receiver.reached(1)
            # No worker has claimed it again when the answer comes, as when many others wait.
            await blocked(datetime.now(UTC) + timedelta(minutes=10))
            await pool.execute(
                "UPDATE webhook_delivery SET lease_until = now() WHERE account_id = $1", merchant.account_id
            )
            await until(pool, merchant, "pending")
            receiver.answering.set()
            await until(pool, merchant, "delivered")
            await blocked(None)
            await asyncio.sleep(0.3)
    assert len(receiver.requests) == 1
    assert await attempts_of(pool, merchant) == [(1, "delivered", 200)], "stored as lost, then corrected by its answer"


async def test_a_2xx_is_stored_although_another_transaction_ends_the_delivery_meanwhile(
    pool: Pool, redis_url: str
) -> None:
    """Ended deliveries move to another table: a statement that waited for the row finds it gone, and looks again."""
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%webhook_attempt%'"
    async with receiving() as receiver:
        receiver.answering.clear()
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        async with webhook_worker(pool, redis_url) as worker:
            await record_events(pool, merchant)
            worker.jobs.wake(WEBHOOKS)
            await receiver.reached(1)
            async with pool.acquire() as other, other.transaction():
                await other.execute(
                    "UPDATE webhook_delivery SET state = 'stuck' WHERE account_id = $1", merchant.account_id
                )
                receiver.answering.set()
                async with asyncio.timeout(PATIENCE_S):
                    while not await pool.fetchval(waits):  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
            await until(pool, merchant, "delivered")
    assert len(receiver.requests) == 1


async def test_a_stopping_worker_waits_for_its_requests_in_flight(pool: Pool, redis_url: str) -> None:
    async with receiving(delay_s=0.3) as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        async with webhook_worker(pool, redis_url) as worker:
            await record_events(pool, merchant)
            worker.jobs.wake(WEBHOOKS)
            await receiver.reached(1)
            await worker.dispatcher.stop()
            assert await rows_of(pool, merchant) == [("delivered", 1, 1)]


async def test_a_stopping_worker_waits_for_a_claim_that_is_under_way(pool: Pool, redis_url: str) -> None:
    """A delivery claimed during the stop was sent, but cut off before its result was stored, and so sent twice."""
    async with receiving(delay_s=0.3) as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        async with webhook_worker(pool, redis_url, every_s=0.05) as worker:
            async with pool.acquire() as other, other.transaction():
                await record_events(pool, merchant)
                await other.execute("LOCK TABLE webhook_delivery IN EXCLUSIVE MODE")
                async with asyncio.timeout(PATIENCE_S):
                    while not await pool.fetchval(  # noqa: ASYNC110 - outside: activity is read once a transaction
                        "SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
                        " WHERE l.relation = 'webhook_delivery'::regclass AND NOT l.granted"
                        " AND a.query LIKE '%WITH lane AS%')"  # the claim, and not another duty's statement
                    ):
                        await asyncio.sleep(0.01)
                stopping = asyncio.create_task(worker.dispatcher.stop())
                await asyncio.sleep(0.1)
                assert not stopping.done()
            await stopping
            assert await rows_of(pool, merchant) == [("delivered", 1, 1)]
    assert len(receiver.requests) == 1


async def test_deleting_an_endpoint_does_not_lose_the_results_of_other_endpoints(pool: Pool, redis_url: str) -> None:
    async with receiving(delay_s=0.2) as receiver:
        gone, stays = (
            await create_merchant_with_endpoint(pool, receiver.url),
            await create_merchant_with_endpoint(pool, receiver.url),
        )
        async with webhook_worker(pool, redis_url) as worker:
            await record_events(pool, gone)
            await record_events(pool, stays)
            worker.jobs.wake(WEBHOOKS)
            await receiver.reached(2)
            await pool.execute("DELETE FROM webhook_endpoint WHERE account_id = $1", gone.account_id)
            await until(pool, stays, "delivered")


async def test_an_event_enqueued_twice_has_one_delivery_for_each_endpoint(pool: Pool) -> None:
    merchant = await create_merchant_with_endpoint(pool, "http://127.0.0.1:1/")
    await record_events(pool, merchant)
    ids = [
        row["journal_id"]
        for row in await pool.fetch("SELECT journal_id FROM journal WHERE account_id = $1", merchant.account_id)
    ]
    async with session(pool) as conn:
        await enqueue(conn, journal_ids=ids, now=datetime.now(UTC))
    assert len(await rows_of(pool, merchant)) == 1


async def test_events_of_a_paused_lane_are_held_and_the_other_lane_goes_on(pool: Pool, redis_url: str) -> None:
    async with receiving() as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        await pool.execute(
            "UPDATE webhook_lane SET state = 'paused', paused_at = now() WHERE endpoint_id = $1 AND test",
            merchant.endpoint.endpoint_id,
        )
        await record_events(pool, merchant, test=True)
        await record_events(pool, merchant)
        async with webhook_worker(pool, redis_url, every_s=0.05):
            async with asyncio.timeout(PATIENCE_S):
                while (await rows_of(pool, merchant))[0][0] != "delivered":  # noqa: ASYNC110 - a row has no event
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
    assert len(receiver.requests) == 1
    assert await rows_of(pool, merchant) == [("delivered", 1, 1), ("held", 0, 0)]


@pytest.mark.parametrize(
    "url",
    [
        "", "https://", "ftp://shop.example.com/", "//shop.example.com/", "shop.example.com", "http://shop.example.com/",
        "https://u:p@shop.example.com/", "https://shop.example.com/#x", "https://shop.example.com/\r\nX: y",
        "https://shop .example.com/", "https://127.0.0.1/", "https://8.8.8.8/", "https://[::1]/", "https://2130706433/",
        "https://0x7f.1/", "https://127.1/", "https://①②⑦.⓪.⓪.①/", "https://localhost/", "https://shop.local/",
        "https://intranet/", "https://shop.example.com:22/", "https://shop.example.com:6667/",
        "https://shop.example.com:99999/", "https://shop.example.com/" + "a" * 2048, "https://..example.com/",
    ],
)  # fmt: skip
async def test_an_address_that_is_not_plainly_public_is_refused_at_registration(pool: Pool, url: str) -> None:
    account_id = await an_account(pool)
    async with transaction(pool) as conn:
        with pytest.raises(Refused) as refused:
            await set_endpoint(
                conn, account_id, url,
                allow_private=False, now=datetime.now(UTC), seal=SEAL, chance=bytes(32),
            )  # fmt: skip
    assert refused.value.code is Code.VALIDATION_ERROR
    assert list(refused.value.fields or {}) == ["url"]


@pytest.mark.parametrize(
    "url",
    ["https://shop.example.com/hook?a=b", "https://loja-ação.com.br/", "https://shop.example.com:8443/x"],
)
async def test_a_public_address_is_accepted_at_registration(pool: Pool, url: str) -> None:
    account_id = await an_account(pool)
    async with transaction(pool) as conn:
        endpoint = await set_endpoint(
            conn, account_id, url,
            allow_private=False, now=datetime.now(UTC), seal=SEAL, chance=bytes(32),
        )  # fmt: skip
    assert endpoint.secret == "whsec_" + "A" * 43 + "="


async def test_an_endpoint_of_an_unknown_account_is_refused(pool: Pool) -> None:
    async with transaction(pool) as conn:
        with pytest.raises(Refused) as refused:
            await set_endpoint(
                conn, new_id(), "https://shop.example.com/",
                allow_private=False, now=datetime.now(UTC), seal=SEAL, chance=bytes(32),
            )  # fmt: skip
    assert refused.value.code is Code.WALLET_ACCOUNT_NOT_FOUND


async def test_a_webhook_secret_is_stored_sealed(pool: Pool) -> None:
    merchant = await create_merchant_with_endpoint(pool, "https://shop.example.com/")
    kept = await pool.fetchval("SELECT secret_sealed FROM webhook_endpoint WHERE account_id = $1", merchant.account_id)
    assert merchant.endpoint.secret.encode() not in kept
    assert SEAL.open(kept, WEBHOOK_SECRET, merchant.account_id).decode() == merchant.endpoint.secret


async def _work_until_killed(database_url: str, redis_url: str) -> None:
    """Run a worker in a process of its own, for the test that kills it."""
    from runtime.postgres import open_pool

    pool = await open_pool(database_url, name="killed", size=4)
    async with webhook_worker(pool, redis_url):
        await asyncio.sleep(30)


if __name__ == "__main__":
    asyncio.run(_work_until_killed(*sys.argv[1:]))
