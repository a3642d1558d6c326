"""Keep the feed's months: make those to come, take those out that are too old (contract section 8, 400 days)."""

from datetime import timedelta

import asyncpg
import structlog
from msgspec import Struct

import sql
from runtime.postgres import transaction
from workers.context import Context

KEPT = timedelta(days=400)
AHEAD = timedelta(days=62)

_log = structlog.get_logger()


class _Months(Struct, frozen=True):
    months: int


make = sql.one("feed_month.make", _Months)
detach = sql.one("feed_month.detach", _Months)


async def keep_months(context: Context) -> int:
    """One round; answers how many months were made or taken out. A month somebody is reading waits for the next."""
    now = context.now()
    async with transaction(context.pool) as conn:
        made = (await make(conn, first=now.date(), last=(now + AHEAD).date())).months
    try:
        async with transaction(context.pool) as conn:
            gone = (await detach(conn, ended_before=now - KEPT)).months
    except asyncpg.LockNotAvailableError:
        gone = 0
    if made or gone:
        _log.info("feed_months", made=made, detached=gone)
    return 0
