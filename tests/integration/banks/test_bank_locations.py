"""Locations: ready ahead, never given twice, asked for when there are none; and what they answer in the sandbox."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import aiohttp
import pytest
import pytest_asyncio
import uvicorn
from joserfc import jws
from joserfc.jwk import KeySet

from banks.protocol import Done, Location, Unknown
from commands.bank_orders.pix_locations import HIGH, LOW, LocationReserve
from domain.errors import Code, Refused
from domain.mode import Mode
from runtime.ids import new_id
from runtime.jobs import Jobs
from runtime.postgres import Pool
from runtime.redis import open_redis
from runtime.replies import Replies, send_reply
from tests.support.banking import BANK, fill, make_account, make_charges, settings_for, utc_now, worker_context
from tests.support.in_process import Reply, open_api
from tests.support.merchant import until_answer
from web.app import make_app
from workers.context import Context
from workers.housekeeping.location_pool import fill_pool
from workers.orders.pix import drain_orders

NOWHERE = "redis://127.0.0.1:1/0"


class Silent:
    """A bank of which nothing is heard."""

    @property
    def pix(self) -> Any:
        return self

    async def create_locations(self, count: int) -> Unknown:
        return Unknown("silent")


@pytest_asyncio.fixture(loop_scope="session")
async def context(pool: Pool, servers: Any) -> AsyncIterator[Context]:
    await pool.execute("TRUNCATE pix_location")
    async with worker_context(pool, servers.redis_url, Silent()) as made:
        yield made
    await pool.execute("TRUNCATE pix_location")


@asynccontextmanager
async def reserve_of(context: Context, redis_url: str, **more: Any) -> AsyncIterator[LocationReserve]:
    """The reserve of a process of the API."""
    replies = Replies(open_redis(redis_url, blocking=True), context.pool)
    await replies.start()
    try:
        yield LocationReserve(BANK, context.pool, Jobs(context.redis), replies, utc_now, **more)
    finally:
        await replies.stop()


@asynccontextmanager
async def working(context: Context) -> AsyncIterator[None]:
    """A worker that looks every few milliseconds, as a woken one does."""

    async def work() -> None:
        while True:
            await drain_orders(context, Mode.SANDBOX)
            await asyncio.sleep(0.005)

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def ids(locations: Sequence[Location]) -> list[int]:
    return [location.location_id for location in locations]


async def test_no_location_is_given_twice(context: Context, servers: Any) -> None:
    await fill(context.pool, True, [Location(number, f"x/{number}") for number in range(5000)])
    async with reserve_of(context, servers.redis_url) as one, reserve_of(context, servers.redis_url) as other:
        taken = await asyncio.gather(*(which.take(Mode.SANDBOX, 7) for _ in range(150) for which in (one, other)))
    given = [each for part in taken for each in ids(part)]
    assert len(given) == len(set(given)) == 2100


async def test_modes_do_not_share(context: Context, servers: Any) -> None:
    await fill(context.pool, False, [Location(number, f"p/{number}") for number in range(50)])
    await fill(context.pool, True, [Location(number, f"s/{number}") for number in range(50)])
    async with reserve_of(context, servers.redis_url) as reserve:
        assert all(each.location.startswith("p/") for each in await reserve.take(Mode.PRODUCTION, 40))
        assert all(each.location.startswith("s/") for each in await reserve.take(Mode.SANDBOX, 40))


async def test_a_low_pool_is_filled_to_its_mark(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HIGH, Mode.SANDBOX, 5_000)
    monkeypatch.setitem(LOW, Mode.SANDBOX, 1_000)
    assert await fill_pool(context, Mode.SANDBOX) == 5_000
    assert await fill_pool(context, Mode.SANDBOX) == 0
    assert await fill_pool(context, Mode.PRODUCTION) == 0  # the bank is silent
    assert await context.pool.fetchval("SELECT max(length(location)) FROM pix_location") <= 77


async def test_an_empty_pool_waits_for_the_bank_once_for_all(context: Context, servers: Any) -> None:
    async with reserve_of(context, servers.redis_url) as reserve, working(context):
        await asyncio.sleep(0.1)  # the reader listens
        came_at = utc_now()
        taken = await asyncio.gather(*(reserve.take(Mode.SANDBOX, 3) for _ in range(10)))
    given = [each for part in taken for each in ids(part)]
    assert len(given) == len(set(given)) == 30
    asked = "SELECT count(*) FROM bank_order WHERE kind = 'locations' AND created_at > $1"
    assert await context.pool.fetchval(asked, came_at) == 1


@pytest.mark.parametrize("api_redis", [None, NOWHERE])
async def test_without_redis_the_outcome_is_found_in_postgresql(
    context: Context, servers: Any, api_redis: str | None
) -> None:
    if api_redis is None:
        context.redis = open_redis(NOWHERE, blocking=False)  # the worker's is gone, the API's is not
    async with reserve_of(context, api_redis or servers.redis_url) as reserve, working(context):
        assert len(await reserve.take(Mode.SANDBOX, 2)) == 2
    if api_redis is None:
        await context.redis.aclose(close_connection_pool=True)


async def test_silence_is_bank_unavailable_for_everybody_at_once(context: Context, servers: Any) -> None:
    async with reserve_of(context, servers.redis_url, deadline_s=0.5) as reserve:
        began = time.monotonic()
        answers = await asyncio.gather(*(reserve.take(Mode.SANDBOX, 1) for _ in range(30)), return_exceptions=True)
        assert time.monotonic() - began < 10  # one wait, shared: one after the other they take 15
    assert [getattr(answer, "code", None) for answer in answers] == [Code.BANK_UNAVAILABLE] * 30
    last = "SELECT state FROM bank_order WHERE kind = 'locations' ORDER BY created_at DESC LIMIT 1"
    assert await context.pool.fetchval(last) == "abandoned"


async def test_who_comes_while_the_bank_is_silent_waits_with_those_before_and_a_replay_is_answered(
    context: Context, servers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One deadline for all: waiting one after the other, twins of a replay would be told that it is still at work."""
    asked = "SELECT count(*) FROM bank_order WHERE kind = 'locations' AND created_at >= $1 AND state = 'waiting'"
    async with open_api(servers.database_url, servers.redis_url) as api:
        token, reserve = await api.token(mode="production"), api.app.state.context.reserve

        async def create(key: str) -> Reply:
            return await api.post("/v1/charges/pix", api.pix(), token=token, key=key)

        old = await create("old")
        assert old.status == 201
        await context.pool.execute("TRUNCATE pix_location")
        reserve._held[Mode.PRODUCTION].clear()
        monkeypatch.setattr(reserve, "_deadline_s", 4.0)
        began_at, began = utc_now(), time.monotonic()
        first = asyncio.create_task(create("new"))

        async def is_asked_for() -> bool:
            return bool(await context.pool.fetchval(asked, began_at))

        await until_answer(is_asked_for)
        newer, *replayed = await asyncio.gather(create("newer"), *(create("old") for _ in range(3)))
        took_s = time.monotonic() - began
        assert [(each.status, each.code()) for each in (await first, newer)] == [(502, "BANK_UNAVAILABLE")] * 2
    assert [reply.status for reply in replayed] == [200] * 3
    assert {reply.json()["charge_id"] for reply in replayed} == {old.json()["charge_id"]}
    assert took_s < 7, "one wait, shared: one after the other it is two"


async def test_a_late_answer_goes_to_the_pool(context: Context, servers: Any) -> None:
    made: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    class Late:
        @property
        def pix(self) -> Any:
            return self

        async def create_locations(self, count: int) -> Done[list[Location]]:
            await made
            return Done([Location(number, f"late/{number}") for number in range(count)])

    context.banks.production[BANK] = Late()  # type: ignore[assignment]
    newest = (
        "SELECT state FROM bank_order WHERE kind = 'locations' AND created_at >= $1 ORDER BY created_at DESC LIMIT 1"
    )
    asked_at = utc_now()

    async def is_asked_for() -> bool:
        return bool(await context.pool.fetchval(newest, asked_at) == "waiting")

    async with reserve_of(context, servers.redis_url, deadline_s=2.0) as reserve:
        taking = asyncio.create_task(reserve.take(Mode.PRODUCTION, 1))
        await until_answer(is_asked_for)
        draining = asyncio.create_task(drain_orders(context, Mode.PRODUCTION))
        with pytest.raises(Refused):
            await taking
        made.set_result(None)
        await draining
        assert await context.pool.fetchval("SELECT count(*) FROM pix_location WHERE NOT test") == 32
        assert (await reserve.take(Mode.PRODUCTION, 1))[0].location.startswith("late/")


async def test_a_reply_wakes_its_order_and_no_other(context: Context, servers: Any) -> None:
    replies = Replies(open_redis(servers.redis_url, blocking=True), context.pool)
    await replies.start()

    async def nothing(conn: Any, order_id: UUID) -> None:
        return None

    mine, other = new_id(), new_id()
    waits = [
        asyncio.create_task(replies.wait(order_id, deadline_s=deadline_s, look=nothing))
        for order_id, deadline_s in ((mine, 30.0), (other, 2.0))
    ]
    await asyncio.sleep(0.1)
    await send_reply(context.redis, replies.reply_to, new_id(), b"for nobody")
    await send_reply(context.redis, replies.reply_to, mine, b"yes")
    assert await waits[0] == b"yes"
    assert not waits[1].done()
    assert await waits[1] is None
    await replies.stop()


# What a sandbox location answers


@asynccontextmanager
async def serving(pool: Pool) -> AsyncIterator[str]:
    app = make_app(settings_for(APP_URL="https://pay.example"), pool=pool, now=utc_now)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", lifespan="on", ws="none"))
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    running = asyncio.create_task(server._serve())
    async with asyncio.timeout(30):
        while not server.started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await running


async def test_a_sandbox_code_leads_to_a_signed_payload(context: Context) -> None:
    made = await context.banks.sandbox.pix.create_locations(2)
    assert isinstance(made, Done)
    account = await make_account(context.pool)
    (charge_id,) = await make_charges(context.pool, account, made.value[:1], test=True)
    await drain_orders(context, Mode.SANDBOX)
    async with serving(context.pool) as client, aiohttp.ClientSession() as http:
        path = made.value[0].location.partition("/")[2]
        async with http.get(f"{client}/{path}") as answer:
            assert (answer.status, answer.content_type) == (200, "application/jose")
            token = await answer.read()
        async with http.get(f"{client}/pix/v2/jwks.json") as answer:
            assert (answer.status, answer.content_type) == (200, "application/json")
            keys = KeySet.import_key_set(await answer.json())
        verified = jws.deserialize_compact(token, keys, algorithms=["ES256"])
        assert verified.headers()["jku"] == "https://pay.example/pix/v2/jwks.json"
        said = json.loads(verified.payload)
        assert (said["txid"], said["valor"]["original"], said["status"]) == (charge_id.hex, "12.34", "ATIVA")
        for unknown in (
            made.value[1].location.partition("/")[2],
            "pix/v2/x",
            "pix/v2/%00",
            "pix/v2/%ff",
            "pix/v2/é",
        ):
            async with http.get(f"{client}/{unknown}") as answer:
                assert (answer.status, answer.content_type) == (404, "application/problem+json")
                assert (await answer.json(content_type=None))["type"].endswith("/CobPayloadNaoEncontrado")
