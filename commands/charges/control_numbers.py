"""Control numbers of boletos, taken from the sequence a block at a time."""

import asyncio
from typing import Final

import sql
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
        self._taking = asyncio.Lock()

    async def next(self) -> int:
        async with self._taking:
            control = next(self._block, None)
            if control is None:
                async with session(self._pool) as conn:
                    control = await take_block(conn)
                self._block = iter(range(control + 1, control + BLOCK))
            return control
