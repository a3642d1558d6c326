"""GET /v1/charges/{id} compared with routes that do nothing (bench/plain.py): over many charges in turn, and over a few
that are looked up again and again, as a client does until a charge is paid."""

from bench import merchant_client
from bench.asking import creations, lookups
from bench.client import connect, http, slice_of, status, window
from bench.creation import CONNECTIONS, ROUNDS, against, of_windows
from bench.environment import BenchEnvironment
from bench.report import Finding, cpu, rate, ratio
from runtime.postgres import session

_CHARGES = 20_000
_POLLED_CHARGES = 1_000
_CREATE_S = 5.0


async def lookup(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    async with environment.database() as pool:
        merchant = await environment.merchant(pool)
        connections = await connect(environment.port, CONNECTIONS, processes=environment.processes)
        await environment.fill_locations(pool, _CHARGES * 3)
        create = creations(merchant, "/v1/charges/pix")
        await window(connections, create, status(201), seconds=_CREATE_S)
        async with session(pool) as conn:
            rows = await conn.fetch(
                "SELECT charge_id::text FROM read_charge WHERE account_id = $1::text::uuid LIMIT $2",
                merchant.account_id, _CHARGES,
            )  # fmt: skip
        request, check = lookups(merchant, [row[0] for row in rows])
        poll_request, poll_check = lookups(merchant, [row[0] for row in rows[:_POLLED_CHARGES]])
        empty = http("GET", "/bench/empty", token=merchant.token)
        plain = http("GET", f"/bench/plain/{rows[0][0]}", token=merchant.token)
        slice_s = slice_of(seconds / 2, ROUNDS * 4)  # half of the time with each client
        rounds, lookup_used, polled_used, plain_used, lookup_count, poll_count, plain_count = [], [], [], [], 0, 0, 0
        for number in range(ROUNDS + 1):
            before = environment.cpu_s()
            ours = await window(connections, request, check, seconds=slice_s)
            lookup_used.append((before, environment.cpu_s()))
            lookup_count += ours.count
            before = environment.cpu_s()
            poll_window = await window(connections, poll_request, poll_check, seconds=slice_s)
            polled_used.append((before, environment.cpu_s()))
            poll_count += poll_window.count
            before = environment.cpu_s()
            plain_window = await window(connections, lambda: plain, status(200), seconds=slice_s)
            plain_used.append((before, environment.cpu_s()))
            plain_count += plain_window.count
            empty_window = await window(connections, lambda: empty, status(200), seconds=slice_s)
            if number:  # the first round warms up
                rounds.append((ours, poll_window, plain_window, empty_window))
        for connection in connections:
            connection.close()
        ids = [row[0] for row in rows]
        merchants = await merchant_client.compare(environment, merchant, seconds / 2, body={}, charge_ids=ids)
        locusts = await merchant_client.compare(
            environment, merchant, seconds / 2, body={}, charge_ids=ids, client="bench.locust_client"
        )
    lookup_cpu = cpu("  CPU of a lookup", lookup_used, lookup_count)
    plain_cpu = cpu("  CPU of a plain GET", plain_used, plain_count)
    by_cpu = f"by CPU {plain_cpu.value / lookup_cpu.value:.3f}"
    polled_cpu = cpu("  CPU of a lookup asked for again", polled_used, poll_count)
    lookup_windows, polled_windows, plain_windows, empty_windows = (list(each) for each in zip(*rounds, strict=True))
    return [
        ratio(
            "lookup / plain GET",
            against(lookup_windows, plain_windows),
            target=0.7,
            note=f"{by_cpu}; over {len(rows)} charges",
        ),
        ratio(
            "lookup asked for again / plain GET",
            against(polled_windows, plain_windows),
            note=f"by CPU {plain_cpu.value / polled_cpu.value:.3f}; over {_POLLED_CHARGES} charges",
        ),
        ratio("lookup / empty GET", against(lookup_windows, empty_windows), target=0.5),
        of_windows("  lookup", lookup_windows),
        of_windows("  lookup asked for again", polled_windows),
        of_windows("  plain GET", plain_windows),
        of_windows("  empty GET", empty_windows),
        lookup_cpu,
        polled_cpu,
        plain_cpu,
        ratio("lookup / empty GET, a merchant's client", merchants, note="aiohttp"),
        rate("  lookup, a merchant's client", [ours for ours, _ in merchants]),
        rate("  empty GET, a merchant's client", [other for _, other in merchants]),
        ratio("lookup / empty GET, locust", locusts, target=0.5, note="FastHttpUser"),
        rate("  lookup, locust", [ours for ours, _ in locusts]),
        rate("  empty GET, locust", [other for _, other in locusts]),
    ]
