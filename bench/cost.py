"""The cost of one creation in statements, Redis commands and latency, with 64 concurrent requests and with one."""

from collections import Counter
from typing import Any

from redis.asyncio import Redis

from bench.asking import creations
from bench.client import Window, connect, http, status, window
from bench.environment import BenchEnvironment
from bench.report import Finding
from runtime.postgres import Pool, session
from runtime.redis import open_redis

_WARM_S = 1.0
# Commands that only our scripts call, on the Redis server; all others are sent by the API.
_INSIDE = {"set", "hmget", "hset", "pexpire", "time"}
_OWN = {"info", "auth", "client", "client|setinfo", "hello", "ping"}


async def cost(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    found: list[Finding] = []
    redis = open_redis(environment.settings.redis_url, blocking=False)
    async with environment.database() as pool:
        async with session(pool) as conn:
            await conn.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        merchant = await environment.merchant(pool)
        await environment.fill_locations(pool, 40_000)
        create, empty = creations(merchant, "/v1/charges/pix"), creations(merchant, "/bench/empty")
        for at_once in (64, 1):
            # Spread over all processes, or over as many as there are connections.
            connections = await connect(environment.port, at_once, processes=min(environment.processes, at_once))
            await window(connections, create, status(201), seconds=_WARM_S)
            statements, commands = await _statements(pool), await _commands(redis)
            made = await window(connections, create, status(201), seconds=seconds / 4)
            statements, commands = await _statements(pool) - statements, await _commands(redis) - commands
            found += _counted(at_once, made, statements, commands)
            if at_once == 1:
                found += await _latencies(connections, create, empty, made, seconds / 4)
            for connection in connections:
                connection.close()
    await redis.aclose()
    return found


def _counted(at_once: int, made: Window, statements: Counter[str], commands: Counter[str]) -> list[Finding]:
    sent = sum(count for name, count in commands.items() if name not in _INSIDE)
    inside = sum(count for name, count in commands.items() if name in _INSIDE)
    # Requests under way when the window closes are not in its count: an error of at most one per connection.
    note = ", ".join(f"{name} {count / made.count:.3f}" for name, count in statements.most_common(6))
    asked = ", ".join(f"{name} {count / made.count:.3f}" for name, count in commands.most_common(8))
    return [
        Finding(f"statements per creation, {at_once} at once", statements.total() / made.count, "each", note=note),
        Finding(f"Redis commands sent per creation, {at_once} at once", sent / made.count, "each", note=asked),
        Finding(f"  and run inside scripts, {at_once} at once", inside / made.count, "each"),
    ]


async def _latencies(connections: Any, create: Any, empty: Any, made: Window, seconds: float) -> list[Finding]:
    nothing = await window(connections, empty, status(201), seconds=seconds / 2)
    alone = http("GET", "/readyz")
    ready = await window(connections, lambda: alone, status(200), seconds=seconds / 2)
    return [
        Finding("creation alone, p50", made.percentile_ms(0.5), "ms", note=f"p99 {made.percentile_ms(0.99):.2f} ms"),
        Finding("empty POST alone, p50", nothing.percentile_ms(0.5), "ms"),
        Finding("one SELECT and one PING alone, p50", ready.percentile_ms(0.5), "ms", note="GET /readyz"),
    ]


async def _statements(pool: Pool) -> Counter[str]:
    """Calls so far by the first words of the statement, with BEGIN and COMMIT, without this bench's own statement."""
    async with session(pool) as conn:
        rows = await conn.fetch(
            "SELECT query, calls FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%'"
        )
    found: Counter[str] = Counter()
    for row in rows:
        words = row["query"].split("INSERT INTO ")
        name = f"INSERT {words[-1].split()[0]}" if len(words) > 1 else row["query"].split("(")[0][:24].strip()
        found[name] += row["calls"]
    return found


async def _commands(redis: "Redis") -> Counter[str]:
    stats = await redis.info("commandstats")
    return Counter({
        name.removeprefix("cmdstat_"): each["calls"] for name, each in stats.items()
        if name.removeprefix("cmdstat_") not in _OWN
    })  # fmt: skip
