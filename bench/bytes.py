"""The bytes that a charge leaves behind in each table, its indexes and the WAL, when it is created, paid, and its
payment delivered to the merchant.

All steps run as in production: API, worker, receiver. Three kinds of table are shown but not summed up: the sandbox's
own bank; the request log, which is kept for a month; and queues, because all orders pile up here before the worker
starts, and their space is used again. The WAL includes them.

A test charge has an order that pays it and none that registers it; a production charge the other way round. The rows
left of an order are therefore added to those of the creation, and counted once in the total.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from uuid import UUID

import aiohttp

from bench.asking import charge_body
from bench.deliveries import receiving
from bench.environment import BenchEnvironment, Merchant
from bench.report import Finding, within
from commands.webhooks.endpoint import set_endpoint
from runtime.postgres import Pool, connect, session, transaction
from runtime.seal import Seal

CHARGES = 4_000
CREATED_BYTES_MAX = 2_500
TOLD_BYTES_MAX = 6_000

_CONNECTIONS = 32
_DONE_S_MAX = 120.0
_NOT_SUMMED = ("simulated_", "request_log", "pix_location", "pix_pool", "access_token", "bank_order ", "lease")
_SIZES = """
SELECT coalesce(pg_partition_root(c.oid), c.oid)::regclass || part.name AS name, sum(part.bytes)::bigint AS bytes
FROM pg_class c
CROSS JOIN LATERAL (VALUES (' ', pg_table_size(c.oid)), (' indexes', pg_indexes_size(c.oid))) AS part (name, bytes)
WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace GROUP BY 1
"""


async def bytes_per_charge(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    """Measures a fixed number of charges; `seconds` is not used."""
    async with environment.database() as pool, receiving(0.0) as receiver:
        merchant = await environment.merchant(pool)
        async with transaction(pool) as conn:
            await set_endpoint(
                conn, UUID(merchant.account_id), receiver.url, allow_private=True, now=datetime.now(UTC),
                seal=Seal(environment.settings.secret_key), chance=os.urandom(32),
            )  # fmt: skip
        sizes = [await _sizes(environment)]
        for round_ in range(2):
            await environment.fill_locations(pool, 3 * CHARGES)
            wal = [await _wal(pool)]
            await _create(environment, merchant, round_)
            wal.append(await _wal(pool))
            sizes.append(await _sizes(environment))
            wal_before = await _wal(pool)
            with environment.worker():
                await _pay(environment, merchant, pool)
                await _wait_until(pool, "SELECT count(*) = $1 FROM webhook_attempt", CHARGES * (round_ + 1))
                wal.append(await _wal(pool) - wal_before + wal[-1])
            sizes.append(await _sizes(environment))
    at_start, created, delivered_before, _, delivered = sizes
    # The second round reuses the space of the first one's dead rows, as in a system that has run for long.
    in_all = delivered - delivered_before
    order = Counter({table: size for table, size in in_all.items() if table.startswith("bank_order_done")})
    findings = _size_findings("created and registered", created - at_start + order, CREATED_BYTES_MAX)
    findings += _size_findings("in all, paid and told", in_all, TOLD_BYTES_MAX)
    steps = zip(("created", "paid and told"), wal[1:], wal, strict=False)
    return [*findings, *(Finding(f"WAL: {name}", (after - before) / CHARGES, "bytes") for name, after, before in steps)]


def _size_findings(name: str, grown: Counter[str], aim: int) -> list[Finding]:
    summed = {table: size for table, size in grown.items() if not table.startswith(_NOT_SUMMED)}
    total = sum(summed.values()) / CHARGES
    return [
        Finding(f"{name}: bytes of a charge", total, "bytes", note=within(total, aim)),
        *(
            Finding(f"  {table}", size / CHARGES, "bytes", note="" if table in summed else "not summed")
            for table, size in grown.most_common()
            if size > CHARGES
        ),
    ]


async def _sizes(environment: BenchEnvironment) -> Counter[str]:
    """The bytes of every table and of its indexes, after a VACUUM."""
    conn = await connect(environment.owner_url)
    try:
        await conn.execute("VACUUM")
        return Counter({row["name"]: row["bytes"] for row in await conn.fetch(_SIZES)})
    finally:
        await conn.close()


async def _wal(pool: Pool) -> int:
    async with session(pool) as conn:
        return int(await conn.fetchval("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"))


async def _create(environment: BenchEnvironment, merchant: Merchant, round_: int) -> None:
    body = charge_body(merchant)

    async def create(number: str, http: aiohttp.ClientSession) -> int:
        json_body = body | {"external_id": f"order-{number:0>12}"}
        headers = {"Idempotency-Key": f"key-{number}"}
        async with http.post("/v1/charges/pix", json=json_body, headers=headers) as answer:
            return answer.status

    await _request_all(environment, merchant, [f"{round_}-{number}" for number in range(CHARGES)], create, 201)


async def _pay(environment: BenchEnvironment, merchant: Merchant, pool: Pool) -> None:
    async with session(pool) as conn:
        rows = await conn.fetch("SELECT charge_id FROM charge WHERE status = 'pending'")

    async def pay(charge_id: str, http: aiohttp.ClientSession) -> int:
        async with http.post(f"/v1/charges/{charge_id}/simulate-payment") as answer:
            return answer.status

    await _request_all(environment, merchant, [str(row[0]) for row in rows], pay, 200)


async def _request_all(
    environment: BenchEnvironment,
    merchant: Merchant,
    items: Sequence[str],
    request: Callable[[str, aiohttp.ClientSession], Awaitable[int]],
    status: int,
) -> None:
    todo = iter(items)

    async def work_off(http: aiohttp.ClientSession) -> None:
        for item in todo:
            for wait_s in (0.1, 1.0, 3.0, 0.0):
                answer_status = await request(item, http)
                if answer_status == status:
                    break
                await asyncio.sleep(wait_s)
            assert answer_status == status, answer_status

    base, bearer = f"http://127.0.0.1:{environment.port}", {"Authorization": f"Bearer {merchant.token}"}
    async with aiohttp.ClientSession(base, headers=bearer) as http, asyncio.TaskGroup() as group:
        for _ in range(_CONNECTIONS):
            group.create_task(work_off(http))


async def _wait_until(pool: Pool, question: str, count: int) -> None:
    async with asyncio.timeout(_DONE_S_MAX):
        while True:
            async with session(pool) as conn:
                if await conn.fetchval(question, count):
                    return
            await asyncio.sleep(0.2)
