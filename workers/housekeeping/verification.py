"""The nightly verification of read tables, totals, ledgers and the journal's seals, slice by slice, at a low pace.

One worker of the installation verifies, under a lease; if it is killed, another repeats its slice and goes on. The
result is a gauge (workers/housekeeping/backlog.py): a difference in the books that nobody looks for is found too late.
"""

import time
from datetime import datetime
from typing import Final

import structlog

from domain.instants import SAO_PAULO, day_of
from readmodels.verify import begin_nightly, nightly_begun_at, nightly_slice
from runtime.coordination.leases import release_lease, take_lease
from runtime.postgres import connect, session
from workers.concurrency import rest
from workers.context import Context

LEASE: Final = "verification"
LEASE_S: Final = 300.0
"""Outlasts a slice, whose statements have no timeout."""

_log = structlog.get_logger()


async def verify_nightly(context: Context) -> int:
    """Verify one slice, then rest; returns 0 when there is nothing to verify now. Begins within VERIFY_HOUR."""
    watching = context.settings.watching
    if not watching.verify_percent:
        return 0
    async with session(context.pool) as conn:
        begun_at, unfinished = await nightly_begun_at(conn)
        if not unfinished and not _is_due(context.now(), begun_at, watching.verify_hour):
            return 0
        if not await take_lease(conn, name=LEASE, holder=context.worker, lease_s=LEASE_S):
            return 0
    conn = await connect(context.settings.database_url)  # a slice may take longer than the pool's statements
    try:
        if not unfinished:
            await begin_nightly(conn)
        started = time.perf_counter()
        differences = await nightly_slice(conn)
        took_s = time.perf_counter() - started
        if differences is not None:
            (_log.error if differences else _log.info)("nightly_verification", differences=differences)
            await release_lease(conn, name=LEASE, holder=context.worker)
            return 0
    finally:
        await conn.close()
    await rest(context.stopping, took_s * (100 - watching.verify_percent) / watching.verify_percent)
    return 1


def _is_due(now: datetime, begun_at: datetime | None, hour: int) -> bool:
    """Whether the hour has come, and no verification was begun today."""
    local_now = now.astimezone(SAO_PAULO)
    return local_now.hour == hour and (begun_at is None or day_of(begun_at) < local_now.date())
