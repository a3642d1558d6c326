"""Finds new cells for `quita up`, which starts workers for each cell as soon as it was added."""

import asyncio
import contextlib
import threading
from typing import Final

import asyncpg

from runtime.cells.directory import find_numbers
from runtime.postgres import connect
from runtime.settings import Settings

_POLL_S: Final = 1.0


class CellWatch:
    """Reads the directory of cells each second, in a thread, because the supervisor must not wait for a database."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._numbers: tuple[int, ...] = ()
        self._returned: set[int] = set()
        threading.Thread(target=lambda: asyncio.run(self._watch()), daemon=True).start()

    def new(self) -> list[int]:
        """The numbers of cells that earlier calls have not returned."""
        new = [number for number in self._numbers if number not in self._returned]
        self._returned.update(new)
        return new

    async def _watch(self) -> None:
        while True:
            # While home is unavailable, the cells found before stay.
            with contextlib.suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                conn = await connect(self._settings.database_url)
                try:
                    while True:
                        self._numbers = tuple(await find_numbers(conn))
                        await asyncio.sleep(_POLL_S)
                finally:
                    await conn.close()
            await asyncio.sleep(_POLL_S)
