"""Workers of the other cells, for `quita up`: each cell has some from when it was added."""

import asyncio
import contextlib
import threading
from typing import Final

import asyncpg

from runtime.cells.directory import read_cells
from runtime.postgres import connect
from runtime.seal import Seal
from runtime.settings import Settings

_LOOK_S: Final = 1.0


class CellWatch:
    """Looks into the directory each second, in a thread: the supervisor waits for no database."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seal = Seal(settings.secret_key)
        self._found: tuple[int, ...] = ()
        self._known: set[int] = set()
        threading.Thread(target=lambda: asyncio.run(self._watch()), daemon=True).start()

    def new(self) -> list[int]:
        """The numbers of cells that were not answered before."""
        new = [number for number in self._found if number not in self._known]
        self._known.update(new)
        return new

    async def _watch(self) -> None:
        while True:
            # Home is away: what was found stays.
            with contextlib.suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                conn = await connect(self._settings.database_url)
                try:
                    while True:
                        self._found = tuple(cell.number for cell in await read_cells(conn, self._seal))
                        await asyncio.sleep(_LOOK_S)
                finally:
                    await conn.close()
            await asyncio.sleep(_LOOK_S)
