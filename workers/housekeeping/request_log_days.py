"""Daily partitions of the request log: create the coming ones, drop those that are no longer shown."""

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
    """One round; returns how many days and rows left the log. A day that is being read or written is left for the next
    round."""
    now = context.now()
    made = forgotten = 0
    try:
        async with transaction(context.pool) as conn:
            made = await make(conn, first=now.date(), last=(now + AHEAD).date())
        async with transaction(context.pool) as conn:
            forgotten = await forget(conn, ended_before=now - REQUESTS_KEPT, days_max=_DAYS_MAX, rows_max=ROWS_MAX)
    except asyncpg.LockNotAvailableError:
        _log.info("request_log_days_busy")
    if made or forgotten:
        _log.info("request_log_days", made=made, forgotten=forgotten)
    return forgotten
