"""The share of unknown money that is this cell's, where several cells ask one bank.

Each cell's reconcilers read the bank's whole lists and book the money they know. Money that a cell does not know may be
another cell's: a txid names its cell, and a boleto's number lies in a block of its cell. Money of no other cell is
home's, so that each amount goes into suspense once.
"""

from uuid import UUID

from msgspec import Struct

from banks.choice import control_of
from runtime.cells.directory import NumberBlock, find_blocks, find_numbers, owner_of_number
from runtime.cells.number import HOME, cell_of, current_cell
from sql import Connection


class OwnShare(Struct, frozen=True):
    """The money that `cell` looks after. `others`: the numbers of the other cells, which only home knows."""

    cell: int
    others: frozenset[int]
    blocks: tuple[NumberBlock, ...]

    def has_charge(self, charge_id: UUID | None) -> bool:
        """Whether money for this charge is looked after here; None stands for a txid that is not ours, or no txid."""
        charge_cell = HOME if charge_id is None else cell_of(charge_id)
        return charge_cell not in self.others if self.cell == HOME else charge_cell == self.cell

    def has_boleto(self, bank: str, number: str) -> bool:
        control = control_of(bank, number)
        return (HOME if control is None else owner_of_number(control, self.blocks)) == self.cell


async def read_share(conn: Connection) -> OwnShare:
    """The share as the directory has it now: a cell may have been added since the last time."""
    others = frozenset(await find_numbers(conn))
    return OwnShare(current_cell(), others, tuple(await find_blocks(conn)))
