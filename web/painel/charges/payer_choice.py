"""Choosing the payer from those charged before, by name or by document, inside the form of a charge: what was typed
stays, and no script is needed.

People who see payers masked get no list to choose from: a masked name cannot go into a charge.
"""

from functools import partial
from typing import Final
from uuid import UUID

from msgspec import Struct

from domain.brazilian import thousands
from domain.documents import masked, well_formed, without_marks
from domain.identifiers import parse_id
from domain.payer import NAME_MAX
from readmodels.dashboard.known_payer import (
    LOOKED_MAX,
    KnownPayer,
    PayerChoice,
    payer_of_charge,
    payer_with_document,
    search_payers_by_document,
    search_payers_by_name,
)
from sql import Connection
from web.painel.charges.prefill import DOCUMENT, PAYER_FROM, payer_fields
from web.painel.fields import Filled
from web.painel.page_request import PageRequest

SEARCH: Final = "buscar"
"""The button that looks for payers."""
QUERY: Final = "payer_query"
_SEARCHED: Final = "payer_searched"
"""The text searched for when the page was made. If another text is sent, the form is a search, whichever button the
Enter key pressed."""
_CHOICE: Final = "pagador"
"""The button of a payer that was found; its value is the id of a charge to that payer."""
_FOUND_BY_DOCUMENT: Final = "Dados da cobrança mais recente deste pagador. Confira antes de criar."
_NO_SUCH_DOCUMENT: Final = "Nenhuma cobrança com este CPF ou CNPJ ainda: preencha os dados."
_NO_SUCH_NAME: Final = (
    f"Nenhum pagador com este nome nas {thousands(LOOKED_MAX)} cobranças mais recentes. Pelo CPF ou CNPJ a busca é em "
    "todas."
)


class PayerSearch(Struct, frozen=True):
    """The form after a search: the payers to choose from, and the sentence about the result."""

    filled: Filled
    said: str = ""
    found: tuple[PayerChoice, ...] = ()

    @property
    def masks(self) -> dict[UUID, str]:
        """The masked documents of the payers, by charge."""
        return {each.charge_id: masked(each.document) for each in self.found}


async def read_payer_search(request: PageRequest, filled: Filled) -> PayerSearch | None:
    """Returns the result of the search or choice that was sent; None when the form was sent to create a charge."""
    chosen, query = request.field(_CHOICE), request.field(QUERY).strip()[:NAME_MAX]
    if not (chosen or request.field(SEARCH) or query != request.field(_SEARCHED)):
        return None
    if not request.payers.whole:
        return PayerSearch(filled, _NO_SUCH_DOCUMENT)
    if chosen:
        return await _fill_chosen_payer(request, filled, parse_id(chosen))
    if not query and filled.value(DOCUMENT):
        return await _fill_by_document(request, filled)
    return await _find_payers(request, query)


async def _find_payers(request: PageRequest, query: str) -> PayerSearch:
    document = without_marks(query).upper()
    by_document = well_formed(document, letters=True)
    if by_document:
        find = partial(search_payers_by_document, owner=request.owner, document=document, seal=request.seal)
    else:
        find = partial(search_payers_by_name, owner=request.owner, text=query, seal=request.seal)
    payers = await request.reads.ask(find)
    if not payers:
        message = _NO_SUCH_DOCUMENT if by_document else _NO_SUCH_NAME
    else:
        message = "Um pagador encontrado." if len(payers) == 1 else f"{len(payers)} pagadores encontrados: escolha um."
    return PayerSearch(_refilled(request, {QUERY: query, _SEARCHED: query}), message, tuple(payers))


async def _fill_chosen_payer(request: PageRequest, filled: Filled, charge_id: UUID | None) -> PayerSearch:
    """Fills in the chosen payer: the data of their newest charge, and the address of the newest that has one."""

    async def find_payer(conn: Connection) -> KnownPayer | None:
        if charge_id is None:
            return None
        payer = await payer_of_charge(conn, charge_id, request.owner, seal=request.seal)
        if payer is None or not payer.document:
            return payer
        return await payer_with_document(conn, payer.document, request.owner, seal=request.seal)

    fields = payer_fields(await request.reads.ask(find_payer), request.payers)
    if not fields:
        return PayerSearch(filled, "Este pagador não está mais na lista: preencha os dados.")
    fields |= {PAYER_FROM: str(charge_id), QUERY: "", _SEARCHED: ""}
    return PayerSearch(_refilled(request, fields), "Dados preenchidos. Confira antes de criar.")


async def _fill_by_document(request: PageRequest, filled: Filled) -> PayerSearch:
    """Fills in what is known of the payer with the typed document; the rest of the form stays as it was sent."""
    document = filled.document(
        DOCUMENT, letters=request.settings.cnpj_with_letters, production=not request.test, required=True
    )
    if filled.faults or document is None:
        return PayerSearch(filled)
    find = partial(payer_with_document, document=document, owner=request.owner, seal=request.seal)
    fields = payer_fields(await request.reads.ask(find), request.payers, request.field(DOCUMENT))
    return PayerSearch(_refilled(request, fields), _FOUND_BY_DOCUMENT if fields else _NO_SUCH_DOCUMENT)


def _refilled(request: PageRequest, fields: dict[str, str]) -> Filled:
    """Returns the form as it was sent, except for the values in `fields`."""
    return Filled(shown=dict(request.given(but=("csrf", "once", SEARCH, _CHOICE))) | fields)
