"""Webhook deliveries over the API: a merchant lists, reads and redelivers them (contract section 9).

Most tests run without a worker, so a delivery stays in the state that the test puts it in. Tests with the fixture
`system` receive the requests.
"""

import asyncio
import json
import os
import re
import secrets
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID, uuid4

import pytest
import pytest_asyncio

from commands.merchants.merchants import MerchantCreated, create_merchant
from commands.webhooks.endpoint import set_endpoint
from commands.webhooks.redeliver import RANGE_MAX
from domain.mode import Mode, Owner
from domain.webhooks.signature import sign
from readmodels.page import SequencePosition, SortOrder
from readmodels.webhooks.delivery_list import STATES, DeliveryFilters, delivery_page, find_attempts
from readmodels.webhooks.event_list import KINDS
from runtime.postgres import Pool, transaction
from runtime.seal import Seal
from tests.integration.readmodels.test_plans import Explained, assert_cheap
from tests.support.in_process import Api, Reply
from tests.support.merchant import new_merchant, until_answer
from tests.support.system import System, until

LIST = "/v1/webhook-deliveries"
NOBODY = "01a1fdc2-2be1-7deb-b4f8-5fa37a19dbc1"
FIELDS = {
    "delivery_id", "event_id", "type", "sequence", "charge_id", "url", "state", "attempt_count", "next_attempt_at",
    "created_at", "delivered_at", "test", "attempts",
}  # fmt: skip


class Environment:
    """A new merchant for each test, and the API in this process."""

    def __init__(self, api: Api, pool: Pool, record: MerchantCreated) -> None:
        self.api, self.pool, self.record = api, pool, record

    async def listen(self, url: str = "http://127.0.0.1:9/hook") -> UUID:
        """Register an address. Returns the endpoint's id."""
        async with transaction(self.pool) as conn:
            endpoint = await set_endpoint(
                conn, self.record.account_id, url, allow_private=True, now=datetime.now(UTC),
                seal=Seal(self.api.settings.secret_key), chance=os.urandom(32),
            )  # fmt: skip
        return endpoint.endpoint_id

    async def a_query_waits_for_a_delivery_row(self) -> bool:
        """Whether a query in this database waits for a lock on webhook_delivery that another transaction holds."""
        return bool(
            await self.pool.fetchval(
                "SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted"
                " AND a.datname = current_database() AND a.query LIKE '%webhook_delivery%')"
            )
        )

    async def token(self, mode: str = "test", scope: str | None = None) -> str:
        return await self.api.token(self.record, mode, scope)

    async def paid(self) -> str:
        """Create and pay a test charge, which records one event. Returns the charge's id."""
        body = {"account_id": str(self.record.account_id), "amount": "10.00"}
        token = await self.token()
        made = await self.api.post("/v1/charges/pix", body, token=token, key=secrets.token_hex(8))
        charge_id: str = made.json()["charge_id"]
        paid = await self.api.post(f"/v1/charges/{charge_id}/simulate-payment", None, token=token)
        assert paid.status == 200, paid
        return charge_id

    async def cancelled(self) -> str:
        """Create and cancel a test charge, which records one event. Returns the charge's id."""
        body = {"account_id": str(self.record.account_id), "amount": "10.00"}
        token = await self.token()
        made = await self.api.post("/v1/charges/pix", body, token=token, key=secrets.token_hex(8))
        charge_id: str = made.json()["charge_id"]
        assert (await self.api.post(f"/v1/charges/{charge_id}/cancel", None, token=token)).status == 200
        return charge_id

    async def get(self, path: str, mode: str = "test") -> Reply:
        return await self.api.get(path, token=await self.token(mode))

    async def post(self, path: str, given: Any = None, mode: str = "test") -> Reply:
        return await self.api.post(path, given, token=await self.token(mode))

    async def deliveries(self, query: str = "") -> list[dict[str, Any]]:
        reply = await self.get(f"{LIST}?limit=100{query}")
        assert reply.status == 200, reply
        assert reply.json()["next_cursor"] is None
        found: list[dict[str, Any]] = reply.json()["data"]
        return found

    async def put(self, delivery_id: str, **columns: Any) -> None:
        """Store columns of a delivery, as the sender would leave them."""
        names = ", ".join(f"{name} = ${index}" for index, name in enumerate(columns, 2))
        await self.pool.execute(
            f"UPDATE webhook_delivery SET {names} WHERE delivery_id = $1",  # noqa: S608  names of this file
            UUID(delivery_id), *columns.values(),
        )  # fmt: skip

    async def row(self, delivery_id: str) -> Any:
        return await self.pool.fetchrow("SELECT * FROM webhook_delivery WHERE delivery_id = $1", UUID(delivery_id))


@pytest_asyncio.fixture(loop_scope="session")
async def env(api: Api, pool: Pool) -> Environment:
    async with transaction(pool) as conn:
        record = await create_merchant(
            conn, name=f"Loja {secrets.token_hex(4)}", address=True, kyc="approved", now=datetime.now(UTC)
        )
    return Environment(api, pool, record)


async def test_each_event_has_a_delivery_with_all_documented_fields(env: Environment) -> None:
    await env.listen("http://127.0.0.1:9/hook?of=mine")
    charge_id = await env.paid()
    (item,) = await env.deliveries()
    assert set(item) == FIELDS
    (event,) = (await env.get("/v1/events")).json()["data"]
    assert {name: item[name] for name in ("event_id", "type", "sequence", "charge_id", "test")} == {
        name: event[name] for name in ("event_id", "type", "sequence", "charge_id", "test")
    }
    assert (item["charge_id"], item["state"], item["url"]) == (charge_id, "pending", "http://127.0.0.1:9/hook?of=mine")
    assert (item["attempt_count"], item["attempts"], item["delivered_at"]) == (0, [], None)
    assert item["next_attempt_at"] == item["created_at"] == event["created_at"]
    assert (await env.get(f"{LIST}/{item['delivery_id']}")).json() == item


async def test_attempts_show_start_duration_status_and_the_receivers_answer(env: Environment) -> None:
    await env.listen()
    await env.paid()
    (item,) = await env.deliveries()
    at = datetime(2026, 11, 21, 12, 0, 0, 123_000, tzinfo=UTC)
    for number, (status, outcome, answer) in enumerate(
        [(500, "rejected", b"caf\xc3\xa9 \xff\xfe \x00"), (None, "timeout", None), (204, "delivered", b"")], 1
    ):
        await env.pool.execute(
            "INSERT INTO webhook_attempt VALUES ($1, $2, $3, $4, $5, $6, $7)",
            UUID(item["delivery_id"]), number, at + timedelta(seconds=number), 10 * number, status, outcome, answer,
        )  # fmt: skip
    await env.put(item["delivery_id"], state="delivered", attempt=3, delivered_at=at)
    (item,) = await env.deliveries()
    assert item["attempts"] == [
        {"attempt": 1, "started_at": "2026-11-21T12:00:01.123Z", "duration_ms": 10, "status": 500,
         "outcome": "rejected", "answer": "café \ufffd\ufffd \x00"},
        {"attempt": 2, "started_at": "2026-11-21T12:00:02.123Z", "duration_ms": 20, "status": None,
         "outcome": "timeout", "answer": None},
        {"attempt": 3, "started_at": "2026-11-21T12:00:03.123Z", "duration_ms": 30, "status": 204,
         "outcome": "delivered", "answer": ""},
    ]  # fmt: skip
    assert (item["attempt_count"], item["delivered_at"]) == (3, "2026-11-21T12:00:00.123Z")
    assert item["next_attempt_at"] is None


async def test_a_delivery_shows_its_twenty_newest_attempts(env: Environment) -> None:
    await env.listen()
    await env.paid()
    (item,) = await env.deliveries()
    await env.pool.execute(
        "INSERT INTO webhook_attempt SELECT $1, n, now(), 1, 500, 'rejected', '' FROM generate_series(1, 47) AS n",
        UUID(item["delivery_id"]),
    )
    await env.put(item["delivery_id"], state="exhausted", attempt=47)
    (item,) = await env.deliveries()
    assert [each["attempt"] for each in item["attempts"]] == list(range(28, 48))
    assert item["attempt_count"] == 47


async def test_each_filter_of_the_delivery_list_returns_exactly_the_matching_deliveries(env: Environment) -> None:
    await env.listen()
    paid = [await env.paid() for _ in range(3)]
    cancelled = await env.cancelled()
    newest, third, second, first = await env.deliveries()
    assert [each["charge_id"] for each in (first, second, third, newest)] == [*paid, cancelled]
    await env.put(first["delivery_id"], state="delivered")
    await env.put(second["delivery_id"], state="exhausted")

    async def numbers(query: str) -> list[int]:
        return [each["sequence"] for each in await env.deliveries(query)]

    assert await numbers("") == [4, 3, 2, 1]
    assert await numbers("&order=asc") == [1, 2, 3, 4]
    assert await numbers("&state=pending") == [4, 3]
    assert await numbers("&state=delivered&state=exhausted&order=asc") == [1, 2]
    assert await numbers("&state=stuck") == []
    assert await numbers("&type=charge.cancelled") == [4]
    assert await numbers("&type=charge.cancelled&type=payment.received&state=pending") == [4, 3]
    assert await numbers("&type=charge.refunded") == []
    assert await numbers(f"&event_id={second['event_id']}") == [2]
    assert await numbers(f"&event_id={second['event_id']}&state=pending") == []
    assert await numbers(f"&event_id={second['event_id']}&charge_id={paid[1]}") == [2]
    assert await numbers(f"&event_id={second['event_id']}&charge_id={paid[0]}") == []
    assert await numbers(f"&event_id={uuid4()}") == []
    assert await numbers(f"&charge_id={cancelled}") == [4]
    assert await numbers(f"&charge_id={cancelled}&order=asc&type=payment.received") == []
    today = (datetime.now(UTC) - timedelta(hours=3)).date()  # São Paulo's
    assert await numbers(f"&created_from={today - timedelta(days=1)}&created_to={today}&order=asc") == [1, 2, 3, 4]
    assert await numbers(f"&created_from={today + timedelta(days=1)}") == []
    assert await numbers(f"&created_to={today - timedelta(days=1)}") == []


@pytest.mark.parametrize("query", ["", "&state=pending", "&type=payment.received&state=pending", "&order=asc"])
async def test_paging_by_cursor_returns_every_delivery_once(env: Environment, query: str) -> None:
    await env.listen()
    for _ in range(5):
        await env.paid()
    seen, cursor = [], ""
    for _ in range(4):
        page = (await env.get(f"{LIST}?limit=2{query}{cursor}")).json()
        seen += [each["sequence"] for each in page["data"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == ([1, 2, 3, 4, 5] if "asc" in query else [5, 4, 3, 2, 1])


async def test_a_delivery_cursor_is_refused_with_other_filters_account_or_mode(env: Environment) -> None:
    await env.listen()
    for _ in range(2):
        await env.paid()
    cursor = (await env.get(f"{LIST}?limit=1")).json()["next_cursor"]
    assert (await env.get(f"{LIST}?limit=1&cursor={cursor}")).status == 200
    for reply in (
        await env.get(f"{LIST}?limit=1&state=pending&cursor={cursor}"),
        await env.get(f"{LIST}?limit=1&order=asc&cursor={cursor}"),
        await env.get(f"{LIST}?limit=1&cursor={cursor}", "production"),
        await env.get(f"/v1/events?limit=1&cursor={cursor}"),
        await env.api.get(f"{LIST}?limit=1&cursor={cursor}", token=await env.api.token()),
        await env.get(f"{LIST}?cursor={cursor[:-1]}"),
        await env.get(f"{LIST}?cursor="),
    ):
        assert reply.code() == "CURSOR_INVALID"


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("state=sent", "VALIDATION_ERROR"), ("type=payment.sent", "VALIDATION_ERROR"),
        ("status=200", "VALIDATION_ERROR"), ("event_id=x", "VALIDATION_ERROR"),
        ("charge_id=1", "VALIDATION_ERROR"), ("limit=0", "LIMIT_INVALID"),
        ("created_from=2026-02-30", "DATE_RANGE_INVALID"), ("order=up", "VALIDATION_ERROR"),
        ("created_from=2026-03-02&created_to=2026-03-01", "DATE_RANGE_INVALID"),
    ],
)  # fmt: skip
async def test_an_invalid_filter_of_the_delivery_list_is_refused(api: Api, query: str, code: str) -> None:
    assert (await api.get(f"{LIST}?{query}", token=await api.token())).code() == code


async def test_a_delivery_of_another_account_or_mode_is_answered_like_an_unknown_id(env: Environment) -> None:
    await env.listen()
    await env.paid()
    (item,) = await env.deliveries()
    await env.put(item["delivery_id"], state="exhausted")
    theirs = await env.api.token()
    for method, path in (("GET", ""), ("POST", "/redeliver")):
        answers = set()
        for delivery_id, token in (
            (NOBODY, theirs),
            (item["delivery_id"], theirs),
            (item["delivery_id"], await env.token("production")),
            (item["delivery_id"].upper(), await env.token()),
            ("x", theirs),
        ):
            reply = await env.api.ask(
                method, f"{LIST}/{delivery_id}{path}", headers=[(b"authorization", f"Bearer {token}".encode())]
            )
            assert (reply.status, reply.code()) == (404, "DELIVERY_NOT_FOUND")
            answers.add(reply.body.replace(str(reply.header("x-request-id")).encode(), b""))
        assert len(answers) == 1
    assert (await env.row(item["delivery_id"]))["state"] == "exhausted"
    assert (await env.get(f"{LIST}", "production")).json() == {"data": [], "next_cursor": None}


async def test_listing_deliveries_requires_a_read_scope_and_redelivery_requires_charges_create(
    env: Environment,
) -> None:
    await env.listen()
    await env.paid()
    (item,) = await env.deliveries()
    one, many = f"{LIST}/{item['delivery_id']}/redeliver", "/v1/events/redeliver"
    given = {"from_sequence": 1, "to_sequence": 1}
    for scope, reads, acts in (
        ("payments:read", 200, 403), ("charges:read", 200, 403), ("charges:create", 403, 202),
        ("refunds:create", 403, 403),
    ):  # fmt: skip
        token = await env.token(scope=scope)
        assert (await env.api.get(LIST, token=token)).status == reads
        assert (await env.api.get(f"{LIST}/{item['delivery_id']}", token=token)).status == reads
        assert (await env.api.post(one, None, token=token)).status == acts
        assert (await env.api.post(many, given, token=token)).status == acts


@pytest.mark.parametrize("state", [each for each in STATES if each != "sending"])
async def test_redelivery_makes_the_same_delivery_due_at_once_with_a_fresh_retry_schedule(
    env: Environment, state: str
) -> None:
    await env.listen()
    await env.paid()
    (before,) = await env.deliveries()
    later = datetime.now(UTC) + timedelta(hours=20)
    await env.put(before["delivery_id"], state=state, step=7, attempt=12, losses=5, due_at=later, delivered_at=later)
    asked_at = datetime.now(UTC).replace(microsecond=0)
    reply = await env.post(f"{LIST}/{before['delivery_id']}/redeliver")
    assert reply.status == 202
    shown = reply.json()
    assert set(shown) == FIELDS
    assert (shown["state"], shown["attempt_count"], shown["delivered_at"]) == ("pending", 12, None)
    assert asked_at <= datetime.fromisoformat(shown["next_attempt_at"]) <= datetime.now(UTC)
    assert {name: shown[name] for name in ("delivery_id", "event_id", "sequence")} == {
        name: before[name] for name in ("delivery_id", "event_id", "sequence")
    }
    row = await env.row(before["delivery_id"])
    assert (row["step"], row["attempt"], row["losses"], row["lease_until"]) == (0, 12, 0, None)
    assert len(await env.deliveries()) == 1


async def test_a_delivery_whose_event_left_the_feed_is_shown_but_cannot_be_redelivered(env: Environment) -> None:
    await env.listen()
    await env.paid()
    (item,) = await env.deliveries()
    # The month's partition of the feed no longer exists, as after 400 days.
    await env.put(item["delivery_id"], state="delivered", created_at=datetime.now(UTC) - timedelta(days=500))
    assert (await env.get(f"{LIST}/{item['delivery_id']}")).status == 200
    reply = await env.post(f"{LIST}/{item['delivery_id']}/redeliver")
    assert (reply.status, reply.code()) == (404, "DELIVERY_NOT_FOUND")
    assert (await env.row(item["delivery_id"]))["state"] == "delivered"


async def test_redelivery_does_not_change_a_delivery_that_is_being_sent(env: Environment) -> None:
    await env.listen()
    await env.paid()
    (item,) = await env.deliveries()
    lease = datetime.now(UTC) + timedelta(seconds=30)
    await env.put(item["delivery_id"], state="sending", attempt=1, lease_until=lease)
    before = await env.row(item["delivery_id"])
    reply = await env.post(f"{LIST}/{item['delivery_id']}/redeliver")
    assert (reply.status, reply.json()["state"]) == (202, "sending")
    again = await env.post("/v1/events/redeliver", {"from_sequence": 1, "to_sequence": 1})
    assert (again.status, again.json()) == (202, {"deliveries": 1})
    assert await env.row(item["delivery_id"]) == before


async def test_an_attempt_is_shown_only_when_its_delivery_is_no_longer_being_sent(env: Environment) -> None:
    """Deliveries and attempts are read by two statements: here the second attempt ends between them."""
    await env.listen()
    await env.paid()
    (item,) = await env.deliveries()
    await env.pool.execute(
        "INSERT INTO webhook_attempt SELECT $1, n, now(), 1, 200, 'delivered', '' FROM generate_series(1, 2) AS n",
        UUID(item["delivery_id"]),
    )
    lease = datetime.now(UTC) + timedelta(seconds=30)
    await env.put(item["delivery_id"], state="sending", attempt=2, lease_until=lease)
    (sending,) = await env.deliveries()
    assert (sending["state"], [each["attempt"] for each in sending["attempts"]]) == ("sending", [1])
    await env.put(item["delivery_id"], state="delivered", lease_until=None)
    (delivered,) = await env.deliveries()
    assert [each["attempt"] for each in delivered["attempts"]] == [1, 2]


async def test_redelivery_succeeds_while_the_worker_stores_the_attempts_result(env: Environment) -> None:
    await env.listen()
    await env.paid()
    (item,) = await env.deliveries()
    await env.put(item["delivery_id"], state="pending", attempt=1, step=1)
    async with env.pool.acquire() as storing:
        change = storing.transaction()
        await change.start()
        # Delivered rows live in another partition: the row that the redelivery waits for moves.
        await storing.execute(
            "UPDATE webhook_delivery SET state = 'delivered' WHERE delivery_id = $1", UUID(item["delivery_id"])
        )
        again = asyncio.create_task(env.post(f"{LIST}/{item['delivery_id']}/redeliver"))
        async with asyncio.timeout(30):
            while not await env.a_query_waits_for_a_delivery_row():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await change.commit()
    reply = await again
    assert (reply.status, reply.json()["state"]) == (202, "pending")


async def test_at_a_paused_endpoint_a_single_redelivery_is_sent_and_a_range_is_held(env: Environment) -> None:
    endpoint_id = await env.listen()
    for _ in range(2):
        await env.paid()
    one, other = await env.deliveries()
    await env.pool.execute(
        "INSERT INTO webhook_lane (endpoint_id, test, state, paused_at) VALUES ($1, true, 'paused', now())"
        " ON CONFLICT (endpoint_id, test) DO UPDATE SET state = excluded.state, paused_at = excluded.paused_at",
        endpoint_id,
    )
    for each in (one, other):
        await env.put(each["delivery_id"], state="exhausted", due_at=datetime.now(UTC) - timedelta(days=13))
    assert (await env.post(f"{LIST}/{one['delivery_id']}/redeliver")).json()["state"] == "pending"
    await env.post("/v1/events/redeliver", {"from_sequence": 1, "to_sequence": 2})
    assert [each["state"] for each in await env.deliveries()] == ["pending", "held"]
    since = [(await env.row(each["delivery_id"]))["due_at"] for each in (one, other)]
    assert all(datetime.now(UTC) - at < timedelta(minutes=1) for at in since)


async def test_a_range_redelivers_events_older_than_the_endpoint(env: Environment) -> None:
    charges = [await env.paid() for _ in range(3)]
    charges.append(await env.cancelled())
    assert await env.deliveries() == []
    given = {"from_sequence": 2, "to_sequence": 1_000}
    assert (await env.post("/v1/events/redeliver", given)).json() == {"deliveries": 0}  # no endpoint is registered
    await env.listen()
    reply = await env.post("/v1/events/redeliver", given)
    assert (reply.status, reply.json()) == (202, {"deliveries": 3})
    made = await env.deliveries("&order=asc")
    assert [each["charge_id"] for each in made] == charges[1:]
    feed = (await env.get("/v1/events?after_sequence=1")).json()["data"]
    assert [each["event_id"] for each in made] == [each["event_id"] for each in feed]
    # They are due in the order of the feed.
    assert [each["next_attempt_at"] for each in made] == sorted({each["next_attempt_at"] for each in made})
    again = await env.post("/v1/events/redeliver", given)
    assert again.json() == {"deliveries": 3}
    assert await env.deliveries("&order=asc") == made


async def test_a_range_resets_delivered_and_retrying_deliveries_but_not_one_never_attempted(env: Environment) -> None:
    await env.listen()
    for _ in range(4):
        await env.paid()
    made = await env.deliveries("&order=asc")
    first, second, third, last = [each["delivery_id"] for each in made]
    now, later = datetime.now(UTC), datetime.now(UTC) + timedelta(hours=1)
    await env.put(first, state="delivered", step=1, attempt=1, losses=4, delivered_at=now)
    await env.put(second, step=4, attempt=4, due_at=now)  # at step 4 of the retry schedule, and due now
    await env.put(third, due_at=later)
    waits = await env.row(last)
    assert (await env.post("/v1/events/redeliver", {"from_sequence": 1, "to_sequence": 4})).json() == {"deliveries": 4}
    after = [await env.row(each["delivery_id"]) for each in made]
    assert [(row["state"], row["step"], row["losses"], row["delivered_at"]) for row in after] == [
        ("pending", 0, 0, None)
    ] * 4
    assert after[2]["due_at"] <= datetime.now(UTC) + timedelta(seconds=1)
    assert after[3] == waits


async def test_a_range_skips_unsubscribed_event_kinds_and_the_other_mode(env: Environment) -> None:
    await env.listen()
    await env.paid()
    await env.cancelled()
    await env.pool.execute(
        "UPDATE webhook_endpoint SET kinds = '{charge.cancelled}' WHERE account_id = $1", env.record.account_id
    )
    for each in await env.deliveries():
        await env.put(each["delivery_id"], state="delivered")
    given = {"from_sequence": 1, "to_sequence": 2}
    assert (await env.post("/v1/events/redeliver", given, "production")).json() == {"deliveries": 0}
    assert (await env.post("/v1/events/redeliver", given)).json() == {"deliveries": 1}
    assert [each["state"] for each in await env.deliveries()] == ["pending", "delivered"]


@pytest.mark.parametrize(
    ("first", "last", "field"),
    [
        (None, None, "from_sequence to_sequence"), (1, None, "to_sequence"), (2, 1, "to_sequence"),
        (0, 1, "from_sequence"),
        ("1", 2, "from_sequence"), (1, True, "to_sequence"), (1, 1.5, "to_sequence"), (-1, 1, "from_sequence"),
        (1, 2**63, "to_sequence"), (1, 10**30, "to_sequence"), (1, 10_001, "to_sequence"), ([], 1, "from_sequence"),
    ],
)  # fmt: skip
async def test_an_invalid_range_of_sequences_is_refused_by_its_field(
    api: Api, first: Any, last: Any, field: str
) -> None:
    given = {"from_sequence": first, "to_sequence": last}
    reply = await api.post("/v1/events/redeliver", given, token=await api.token())
    assert reply.code() == "VALIDATION_ERROR"
    assert [each["field"] for each in reply.json()["error"]["fields"]] == field.split()


async def test_the_widest_range_is_redelivered_and_ten_at_once_are_too(env: Environment) -> None:
    endpoint_id = await env.listen()
    account_id = env.record.account_id
    await env.pool.execute(
        "INSERT INTO read_event (account_id, test, sequence, event_id, type, charge_id, created_at, journal_id)"
        " SELECT $1, true, n, gen_random_uuid(), 'payment.received', gen_random_uuid(), now(), 0"
        " FROM generate_series(1, 10001) AS n",
        account_id,
    )
    given = {"from_sequence": 2, "to_sequence": RANGE_MAX + 1}

    async def served() -> Any:
        """Retry on 429 and 503: on a busy machine some of the ten requests wait too long for their turn (429) or for
        a lock (503)."""
        while (reply := await env.post("/v1/events/redeliver", given)).status in (429, 503):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
        return reply

    # It takes a second or two; a statement that compares each delivery with every other takes many minutes anywhere.
    async with asyncio.timeout(240):
        fresh = await served()
        await env.pool.execute("UPDATE webhook_delivery SET state = 'delivered' WHERE account_id = $1", account_id)
        again = await asyncio.gather(*(served() for _ in range(10)))
    assert {reply.body for reply in (fresh, *again)} == {b'{"deliveries":10000}'}
    rows = await env.pool.fetchrow(
        "SELECT count(*) AS n, count(*) FILTER (WHERE state = 'pending' AND step = 0) AS waiting"
        " FROM webhook_delivery WHERE endpoint_id = $1",
        endpoint_id,
    )
    assert rows is not None
    assert tuple(rows) == (10_000, 10_000)


async def test_a_locked_delivery_does_not_delay_the_redelivery_of_a_range(env: Environment) -> None:
    await env.listen()
    for _ in range(2):
        await env.paid()
    one, other = await env.deliveries()
    for each in (one, other):
        await env.put(each["delivery_id"], state="exhausted")
    async with env.pool.acquire() as conn:
        held = conn.transaction()
        await held.start()
        await conn.execute("SELECT FROM webhook_delivery WHERE delivery_id = $1 FOR UPDATE", UUID(one["delivery_id"]))
        async with asyncio.timeout(30):
            reply = await env.post("/v1/events/redeliver", {"from_sequence": 1, "to_sequence": 2})
        await held.rollback()
    assert reply.status == 202
    assert (await env.row(other["delivery_id"]))["state"] == "pending"


async def test_the_states_of_the_api_are_those_of_the_partitions_of_webhook_delivery(pool: Pool) -> None:
    bounds = await pool.fetchval(
        "SELECT string_agg(pg_get_expr(c.relpartbound, c.oid), ' ')"
        " FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'webhook_delivery'::regclass"
    )
    assert set(re.findall(r"'(\w+)'", bounds)) == set(STATES)


class Merchant(ThreadingHTTPServer):
    """A merchant's server on a real socket: it answers the given statuses in turn, then 200."""

    def __init__(self, *statuses: int) -> None:
        super().__init__(("127.0.0.1", 0), _Post)
        self.statuses = list(statuses)
        self.received: list[tuple[dict[str, str], bytes]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"


class _Post(BaseHTTPRequestHandler):
    server: Merchant

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((dict(self.headers), body))
        self.send_response(self.server.statuses.pop(0) if self.server.statuses else 200)
        self.end_headers()
        self.wfile.write(b"n\xc3\xa3o \xff")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def client() -> Iterator[Merchant]:
    with Merchant(503) as server:
        yield server
        server.shutdown()


async def test_a_redelivery_arrives_with_the_same_id_and_body_and_a_new_signature(
    system: System, client: Merchant
) -> None:
    async with new_merchant(system) as env:
        account_id = env.sandbox.account_id
        secret = system.json("webhook", "set", account_id, client.url)["secret"]
        await env.sandbox.paid()

        async def delivered() -> Any:
            answer = await env.sandbox.get(LIST, state="delivered")
            return answer.body["data"]

        (item,) = await until_answer(delivered)
        assert [(each["status"], each["outcome"]) for each in item["attempts"]] == [
            (503, "rejected"),
            (200, "delivered"),
        ]
        assert all(each["answer"] == "não \ufffd" for each in item["attempts"])
        assert all(0 <= each["duration_ms"] < 5_000 for each in item["attempts"])
        assert item["delivered_at"] >= item["attempts"][1]["started_at"]
        answer = await env.sandbox.post(f"{LIST}/{item['delivery_id']}/redeliver")
        assert answer.status == 202
        until(lambda: len(client.received) == 3)
        assert {body for _, body in client.received} == {client.received[0][1]}
        assert {headers["X-Service-Delivery-Id"] for headers, _ in client.received} == {item["delivery_id"]}
        assert [headers["X-Service-Attempt"] for headers, _ in client.received] == ["1", "2", "3"]
        for headers, body in client.received:
            stamp = int(headers["X-Service-Timestamp"])
            assert headers["X-Service-Signature"] == "sha256=" + sign(secret, stamp, body)
        (item,) = await until_answer(delivered)
        assert item["attempt_count"] == 3


async def test_an_endpoint_registered_late_receives_every_event_of_a_redelivered_range(
    system: System, client: Merchant
) -> None:
    client.statuses.clear()
    async with new_merchant(system) as env:
        for _ in range(4):
            await env.sandbox.paid()
        system.json("webhook", "set", env.sandbox.account_id, client.url)
        answer = await env.sandbox.post("/v1/events/redeliver", {"from_sequence": 1, "to_sequence": 4})
        assert (answer.status, answer.body) == (202, {"deliveries": 4})
        until(lambda: len(client.received) == 4)
        feed = await env.sandbox.events()
        for item in feed:
            for name in ("type", "sequence", "created_at"):
                item.pop(name)
        received_events = [json.loads(body) for _, body in client.received]
        assert sorted(received_events, key=lambda each: str(each["event_id"])) == sorted(
            feed, key=lambda each: str(each["event_id"])
        )


BIG = UUID(int=2)
_SEED = (
    """
    INSERT INTO account (account_id, name, document, city, kyc, pix_key, created_at)
    SELECT CASE WHEN n = 1 THEN '00000000-0000-0000-0000-000000000002'::uuid ELSE md5('d' || n)::uuid END, 'Loja',
           '00000000000191', 'Recife', 'approved', 'k', now()
    FROM generate_series(1, 21) AS n
    """,
    """
    INSERT INTO webhook_endpoint (endpoint_id, account_id, url, secret_sealed, kinds, created_at)
    SELECT account_id, account_id, 'http://127.0.0.1:9/', '', '{}', now() FROM account
    WHERE account_id = ANY(SELECT md5('d' || n)::uuid FROM generate_series(2, 21) AS n
                           UNION ALL SELECT '00000000-0000-0000-0000-000000000002'::uuid)
    """,
    """
    CREATE TEMPORARY TABLE sent ON COMMIT DROP AS
    SELECT n, md5('e' || n)::uuid AS id,
           CASE WHEN n % 2 = 0 THEN '00000000-0000-0000-0000-000000000002'::uuid
                ELSE md5('d' || 2 + n / 2 % 20)::uuid END AS account_id,
           timestamptz '2026-01-01 00:00Z' + n * interval '15 seconds' AS at,
           CASE WHEN n % 4000 = 0 THEN 'stuck' WHEN n % 10 = 0 THEN 'exhausted' WHEN n % 50 = 2 THEN 'pending'
                ELSE 'delivered' END AS state,
           CASE WHEN n % 3000 = 0 THEN 'charge.refunded' WHEN n % 6 = 0 THEN 'charge.cancelled'
                ELSE 'payment.received' END AS kind
    FROM generate_series(1, 40000) AS n
    """,
    """
    INSERT INTO read_event (account_id, test, sequence, event_id, type, charge_id, created_at, journal_id)
    SELECT account_id, true, row_number() OVER (PARTITION BY account_id ORDER BY n), id, kind, md5('c' || n / 10)::uuid,
           at, 0
    FROM sent
    """,
    """
    INSERT INTO webhook_delivery (delivery_id, endpoint_id, account_id, test, event_id, sequence, type, state, due_at,
                                  attempt, created_at)
    SELECT webhook_delivery_id(r.account_id, r.event_id), r.account_id, r.account_id, true, r.event_id, r.sequence,
           r.type, sent.state, r.created_at, 3, r.created_at
    FROM read_event r JOIN sent ON sent.id = r.event_id
    """,
    """
    INSERT INTO webhook_attempt
    SELECT webhook_delivery_id(account_id, id), m, at, 5, 500, 'rejected', 'x'
    FROM sent CROSS JOIN generate_series(1, 3) AS m WHERE n % 4 = 0
    """,
    "ANALYZE account, webhook_endpoint, webhook_delivery, webhook_attempt, read_event",
)
MIDDLE = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=15 * 20_000)
LIMIT = 100
FILTERS: dict[str, tuple[dict[str, Any], int]] = {
    "everything": ({}, 1),
    "days": ({"created_from": MIDDLE, "created_to": MIDDLE + timedelta(days=1)}, 1),
    "state": ({"states": ("delivered",)}, len(KINDS)),
    "rare state": ({"states": ("stuck",)}, len(KINDS)),
    "state without deliveries": ({"states": ("held",)}, len(KINDS)),
    "kind": ({"types": ("payment.received",)}, len(STATES)),
    "rare kind": ({"types": ("charge.refunded",)}, len(STATES)),
    "state and kind": ({"states": ("pending", "stuck"), "types": ("charge.cancelled",)}, 2),
    "state in days": ({"states": ("exhausted",), "created_from": MIDDLE}, len(KINDS)),
    "event": ({"event_id": UUID("0a0dd1a0-7f40-6f6a-6f5e-4c1a1a9d5b8c")}, 1),
    "charge": ({"charge_id": UUID("0a0dd1a0-7f40-6f6a-6f5e-4c1a1a9d5b8c")}, 1),
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def seeded(table_owner: Pool) -> AsyncIterator[Any]:
    async with table_owner.acquire() as conn:
        begun = conn.transaction()
        await begun.start()
        for statement in _SEED:
            await conn.execute(statement)
        yield conn
        await begun.rollback()


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("walked", ["first page", "in the middle"])
@pytest.mark.parametrize("order", list(SortOrder))
@pytest.mark.parametrize("name", FILTERS)
async def test_a_page_of_deliveries_reads_one_index_range_for_each_state_or_kind(
    seeded: Any, name: str, order: SortOrder, walked: str, mode: str
) -> None:
    given, ranges = FILTERS[name]
    if name in ("event", "charge"):
        column = "event_id" if name == "event" else "charge_id"
        found = await seeded.fetchval(f"SELECT {column} FROM read_event WHERE account_id = $1 LIMIT 1", BIG)  # noqa: S608
        given = {column: found}
    after = None if walked == "first page" else SequencePosition(10_000)
    explained = Explained(seeded, mode)
    filters = DeliveryFilters(**given, order=order)
    await delivery_page(explained, Owner(BIG, Mode.SANDBOX), filters, after, LIMIT)  # type: ignore[arg-type]
    # Each row costs a read of its own and one of its event; the endpoint's block is the same for all.
    assert_cheap(explained.plans, ranges=ranges + 2, page=LIMIT + 1)


# 15,000 merchants with one open delivery each: by the statistics every endpoint has one, whichever is queried, and the
# index without the kind is one level lower.
_OTHERS = (
    """
    INSERT INTO account (account_id, name, document, city, kyc, pix_key, created_at)
    SELECT md5('o' || n)::uuid, 'Loja', '00000000000191', 'Recife', 'approved', 'k', now()
    FROM generate_series(1, 15000) AS n
    """,
    """
    INSERT INTO webhook_endpoint (endpoint_id, account_id, url, secret_sealed, kinds, created_at)
    SELECT md5('o' || n)::uuid, md5('o' || n)::uuid, 'http://127.0.0.1:9/', '', '{}', now()
    FROM generate_series(1, 15000) AS n
    """,
    """
    INSERT INTO webhook_delivery (delivery_id, endpoint_id, account_id, test, event_id, sequence, type, state, due_at,
                                  attempt, created_at)
    SELECT gen_random_uuid(), md5('o' || n)::uuid, md5('o' || n)::uuid, true, gen_random_uuid(), 1, 'payment.received',
           'pending', now(), 0, now()
    FROM generate_series(1, 15000) AS n
    """,
    "ANALYZE webhook_delivery_open",
)


@pytest.mark.parametrize("order", list(SortOrder))
@pytest.mark.parametrize("name", ["state without deliveries", "kind", "rare kind"])
async def test_a_page_by_state_reads_index_ranges_when_most_endpoints_have_one_delivery(
    seeded: Any, name: str, order: SortOrder
) -> None:
    given, ranges = FILTERS[name]
    others = seeded.transaction()
    await others.start()
    try:
        for statement in _OTHERS:
            await seeded.execute(statement)
        explained = Explained(seeded, "force_generic_plan")
        filters = DeliveryFilters(**given, order=order)
        await delivery_page(explained, Owner(BIG, Mode.SANDBOX), filters, None, LIMIT)  # type: ignore[arg-type]
        assert_cheap(explained.plans, ranges=ranges + 2, page=LIMIT + 1)
    finally:
        await others.rollback()


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_the_attempts_of_a_page_cost_one_index_range_for_each_delivery(seeded: Any, mode: str) -> None:
    page = await delivery_page(seeded, Owner(BIG, Mode.SANDBOX), DeliveryFilters(), None, LIMIT)
    assert sum(len(each.attempts) for each in page[0]) == 150
    explained = Explained(seeded, mode)
    await find_attempts(explained, delivery_ids=[UUID(each.delivery_id) for each in page[0]], limit=20)
    assert_cheap(explained.plans, ranges=LIMIT, page=3)
