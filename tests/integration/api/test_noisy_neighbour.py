"""Slow requests of one account do not delay another: neither its lists and sums, nor a flood in its sandbox, nor the
pages of its people.

The tests stall an account's requests by a lock on one overdue charge, which each request tries to expire. A sum over
millions of rows would stall them in the same way, but not for exactly as long as a test needs.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import httpx
import pytest

from commands.merchants.merchants import MerchantCreated
from tests.support.api_process import ApiProcess, api_process, prepared_merchants
from tests.support.dashboard import owner_in_browser
from tests.support.merchant import create_charge_in_the_past

PIX = "/v1/charges/pix"
# More than any pool has connections.
MANY = 40


@pytest.fixture(scope="module")
async def merchants(servers: Any) -> AsyncIterator[list[MerchantCreated]]:
    async with prepared_merchants(servers, 2) as made:
        yield made


@pytest.fixture(scope="module")
def server(servers: Any, merchants: Any, tmp_path_factory: Any) -> Iterator[ApiProcess]:
    with api_process(servers, tmp_path_factory.mktemp("api")) as made:
        yield made


@asynccontextmanager
async def client_of(server: ApiProcess, merchant: MerchantCreated, mode: str) -> AsyncIterator[httpx.AsyncClient]:
    token = await asyncio.to_thread(server.token, merchant, mode)
    headers = {"authorization": f"Bearer {token}"}
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=server.base_url, headers=headers, timeout=60, limits=limits) as client:
        yield client


@asynccontextmanager
async def stalled_account(pool: Any, merchant: MerchantCreated, *, test: bool) -> AsyncIterator[str]:
    """Yields an overdue charge of the merchant that stays locked until the block ends."""
    owner = SimpleNamespace(account_id=str(merchant.account_id))
    async with pool.acquire() as conn:
        charge_id = await create_charge_in_the_past(conn, owner, test=test, ago_s=120, lifetime_s=60)  # type: ignore[arg-type]
    async with pool.acquire() as conn, conn.transaction():
        await conn.execute("SELECT 1 FROM charge WHERE charge_id = $1 FOR UPDATE", UUID(charge_id))
        yield charge_id


async def assert_all_operations_succeed(client: httpx.AsyncClient, merchant: MerchantCreated) -> None:
    """Creates, reads, lists and cancels, as a merchant does in a day."""
    body = {"account_id": str(merchant.account_id), "amount": "1.00"}
    made = await client.post(PIX, json=body, headers={"idempotency-key": secrets.token_hex(8)})
    assert made.status_code == 201, made.text
    charge_id = made.json()["charge_id"]
    for path in (
        f"/v1/charges/{charge_id}", "/v1/charges", "/v1/charges/summary", "/v1/events", "/v1/payments",
        f"/v1/accounts/{merchant.account_id}/balance",
    ):  # fmt: skip
        answer = await client.get(path)
        assert answer.status_code == 200, (path, answer.text)
    cancelled = await client.post(f"/v1/charges/{charge_id}/cancel")
    assert cancelled.status_code == 200, cancelled.text


@pytest.mark.parametrize("path", ["/v1/charges/summary", "/v1/charges", "/v1/events"])
async def test_slow_lists_and_sums_of_one_account_do_not_delay_another(
    server: ApiProcess, merchants: list[MerchantCreated], pool: Any, path: str
) -> None:
    noisy, quiet = merchants
    async with client_of(server, noisy, "production") as loud, client_of(server, quiet, "production") as client:
        async with stalled_account(pool, noisy, test=False):
            asked = [asyncio.create_task(loud.get(path)) for _ in range(MANY)]
            await asyncio.sleep(0.3)  # By now all requests are at the server.
            await assert_all_operations_succeed(client, quiet)
            assert not any(task.done() for task in asked), "requests were answered early: nothing stalled them"
        statuses = {answer.status_code for answer in await asyncio.gather(*asked)}
    assert statuses <= {200, 429}
    assert 200 in statuses


async def test_a_flood_in_the_sandbox_does_not_delay_production(
    server: ApiProcess, merchants: list[MerchantCreated], pool: Any
) -> None:
    noisy, quiet = merchants
    async with client_of(server, noisy, "test") as loud, client_of(server, quiet, "production") as client:
        async with stalled_account(pool, noisy, test=True) as charge_id:
            asked = []
            for _ in range(MANY):  # One after the other, so that they do not form a single batch.
                asked.append(asyncio.create_task(loud.post(f"/v1/charges/{charge_id}/cancel")))
                await asyncio.sleep(0.02)
            await assert_all_operations_succeed(client, quiet)
            assert not any(task.done() for task in asked), "requests were answered early: nothing stalled them"
        assert {answer.status_code for answer in await asyncio.gather(*asked)} <= {200, 409}


async def test_slow_dashboard_pages_of_one_account_do_not_delay_payers_or_other_people(
    server: ApiProcess, merchants: list[MerchantCreated], pool: Any
) -> None:
    noisy, quiet = merchants
    async with (
        client_of(server, quiet, "production") as client,
        owner_in_browser(server.base_url, noisy) as loud,
        owner_in_browser(server.base_url, quiet) as person,
    ):
        body = {"account_id": str(quiet.account_id), "amount": "1.00"}
        made = await client.post(PIX, json=body, headers={"idempotency-key": secrets.token_hex(8)})
        public_id = made.json()["public_id"]
        async with stalled_account(pool, noisy, test=False):
            paths = ["/painel/cobrancas", "/painel/cobrancas.csv", "/painel"]
            kinds = [*paths, "/painel/cobrancas.xlsx"]
            asked = [asyncio.create_task(loud.get(kinds[number % 4])) for number in range(MANY)]
            await asyncio.sleep(0.3)
            assert (await client.get(f"/pagar/{public_id}")).status_code == 200
            for path in paths:
                await person.opened(path)
            assert not any(task.done() for task in asked), "requests were answered early: nothing stalled them"
        assert {seen.status for seen in await asyncio.gather(*asked)} <= {200, 429}


async def test_a_list_that_takes_too_long_is_answered_503(
    server: ApiProcess, merchants: list[MerchantCreated], pool: Any
) -> None:
    async with client_of(server, merchants[1], "production") as client:
        async with pool.acquire() as conn, conn.transaction():
            await conn.execute("LOCK TABLE read_payment IN ACCESS EXCLUSIVE MODE")
            answer = await client.get("/v1/payments")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "SERVICE_UNAVAILABLE")
        assert answer.headers["retry-after"] == "1"
        assert (await client.get("/v1/payments")).status_code == 200
