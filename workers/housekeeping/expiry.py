"""Expire overdue charges. A read expires a charge too; this is for charges that are not read."""

from commands.charges.expire import Sweeper
from workers.context import Context


class ExpirySweeper:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._sweeper = Sweeper(context.pool)

    async def sweep(self) -> int:
        """How many charges this round expired; 0 when nothing is overdue any more."""
        expired = await self._sweeper.sweep(now=self._context.now())
        if expired:
            self._context.jobs.wake("webhooks")
        return expired
