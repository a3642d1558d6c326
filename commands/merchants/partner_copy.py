"""The copy of home's partners in every other cell, so that issuing a charge reads only its own cell.

A copy follows home by the partners' versions. It lags by seconds, or for as long as home is unavailable: a code created
meanwhile is unknown in the other cells, and payments booked before a changed share arrives accrue the old share.
"""

from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

import sql
from commands.merchants.integrators import has_account
from runtime.cells.directory import read_cells
from runtime.cells.number import HOME, cell_of
from runtime.postgres import connect
from runtime.seal import Seal
from sql import Connection

COPIED_MAX: Final = 500


class _Partner(Struct, frozen=True):
    integrador_code: str
    name: str
    account_id: UUID | None
    active: bool
    created_at: datetime
    version: int


class _Share(Struct, frozen=True):
    integrador_code: str
    since: datetime
    share_bps: int


copied_until = sql.one("integrator.copied_until", int)
_find_changed = sql.many("integrator.changed", _Partner)
_find_shares = sql.many("integrator.shares_of", _Share)
_upsert_partners = sql.run("integrator.copy")
_set_copied_version = sql.run("integrator.set_copied")


async def copy_partners(home: Connection, cell: Connection) -> int:
    """Copy up to COPIED_MAX changed partners from home to the cell; returns how many."""
    partners = await _find_changed(home, after=await copied_until(cell), limit=COPIED_MAX)
    if not partners:
        return 0
    shares = await _find_shares(home, codes=[each.integrador_code for each in partners])
    async with cell.transaction():
        await _upsert_partners(cell, partners=partners, shares=shares)
        await _set_copied_version(cell, version=partners[-1].version)
    return len(partners)


async def account_exists(home: Connection, account_id: UUID, *, seal: Seal) -> bool:
    """Whether the account exists in its own cell. This may read another database, so no transaction may be open. Raises
    asyncpg's errors while that cell is unavailable."""
    number = cell_of(account_id)
    if number == HOME:
        return await has_account(home, account_id=account_id)
    for cell in await read_cells(home, seal):
        if cell.number == number:
            conn = await connect(cell.addresses.database_url)
            try:
                return await has_account(conn, account_id=account_id)
            finally:
                await conn.close()
    return False
