"""Expire overdue charges. A read expires a charge too; this is for charges that are not read."""

from commands.charges.expire import Sweeper
from runtime.coordination.lanes import WEBHOOKS
from workers.context import Context


async def sweep_expired(context: Context, sweeper: Sweeper) -> int:
    """How many charges this round expired; 0 when nothing is overdue any more."""
    expired = await sweeper.sweep(now=context.now())
    if expired:
        context.jobs.wake(WEBHOOKS)
    return expired
