"""Bank orders beyond an account's share are claimed after those of other accounts, and at once when there are none."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from banks.protocol import Location
from commands.bank_orders.kinds import OrderKind
from runtime.coordination.due_times import DueTimes
from runtime.postgres import Pool, open_pool, session, transaction
from runtime.seal import Seal
from tests.support.banking import SECRET_KEY, make_account, make_charges, utc_now
from tests.support.boleto_bank import today
from tests.support.boleto_merchant import boleto_body
from tests.support.boletos import issue
from tests.support.database import own_database
from tests.support.in_process import Api, open_api
from workers.orders.boleto import claim as claim_boletos
from workers.orders.lease import LEASE
from workers.orders.pix import claim as claim_cobs

SHARE = 20
BURST = 300

_MARK_TRIED = "UPDATE bank_order SET attempts = 1, state = 'waiting' WHERE charge_id = ANY($1)"
_BOLETO = """
INSERT INTO bank_order (order_id, account_id, charge_id, test, bank, kind, request, due_at, created_at)
SELECT gen_random_uuid(), $1, gen_random_uuid(), false, '001', $2, jsonb_build_object('key', gen_random_uuid()), $3, $4
"""


@pytest_asyncio.fixture(loop_scope="session")
async def empty_pool(servers: Any) -> AsyncIterator[Pool]:
    """A pool on a database without any other orders."""
    async with own_database(servers, "shares") as url:
        pool = await open_pool(url, name="tests of shares", size=4)
        yield pool
        await pool.close()


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> datetime:
    """The instant at which all is ordered and claimed: a share is one of time, which a busy machine takes meanwhile."""
    at = utc_now()
    monkeypatch.setattr("tests.support.banking.utc_now", lambda: at)
    return at


async def create_charges(pool: Pool, times: DueTimes, count: int) -> tuple[UUID, list[UUID]]:
    account = await make_account(pool)
    places = [Location(number, f"x/{number}") for number in range(count)]
    return account, await make_charges(pool, account, places, test=False, due_times=times)


async def claim_due_cobs(pool: Pool, limit: int, now: datetime) -> list[UUID | None]:
    async with session(pool) as conn:
        claimed = await claim_cobs(conn, lane="pix", test=False, since=None, now=now, limit=limit, lease=LEASE)
    return [each.charge_id for each in claimed]


async def test_an_order_of_another_account_is_claimed_before_the_rest_of_a_burst(
    empty_pool: Pool, now: datetime
) -> None:
    times = DueTimes(SHARE)
    _, many = await create_charges(empty_pool, times, BURST)
    _, (other,) = await create_charges(empty_pool, times, 1)
    first = await claim_due_cobs(empty_pool, SHARE * 5, now)
    assert other in first
    assert set(first) - {other} <= set(many[: SHARE * 6]), "the oldest orders of the burst are claimed first"


async def test_a_burst_without_orders_of_others_is_claimed_at_once(empty_pool: Pool, now: datetime) -> None:
    _, many = await create_charges(empty_pool, DueTimes(SHARE), BURST)
    taken: list[UUID | None] = []
    for _ in range(BURST // 100):
        taken += await claim_due_cobs(empty_pool, 100, now)
    assert set(taken) == set(many)
    assert len(taken) == BURST


async def test_a_failed_order_is_not_claimed_before_its_due_time(empty_pool: Pool, now: datetime) -> None:
    _, many = await create_charges(empty_pool, DueTimes(SHARE), SHARE)
    await empty_pool.execute(_MARK_TRIED, many)
    assert len(await claim_due_cobs(empty_pool, 100, now)) == 1


@pytest.mark.parametrize("kind", [OrderKind.BOLETO_REGISTER, OrderKind.BOLETO_WRITE_OFF])
async def test_orders_about_boletos_take_turns_too(empty_pool: Pool, kind: OrderKind) -> None:
    account, times, now = await make_account(empty_pool), DueTimes(SHARE), utc_now()
    for _ in range(2 * SHARE):
        await empty_pool.execute(_BOLETO, account, kind, times.take(account, now), now)
    other = await make_account(empty_pool)
    await empty_pool.execute(_BOLETO, other, kind, now, now)

    async def claimed(limit: int) -> list[UUID | None]:
        async with session(empty_pool) as conn:
            orders = await claim_boletos(
                conn, lane=kind.lane, test=False, since=None, now=now, limit=limit, lease=LEASE
            )
        return [each.account_id for each in orders]

    assert set(await claimed(2)) == {account, other}
    assert len(await claimed(100)) == 2 * SHARE - 1
    assert await claimed(100) == []


class TwoAMinute(DueTimes):
    """A share that requests exceed however slowly a busy machine makes them."""

    def __init__(self, per_s: int) -> None:
        super().__init__(per_s)
        self._step_s = 30.0


async def test_an_accounts_orders_beyond_its_share_are_due_later(servers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """For orders of cobs, of boletos and of their changes, as the API places them."""
    for module in ("api.context", "commands.bank_orders.boleto_issuer"):
        monkeypatch.setattr(f"{module}.DueTimes", TwoAMinute)
    async with own_database(servers, "share_api") as url, open_api(url, servers.redis_url) as api:
        token = await api.token(mode="production")
        for _ in range(3):
            await api.create(token=token)
        pool = await open_pool(url, name="tests of shares", size=1)
        seal, due = Seal(bytes.fromhex(SECRET_KEY)), today() + timedelta(days=9)
        async with transaction(pool) as conn:
            docs = [await issue(conn, seal, api.first.account_id, test=False, due=due, now=utc_now()) for _ in range(3)]
        # Each of these requests waits for a bank.
        asked = [asyncio.create_task(boleto_of(api, token)) for _ in docs]
        asked += [asyncio.create_task(cancel(api, token, doc.charge_id)) for doc in docs]
        try:
            for kind in ("cob_register", "boleto_register", "boleto_write_off"):
                assert await later_orders(pool, kind, 3) == [False, True, True], kind
        finally:
            for each in asked:
                each.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
            await pool.close()


async def test_a_charge_that_expires_in_a_minute_is_due_in_time_however_long_the_burst(servers: Any) -> None:
    async with (
        own_database(servers, "share_time") as url,
        open_api(url, servers.redis_url, BANK_SHARE_PER_S="1") as api,
    ):
        token = await api.token(mode="production")
        for _ in range(70):
            await api.create(token=token, expires_in=60)
        pool = await open_pool(url, name="tests of shares", size=1)
        try:
            left = await pool.fetch(
                "SELECT c.expires_at - o.due_at AS time FROM bank_order o JOIN charge c USING (charge_id)"
                " WHERE o.kind = 'cob_register'"
            )
        finally:
            await pool.close()
    assert len(left) == 70
    assert min(row["time"] for row in left) >= timedelta(seconds=30)


async def boleto_of(api: Api, token: str) -> None:
    key, body = secrets.token_hex(8), boleto_body(account_id=str(api.first.account_id))
    await api.post("/v1/charges/boleto", body, token=token, key=key)


async def cancel(api: Api, token: str, charge_id: str) -> None:
    await api.post(f"/v1/charges/{charge_id}/cancel", None, token=token)


async def later_orders(pool: Pool, kind: str, count: int) -> list[bool]:
    """For each order of the kind, by due time: is it due after it was placed? Waits until there are `count` orders."""
    async with asyncio.timeout(30):
        while True:
            rows = await pool.fetch(
                "SELECT due_at > created_at AS later FROM bank_order WHERE kind = $1 ORDER BY due_at", kind
            )
            if len(rows) == count:
                return [row["later"] for row in rows]
            await asyncio.sleep(0.05)
