"""Prometheus metrics of this process (cli/run/metrics_port.py adds up those of several processes), and the access log.

Labels are bounded: route templates, methods, status codes. Never an account, a charge or a key.
"""

import asyncio
import math
import os
import time
from bisect import bisect_left
from collections import Counter as TallyOf
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, generate_latest

import sql
from runtime.log import AccessLog
from runtime.postgres import OPENED

requests_total = Counter(
    "http_server_requests_total",
    "Requests answered.",
    ["http_route", "http_request_method", "http_response_status_code"],
)


class BufferedCounter:
    """A counter for each request: counted here, and handed on once a second, because the shared counter takes 3 us."""

    __slots__ = ("_count", "_counter")
    _all: ClassVar[list["BufferedCounter"]] = []

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._count = 0
        self._all.append(self)

    def inc(self) -> None:
        self._count += 1

    @classmethod
    def flush_counts(cls) -> None:
        for each in cls._all:
            count, each._count = each._count, 0
            if count:
                each._counter.inc(count)


class BulkHistogram(Histogram):
    """A histogram that takes many values at once, by one addition to each shared counter instead of one a value."""

    def observe_all(self, values: Sequence[float]) -> None:
        places = TallyOf(bisect_left(self._upper_bounds, value) for value in values)
        self._sum.inc(math.fsum(values))
        for place, count in places.items():
            self._buckets[place].inc(count)


request_seconds = BulkHistogram(
    "http_server_request_duration_seconds",
    "Time from admission to answer.",
    ["http_route", "http_request_method"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
idempotency_total = Counter("idempotency_requests_total", "Financial operations by outcome of their key.", ["outcome"])
without_redis_total = Counter("redis_skipped_total", "Locks and limits passed over because Redis was gone.", ["what"])
charges_created_total = Counter("charges_created_total", "Charges created.", ["payment_method", "mode"])

sql_statements_total = Counter("quita_sql_statements_total", "Statements run, by the file they stand in.", ["file"])
sql_seconds_total = Counter("quita_sql_seconds_total", "What they took, with reading their rows.", ["file"])
pool_connections = Gauge(
    "quita_pool_connections",
    "Connections to PostgreSQL that a pool has open, has idle, and may have.",
    ["pool", "state"],
    multiprocess_mode="livesum",
)
pool_waits_total = Counter("quita_pool_waits_total", "Times a pool had no connection left.", ["pool"])
pool_wait_seconds_total = Counter("quita_pool_wait_seconds_total", "What was waited for one then.", ["pool"])

_FLUSH_S = 1.0


class Meter:
    """Counts and logs requests. Counts are added to the shared counters once a second, because these are slow."""

    def __init__(self, access_log: AccessLog | None) -> None:
        self._access_log = access_log
        self._counts: dict[tuple[str, str, int], int] = {}
        self._durations_s: dict[tuple[str, str], list[float]] = {}
        self._is_flush_due = False
        self._second, self._stamp = 0, ""

    def start(self) -> float:
        return time.perf_counter()

    def finish(self, method: str, route: str, status: int, started: float, request_id: str) -> float:
        """Count the request; returns how many seconds it took."""
        took_s = time.perf_counter() - started
        key = (route, method, status)
        self._counts[key] = self._counts.get(key, 0) + 1
        self._durations_s.setdefault((route, method), []).append(took_s)
        if not self._is_flush_due:
            self._is_flush_due = True
            asyncio.get_running_loop().call_later(_FLUSH_S, self.flush_counts)
        if self._access_log is not None:
            second, ms = divmod(time.time_ns() // 1_000_000, 1000)
            if second != self._second:  # formatted once a second: for each line it would cost half of the line
                self._second, self._stamp = second, datetime.fromtimestamp(second, UTC).isoformat()[:19]
            trace = self._access_log.trace_of(request_id)
            line = (
                f'{{"ts":"{self._stamp}.{ms:03}Z","level":"info","event":"request","request_id":"{request_id}",{trace}'
                f'"method":"{method}","route":"{route}","status":{status},"duration_ms":{took_s * 1000:.2f}}}'
            )
            self._access_log.write(line.encode())
        return took_s

    def flush_counts(self) -> None:
        """Add what was counted to the shared counters."""
        self._is_flush_due = False
        for (route, method, status), count in self._counts.items():
            requests_total.labels(route, method, status).inc(count)
        for labels, all_took_s in self._durations_s.items():
            request_seconds.labels(*labels).observe_all(all_took_s)
        self._counts, self._durations_s = {}, {}
        BufferedCounter.flush_counts()


class DatabaseMeter:
    """Counts what statements take and pools hold. Counts are kept where they arise and handed on once a second: beside
    a statement of 200 us, a shared counter of 5 us would show."""

    async def run(self) -> None:
        """Runs for ever."""
        while True:
            self.flush_counts()
            await asyncio.sleep(_FLUSH_S)

    def flush_counts(self) -> None:
        for file, spent in sql.SPENT.items():
            statements, seconds = spent.take_counts()
            if statements:
                sql_statements_total.labels(file).inc(statements)
                sql_seconds_total.labels(file).inc(seconds)
        connections: dict[tuple[str, str], int] = {}
        for pool in OPENED:
            waits, waited_s = pool.take_waits()
            if waits or waited_s:
                pool_waits_total.labels(pool.name).inc(waits)
                pool_wait_seconds_total.labels(pool.name).inc(waited_s)
            for state, count in (("open", pool.get_size()), ("idle", pool.get_idle_size()), ("max", pool.size_max)):
                connections[pool.name, state] = connections.get((pool.name, state), 0) + count
        for labels, count in connections.items():
            pool_connections.labels(*labels).set(count)


def forget(*gauges: Gauge) -> None:
    """Clear gauges that another worker knows better. Where processes share a folder, the most recent value is shown."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        for gauge in gauges:
            gauge.clear()


def exposition() -> bytes:
    """This process's metrics in Prometheus' text format."""
    return generate_latest(REGISTRY)
