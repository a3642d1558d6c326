"""Control numbers of boletos, taken from the sequence a block at a time."""

from collections.abc import Sequence
from itertools import islice
from typing import Final

import sql
from runtime.batching import Batcher
from runtime.postgres import Pool, session

BLOCK: Final = 50
"""The sequence's increment."""


take_block = sql.one("boleto.take_numbers", int)


class ControlNumbers:
    """The control numbers that a process holds; one instance for each process. The sequence never returns a block
    twice, so no number is handed out twice."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._block = iter(range(0))
        # One question to the database for all callers that wait: with a lock, they would wait for a silent database one
        # after the other.
        self._batcher: Batcher[None, int] = Batcher(self._take_numbers, lanes=1, batch_max=BLOCK, alone_again=())

    async def next(self) -> int:
        control = next(self._block, None)
        return await self._batcher.submit(None) if control is None else control

    async def _take_numbers(self, asked: Sequence[None]) -> list[int]:
        numbers = list(islice(self._block, len(asked)))  # those of a block that was taken meanwhile
        if missing := len(asked) - len(numbers):
            async with session(self._pool) as conn:
                first = await take_block(conn)
            numbers += range(first, first + missing)
            self._block = iter(range(first + missing, first + BLOCK))
        return numbers
