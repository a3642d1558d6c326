"""The cell that a worker works for (CELL). The worker ends when its cell has moved; started again, it reads the cell's
new address from the directory."""

import asyncio
from typing import Final

import structlog

from runtime.cells.directory import Cell, WrongCell, read_cells, settings_of
from runtime.cells.number import enter_cell
from runtime.postgres import DB_UNAVAILABLE, connect
from runtime.seal import Seal
from runtime.settings import Settings
from sql import Connection

_POLL_S: Final = 1.0

_log = structlog.get_logger()


async def enter_own_cell(settings: Settings) -> Settings:
    """The settings of the cell that CELL names. From here on this process makes ids of that cell. Raises WrongCell for
    a number that the directory does not have, and asyncpg's errors while home is away."""
    if not settings.cell:
        return settings
    conn = await connect(settings.directory_url)
    try:
        cell = await _find_own_cell(conn, settings)
    finally:
        await conn.close()
    if cell is None:
        raise WrongCell(f"the directory has no cell {settings.cell} (CELL)")
    enter_cell(cell.number)
    return settings_of(settings, cell, cell.addresses)


async def end_when_moved(settings: Settings, stopping: asyncio.Event) -> None:
    """Set `stopping` once the directory has another address for this cell, or none. Home never moves like this."""
    if not settings.cell:
        return
    failures = 0
    while True:
        try:
            await _wait_until_moved(settings)
            break
        except DB_UNAVAILABLE:
            pass  # home is away, which does not affect this cell
        except Exception:  # such as addresses under a key that this worker does not have; a later look may read them
            failures += 1
            if failures & (failures - 1) == 0:
                _log.exception("directory_not_read", cell=settings.cell, failures=failures)
        await asyncio.sleep(_POLL_S)
    _log.info("cell_moved", cell=settings.cell)
    stopping.set()


async def _wait_until_moved(settings: Settings) -> None:
    conn = await connect(settings.directory_url)
    try:
        while True:
            cell = await _find_own_cell(conn, settings)
            if cell is None or cell.addresses.database_url != settings.database_url:
                return
            await asyncio.sleep(_POLL_S)
    finally:
        await conn.close()


async def _find_own_cell(conn: Connection, settings: Settings) -> Cell | None:
    cells = await read_cells(conn, Seal(settings.secret_key))
    return next((cell for cell in cells if cell.number == settings.cell), None)
