"""An Idempotency-Key creates its charge once, however many requests run at once and whether or not Redis works
(contract section 4)."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from tests.support.boleto_merchant import issue
from tests.support.dual_merchant import issue_dual
from tests.support.merchant import (
    Answer,
    ApiClient,
    ApiMerchant,
    Books,
    assert_books_are_clean,
    kill_process,
    new_merchant,
    paused,
    until_answer,
    until_replaced,
)
from tests.support.system import System

AT_ONCE = 50


async def _assert_fifty_create_one_charge(client: ApiClient, books: Books, key: str) -> None:
    """Sends fifty equal creations at once; asserts that they create one charge and that all of them get it."""
    answers = await asyncio.gather(*(client.create("12.34", key=key, external_id=key) for _ in range(AT_ONCE)))
    assert Counter(answer.status for answer in answers) == {201: 1, 200: AT_ONCE - 1}
    assert len({answer.body["charge_id"] for answer in answers}) == 1
    for answer in answers:
        assert answer.headers.get("Idempotent-Replayed") == ("true" if answer.status == 200 else None)
    assert await books.fetchval("SELECT count(*) FROM charge WHERE external_id = $1", key) == 1


async def test_fifty_equal_requests_over_several_processes_create_one_charge(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    assert len(system.pids("api")) > 1
    for client in (merchant.sandbox, merchant.production):
        await _assert_fifty_create_one_charge(client, books, str(uuid4()))


async def test_fifty_equal_requests_create_one_charge_while_redis_is_silent(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    await merchant.sandbox.token()
    with paused(system, "redis"):
        for _ in range(3):
            await _assert_fifty_create_one_charge(merchant.sandbox, books, str(uuid4()))


async def test_fifty_equal_requests_create_one_charge_while_redis_is_killed(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    await merchant.sandbox.token()
    old = kill_process(system, "redis")
    for _ in range(3):
        await _assert_fifty_create_one_charge(merchant.sandbox, books, str(uuid4()))
    await asyncio.to_thread(until_replaced, system, "redis", old)
    await _assert_fifty_create_one_charge(merchant.sandbox, books, str(uuid4()))


async def test_fifty_equal_requests_create_one_charge_while_redis_is_flushed(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    redis = Redis.from_url(system.redis_url)

    async def flush() -> None:
        while True:
            await redis.flushall()
            await asyncio.sleep(0.001)

    flushing = asyncio.create_task(flush())
    try:
        for _ in range(5):
            await _assert_fifty_create_one_charge(merchant.sandbox, books, str(uuid4()))
    finally:
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)
        await redis.aclose()


async def test_creations_succeed_while_redis_refuses_writes(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    """Redis answers every write with an error if its disk is full or its replicas are missing."""
    redis = Redis.from_url(system.redis_url)
    await asyncio.sleep(2.1)  # A process that lost Redis in another test tries it again after 2 s.
    try:
        await redis.config_set("min-replicas-to-write", 1)
        await _assert_fifty_create_one_charge(merchant.sandbox, books, str(uuid4()))
        charge = await merchant.sandbox.created()
        assert (await merchant.sandbox.pay(charge["charge_id"])).status == 200
    finally:
        await redis.config_set("min-replicas-to-write", 0)
        await redis.aclose()


async def test_the_same_key_and_body_replay_regardless_of_json_spelling(merchant: ApiMerchant) -> None:
    client, key = merchant.sandbox, str(uuid4())
    payer = {"name": "Zé Açaí", "document": "12345678909"}
    first = await client.create("10.00", key=key, payer=payer, description="x")
    other_spelling = json.dumps(
        {
            "payer": dict(reversed(payer.items())),
            "description": "x",
            "amount": "10.00",
            "account_id": client.account_id,
        },
        indent=3,
        ensure_ascii=True,
    )
    sent = {
        "Authorization": f"Bearer {await client.token()}",
        "Idempotency-Key": key,
        "Content-Type": "application/json",
    }
    async with client.http.post(f"{client.base_url}/v1/charges/pix", data=other_spelling, headers=sent) as answer:
        assert answer.status == 200
        assert await answer.json() == first.body
        assert answer.headers["Idempotency-Key"] == key


async def test_the_same_key_with_another_body_is_refused_and_creates_nothing(merchant: ApiMerchant) -> None:
    client, key = merchant.sandbox, str(uuid4())
    charge = await client.created("10.00", key=key)
    others: list[dict[str, Any]] = [{"amount": "10.01"}, {"amount": "10.0"}, {"expires_in": 600}, {"unknown": 1}]
    for other in others:
        answer = await client.create(**{"amount": "10.00", "key": key, **other})
        assert (answer.status, answer.code) == (409, "IDEMPOTENCY_KEY_REUSED")
    assert [each["charge_id"] for each in await client.all("/v1/charges")] == [charge["charge_id"]]


async def test_one_body_wins_when_fifty_requests_share_a_key_and_have_two_bodies(merchant: ApiMerchant) -> None:
    key = str(uuid4())
    answers = await asyncio.gather(
        *(merchant.sandbox.create(f"{1 + number % 2}.00", key=key) for number in range(AT_ONCE))
    )
    assert Counter(answer.status for answer in answers) == {201: 1, 200: AT_ONCE // 2 - 1, 409: AT_ONCE // 2}
    assert {answer.code for answer in answers if answer.status == 409} == {"IDEMPOTENCY_KEY_REUSED"}
    assert len(await merchant.sandbox.all("/v1/charges")) == 1


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ({}, "IDEMPOTENCY_KEY_REQUIRED"),
        ({"Idempotency-Key": ""}, "IDEMPOTENCY_KEY_REQUIRED"),
        ({"Idempotency-Key": "k" * 256}, "IDEMPOTENCY_KEY_INVALID"),
        ({"Idempotency-Key": "ação"}, "IDEMPOTENCY_KEY_INVALID"),
    ],
)
async def test_a_creation_without_a_readable_key_is_refused(
    merchant: ApiMerchant, sent: dict[str, str], code: str
) -> None:
    answer = await merchant.sandbox.ask("POST", "/v1/charges/pix", json=merchant.sandbox.body(), headers=sent)
    assert (answer.status, answer.code) == (400, code)
    assert await merchant.sandbox.all("/v1/charges") == []


async def test_a_key_belongs_to_its_account_and_mode(system: System, merchant: ApiMerchant) -> None:
    key = str(uuid4())
    async with new_merchant(system) as other:
        clients = [merchant.sandbox, merchant.production, other.sandbox, other.production]
        answers = [await client.create("10.00", key=key) for client in clients]
    assert [answer.status for answer in answers] == [201] * 4
    assert len({answer.body["charge_id"] for answer in answers}) == 4


async def test_a_refused_creation_leaves_its_key_free(merchant: ApiMerchant) -> None:
    key = str(uuid4())
    for wrong in ("0.00", "1,00", None):
        assert (await merchant.sandbox.create(wrong, key=key)).code == "AMOUNT_INVALID"  # type: ignore[arg-type]
    assert (await merchant.sandbox.create(key=key, account_id=str(uuid4()))).code == "CHARGE_NOT_FOUND"
    assert (await merchant.sandbox.create(key=key)).status == 201


@pytest.mark.parametrize("becomes", ["paid", "cancelled"])
async def test_a_replay_shows_the_charge_as_it_is_now(merchant: ApiMerchant, becomes: str) -> None:
    client, key = merchant.sandbox, str(uuid4())
    charge = await client.created(key=key)
    changed = await (client.pay if becomes == "paid" else client.cancel)(charge["charge_id"])
    again = await client.create(key=key)
    assert (again.status, again.headers["Idempotent-Replayed"]) == (200, "true")
    assert again.body == changed.body
    assert again.body["status"] == becomes


async def test_a_suspension_refuses_new_charges_and_replays_old_ones(system: System, merchant: ApiMerchant) -> None:
    old_key, new_key = str(uuid4()), str(uuid4())
    charge = await merchant.production.created(key=old_key)
    system.json("pix", "suspend")
    try:
        refused = await merchant.production.create(key=new_key)
        assert (refused.status, refused.code) == (403, "PIX_AVULSO_SUSPENDED")
        replayed = await merchant.production.create(key=old_key)
        assert (replayed.status, replayed.body["charge_id"]) == (200, charge["charge_id"])
        assert (await merchant.production.create("11.00", key=old_key)).code == "IDEMPOTENCY_KEY_REUSED"
        assert (await merchant.production.charge(charge["charge_id"]))["status"] == "pending"
        assert (await merchant.sandbox.create()).status == 201
        assert (await merchant.production.get(f"/v1/idempotency-keys/{new_key}")).body["state"] == "unknown"
    finally:
        system.json("pix", "resume")
    assert (await merchant.production.create(key=new_key)).status == 201


async def test_kyc_is_required_in_production_and_not_in_the_sandbox(system: System) -> None:
    pending = system.merchants[2]
    async with new_merchant(system, kyc="pending") as merchant:
        assert pending["name"] == "Livraria Ipê"
        for record in (pending, None):
            production = ApiClient(system.base_url, record["account_id"], **record["production"]) if record else None
            client = production or merchant.production
            answer = await client.create()
            assert (answer.status, answer.code) == (403, "KYC_REQUIRED")
            assert (await client.get("/v1/charges")).status == 200
            if production is not None:
                await production.http.close()
        assert (await merchant.sandbox.create()).status == 201


async def test_an_approval_takes_effect_at_once(system: System) -> None:
    async with new_merchant(system, kyc="pending") as merchant:
        key = str(uuid4())
        assert (await merchant.production.create(key=key)).code == "KYC_REQUIRED"
        system.json("merchant", "approve", merchant.production.account_id)
        assert (await merchant.production.create(key=key)).status == 201


async def test_a_block_takes_effect_at_once_in_every_process_despite_its_cache(system: System) -> None:
    async with new_merchant(system) as merchant:
        client, key = merchant.production, str(uuid4())
        charge = await client.created(key=key)
        answers = await asyncio.gather(*(client.create() for _ in range(24)))
        assert {answer.status for answer in answers} == {201}
        system.json("merchant", "block", client.account_id, "--reason", "fraud")
        schedule = {
            "payment_method": "pix", "frequency": "monthly", "amount": "10.00", "first_due_date": "2049-10-01",
            "payer": {"name": "Ana Lima", "document": "52998224725"},
        }  # fmt: skip
        answers = await asyncio.gather(
            *(client.create() for _ in range(24)),
            *(issue(client) for _ in range(4)),
            *(issue_dual(client) for _ in range(4)),
            *(client.ask("POST", "/v1/charge-schedules", json=schedule, key=str(uuid4())) for _ in range(4)),
        )
        assert {(answer.status, answer.code) for answer in answers} == {(403, "KYC_REQUIRED")}
        assert (await client.create(key=key)).body["charge_id"] == charge["charge_id"], "a block must not stop a replay"
        assert (await merchant.sandbox.create()).status == 201
        system.json("merchant", "approve", client.account_id)
        assert (await client.create()).status == 201
        made = await client.ask("POST", "/v1/charge-schedules", json=schedule, key=str(uuid4()))
        assert made.status == 201, made.raw


async def test_a_key_lookup_tells_its_state_its_resource_and_its_replays(merchant: ApiMerchant) -> None:
    client, key = merchant.sandbox, str(uuid4())
    unknown = await client.get(f"/v1/idempotency-keys/{key}")
    assert (unknown.status, unknown.body["state"], unknown.body["resource_id"]) == (200, "unknown", None)
    charge = await client.created(key=key)
    for _ in range(2):
        await client.create(key=key)
    told = await client.get(f"/v1/idempotency-keys/{key}")
    assert told.body == {
        "key": key,
        "state": "completed",
        "resource_type": "charge",
        "resource_id": charge["charge_id"],
        "first_used_at": charge["created_at"],
        "replay_count": 2,
    }
    assert (await merchant.production.get(f"/v1/idempotency-keys/{key}")).body["state"] == "unknown"


@pytest.mark.parametrize("key", ["order/42", "a b?c=d&e#f%2F", "~!@$'()*+,;=:", "k" * 255])
async def test_every_valid_key_can_be_looked_up(merchant: ApiMerchant, key: str) -> None:
    charge = await merchant.sandbox.created(key=key)
    from yarl import URL

    url = URL(f"{merchant.sandbox.base_url}/v1/idempotency-keys/{quote(key, safe='')}", encoded=True)
    sent = {"Authorization": f"Bearer {await merchant.sandbox.token()}"}
    async with merchant.sandbox.http.get(url, headers=sent) as answer:
        told = await answer.json()
    assert (answer.status, told.get("key"), told.get("resource_id")) == (200, key, charge["charge_id"])


async def _act_while_key_is_locked(books: Books, client: ApiClient, key: str, act: Callable[[], Awaitable[Any]]) -> Any:
    """Runs `act` while another transaction holds this key's row, so that creations with the key wait for it."""
    transaction = books.transaction()
    await transaction.start()
    await books.execute(
        "INSERT INTO idempotency (account_id, test, key, fingerprint, resource_type, resource_id, first_used_at)"
        " VALUES ($1::text::uuid, true, $2, $3, 'charge', gen_random_uuid(), now())",
        client.account_id,
        key,
        bytes(32),
    )
    try:
        return await act()
    finally:
        await transaction.rollback()


async def _state(client: ApiClient, key: str) -> str:
    return str((await client.get(f"/v1/idempotency-keys/{key}")).body["state"])


async def test_equal_requests_wait_while_the_first_one_runs(merchant: ApiMerchant, books: Books) -> None:
    client, key = merchant.sandbox, str(uuid4())
    asked: list[asyncio.Task[Answer]] = []

    async def act() -> None:
        asked.append(asyncio.create_task(client.create(key=key)))

        async def in_progress() -> bool:
            return await _state(client, key) == "in_progress"

        await until_answer(in_progress)
        asked.extend(asyncio.create_task(client.create(key=key)) for _ in range(9))
        await asyncio.sleep(0.3)
        assert not any(each.done() for each in asked)

    await _act_while_key_is_locked(books, client, key, act)
    answers = await asyncio.gather(*asked)
    assert Counter(answer.status for answer in answers) == {201: 1, 200: 9}
    assert await _state(client, key) == "completed"


async def _create_and_hang_up(client: ApiClient, key: str, after_s: float | None) -> None:
    """Sends a creation and aborts the connection after `after_s`; None: when the first byte of the answer arrives."""
    body = json.dumps(client.body()).encode()
    host, port = client.base_url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        b"POST /v1/charges/pix HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer "
        + (await client.token()).encode()
        + f"\r\nIdempotency-Key: {key}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    await writer.drain()
    await (reader.read(1) if after_s is None else asyncio.sleep(after_s))
    writer.transport.abort()


async def test_a_client_that_hangs_up_neither_undoes_nor_doubles_its_charge(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    chance, keys = random.Random(7), [str(uuid4()) for _ in range(60)]
    await merchant.sandbox.token()
    # The first client waits until its answer begins, so at least one creation gets through on a busy machine.
    after_s = [None, *(chance.uniform(0, 0.03) for _ in keys[1:])]
    await asyncio.gather(
        *(_create_and_hang_up(merchant.sandbox, key, wait_s) for key, wait_s in zip(keys, after_s, strict=True))
    )
    answers = await asyncio.gather(*(merchant.sandbox.create(key=key) for key in keys))
    assert {answer.status for answer in answers} <= {200, 201}
    assert 200 in {answer.status for answer in answers}, "no creation was stored before its client hung up"
    again = await asyncio.gather(*(merchant.sandbox.create(key=key) for key in keys))
    assert [each.body["charge_id"] for each in again] == [each.body["charge_id"] for each in answers]
    assert len(await merchant.sandbox.all("/v1/charges", limit=100)) == len(keys)
    open_transactions = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"

    async def none_open() -> bool:
        return bool(await books.fetchval(open_transactions) == 0)

    await until_answer(none_open)


async def test_requests_waiting_behind_a_client_that_hangs_up_still_get_one_charge(
    merchant: ApiMerchant, books: Books
) -> None:
    client, key = merchant.sandbox, str(uuid4())
    await client.token()
    waiting: list[asyncio.Task[Answer]] = []

    async def act() -> None:
        await _create_and_hang_up(client, key, 0.2)
        waiting.extend(asyncio.create_task(client.create(key=key)) for _ in range(5))
        await asyncio.sleep(0.2)

    await _act_while_key_is_locked(books, client, key, act)
    answers = await asyncio.gather(*waiting)
    assert {answer.status for answer in answers} <= {200, 201}
    assert len({answer.body["charge_id"] for answer in answers}) == 1
    assert len(await client.all("/v1/charges")) == 1


async def test_the_books_are_clean_after_the_tests_of_this_file(system: System) -> None:
    assert_books_are_clean(system)
