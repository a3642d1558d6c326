"""A merchant creates charges while 3,000 slow connections come from other addresses of this machine: some send nothing,
some half a request head, some one byte of a body. Connections that the server closes are opened again, without end.

With API_PROCESSES=1 all of them go to the process that serves the merchant."""

import asyncio
import contextlib

from bench.asking import creations
from bench.client import connect, status, window
from bench.environment import BenchEnvironment
from bench.report import Finding
from runtime.limits.http_bounds import raise_open_files

SLOW = 3_000
_ADDRESSES = 4
_CONNECTIONS = 8
_PARTIAL_REQUESTS = (
    b"",
    b"GET /v1/charges HTTP/1.1\r\nX: ",
    b"POST /v1/charges/pix HTTP/1.1\r\nContent-Length: 900\r\n\r\n{",
)


async def slowloris(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    """Needs Linux, where all of 127.0.0.0/8 are addresses of this machine."""
    assert raise_open_files() > SLOW + 500, "this machine opens too few files"
    async with environment.database() as pool:
        merchant = await environment.merchant(pool)
        await environment.fill_locations(pool, 60_000)
    create = creations(merchant, "/v1/charges/pix")
    connections = await connect(environment.port, _CONNECTIONS, processes=environment.processes)
    await window(connections, create, status(201), seconds=2.0)
    quiet = await window(connections, create, status(201), seconds=seconds / 2)
    held: set[int] = set()
    begun: set[int] = set()
    slow = [asyncio.create_task(_keep_slow_connection(environment.port, number, begun, held)) for number in range(SLOW)]
    async with asyncio.timeout(60):
        # Not all are open at one moment: a POST without a token is answered before its body, and closed.
        while len(begun) < SLOW:  # noqa: ASYNC110 - counted by three thousand tasks
            await asyncio.sleep(0.1)
    besieged = await window(connections, create, status(201), seconds=seconds / 2)
    open_at_end = len(held)
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    for connection in connections:
        connection.close()
    return [
        Finding("p99 of a creation", quiet.percentile_ms(0.99), "ms", note=f"{quiet.count} made, all 201"),
        Finding(
            f"  beside {SLOW} slow connections", besieged.percentile_ms(0.99), "ms",
            note=f"{besieged.count} made, all 201; {open_at_end} were open at the end",
        ),
        Finding("p50 of a creation", quiet.percentile_ms(0.5), "ms"),
        Finding(f"  beside {SLOW} slow connections", besieged.percentile_ms(0.5), "ms"),
    ]  # fmt: skip


async def _keep_slow_connection(port: int, number: int, begun: set[int], held: set[int]) -> None:
    """One slow client, which connects again whenever the server has closed its connection."""
    address = f"127.0.0.{2 + number % _ADDRESSES}"
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
            try:
                writer.write(_PARTIAL_REQUESTS[number % len(_PARTIAL_REQUESTS)])
                begun.add(number)
                held.add(number)
                await reader.read()
            finally:
                held.discard(number)
                writer.close()
        await asyncio.sleep(0.05)
