"""POST /v1/charges/pix, everything included, against an empty route and against the naive way."""

from collections.abc import Callable

from bench import merchant_client
from bench.asking import charge_body, creations
from bench.client import Connection, Window, connect, status, window
from bench.environment import BenchEnvironment, Merchant
from bench.report import Finding, cpu, rate, ratio
from runtime.postgres import Pool, session

CONNECTIONS = 64
ROUNDS = 5
_WARM_S = 1.5
# No server on this machine makes more in a second; a round never runs dry.
_LOCATIONS_PER_S = 12_000
# A merchant's client makes fewer, and goes on for a while beyond its slices: locust takes a second to come and to go.
_LOCATIONS_PER_S_OF_MERCHANT = 4_500
_BEYOND_S = 10.0


async def against_empty(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    """Workers off, then on: the bank orders that follow cost the same two cores."""
    async with environment.database() as pool:
        merchant = await environment.merchant(pool)
        connections = await connect(environment.port, CONNECTIONS, processes=environment.processes)
        found = await _compare(environment, pool, merchant, connections, seconds, "workers off")
        async with session(pool) as conn:
            await conn.execute("TRUNCATE bank_order, bank_order_done")  # else the worker would first do what was left
        with environment.worker():
            found += await _compare(environment, pool, merchant, connections, seconds, "workers on")
            async with session(pool) as conn:
                waiting = await conn.fetchval("SELECT count(*) FROM bank_order")
                done = await conn.fetchval("SELECT count(*) FROM bank_order_done")
        _close(connections)
    found.append(Finding("registered at the bank meanwhile", float(done), "charges", note=f"{waiting} still waiting"))
    return found


async def _compare(
    environment: BenchEnvironment,
    pool: Pool,
    merchant: Merchant,
    connections: list[Connection],
    seconds: float,
    what: str,
) -> list[Finding]:
    create, empty = creations(merchant, "/v1/charges/pix"), creations(merchant, "/bench/empty")
    slice_s = seconds / 2 / ROUNDS / 2

    async def one(request: Callable[[], bytes], code: int, for_s: float) -> Window:
        await environment.fill_locations(pool, int(_LOCATIONS_PER_S * for_s))
        return await window(connections, request, status(code), seconds=for_s)

    await one(create, 201, _WARM_S)
    await one(empty, 201, _WARM_S / 3)
    used, made, pairs = [], 0, []
    for _ in range(ROUNDS):
        await environment.fill_locations(pool, int(_LOCATIONS_PER_S * slice_s))
        before = environment.cpu_s()
        ours = await window(connections, create, status(201), seconds=slice_s)
        used.append((before, environment.cpu_s()))
        made += ours.count
        pairs.append((ours, await one(empty, 201, slice_s)))
    rates = [(ours.per_s, other.per_s) for ours, other in pairs]
    # Half of the time with each client.
    enough = int(_LOCATIONS_PER_S_OF_MERCHANT * (seconds / 4 + _BEYOND_S))
    await environment.fill_locations(pool, enough)
    body = charge_body(merchant)
    merchants = await merchant_client.compare(environment, merchant, seconds / 2, body=body, charge_ids=[])
    await environment.fill_locations(pool, enough)
    locusts = await merchant_client.compare(
        environment, merchant, seconds / 2, body=body, charge_ids=[], client="bench.locust_client"
    )
    return [
        ratio(f"creation / empty POST, {what}", rates, target=0.40),
        rate(f"  creation, {what}", [ours for ours, _ in rates], note=_latency([ours for ours, _ in pairs])),
        rate("  empty POST", [other for _, other in rates], note=_latency([other for _, other in pairs])),
        cpu(f"  CPU of a creation, {what}", used, made),
        ratio(f"creation / empty POST, {what}, a merchant's client", merchants, note="aiohttp"),
        rate("  creation, a merchant's client", [ours for ours, _ in merchants]),
        rate("  empty POST, a merchant's client", [other for _, other in merchants]),
        ratio(f"creation / empty POST, {what}, locust", locusts, target=0.40, note="FastHttpUser"),
        rate("  creation, locust", [ours for ours, _ in locusts]),
        rate("  empty POST, locust", [other for _, other in locusts]),
    ]


async def against_naive(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    async with environment.database() as pool:
        merchant = await environment.merchant(pool)
        connections = await connect(environment.port, CONNECTIONS, processes=environment.processes)
        create, naive = creations(merchant, "/v1/charges/pix"), creations(merchant, "/bench/naive")
        slice_s = seconds / ROUNDS / 2
        rates = []
        for number in range(ROUNDS + 1):
            await environment.fill_locations(pool, int(_LOCATIONS_PER_S * slice_s))
            ours = await window(connections, create, status(201), seconds=slice_s)
            other = await window(connections, naive, status(201), seconds=slice_s)
            if number:  # the first round warms up
                rates.append((ours.per_s, other.per_s))
        _close(connections)
    return [
        ratio("creation / naive creation", rates, target=15),
        rate("  creation", [ours for ours, _ in rates]),
        rate("  naive creation", [other for _, other in rates]),
    ]


def _latency(windows: list[Window]) -> str:
    halves = sorted(each.percentile_ms(0.5) for each in windows)
    tails = sorted(each.percentile_ms(0.99) for each in windows)
    return f"p50 {halves[len(halves) // 2]:.1f} ms, p99 {tails[len(tails) // 2]:.1f} ms"


def _close(connections: list[Connection]) -> None:
    for connection in connections:
        connection.close()
