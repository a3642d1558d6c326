"""The account that a report is about, which people name by its name, document, e-mail or account_id."""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from readmodels.dashboard.platform import FOUND_MAX, MerchantRow, names_of_merchants, search_merchants
from readmodels.filters import read_text
from runtime.postgres import session
from sql import Connection
from web.cells import CellPages
from web.painel.lists import ListQuery
from web.plataforma.cells.ask import ask_cells

FIELD: Final = "conta"
NAMES_MAX: Final = 200
"""The most names that the field suggests. With more merchants it suggests none, and a typed name is searched for."""


class PickedAccount(Struct, frozen=True):
    """The account, or the accounts that may be meant, each with a link to choose it. `more`: there are further ones.
    `cells` has the cell of each account when several cells were asked."""

    account: MerchantRow | None = None
    meant: Sequence[MerchantRow] = ()
    more: bool = False
    cells: Mapping[UUID, CellPages] = {}

    @property
    def cell(self) -> CellPages | None:
        """The account's cell; None without an account, or when one cell was asked."""
        return None if self.account is None else self.cells.get(self.account.id)


async def pick(conn: Connection, query: ListQuery) -> PickedAccount:
    """Finds the account that the field names; no account, or several, is a fault beside the field."""
    text = read_text(query, FIELD)
    if text is None:
        return PickedAccount()
    merchants = await search_merchants(conn, text)
    return _match_account(query, text, merchants, more=len(merchants) == FOUND_MAX)


async def find_account_in_cells(cells: Sequence[CellPages], query: ListQuery, away: list[str]) -> PickedAccount:
    """Does what `pick` does, in all of these cells; adds the names of cells that did not answer to `away`."""
    text = read_text(query, FIELD)
    if text is None:
        return PickedAccount()

    async def search_cell(cell: CellPages) -> Sequence[MerchantRow]:
        async with session(cell.state.report_pool) as conn:
            return await search_merchants(conn, text)

    outcome = await ask_cells(cells, search_cell)
    away += outcome.away
    merchants = [(each, cell) for cell, rows in outcome.answers for each in rows]
    more = any(len(rows) == FOUND_MAX for _, rows in outcome.answers)
    picked = _match_account(query, text, [each for each, _ in merchants], more=more)
    return replace(picked, cells={each.id: cell for each, cell in merchants})


def _match_account(query: ListQuery, text: str, merchants: Sequence[MerchantRow], *, more: bool) -> PickedAccount:
    # An exact name wins, because another account's name may begin with it.
    exact = [each for each in merchants if each.name.casefold() == text.casefold()]
    if len(exact) == 1 or len(merchants) == 1:
        return PickedAccount(account=(exact or merchants)[0])
    if not merchants:
        query.faults[FIELD] = "Nenhuma loja com este nome, documento, e-mail ou ID da conta."
        return PickedAccount()
    query.faults[FIELD] = "Mais de uma loja: escolha abaixo."
    return PickedAccount(meant=exact or merchants, more=more)


async def offered(conn: Connection) -> list[str]:
    """Returns the names that the field suggests."""
    names = await names_of_merchants(conn, limit=NAMES_MAX + 1)
    return list(dict.fromkeys(names)) if len(names) <= NAMES_MAX else []
