"""Daily partitions of the request log: create the coming ones, drop those that are no longer shown."""

from collections.abc import Awaitable
from datetime import timedelta

import asyncpg
import structlog

import sql
from readmodels.dashboard.request_log import REQUESTS_KEPT
from runtime.postgres import transaction
from workers.context import Context

AHEAD = timedelta(days=7)
_DAYS_MAX = 40
ROWS_MAX = 10_000
"""Rows deleted at once, of days that had no partition: some 10 ms."""

_log = structlog.get_logger()


make = sql.one("request_log.make_days", int)
forget = sql.one("request_log.forget_days", int)


async def keep_days(context: Context) -> int:
    """One round; returns how many days and rows left the log. A day that is being read or written, or whose statement
    ran into its time limit, is left for the next round."""
    forgotten = await _unless_busy(_forget_days(context))
    # Days are made once nothing is left to forget: beside fewer rows of the default partition, and once an hour.
    made = 0 if forgotten else await _unless_busy(_make_days(context))
    if made or forgotten:
        _log.info("request_log_days", made=made, forgotten=forgotten)
    return forgotten


async def _unless_busy(step: Awaitable[int]) -> int:
    try:
        return await step
    except (asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError) as error:
        _log.warning("request_log_days_wait", error=type(error).__name__)
        return 0


async def _make_days(context: Context) -> int:
    """Each day on its own: PostgreSQL reads the whole default partition for each, half a second for a million rows."""
    made = 0
    for ahead in range(AHEAD.days + 1):
        day = context.now().date() + timedelta(days=ahead)
        async with transaction(context.pool) as conn:
            made += await make(conn, first=day, last=day)
    return made


async def _forget_days(context: Context) -> int:
    async with transaction(context.pool) as conn:
        before = context.now() - REQUESTS_KEPT
        return await forget(conn, ended_before=before, days_max=_DAYS_MAX, rows_max=ROWS_MAX)
