"""What the staff ask of all cells at once: one that is away, or slow, is named, and the others answer."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

from msgspec import Struct

from readmodels.filters import read_choice
from runtime.cells.number import in_cell
from runtime.postgres import DB_UNAVAILABLE
from web.cells import CellPages
from web.painel.lists import ListQuery
from web.painel.page_request import PageRequest

T = TypeVar("T")
CELLS_FIELD: Final = "celulas"
"""The parameter by which a page is of all cells."""
ANSWER_S: Final = 4.0
"""A cell that takes longer counts as away: somebody waits for the page."""


def is_over_cells(request: PageRequest, asked: ListQuery) -> bool:
    """Whether the page is to be of all cells, where there are several."""
    return read_choice(asked, CELLS_FIELD, ["todas"] if request.cells else []) is not None


class AnswersOfCells(Struct, Generic[T], frozen=True):
    """`answers` by cell, home first; `away`: the names of those without one."""

    answers: Sequence[tuple[CellPages, T]]
    away: Sequence[str]


async def ask_cells(cells: Sequence[CellPages], ask: Callable[[CellPages], Awaitable[T]]) -> AnswersOfCells[T]:
    """What `ask` answers in each cell; it finds the pools of the cell in its `state`, and the number is entered. Raises
    what it raises other than for a database that is away."""

    async def one(cell: CellPages) -> T | BaseException:
        try:
            with in_cell(cell.number):
                async with asyncio.timeout(ANSWER_S):
                    return await ask(cell)
        except Exception as error:
            return error

    there = [each for each in cells if each.state is not None]
    answers: list[tuple[CellPages, T]] = []
    away = [each.name for each in cells if each.state is None]
    for cell, answer in zip(there, await asyncio.gather(*map(one, there)), strict=True):
        if isinstance(answer, DB_UNAVAILABLE):
            away.append(cell.name)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            answers.append((cell, answer))
    return AnswersOfCells(answers, away)
