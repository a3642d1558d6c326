"""The account a report is asked of, named as people name it: by name, document, e-mail or account_id."""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from readmodels.dashboard.platform import FOUND_MAX, MerchantRow, merchants_like, names_of_merchants
from readmodels.filters import read_text
from runtime.postgres import session
from sql import Connection
from web.cells import CellPages
from web.painel.lists import ListQuery
from web.plataforma.cells.ask import ask_cells

FIELD: Final = "conta"
NAMES_MAX: Final = 200
"""Names that the field offers while it is typed in: of more merchants it offers none, and a name is searched for."""


class Picked(Struct, frozen=True):
    """The account, or those that may be meant: each is a link to choose it by. `more`: there are others still. `cells`
    has the cell of each, where several were asked."""

    account: MerchantRow | None = None
    meant: Sequence[MerchantRow] = ()
    more: bool = False
    cells: Mapping[UUID, CellPages] = {}

    @property
    def cell(self) -> CellPages | None:
        """The account's."""
        return None if self.account is None else self.cells.get(self.account.id)


async def pick(conn: Connection, asked: ListQuery) -> Picked:
    """What is said of a name that is of none, or of several, stands beside the field."""
    text = read_text(asked, FIELD)
    if text is None:
        return Picked()
    found = await merchants_like(conn, text)
    return _pick(asked, text, found, more=len(found) == FOUND_MAX)


async def pick_over(cells: Sequence[CellPages], asked: ListQuery, away: list[str]) -> Picked:
    """The same in all of these cells; `away` takes up the names of those that did not answer."""
    text = read_text(asked, FIELD)
    if text is None:
        return Picked()

    async def of_cell(cell: CellPages) -> Sequence[MerchantRow]:
        async with session(cell.state.report_pool) as conn:
            return await merchants_like(conn, text)

    answered = await ask_cells(cells, of_cell)
    away += answered.away
    found = [(each, cell) for cell, rows in answered.answers for each in rows]
    more = any(len(rows) == FOUND_MAX for _, rows in answered.answers)
    picked = _pick(asked, text, [each for each, _ in found], more=more)
    return replace(picked, cells={each.id: cell for each, cell in found})


def _pick(asked: ListQuery, text: str, found: Sequence[MerchantRow], *, more: bool) -> Picked:
    # The whole name of one may be how another's begins.
    exact = [each for each in found if each.name.casefold() == text.casefold()]
    if len(exact) == 1 or len(found) == 1:
        return Picked(account=(exact or found)[0])
    if not found:
        asked.faults[FIELD] = "Nenhuma loja com este nome, documento, e-mail ou ID da conta."
        return Picked()
    asked.faults[FIELD] = "Mais de uma loja: escolha abaixo."
    return Picked(meant=exact or found, more=more)


async def offered(conn: Connection) -> list[str]:
    """Names for the field's list."""
    names = await names_of_merchants(conn, limit=NAMES_MAX + 1)
    return list(dict.fromkeys(names)) if len(names) <= NAMES_MAX else []
