"""Begin refunds: the door's side of it. Keys make each happen once; refunds that meet travel together.

Two connections at most are given to refunds by each process: those of one busy charge wait for one another, and must
not keep everybody else's requests waiting.
"""

from collections.abc import Sequence

from api.context import ApiContext, UsedKey
from api.idempotency.guard import IdempotencyGuard
from commands.money.refund import REFUNDS_MAX, NewRefund, begin_refunds
from domain.errors import Refused
from readmodels.money.refund import RefundProjection
from runtime.batching import Batcher
from runtime.bell import REFUND_ORDERS
from runtime.postgres import transaction


class Refunds:
    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._guard = IdempotencyGuard(context)
        # A batch that a balance does not cover is undone, and each of it tried again alone.
        self._batcher: Batcher[NewRefund, RefundProjection | None] = Batcher(self._flush, lanes=2, most=REFUNDS_MAX)

    async def close(self) -> None:
        await self._batcher.close()

    async def create(self, asked: NewRefund) -> RefundProjection | UsedKey:
        """The refund begun, as it was at that moment, or the row of a key that made something before; or Refused."""

        async def work(deadline: float) -> RefundProjection | None:
            return await self._batcher.submit(asked)

        return await self._guard.run((*asked.owner, asked.key), work)

    async def _flush(self, asked: Sequence[NewRefund]) -> list[RefundProjection | Refused | None]:
        async with transaction(self._context.pool) as conn:
            begun = await begin_refunds(conn, asked, now=self._context.now())
        for test in {each.owner[1] for each in asked}:
            self._context.bell.ring(REFUND_ORDERS[test])
        return begun
