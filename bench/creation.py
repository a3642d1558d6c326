"""POST /v1/charges/pix with all its work, compared with routes that do nothing (bench/plain.py) and with the naive
way (bench/naive.py)."""

import asyncio

from bench import merchant_client
from bench.asking import charge_body, creations
from bench.client import Connection, Window, connect, slice_of, status, window
from bench.environment import BenchEnvironment, Merchant, until_at_rest
from bench.report import Finding, cpu, rate, ratio
from runtime.postgres import Pool, session

CONNECTIONS = 64
ROUNDS = 5
PLAIN_TARGET = 0.33
_WARM_UP_S = 1.5
# More than any server on this machine uses in a second, so that no round runs out of locations.
_LOCATIONS_PER_S = 12_000
# A merchant's client creates fewer, but runs beyond its slices: locust takes a second to start and to stop.
_LOCATIONS_PER_S_OF_MERCHANT = 4_500
_EXTRA_S = 10.0
_NOT_AT_BANK = """
SELECT count(*) FROM charge c WHERE c.test AND NOT EXISTS (
    SELECT FROM simulated_cob b WHERE b.world = 'sandbox' AND b.txid = encode(uuid_send(c.charge_id), 'hex'))
"""


async def against_empty(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    """Measures without and then with workers, whose locations, reports and hash chain use the same two cores."""
    async with environment.database() as pool:
        merchant = await environment.merchant(pool)
        findings = await _compare(environment, pool, merchant, seconds, worker=None)
        # A stock for 5 s instead of a minute, so that the worker makes little more locations than are used.
        environment.env["PIX_LOCATIONS_S"] = "5"
        with environment.worker() as worker:
            findings += await _compare(environment, pool, merchant, seconds, worker=worker)
        async with session(pool) as conn:
            missing = await conn.fetchval(_NOT_AT_BANK)
    findings.append(Finding("charges that the sandbox's bank does not know", float(missing), ""))
    return findings


async def _compare(
    environment: BenchEnvironment,
    pool: Pool,
    merchant: Merchant,
    seconds: float,
    *,
    worker: int | None,
) -> list[Finding]:
    workers_state = "workers off" if worker is None else "workers on"
    create, empty = creations(merchant, "/v1/charges/pix"), creations(merchant, "/bench/empty")
    plain = creations(merchant, "/bench/plain")
    slice_s = slice_of(seconds / 2, ROUNDS * 3)

    connections = await connect(environment.port, CONNECTIONS, processes=environment.processes)
    await environment.fill_locations(pool, int(_LOCATIONS_PER_S * _WARM_UP_S))
    await window(connections, create, status(201), seconds=_WARM_UP_S)
    await window(connections, empty, status(201), seconds=_WARM_UP_S / 3)
    if worker is not None:  # it must first fold the charges made before into the reports
        _close(connections)  # the server would close them as idle meanwhile
        await asyncio.to_thread(until_at_rest, [worker])
        connections = await connect(environment.port, CONNECTIONS, processes=environment.processes)
    cpu_used, created, plain_cpu_used, rounds = [], 0, [], []
    for _ in range(ROUNDS):
        await environment.fill_locations(pool, int(_LOCATIONS_PER_S * slice_s))
        before = environment.cpu_s()
        ours = await window(connections, create, status(201), seconds=slice_s)
        cpu_used.append((before, environment.cpu_s()))
        created += ours.count
        before = environment.cpu_s()
        plain_window = await window(connections, plain, status(201), seconds=slice_s)
        plain_cpu_used.append((before, environment.cpu_s()))
        rounds.append((ours, plain_window, await window(connections, empty, status(201), seconds=slice_s)))
    _close(connections)
    # Half of the time with each client.
    locations = int(_LOCATIONS_PER_S_OF_MERCHANT * (seconds / 4 + _EXTRA_S))
    await environment.fill_locations(pool, locations)
    body = charge_body(merchant)
    merchants = await merchant_client.compare(environment, merchant, seconds / 2, body=body, charge_ids=[])
    await environment.fill_locations(pool, locations)
    locusts = await merchant_client.compare(
        environment, merchant, seconds / 2, body=body, charge_ids=[], client="bench.locust_client"
    )
    creation_windows, plain_windows, empty_windows = (list(each) for each in zip(*rounds, strict=True))
    creation_cpu = cpu(f"  CPU of a creation, {workers_state}", cpu_used, created)
    plain_cpu = cpu("  CPU of a plain POST", plain_cpu_used, sum(each.count for each in plain_windows))
    by_cpu = f"by CPU {plain_cpu.value / creation_cpu.value:.3f}"
    return [
        ratio(
            f"creation / plain POST, {workers_state}",
            against(creation_windows, plain_windows),
            target=PLAIN_TARGET,
            note=by_cpu,
        ),
        ratio(f"creation / empty POST, {workers_state}", against(creation_windows, empty_windows), target=0.40),
        of_windows(f"  creation, {workers_state}", creation_windows),
        of_windows("  plain POST", plain_windows),
        of_windows("  empty POST", empty_windows),
        creation_cpu,
        plain_cpu,
        ratio(f"creation / empty POST, {workers_state}, a merchant's client", merchants, note="aiohttp"),
        rate("  creation, a merchant's client", [ours for ours, _ in merchants]),
        rate("  empty POST, a merchant's client", [other for _, other in merchants]),
        ratio(f"creation / empty POST, {workers_state}, locust", locusts, target=0.40, note="FastHttpUser"),
        rate("  creation, locust", [ours for ours, _ in locusts]),
        rate("  empty POST, locust", [other for _, other in locusts]),
    ]


async def ordered(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    """Creations whose charge is registered by an order that a worker executes, as in production. In the sandbox only a
    traced system places such orders, so tracing is on, with a sample share of 0. The worker asks the sandbox's bank by
    a statement."""
    environment.env |= {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_SAMPLER_ARG": "0"}
    create_cpu: list[tuple[dict[str, float], dict[str, float]]] = []
    async with environment.database() as pool:
        merchant = await environment.merchant(pool)
        create, plain = creations(merchant, "/v1/charges/pix"), creations(merchant, "/bench/plain")
        slice_s = slice_of(seconds, ROUNDS * 2)
        environment.env["PIX_LOCATIONS_S"] = "5"
        with environment.api(), environment.worker():
            connections = await connect(environment.port, CONNECTIONS, processes=environment.processes)
            rounds = []
            for number in range(ROUNDS + 1):
                await environment.fill_locations(pool, int(_LOCATIONS_PER_S * slice_s))
                before = environment.cpu_s()
                ours = await window(connections, create, status(201), seconds=slice_s)
                await _wait_until_registered(pool)
                after = environment.cpu_s()
                other = await window(connections, plain, status(201), seconds=slice_s)
                if number:  # the first round warms up
                    create_cpu.append((before, after))
                    rounds.append((ours, other))
            _close(connections)
    windows = [ours for ours, _ in rounds]
    return [
        ratio("creation with an order / plain POST, workers on", against(windows, [other for _, other in rounds])),
        of_windows("  creation with an order", windows),
        cpu("  CPU of one, until its order has ended", create_cpu, sum(each.count for each in windows)),
    ]


async def _wait_until_registered(pool: Pool) -> None:
    async with session(pool) as conn:
        while await conn.fetchval("SELECT EXISTS (SELECT FROM bank_order)"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def against_naive(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    async with environment.database() as pool:
        merchant = await environment.merchant(pool)
        connections = await connect(environment.port, CONNECTIONS, processes=environment.processes)
        create, naive = creations(merchant, "/v1/charges/pix"), creations(merchant, "/bench/naive")
        slice_s = slice_of(seconds, ROUNDS * 2)
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


def against(ours: list[Window], others: list[Window]) -> list[tuple[float, float]]:
    return [(each.per_s, other.per_s) for each, other in zip(ours, others, strict=True)]


def of_windows(name: str, windows: list[Window]) -> Finding:
    medians = sorted(each.percentile_ms(0.5) for each in windows)
    tails = sorted(each.percentile_ms(0.99) for each in windows)
    note = f"p50 {medians[len(medians) // 2]:.1f} ms, p99 {tails[len(tails) // 2]:.1f} ms"
    return rate(name, [each.per_s for each in windows], note=note)


def _close(connections: list[Connection]) -> None:
    for connection in connections:
        connection.close()
