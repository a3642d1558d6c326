"""Expire overdue charges. A read expires a charge too; this is for charges that are not read."""

from commands.charges.expire import Sweeper
from runtime.coordination.clocks import read_clock
from runtime.coordination.lanes import WEBHOOKS
from runtime.postgres import session
from workers.context import Context


async def sweep_expired(context: Context, sweeper: Sweeper) -> int:
    """How many charges this round expired; 0 when nothing is overdue any more."""
    async with session(context.pool) as conn:
        # A worker whose clock is ahead would expire charges that can still be paid, and merchants would be told.
        now = min(context.now(), await read_clock(conn))
    expired = await sweeper.sweep(now=now)
    if expired:
        context.jobs.wake(WEBHOOKS)
    return expired
