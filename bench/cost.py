"""The cost of one creation in statements, Redis commands and latency, with 64 concurrent requests and with one."""

from collections import Counter
from collections.abc import Callable, Sequence

from redis.asyncio import Redis

from bench.asking import creations
from bench.client import Connection, Window, connect, http, status, window
from bench.environment import BenchEnvironment
from bench.report import Finding
from runtime.postgres import Pool, session
from runtime.redis import open_redis

_WARM_UP_S = 1.0
# Commands that only our scripts call, on the Redis server; all others are sent by the API.
_SCRIPT_COMMANDS = {"set", "hmget", "hset", "pexpire", "time"}
_IGNORED_COMMANDS = {"info", "auth", "client", "client|setinfo", "hello", "ping"}


async def cost(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    findings: list[Finding] = []
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
            await window(connections, create, status(201), seconds=_WARM_UP_S)
            statements, commands = await _read_statements(pool), await _read_commands(redis)
            created = await window(connections, create, status(201), seconds=seconds / 4)
            statements, commands = await _read_statements(pool) - statements, await _read_commands(redis) - commands
            findings += _count_findings(at_once, created, statements, commands)
            if at_once == 1:
                findings += await _latencies(connections, empty, created, seconds / 4)
            for connection in connections:
                connection.close()
    await redis.aclose()
    return findings


def _count_findings(at_once: int, created: Window, statements: Counter[str], commands: Counter[str]) -> list[Finding]:
    sent = sum(count for name, count in commands.items() if name not in _SCRIPT_COMMANDS)
    inside = sum(count for name, count in commands.items() if name in _SCRIPT_COMMANDS)
    # Requests under way when the window closes are not in its count: an error of at most one per connection.
    note = ", ".join(f"{name} {count / created.count:.3f}" for name, count in statements.most_common(6))
    commands_note = ", ".join(f"{name} {count / created.count:.3f}" for name, count in commands.most_common(8))
    return [
        Finding(f"statements per creation, {at_once} at once", statements.total() / created.count, "each", note=note),
        Finding(
            f"Redis commands sent per creation, {at_once} at once", sent / created.count, "each", note=commands_note
        ),
        Finding(f"  and run inside scripts, {at_once} at once", inside / created.count, "each"),
    ]


async def _latencies(
    connections: Sequence[Connection], empty: Callable[[], bytes], created: Window, seconds: float
) -> list[Finding]:
    empty_window = await window(connections, empty, status(201), seconds=seconds / 2)
    request = http("GET", "/readyz")
    ready_window = await window(connections, lambda: request, status(200), seconds=seconds / 2)
    return [
        Finding(
            "creation alone, p50", created.percentile_ms(0.5), "ms", note=f"p99 {created.percentile_ms(0.99):.2f} ms"
        ),
        Finding("empty POST alone, p50", empty_window.percentile_ms(0.5), "ms"),
        Finding("one SELECT and one PING alone, p50", ready_window.percentile_ms(0.5), "ms", note="GET /readyz"),
    ]


async def _read_statements(pool: Pool) -> Counter[str]:
    """Calls so far by the first words of the statement, with BEGIN and COMMIT, without this bench's own statement."""
    async with session(pool) as conn:
        rows = await conn.fetch(
            "SELECT query, calls FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%'"
        )
    calls: Counter[str] = Counter()
    for row in rows:
        words = row["query"].split("INSERT INTO ")
        name = f"INSERT {words[-1].split()[0]}" if len(words) > 1 else row["query"].split("(")[0][:24].strip()
        calls[name] += row["calls"]
    return calls


async def _read_commands(redis: Redis) -> Counter[str]:
    stats = await redis.info("commandstats")
    return Counter({
        name.removeprefix("cmdstat_"): each["calls"] for name, each in stats.items()
        if name.removeprefix("cmdstat_") not in _IGNORED_COMMANDS
    })  # fmt: skip
