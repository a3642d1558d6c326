"""The feed's monthly partitions: create those to come, detach those older than 400 days (contract section 8), and
delete the deliveries of their events."""

from datetime import timedelta

import asyncpg
import structlog

import sql
from runtime.postgres import session, transaction
from sql.migrate import MONTHS_AHEAD
from workers.context import Context

KEPT = timedelta(days=400)
MOVED_MAX = 10_000
"""Events moved from the default partition into one month: writers wait meanwhile. More are moved at a start only."""

DELIVERIES_KEPT = KEPT + timedelta(days=31)
"""A month is detached as a whole: by then all its events are older than KEPT, and none can be redelivered."""
_FORGOTTEN_MAX = 1_000

_log = structlog.get_logger()


make = sql.one("feed_month.make", int)
detach = sql.one("feed_month.detach", int)
forget = sql.count("webhook_delivery.forget")


async def keep_months(context: Context) -> int:
    """One round; answers 0. A month that is being read or written is left for the next round."""
    now = context.now()
    made = gone = 0
    try:
        async with transaction(context.pool) as conn:
            last = (now + MONTHS_AHEAD).date()
            made = await make(conn, first=now.date(), last=last, moved_max=MOVED_MAX)
        async with transaction(context.pool) as conn:
            gone = await detach(conn, ended_before=now - KEPT)
    except asyncpg.LockNotAvailableError:
        _log.info("feed_months_busy")
    if made or gone:
        _log.info("feed_months", made=made, detached=gone)
    return 0


async def forget_deliveries(context: Context) -> int:
    """Delete a batch of deliveries whose events left the feed; answers how many."""
    async with session(context.pool) as conn:
        return await forget(conn, before=context.now() - DELIVERIES_KEPT, limit=_FORGOTTEN_MAX)
