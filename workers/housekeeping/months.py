"""Monthly partitions: create the coming ones, and detach or drop the old ones when their table's time is over. Deletes
the deliveries of removed endpoints as well."""

from datetime import timedelta
from typing import Final
from uuid import UUID

import asyncpg
import structlog

import sql
from runtime.postgres import session, transaction
from sql.migrate import MONTHLY, MONTHS_AHEAD
from workers.context import Context

EVENTS_KEPT: Final = timedelta(days=400)
"""How long events stay in the feed (contract section 8)."""
MOVED_MAX: Final = 10_000
"""Rows moved from the default partition into one month, while writers wait. Only a start moves more."""

_FEED_TABLES = ("read_event_production", "read_event_sandbox")
_DROPPED_WITH_FEED = ("webhook_delivery_done", "webhook_attempt")
"""Dropped when the month of their events leaves the feed: from then on none of these can be sent again."""
_FORGOTTEN_MAX = 1_000

_log = structlog.get_logger()


make = sql.one("month.make", int)
count_lacking = sql.one("month.count_lacking", int)
detach = sql.one("month.detach", int)
drop = sql.one("month.drop", int)
detach_feed = sql.one("month.detach_feed", int)
find_removed_endpoint = sql.maybe("webhook_endpoint.removed", UUID)
forget_deliveries_of = sql.count("webhook_endpoint.forget_deliveries")
forget_endpoint = sql.count("webhook_endpoint.forget")


async def keep_months(context: Context) -> int:
    """One round over all tables; returns 0. A table that is being read or written, or whose statement ran into its time
    limit, is left for the next round: it must not keep the others from their months."""
    for table in MONTHLY:
        for rotate in (_make_months, _take_old_months):
            try:
                await rotate(context, table)
            except (asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError) as error:
                _log.warning("months_wait", table=table, error=type(error).__name__)
    return 0


async def _make_months(context: Context, table: str) -> None:
    now = context.now()
    async with transaction(context.pool) as conn:
        last = (now + MONTHS_AHEAD).date()
        made = await make(conn, parent=table, first=now.date(), last=last, moved_max=MOVED_MAX)
        lacking = await count_lacking(conn, parent=table, first=now.date(), last=last)
    if made:
        _log.info("months", table=table, made=made)
    if lacking:
        # Their rows stay in the default partition, and are never detached, until `quita migrate` moves them.
        _log.warning("months_lacking", table=table, months=lacking)


async def _take_old_months(context: Context, table: str) -> None:
    """Detach or drop the months whose time is over."""
    async with transaction(context.pool) as conn:
        if table in _FEED_TABLES:
            detached = await detach_feed(conn, kept=EVENTS_KEPT)
        elif table in _DROPPED_WITH_FEED:
            detached = await drop(conn, parent=table, kept=EVENTS_KEPT)
        else:
            kept = timedelta(days=context.settings.bank_history_kept_days)
            detached = await detach(conn, parent=table, kept=kept)
    if detached:
        _log.info("months", table=table, detached=detached)


async def forget_endpoints(context: Context) -> int:
    """Delete a batch of deliveries of a removed endpoint, or the endpoint when none is left; returns how many rows."""
    async with session(context.pool) as conn:
        endpoint_id = await find_removed_endpoint(conn)
        if endpoint_id is None:
            return 0
        forgotten = await forget_deliveries_of(conn, endpoint_id=endpoint_id, limit=_FORGOTTEN_MAX)
        return forgotten or await forget_endpoint(conn, endpoint_id=endpoint_id)
