"""Begin withdrawals: the door's side of it. A key makes each happen once, whoever asks how often at the same time.

They do not travel together: a merchant asks for few, and those of one account wait for its clock all the same. Two
connections at most are given to them by each process, so that who asks for very many keeps nobody else waiting.
"""

import asyncio
from typing import Final

from api.context import ApiContext, UsedKey
from api.idempotency.guard import IdempotencyGuard
from commands.money.withdraw import NewWithdrawal, create_withdrawal
from readmodels.money.withdrawal import WithdrawalDoc
from runtime.postgres import transaction

AT_ONCE: Final = 2


class Withdrawals:
    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._room = asyncio.Semaphore(AT_ONCE)
        self._guard = IdempotencyGuard(context)

    async def create(self, asked: NewWithdrawal) -> WithdrawalDoc | UsedKey:
        """The withdrawal begun, or the row of a key that made something before; or Refused."""

        async def work(deadline: float) -> WithdrawalDoc | None:
            async with self._room, transaction(self._context.pool) as conn:
                return await create_withdrawal(
                    conn, asked, now=self._context.now(), grace_s=self._context.settings.withdrawal_grace_s
                )

        return await self._guard.run((asked.account_id, False, asked.key), work)
