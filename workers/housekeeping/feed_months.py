"""Keep the feed's months: make those to come, take those out that are too old (contract section 8, 400 days), and
forget the deliveries of events that left."""

from datetime import timedelta

import asyncpg
import structlog
from msgspec import Struct

import sql
from runtime.postgres import session, transaction
from sql.migrate import MONTHS_AHEAD
from workers.context import Context

KEPT = timedelta(days=400)
MOVED_MAX = 10_000
"""Of one month, when it is made late: writers wait while they are moved. More of them are moved by a start."""

DELIVERIES_KEPT = KEPT + timedelta(days=31)
"""A month leaves whole: by then every event of it has, and none of its deliveries can be sent again."""
_FORGOTTEN_MAX = 1_000

_log = structlog.get_logger()


class _Months(Struct, frozen=True):
    months: int


make = sql.one("feed_month.make", _Months)
detach = sql.one("feed_month.detach", _Months)
forget = sql.count("webhook_delivery.forget")


async def keep_months(context: Context) -> int:
    """One round. A month that somebody reads or writes at this moment waits for the next one."""
    now = context.now()
    made = gone = 0
    try:
        async with transaction(context.pool) as conn:
            last = (now + MONTHS_AHEAD).date()
            made = (await make(conn, first=now.date(), last=last, moved_max=MOVED_MAX)).months
        async with transaction(context.pool) as conn:
            gone = (await detach(conn, ended_before=now - KEPT)).months
    except asyncpg.LockNotAvailableError:
        _log.info("feed_months_busy")
    if made or gone:
        _log.info("feed_months", made=made, detached=gone)
    return 0


async def forget_deliveries(context: Context) -> int:
    """Delete a batch of deliveries whose events left the feed; answers how many."""
    async with session(context.pool) as conn:
        return await forget(conn, before=context.now() - DELIVERIES_KEPT, limit=_FORGOTTEN_MAX)
