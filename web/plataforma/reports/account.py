"""The account a report is asked of, named as people name it: by name, document, e-mail or account_id."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from readmodels.dashboard.platform import FOUND_MAX, MerchantRow, merchants_like, names_of_merchants
from readmodels.filters import read_text
from sql import Connection
from web.painel.lists import ListQuery

FIELD: Final = "conta"
NAMES_MAX: Final = 200
"""Names that the field offers while it is typed in: of more merchants it offers none, and a name is searched for."""


class Picked(Struct, frozen=True):
    """The account, or those that may be meant: each is a link to choose it by. `more`: there are others still."""

    account: MerchantRow | None = None
    meant: Sequence[MerchantRow] = ()
    more: bool = False


async def pick(conn: Connection, asked: ListQuery) -> Picked:
    """What is said of a name that is of none, or of several, stands beside the field."""
    text = read_text(asked, FIELD)
    if text is None:
        return Picked()
    found = await merchants_like(conn, text)
    # The whole name of one may be how another's begins.
    exact = [each for each in found if each.name.casefold() == text.casefold()]
    if len(exact) == 1 or len(found) == 1:
        return Picked(account=(exact or found)[0])
    if not found:
        asked.faults[FIELD] = "Nenhuma loja com este nome, documento, e-mail ou account_id."
        return Picked()
    asked.faults[FIELD] = "Mais de uma loja: escolha abaixo."
    return Picked(meant=exact or found, more=len(found) == FOUND_MAX)


async def offered(conn: Connection) -> list[str]:
    """Names for the field's list."""
    names = await names_of_merchants(conn, limit=NAMES_MAX + 1)
    return list(dict.fromkeys(each.name for each in names)) if len(names) <= NAMES_MAX else []
