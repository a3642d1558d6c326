"""Locations are made ahead of creations and never given twice; creations wait for them; the sandbox serves them."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from copy import copy
from typing import Any
from uuid import UUID

import aiohttp
import asyncpg
import pytest
import pytest_asyncio
import uvicorn
from joserfc import jws
from joserfc.jwk import KeySet
from structlog.testing import capture_logs

from banks.choice import Banks
from banks.protocol import Done, Location, Unknown
from commands.bank_orders.pix_locations import (
    BLOCK,
    SILENT_S_MAX,
    LocationReserve,
    PixLocation,
    note_silence,
    take_one,
)
from domain.errors import Code, Refused
from domain.mode import Mode
from runtime.coordination.leases import take_lease
from runtime.ids import new_id
from runtime.jobs import Jobs
from runtime.postgres import Pool
from runtime.redis import open_redis
from runtime.replies import Replies, replies_refused_total, send_reply
from runtime.seal import Seal, read_keys
from tests.support.banking import BANK, fill, make_account, make_charges, settings_for, worker_context
from tests.support.dual_merchant import dual_body
from tests.support.in_process import Reply, open_api
from tests.support.merchant import until_answer
from web.app import make_app
from workers.context import Context
from workers.housekeeping import location_pool
from workers.housekeeping.location_pool import (
    LEASE_S,
    Consumption,
    Level,
    LocationPool,
    count,
    find_level,
    kept,
    needed,
)
from workers.orders.pix import PixOrderWorker

ACCOUNT = new_id()


class Silent:
    """A bank that never answers."""

    @property
    def pix(self) -> Any:
        return self

    async def create_locations(self, count: int) -> Unknown:
        return Unknown("silent")


class Slow:
    """A bank that answers each call for locations after `delay_s`."""

    def __init__(self, delay_s: float = 0.05) -> None:
        self.delay_s = delay_s
        self.made = 0
        self.under_way = 0
        self.under_way_max = 0

    @property
    def pix(self) -> Any:
        return self

    async def create_locations(self, count: int) -> Done[list[Location]]:
        self.under_way += 1
        self.under_way_max = max(self.under_way_max, self.under_way)
        await asyncio.sleep(self.delay_s)
        self.under_way -= 1
        made = [Location(self.made + number, f"slow/{self.made + number}") for number in range(count)]
        self.made += count
        return Done(made)


@pytest_asyncio.fixture(loop_scope="session")
async def context(pool: Pool, table_owner: Pool, servers: Any) -> AsyncIterator[Context]:
    await table_owner.execute("TRUNCATE pix_location, pix_pool, lease")
    async with worker_context(pool, servers.redis_url, Silent()) as made:
        yield made
    await table_owner.execute("TRUNCATE pix_location, pix_pool, lease")


@asynccontextmanager
async def reserve_of(context: Context, **more: Any) -> AsyncIterator[LocationReserve]:
    """The location reserve of an API process."""
    reserve = LocationReserve(BANK, context.pool, Jobs(context.redis), **more)
    try:
        yield reserve
    finally:
        await reserve.close()


@asynccontextmanager
async def working(context: Context, mode: Mode) -> AsyncIterator[None]:
    """A worker that fills the pool every few milliseconds, as one that is woken often does."""
    filling, ended = LocationPool(context, mode), asyncio.Event()

    async def work() -> None:
        while not ended.is_set():
            await filling.fill()
            await asyncio.sleep(0.005)

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        ended.set()
        await asyncio.wait([task], timeout=1.0)  # a statement is cancelled only where a bank hangs
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def worker_with(context: Context, production: Any = None, **env: str) -> Context:
    """The context of another worker with these settings, and with the bank `production` if one is given."""
    own = copy(context)
    own.settings = settings_for(**env)
    own.worker = f"worker {new_id()}"
    if production is not None:
        own.banks = Banks(context.banks.sandbox, {BANK: production})
    return own


async def take(reserve: LocationReserve, mode: Mode, count: int, account_id: UUID = ACCOUNT) -> list[PixLocation]:
    return await asyncio.gather(*(reserve.take(mode, account_id) for _ in range(count)))


async def ready_count(pool: Pool, mode: Mode) -> int:
    return int(await pool.fetchval("SELECT coalesce(sum(count), 0) FROM pix_location WHERE test = $1", mode.test))


def ids(locations: Sequence[Location]) -> list[int]:
    return [location.location_id for location in locations]


async def test_a_creation_at_a_database_that_refuses_writes_fails_without_a_storm_of_statements(
    context: Context, table_owner: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a standby does, and a cell that was moved away: it answers the check whether it is back. The error is the
    database's, not BANK_UNAVAILABLE."""
    monkeypatch.setattr("commands.bank_orders.pix_locations._DATABASE_BACK_S", 1.0)
    await table_owner.execute(
        "CREATE SEQUENCE asked; GRANT USAGE ON SEQUENCE asked TO PUBLIC;"
        "CREATE FUNCTION refuse_writes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('asked');"
        " RAISE EXCEPTION 'read only' USING ERRCODE = 'read_only_sql_transaction'; END $$;"
        "CREATE TRIGGER refuse_writes BEFORE INSERT OR UPDATE OR DELETE ON pix_location"
        " FOR EACH STATEMENT EXECUTE FUNCTION refuse_writes()"
    )
    try:
        async with reserve_of(context, wait_s_max=10.0) as reserve:
            with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
                await reserve.take(Mode.PRODUCTION, ACCOUNT)
        assert await table_owner.fetchval("SELECT nextval('asked')") <= 25
    finally:
        await table_owner.execute("DROP FUNCTION refuse_writes CASCADE; DROP SEQUENCE asked")


async def test_a_bank_that_is_back_is_asked_anew_whatever_becomes_of_the_calls_before(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(location_pool, "PROBE_S", 0.05)
    unanswered = 6

    class Back(Slow):
        async def create_locations(self, count: int) -> Done[list[Location]]:
            nonlocal unanswered
            unanswered -= 1
            if unanswered >= 0:
                await asyncio.Event().wait()
            return await super().create_locations(count)

    own = worker_with(context, Back(), BANK_LOCATION_CALLS="4")
    async with working(own, Mode.PRODUCTION), reserve_of(own) as reserve:
        assert len(await take(reserve, Mode.PRODUCTION, 20)) == 20


async def test_no_location_is_given_twice(context: Context) -> None:
    await fill(context.pool, True, [Location(number, f"x/{number}") for number in range(5000)])
    async with reserve_of(context) as one, reserve_of(context) as other:
        taken = await asyncio.gather(*(take(which, Mode.SANDBOX, 7) for _ in range(150) for which in (one, other)))
    given = [each for part in taken for each in ids(part)]
    assert len(given) == len(set(given)) == 2100


async def test_production_and_sandbox_do_not_share_locations(context: Context) -> None:
    await fill(context.pool, False, [Location(number, f"p/{number}") for number in range(50)])
    await fill(context.pool, True, [Location(number, f"s/{number}") for number in range(50)])
    async with reserve_of(context) as reserve:
        assert all(each.location.startswith("p/") for each in await take(reserve, Mode.PRODUCTION, 40))
        assert all(each.location.startswith("s/") for each in await take(reserve, Mode.SANDBOX, 40))


async def test_a_location_id_keeps_its_url_in_every_block(context: Context) -> None:
    await fill(context.pool, True, [Location(number, f"x/{number}") for number in range(1, 2 * BLOCK + 8)])
    async with context.pool.acquire() as conn:
        one = await take_one(conn, test=True, bank=BANK)
    async with reserve_of(context) as reserve:
        rest = await take(reserve, Mode.SANDBOX, 2 * BLOCK + 6)
    assert one is not None
    assert all(each.location == f"x/{each.location_id}" for each in [one, *rest])
    assert sorted(ids([one, *rest])) == list(range(1, 2 * BLOCK + 8))
    assert await ready_count(context.pool, Mode.SANDBOX) == 0


async def test_the_pool_is_filled_to_its_reserve(context: Context) -> None:
    worker = worker_with(context, SANDBOX_LOCATIONS_MIN="5000")
    assert await LocationPool(worker, Mode.SANDBOX).fill() == 5_000
    assert await LocationPool(worker, Mode.SANDBOX).fill() == 0
    assert await LocationPool(worker, Mode.PRODUCTION).fill() == 0  # the bank is silent
    longest = "SELECT max(length(l)) FROM pix_location, unnest(locations) AS l"
    assert await context.pool.fetchval(longest) <= 77


async def test_the_production_pool_is_filled_to_its_reserve(context: Context) -> None:
    worker = worker_with(context, Slow(0.0), PIX_LOCATIONS_MIN="2600", PIX_LOCATIONS_PER_S="10000")
    assert await LocationPool(worker, Mode.PRODUCTION).fill() == 2_600
    assert await ready_count(context.pool, Mode.PRODUCTION) == 2_600


PACE = settings_for().pace


def level(*, ready: int = 1_000, made: int, taken: int, per_s: float, counted_s_ago: float) -> Level:
    return Level(ready=ready, first=0, made=made, taken=taken, per_s=per_s, counted_s_ago=counted_s_ago)


def test_the_number_of_locations_kept_ready_follows_consumption() -> None:
    counted = count(level(made=4_000, taken=1_000, per_s=0.0, counted_s_ago=5.0))
    assert counted == Consumption(taken=3_000, per_s=400.0)
    assert needed(PACE, counted.per_s) == 400 * PACE.pix_locations_s
    assert kept(PACE, Mode.PRODUCTION, counted.per_s) == PACE.pix_locations_min  # the larger of the two
    assert kept(PACE, Mode.PRODUCTION, 1_000.0) == 60_000
    assert kept(PACE, Mode.PRODUCTION, 1e9) == PACE.pix_locations_max


def test_the_measured_consumption_rises_at_once_and_falls_slowly() -> None:
    assert count(level(made=4_000, taken=1_000, per_s=1.0, counted_s_ago=4.0)) is None  # too soon after the last count
    calm = count(level(made=4_000, taken=3_000, per_s=400.0, counted_s_ago=10.0))
    assert calm is not None
    assert 380 < calm.per_s < 400
    # After an hour without a count, the number taken in it says nothing about the present rate.
    stale = count(level(made=400_000, taken=1_000, per_s=400.0, counted_s_ago=3_600.0))
    assert stale is not None
    assert stale.taken == 399_000
    assert stale.per_s < 1


async def test_consumption_raises_the_fill_level_of_the_pool(context: Context) -> None:
    bank = Slow(0.0)
    worker = worker_with(context, bank, PIX_LOCATIONS_MIN="100", PIX_LOCATIONS_S="3600")
    await LocationPool(worker, Mode.PRODUCTION).fill()
    before = await ready_count(context.pool, Mode.PRODUCTION)
    async with reserve_of(context) as reserve:
        await take(reserve, Mode.PRODUCTION, 40)
    await context.pool.execute("UPDATE pix_pool SET counted_at = counted_at - interval '10 s' WHERE NOT test")
    await LocationPool(worker, Mode.PRODUCTION).fill()
    assert before == 2_000  # the minimum, while nothing is taken
    assert await ready_count(context.pool, Mode.PRODUCTION) > 10_000  # an hour's supply


async def test_one_of_two_concurrent_workers_fills_the_pool(context: Context) -> None:
    banks = Slow(0.02), Slow(0.02)
    workers = [LocationPool(worker_with(context, bank, PIX_LOCATIONS_MIN="2000"), Mode.PRODUCTION) for bank in banks]
    added = await asyncio.gather(*(worker.fill() for worker in workers))
    assert sorted(added) == [0, 2_000]
    assert sorted(bank.made for bank in banks) == [0, 2_000]
    assert await ready_count(context.pool, Mode.PRODUCTION) == 2_000


async def test_locations_stored_while_the_level_is_read_are_not_requested_again(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def find_level_late(conn: Any, **of: Any) -> Level:
        level = await find_level(conn, **of)
        await asyncio.sleep(0.03)  # slices are stored while this answer is under way
        return level

    monkeypatch.setattr(location_pool, "find_level", find_level_late)
    bank = Slow(0.02)
    worker = worker_with(context, bank, PIX_LOCATIONS_MIN="2000")
    assert await LocationPool(worker, Mode.PRODUCTION).fill() == 2_000
    assert bank.made == 2_000


async def test_after_a_worker_died_another_fills_the_pool(context: Context) -> None:
    async with context.pool.acquire() as conn:
        name = f"locations_{Mode.PRODUCTION}_{BANK}"
        assert await take_lease(conn, name=name, holder="died", lease_s=LEASE_S)
    worker = worker_with(context, Slow(0.0), PIX_LOCATIONS_MIN="2000")
    assert await LocationPool(worker, Mode.PRODUCTION).fill() == 0
    await context.pool.execute("UPDATE lease SET until = now() WHERE name = $1", name)
    async with reserve_of(context) as reserve, working(worker, Mode.PRODUCTION):
        assert len(await take(reserve, Mode.PRODUCTION, 20)) == 20
    assert LEASE_S < SILENT_S_MAX


async def test_a_bank_that_rate_limits_locations_is_not_called_again_at_once(context: Context) -> None:
    """What it made is kept, and the next round comes later."""

    class Limiting(Slow):
        asked = 0

        async def create_locations(self, count: int) -> Done[list[Location]] | Unknown:  # type: ignore[override]
            self.asked += 1
            return await super().create_locations(count) if self.asked <= 3 else Unknown("HTTP 429")

    bank = Limiting(0.0)
    pool = LocationPool(worker_with(context, bank, BANK_LOCATION_CALLS="10"), Mode.PRODUCTION)
    with capture_logs() as said:
        assert await pool.fill() == bank.made == 3
    assert {(each["event"], each["detail"]) for each in said} == {("location_pool_not_filled", "HTTP 429")}
    assert bank.asked <= 3 + 10 + 3, "the calls under way, and at most one more for each other slice"
    assert await pool.fill() == 0
    assert await ready_count(context.pool, Mode.PRODUCTION) == 3


async def test_slices_are_requested_concurrently_and_stored_as_they_are_made(context: Context) -> None:
    bank = Slow(0.3)
    worker = worker_with(context, bank, BANK_LOCATION_CALLS="100")
    task = asyncio.create_task(LocationPool(worker, Mode.PRODUCTION).fill())

    async def some() -> bool:
        return await ready_count(context.pool, Mode.PRODUCTION) > 0

    await until_answer(some)
    assert await ready_count(context.pool, Mode.PRODUCTION) < 2_000
    assert bank.under_way_max == 100
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_with_an_empty_pool_creations_wait_for_a_slow_bank(context: Context) -> None:
    async with reserve_of(context) as reserve:
        waiting = asyncio.create_task(take(reserve, Mode.PRODUCTION, 300))
        await asyncio.sleep(0.2)
        async with working(worker_with(context, Slow(0.4)), Mode.PRODUCTION):
            taken = await waiting
    assert len(set(ids(taken))) == 300


async def test_a_pool_that_fills_slowly_does_not_count_as_silence_of_the_bank(context: Context) -> None:
    """Filling takes longer than the deadline for a silent bank, and each creation gets its location as it is made."""
    bank = Slow(0.25)
    async with reserve_of(context, deadline_s=0.6) as reserve:
        worker = worker_with(context, bank, BANK_LOCATION_CALLS="50")
        async with working(worker, Mode.PRODUCTION):
            taken = await take(reserve, Mode.PRODUCTION, 400)
    assert len(set(ids(taken))) == 400


async def test_a_bank_that_answers_late_does_not_count_as_silent(context: Context) -> None:
    """Its first answers come long after the deadline for a silent bank."""
    async with (
        reserve_of(context, deadline_s=0.3) as reserve,
        working(worker_with(context, Slow(1.5)), Mode.PRODUCTION),
    ):
        taken = await take(reserve, Mode.PRODUCTION, 60)
    assert len(set(ids(taken))) == 60


async def test_one_call_that_hangs_does_not_withhold_the_other_locations_from_waiting_creations(
    context: Context,
) -> None:
    class Hanging(Slow):
        async def create_locations(self, count: int) -> Done[list[Location]]:
            if self.under_way_max == 5:
                await asyncio.Event().wait()
            return await super().create_locations(count)

    worker = worker_with(context, Hanging(0.05), BANK_LOCATION_CALLS="5")
    async with reserve_of(context) as reserve, working(worker, Mode.PRODUCTION):
        taken = await take(reserve, Mode.PRODUCTION, 5)
    assert len(set(ids(taken))) == 5


async def test_occasional_calls_that_hang_do_not_keep_the_pool_from_being_filled(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call in fifty hangs, as when one server of a bank is out: the other calls fill the pool."""
    monkeypatch.setattr("workers.housekeeping.location_pool._STORE_S", 0.02)

    class HangingNow(Slow):
        asked = 0

        async def create_locations(self, count: int) -> Done[list[Location]]:
            self.asked += 1
            if self.asked % BLOCK == 0:
                await asyncio.Event().wait()
            return await super().create_locations(count)

    worker = worker_with(context, HangingNow(0.0), BANK_LOCATION_CALLS="20")
    task = asyncio.create_task(LocationPool(worker, Mode.PRODUCTION).fill())

    async def enough() -> bool:
        return await ready_count(context.pool, Mode.PRODUCTION) >= 10 * BLOCK

    await until_answer(enough)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_location_the_bank_returns_twice_is_stored_once(context: Context) -> None:
    """Two charges with one location would share a QR Code: a payer who scans the second would pay the first."""

    class Repeating(Slow):
        async def create_locations(self, count: int) -> Done[list[Location]]:
            made = await super().create_locations(count)
            return Done([Location(each.location_id // 2, f"x/{each.location_id // 2}") for each in made.value])

    worker = worker_with(context, Repeating(0.0), PIX_LOCATIONS_MIN="1")
    await LocationPool(worker, Mode.PRODUCTION).fill()
    async with reserve_of(context) as reserve:
        taken = await take(reserve, Mode.PRODUCTION, 1_000)
    assert len(set(ids(taken))) == 1_000


async def test_a_bank_that_returns_one_location_for_ever_is_not_called_again_at_once(context: Context) -> None:
    """As behind a cache: the pool never fills, and was asked for as fast as the bank answers."""

    class Caching(Slow):
        async def create_locations(self, count: int) -> Done[list[Location]]:
            await super().create_locations(count)
            return Done([Location(1, "x/1")] * count)

    pool = LocationPool(worker_with(context, Caching(0.0), BANK_LOCATION_CALLS="50"), Mode.PRODUCTION)
    async with asyncio.timeout(30):
        assert await pool.fill() == 1
        assert await pool.fill() == 0
    assert await ready_count(context.pool, Mode.PRODUCTION) == 1


async def test_a_location_the_bank_made_later_ends_its_silence(context: Context) -> None:
    async with context.pool.acquire() as conn:
        await note_silence(conn, test=False, bank=BANK)
    await fill(context.pool, False, [Location(1, "p/1")])
    async with reserve_of(context, deadline_s=0.2, wait_s_max=1.5) as reserve:
        assert (await reserve.take(Mode.PRODUCTION, ACCOUNT)).location_id == 1
        began = asyncio.get_running_loop().time()
        with pytest.raises(Refused):
            await reserve.take(Mode.PRODUCTION, ACCOUNT)
        assert asyncio.get_running_loop().time() - began >= 1.4, "the creation waits as for a slow bank"


async def test_a_bank_that_makes_nothing_for_as_long_as_a_creation_waits_is_unavailable(context: Context) -> None:
    """Also when no worker runs that could call it."""
    async with reserve_of(context, deadline_s=0.2, wait_s_max=1.0) as reserve:
        with pytest.raises(Refused) as refused:
            await reserve.take(Mode.PRODUCTION, ACCOUNT)
    assert refused.value.code is Code.BANK_UNAVAILABLE


async def test_a_bank_that_makes_too_few_locations_is_not_reported_as_unavailable(context: Context) -> None:
    made = "INSERT INTO pix_pool VALUES (false, $1, $2, 0, 0, now()) ON CONFLICT (test, bank) DO UPDATE SET made = $2"
    async with reserve_of(context, deadline_s=0.2, wait_s_max=1.0) as reserve:
        waiting = asyncio.create_task(reserve.take(Mode.PRODUCTION, ACCOUNT))
        for number in range(4):
            await context.pool.execute(made, BANK, 50 * number)
            await asyncio.sleep(0.1)
        with pytest.raises(Refused) as refused:
            await waiting
    assert refused.value.code is Code.SERVICE_UNAVAILABLE


async def test_locations_that_other_processes_take_first_show_that_the_bank_answers(context: Context) -> None:
    made = "INSERT INTO pix_pool VALUES (false, $1, $2, 0, 0, now()) ON CONFLICT (test, bank) DO UPDATE SET made = $2"
    async with reserve_of(context, deadline_s=0.5) as reserve:
        waiting = asyncio.create_task(reserve.take(Mode.PRODUCTION, ACCOUNT))
        for number in range(10):
            await asyncio.sleep(0.1)
            await context.pool.execute(made, BANK, 50 * number)
        await fill(context.pool, False, [Location(1, "at/last")])
        assert (await waiting).location == "at/last"


async def test_a_burst_of_creations_of_one_account_does_not_delay_another(context: Context) -> None:
    """Creations of another account that come after 500 of one are served with the first of those."""
    other = new_id()
    async with reserve_of(context) as reserve:
        burst = asyncio.create_task(take(reserve, Mode.PRODUCTION, 500))
        await asyncio.sleep(0.1)
        late = asyncio.create_task(take(reserve, Mode.PRODUCTION, 20, other))
        await asyncio.sleep(0.1)
        await fill(context.pool, False, [Location(number, f"p/{number}") for number in range(BLOCK)])
        assert len(await late) == 20
        assert not burst.done()
        await fill(context.pool, False, [Location(number, f"q/{number}") for number in range(500)])
        assert len(await burst) == 500


async def test_a_silent_bank_is_unavailable_for_all_waiting_creations_at_once(context: Context) -> None:
    async with reserve_of(context, deadline_s=0.5) as reserve, working(context, Mode.PRODUCTION):
        began = time.monotonic()
        waits = [reserve.take(Mode.PRODUCTION, ACCOUNT) for _ in range(30)]
        answers = await asyncio.gather(*waits, return_exceptions=True)
        assert time.monotonic() - began < 10  # they share one wait; one after the other they would take 15 s
    assert [getattr(answer, "code", None) for answer in answers] == [Code.BANK_UNAVAILABLE] * 30


async def test_creations_during_a_silence_share_one_wait_and_a_replay_does_not_wait(
    context: Context, servers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_api(servers.database_url, servers.redis_url) as api, working(context, Mode.PRODUCTION):
        token, reserve = await api.token(mode="production"), api.app.state.context.reserve

        async def create(key: str) -> Reply:
            return await api.post("/v1/charges/pix", api.pix(), token=token, key=key)

        old = await create("old")
        assert old.status == 201
        await context.pool.execute("DELETE FROM pix_location")
        reserve._held[Mode.PRODUCTION].clear()
        monkeypatch.setattr(reserve, "_deadline_s", 4.0)
        began = time.monotonic()
        first = asyncio.create_task(create("new"))
        await asyncio.sleep(0.2)
        newer = asyncio.create_task(create("newer"))
        replayed = await asyncio.gather(*(create("old") for _ in range(3)))
        assert not first.done()
        assert [(each.status, each.code()) for each in (await first, await newer)] == [(502, "BANK_UNAVAILABLE")] * 2
        took_s = time.monotonic() - began
    assert [reply.status for reply in replayed] == [200] * 3
    assert {reply.json()["charge_id"] for reply in replayed} == {old.json()["charge_id"]}
    assert took_s < 7, "they share one wait; one after the other there would be two"


async def test_a_dual_charge_waits_for_its_location_no_longer_than_for_its_boleto(
    context: Context, servers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A location that came later would be used up by an order that no request waits for."""
    monkeypatch.setattr("api.operations.boletos.DEADLINE_S", 0.5)
    async with open_api(servers.database_url, servers.redis_url) as api:
        reserve = api.app.state.context.reserve
        await context.pool.execute("DELETE FROM pix_location")
        reserve._held[Mode.PRODUCTION].clear()
        monkeypatch.setattr(reserve, "_wait_s_max", 600.0)
        token = await api.token(mode="production")
        async with asyncio.timeout(60):
            reply = await api.post("/v1/charges/dual", dual_body(), token=token, key="dual")
    assert (reply.status, reply.code()) == (502, "BANK_UNAVAILABLE")


async def test_with_an_empty_pool_the_api_waits_for_the_bank_and_creates_every_charge(
    context: Context, servers: Any
) -> None:
    """No creation is refused while a slow bank makes locations."""
    async with open_api(servers.database_url, servers.redis_url) as api:
        reserve = api.app.state.context.reserve
        await context.pool.execute("DELETE FROM pix_location")
        reserve._held[Mode.PRODUCTION].clear()
        token = await api.token(mode="production")
        creations = [
            asyncio.create_task(api.post("/v1/charges/pix", api.pix(), token=token, key=str(new_id())))
            for _ in range(120)
        ]
        await asyncio.sleep(0.3)
        async with working(worker_with(context, Slow(0.5)), Mode.PRODUCTION):
            replies = await asyncio.gather(*creations)
    assert {reply.status for reply in replies} == {201}


async def test_a_reply_wakes_the_request_of_its_order_and_no_other(context: Context, servers: Any) -> None:
    ours, older = read_keys(f"2:{'22' * 32},1:{'11' * 32}"), read_keys("11" * 32)
    replies = Replies(open_redis(servers.redis_url, blocking=True), context.pool, Seal(ours))
    await replies.start()

    async def nothing(conn: Any, order_id: UUID) -> None:
        return None

    mine, other = new_id(), new_id()
    waits = [
        asyncio.create_task(replies.wait(order_id, deadline_s=deadline_s, look=nothing))
        for order_id, deadline_s in ((mine, 30.0), (other, 2.0))
    ]
    await asyncio.sleep(0.1)
    await send_reply(context.redis, replies.reply_to, new_id(), b"for nobody", Seal(ours))
    await send_reply(context.redis, replies.reply_to, mine, b"yes", Seal(older))  # from a worker without the new key
    assert await waits[0] == b"yes"
    assert not waits[1].done()
    assert await waits[1] is None
    await replies.stop()


# What the sandbox serves at a location


@asynccontextmanager
async def serving(pool: Pool) -> AsyncIterator[str]:
    app = make_app(settings_for(APP_URL="https://pay.example"), pool=pool)
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


async def test_the_qr_code_of_a_sandbox_charge_leads_to_a_signed_payload(context: Context) -> None:
    made = await context.banks.sandbox.pix.create_locations(2)
    assert isinstance(made, Done)
    account = await make_account(context.pool)
    (charge_id,) = await make_charges(context.pool, account, made.value[:1], test=True)
    await PixOrderWorker(context, Mode.SANDBOX).drain()
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


async def test_a_reply_that_no_worker_of_ours_signed_is_ignored(context: Context, servers: Any) -> None:
    """A client with access to Redis cannot forge a reply, neither with its own text nor with that of another order."""
    key = read_keys("11" * 32)
    replies = Replies(open_redis(servers.redis_url, blocking=True), context.pool, Seal(key))
    await replies.start()

    async def refused(conn: Any, order_id: UUID) -> bytes:
        return b"no"

    mine, other = new_id(), new_id()
    waiting = asyncio.create_task(replies.wait(mine, deadline_s=30.0, look=refused))
    await asyncio.sleep(0.1)
    await send_reply(context.redis, "reply:elsewhere", other, b"yes", Seal(key))
    redis: Any = context.redis
    (seen,) = await redis.lrange("reply:elsewhere", 0, -1)
    before = replies_refused_total._value.get()
    for forged in (mine.bytes + b"yes", mine.bytes + bytes(32) + b"yes", mine.bytes + seen[16:]):
        await redis.rpush(replies.reply_to, forged)
    await send_reply(context.redis, replies.reply_to, mine, b"yes", Seal(bytes(32)))
    assert await waiting == b"no", "the answer PostgreSQL holds"
    async with asyncio.timeout(30):
        while replies_refused_total._value.get() < before + 4:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert replies_refused_total._value.get() == before + 4
    await replies.stop()
