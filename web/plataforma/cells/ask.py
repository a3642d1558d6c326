"""Asks all cells concurrently for a page of the staff: cells that are away or slow are named, and the others answer."""

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
"""The parameter that makes a page cover all cells."""
ANSWER_S: Final = 4.0
"""A cell that takes longer counts as away, because a person waits for the page."""


def is_over_cells(request: PageRequest, query: ListQuery) -> bool:
    """Whether the page is asked to cover all cells; never with one cell only."""
    return read_choice(query, CELLS_FIELD, ["todas"] if request.cells else []) is not None


class AnswersOfCells(Struct, Generic[T], frozen=True):
    """The answers of cells: `answers` with their cells, home first; `away` has the names of cells without an answer."""

    answers: Sequence[tuple[CellPages, T]]
    away: Sequence[str]


async def ask_cells(cells: Sequence[CellPages], ask: Callable[[CellPages], Awaitable[T]]) -> AnswersOfCells[T]:
    """Returns the answers of `ask` in each cell. `ask` finds the cell's pools in its `state` and runs with the cell's
    number as current. Raises what `ask` raises, except for a database that is away."""

    async def ask_one(cell: CellPages) -> T | BaseException:
        try:
            with in_cell(cell.number):
                async with asyncio.timeout(ANSWER_S):
                    return await ask(cell)
        except Exception as error:
            return error

    reachable = [each for each in cells if each.state is not None]
    answers: list[tuple[CellPages, T]] = []
    away = [each.name for each in cells if each.state is None]
    for cell, answer in zip(reachable, await asyncio.gather(*map(ask_one, reachable)), strict=True):
        if isinstance(answer, DB_UNAVAILABLE):
            away.append(cell.name)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            answers.append((cell, answer))
    return AnswersOfCells(answers, away)
