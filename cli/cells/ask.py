"""`--cell all`: asks every cell at once, for commands that only read. A cell that is unavailable blocks no other."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from msgspec import Struct

from cli import running
from cli.answer import connected, other_cells
from cli.run.child import CannotRun
from runtime.cells.number import HOME, cell_of, in_cell

T = TypeVar("T")
ALL: Final = "all"
_CONNECT_S: Final = 5.0
ANSWER_S: Final = 120.0


class CellAddress(Struct, frozen=True):
    number: int
    name: str
    database_url: str
    report_url: str


class CellAnswer(Struct, Generic[T], frozen=True):
    cell: str
    answer: T


class Answers(Struct, Generic[T], frozen=True):
    """The answers, home first, then by cell number. `away`: the cells that did not answer, and why."""

    answers: Sequence[CellAnswer[T]]
    away: Mapping[str, str]

    @property
    def code(self) -> int:
        """The exit code of the command."""
        return 1 if self.away else 0

    def tell(self) -> None:
        for cell, reason in self.away.items():
            print(f"quita: cell {cell} is away ({reason}); what is shown is without it", file=sys.stderr)


def takes_all(args: argparse.Namespace) -> bool:
    return bool(args.cell == ALL)


async def cells_of(account_id: UUID | None = None) -> list[CellAddress]:
    """Every cell, home first; with `account_id` the account's cell alone. Home holds the directory: CannotRun while it
    is unavailable."""
    from runtime.cells.directory import HOME_NAME

    system = running.find()
    async with connected() as conn:
        others = await other_cells(conn)
    cells = [CellAddress(HOME, HOME_NAME, system.need("database_url"), system.need("database_report_url"))]
    cells += [
        CellAddress(each.number, each.name, each.addresses.database_url, each.addresses.report_url) for each in others
    ]
    if account_id is not None:
        number = cell_of(account_id) if account_id.version == 7 else HOME
        cells = [each for each in cells if each.number == number]
        if not cells:
            raise CannotRun("the id is of no cell of this installation")
    return cells


async def ask_each(
    cells: Sequence[CellAddress],
    read: Callable[[CellAddress, Any], Awaitable[T]],
    *,
    reports: bool = False,
    answer_s: float | None = ANSWER_S,
) -> Answers[T]:
    """Runs `read` on a connection to each cell, within `answer_s`; as the reports' role with `reports`, else as the
    application. CannotRun when no cell answers, and when a cell refuses the query."""
    import asyncpg

    from runtime.postgres import DB_UNAVAILABLE, connect

    unavailable_errors = (*DB_UNAVAILABLE, asyncpg.InvalidAuthorizationSpecificationError)

    async def ask_cell(cell: CellAddress) -> T | Exception:
        with in_cell(cell.number):
            try:
                async with asyncio.timeout(answer_s):
                    async with asyncio.timeout(_CONNECT_S):
                        conn = await connect(
                            cell.report_url if reports else cell.database_url, target="any" if reports else "primary"
                        )
                    try:
                        return await read(cell, conn)
                    finally:
                        await conn.close()
            except Exception as error:
                return error

    answers: list[CellAnswer[T]] = []
    away: dict[str, str] = {}
    for cell, answer in zip(cells, await asyncio.gather(*map(ask_cell, cells)), strict=True):
        if isinstance(answer, unavailable_errors):
            away[cell.name] = type(answer).__name__
        elif isinstance(answer, asyncpg.PostgresError):
            raise CannotRun(f"cell {cell.name}: {' '.join(str(answer).split())}")
        elif isinstance(answer, Exception):
            raise answer
        else:
            answers.append(CellAnswer(cell.name, answer))
    if not answers:
        raise CannotRun(f"no cell answers: {', '.join(f'{cell} ({why})' for cell, why in away.items())}")
    return Answers(answers, away)
