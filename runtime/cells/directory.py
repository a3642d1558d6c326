"""The directory of cells, at home: the addresses of each cell, and the boleto numbers that it hands out.

It is read when a process starts and again each second; the ids in a request lead it to its cell. A home that is away
stops no other cell: the directory as it was read last stays in use.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

import sql
from runtime.cells.addresses import redis_of
from runtime.cells.number import HOME
from runtime.postgres import Pool, session
from runtime.seal import CELL_ADDRESSES, Seal
from runtime.settings import Settings
from sql import Connection

HOME_NAME: Final = "home"


class Addresses(Struct, frozen=True):
    """The database as the application's role, and as the role for reports; the standby that answers reads, if any."""

    database_url: str
    report_url: str
    read_url: str = ""

    def __repr__(self) -> str:
        return "Addresses()"


class Cell(Struct, frozen=True):
    """A cell other than home."""

    number: int
    name: str
    addresses: Addresses
    next: Addresses | None
    """The addresses that it is being moved to."""
    held: bool
    """Whether requests to it wait until they can go on at the next addresses."""


class NumberBlock(Struct, frozen=True):
    """Control numbers of boletos, `first` to `last`, which cell `number` hands out."""

    first: int
    last: int
    number: int


class WrongCell(Exception):
    """The database is not that of the cell this process was told to serve; the message is for the operator."""


class _CellRow(Struct, frozen=True):
    number: int
    name: str
    addresses_sealed: bytes
    next_sealed: bytes | None
    held: bool


own_number = sql.one("cell.own", int)
_find_others = sql.many("cell.others", _CellRow)
find_numbers = sql.many("cell.numbers", int)
"""The numbers of the other cells; only home knows them."""
count_accounts = sql.one("cell.accounts", int)
has_email = sql.one("cell.has_email", bool)
find_blocks = sql.many("cell.blocks", NumberBlock)


async def read_cells(conn: Connection, seal: Seal) -> list[Cell]:
    """All cells but home, by number. `conn` is a connection to home."""
    return [
        Cell(
            number=row.number,
            name=row.name,
            addresses=_open_addresses(row.addresses_sealed, row.number, seal),
            next=None if row.next_sealed is None else _open_addresses(row.next_sealed, row.number, seal),
            held=row.held,
        )
        for row in await _find_others(conn)
    ]


def _open_addresses(sealed: bytes, number: int, seal: Seal) -> Addresses:
    return msgspec.json.decode(seal.open(sealed, CELL_ADDRESSES, number), type=Addresses)


def seal_addresses(addresses: Addresses, number: int, seal: Seal) -> bytes:
    return seal.seal(msgspec.json.encode(addresses), CELL_ADDRESSES, number)


async def check_cell(pool: Pool, number: int) -> None:
    """Raise WrongCell unless the database says that it is this cell's: rows of two cells must never meet in one."""
    async with session(pool) as conn:
        database_number = await own_number(conn)
    if database_number != number:
        raise WrongCell(f"the database is that of cell {database_number}, and this process serves cell {number} (CELL)")


def owner_of_number(control: int, blocks: Sequence[NumberBlock]) -> int:
    """The cell that handed out this control number of a boleto."""
    return next((block.number for block in blocks if block.first <= control <= block.last), HOME)


def settings_of(settings: Settings, cell: Cell, addresses: Addresses) -> Settings:
    """The settings of a process of the cell at these addresses: its database, its standby, its reports, its Redis."""
    return replace(
        settings,
        cell=cell.number,
        cell_name=cell.name,
        database_url=addresses.database_url,
        database_report_url=addresses.report_url,
        database_read_url=addresses.read_url,
        redis_url=redis_of(settings.redis_url, cell.number),
    )
