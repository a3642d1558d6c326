"""A creation wakes a worker only if it leaves an order for the worker to execute."""

import asyncio
import secrets
from typing import Any

import httpx
from redis.asyncio import Redis

from domain.mode import Mode
from runtime.coordination.lanes import PIX_ORDERS
from runtime.jobs import QUEUE
from tests.support.api_process import api_process, prepared_merchants
from tests.support.merchant import until_answer

LANE = PIX_ORDERS[Mode.SANDBOX]


async def test_a_sandbox_charge_wakes_a_worker_only_if_the_simulated_bank_must_be_called(
    servers: Any, tmp_path: Any
) -> None:
    async with prepared_merchants(servers, 1) as (merchant,), Redis.from_url(servers.redis_url) as redis:
        with api_process(servers, tmp_path) as server:
            token = await asyncio.to_thread(server.token, merchant)
            async with httpx.AsyncClient(
                base_url=server.base_url,
                headers={"authorization": f"Bearer {token}"},
                timeout=30,
            ) as client:

                async def create(**headers: str) -> None:
                    body = {"account_id": str(merchant.account_id), "amount": "1.00"}
                    headers = {"idempotency-key": secrets.token_hex(8), **headers}
                    assert (await client.post("/v1/charges/pix", json=body, headers=headers)).status_code == 201

                async def woken() -> bool:
                    return await redis.zscore(QUEUE, LANE) is not None

                await redis.zrem(QUEUE, LANE)
                for _ in range(3):
                    await create()
                await asyncio.sleep(0.3)  # A wake-up takes some milliseconds.
                assert not await woken()
                await create(**{"x-sandbox-bank": "lost_reply"})
                assert await until_answer(woken)
