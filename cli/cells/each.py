"""Runs a command in every cell: for settings that hold for all accounts of the platform, and for the keys."""

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from cli.answer import connected, other_cells, reaching_postgres
from cli.run.child import CannotRun


def in_each_cell(args: argparse.Namespace, command: Callable[[Any], Awaitable[object]]) -> None:
    """Runs the command in a transaction of each cell's database. It must be repeatable: an unavailable cell ends the
    run after earlier cells have committed."""

    async def run(conn: Any) -> None:
        async with conn.transaction():
            await command(conn)

    on_each_cell(args, run)


def on_each_cell(args: argparse.Namespace, command: Callable[[Any], Awaitable[object]]) -> None:
    """Runs the command on a connection to each cell, home first; with --cell in that cell alone. It must be repeatable,
    as above."""
    from runtime.cells.number import current_cell, in_cell
    from runtime.postgres import connect

    async def run() -> None:
        async with connected() as conn:
            await command(conn)
            if args.cell is not None or current_cell():
                return
            others = await other_cells(conn)
        for cell in others:
            try:
                with in_cell(cell.number), reaching_postgres():
                    cell_conn = await connect(cell.addresses.database_url)
                    try:
                        await command(cell_conn)
                    finally:
                        await cell_conn.close()
            except CannotRun as error:
                raise CannotRun(f"cell {cell.name}: {error}; run this again") from None

    asyncio.run(run())
