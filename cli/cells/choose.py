"""Chooses the cell of a command: the one that --cell names, or the one in which an id among its arguments was made."""

import argparse
import asyncio
import os
from typing import Any
from uuid import UUID

from cli import running
from cli.answer import checked_seal, connected
from cli.cells.ask import ALL
from cli.run.child import CannotRun
from runtime.cells.addresses import as_role_of
from runtime.cells.number import HOME, cell_of, enter_cell


def enter(args: argparse.Namespace) -> None:
    """Makes the rest of this process work in the chosen cell. CannotRun when the directory does not have it."""
    name, number = args.cell, _cell_of_arguments(args)
    if name not in (None, "home") and getattr(args, "at_home", False):
        raise CannotRun("this is done at home, for all cells: leave --cell out")
    if name == ALL:
        if "each_cell" not in args:
            raise CannotRun("this command is of one cell: --cell NAME")
        return
    if name == "home" or (name is None and number == HOME):
        return
    cell = asyncio.run(_find_cell(name, number))
    # Home's owner owns the tables of every cell: without this, the owner's commands would connect as the application.
    os.environ["DATABASE_OWNER_URL"] = as_role_of(cell.addresses.database_url, running.find().database_owner_url)
    os.environ["DATABASE_URL"] = cell.addresses.database_url
    os.environ["DATABASE_REPORT_URL"] = cell.addresses.report_url
    os.environ["REDIS_URL"] = _redis_url(cell.number)
    enter_cell(cell.number)


async def _find_cell(name: str | None, number: int) -> Any:
    from runtime.cells.directory import read_cells

    async with connected() as conn:
        cells = await read_cells(conn, await checked_seal(conn))
    for cell in cells:
        if cell.name == name or (name is None and cell.number == number):
            return cell
    if name is None:
        raise CannotRun("the id is of no cell of this installation")
    raise CannotRun(f"there is no cell {name}; see `quita cell list`")


def _cell_of_arguments(args: argparse.Namespace) -> int:
    """The cell number of the first id among the arguments; home when there is none, and for commands (`at_home`) whose
    ids may be of any cell."""
    if "at_home" in args:
        return HOME
    ids = (each for each in vars(args).values() if isinstance(each, UUID) and each.version == 7)
    return next(map(cell_of, ids), HOME)


def _redis_url(number: int) -> str:
    from runtime.cells.addresses import redis_of

    return redis_of(running.find().need("redis_url"), number)
