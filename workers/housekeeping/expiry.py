"""Expire overdue charges. A read expires a charge too; this is for charges that are not read."""

from commands.charges.expire import expire_all
from workers.context import Context


async def sweep_expired(context: Context) -> int:
    """How many charges this round expired; 0 when nothing is overdue any more."""
    expired = await expire_all(context.pool, now=context.now())
    if expired:
        context.jobs.wake("webhooks")
    return expired
