"""A client as merchants write it: aiohttp, one session whose connections are kept alive, every answer parsed.

It runs in a process of its own and on asyncio's own loop, like a merchant's program. It costs some 200 us per request,
on the empty route as on the real one, while bench.client costs 13 to 35 us: this client's ratios are what a merchant
would see, the lean client's are the cost of the server.
"""

import asyncio
import itertools
import secrets
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import msgspec
from msgspec import Struct

from bench.client import slice_of
from bench.environment import BenchEnvironment, Merchant

CONNECTIONS = 64
ROUNDS = 5
_OVERHEAD_S_MAX = 60.0


class Task(Struct, frozen=True):
    """The task that the client process reads from stdin. Without `charge_ids` it creates charges from `body`."""

    port: int
    token: str
    body: dict[str, Any]
    charge_ids: list[str]
    slice_s: float


async def compare(
    environment: BenchEnvironment,
    merchant: Merchant,
    seconds: float,
    *,
    body: dict[str, Any],
    charge_ids: list[str],
    client: str = "bench.merchant_client",
) -> list[tuple[float, float]]:
    """Rates per second of the real route and of the empty one, a pair per round. The real route is a lookup of
    `charge_ids`, or a creation with `body` when there are none. `client` is the module to run."""
    task = Task(environment.port, merchant.token, body, charge_ids, slice_of(seconds, ROUNDS * 2))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", client,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=environment.env,
    )  # fmt: skip
    try:
        async with asyncio.timeout(seconds + _OVERHEAD_S_MAX):
            output, _ = await process.communicate(msgspec.json.encode(task))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, "the client failed; its error is above"
    return msgspec.json.decode(output, type=list[tuple[float, float]])


async def _measure(task: Task) -> list[tuple[float, float]]:
    base = f"http://127.0.0.1:{task.port}"
    headers = {"Authorization": f"Bearer {task.token}"}
    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    async with aiohttp.ClientSession(base, connector=connector, headers=headers) as session:
        numbers, ids, run = itertools.count(), itertools.cycle(task.charge_ids), secrets.token_hex(4)

        async def post(path: str) -> Any:
            name = f"{run}-{next(numbers):012}"
            json_body = {**task.body, "external_id": name}
            async with session.post(path, json=json_body, headers={"Idempotency-Key": name}) as answer:
                assert answer.status == 201, await answer.text()
                return await answer.json()

        async def get(path: str) -> Any:
            async with session.get(path) as answer:
                assert answer.status == 200, await answer.text()
                return await answer.json()

        async def create() -> None:
            assert (await post("/v1/charges/pix"))["status"] == "pending"

        async def look_up() -> None:
            charge_id = next(ids)
            assert (await get(f"/v1/charges/{charge_id}"))["charge_id"] == charge_id

        async def ask_empty() -> None:
            assert await (get if task.charge_ids else post)("/bench/empty") == {}

        ours = look_up if task.charge_ids else create
        pairs = [(await _rate(ours, task.slice_s), await _rate(ask_empty, task.slice_s)) for _ in range(ROUNDS + 1)]
        return pairs[1:]  # the first round warms up


async def _rate(ask: Callable[[], Awaitable[None]], seconds: float) -> float:
    """Answers per second with every connection busy. Requests under way at the end are awaited but not counted."""
    began = time.perf_counter()
    ends, count = began + seconds, 0

    async def keep_asking() -> None:
        nonlocal count
        while True:
            await ask()
            if time.perf_counter() > ends:
                return
            count += 1

    await asyncio.gather(*(keep_asking() for _ in range(CONNECTIONS)))
    return count / seconds


if __name__ == "__main__":
    rates = asyncio.run(_measure(msgspec.json.decode(sys.stdin.buffer.read(), type=Task)))
    sys.stdout.buffer.write(msgspec.json.encode(rates))
