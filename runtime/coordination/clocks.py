"""Compares a process's clock with PostgreSQL's.

An order to a bank is due, and past its deadline, by the clocks of the process that writes it and of the worker that
claims it. When these are ten seconds apart, every boleto is refused although the bank answers, and only this comparison
shows why.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Final

import asyncpg
import structlog
from prometheus_client import Gauge

import sql
from runtime.postgres import DB_UNAVAILABLE, Pool, session

DIFFERENCE_S_MIN: Final = 1.0
"""A smaller difference delays nothing that anybody notices, and is not logged."""
_INTERVAL_S = 15.0

_ahead = Gauge(
    "quita_clock_ahead_seconds",
    "By how much a process's clock is ahead of PostgreSQL's.",
    ["pool"],
    multiprocess_mode="livemostrecent",
)
read_clock = sql.one("clock.read", datetime)
_log = structlog.get_logger()


async def watch_clock(pool: Pool, now: Callable[[], datetime]) -> None:
    """Compare now and then; runs for ever."""
    while True:
        with suppress(*DB_UNAVAILABLE, asyncpg.PostgresError):
            await compare_clocks(pool, now)
        await asyncio.sleep(_INTERVAL_S)


async def compare_clocks(pool: Pool, now: Callable[[], datetime]) -> None:
    async with session(pool) as conn:
        asked_at = now()
        server_now = await read_clock(conn)
        answered_at = now()
    # Read at some instant between the two.
    half_way = (answered_at - asked_at) / 2
    ahead_s = (asked_at + half_way - server_now).total_seconds()
    _ahead.labels(pool.name).set(ahead_s)
    if abs(ahead_s) > DIFFERENCE_S_MIN + half_way.total_seconds():
        _log.warning("clock_differs", ahead_s=round(ahead_s, 1))
