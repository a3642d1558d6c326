"""Search for a charge by a typed text: a reference, a number from a boleto, the id on a receipt, or a link. The text is
turned into the look-ups that may find the charge, each by one index.

The bank's id of a refund has no index, so the newest refunds are scanned. newest_search.py searches by amount and by
payers' names and e-mails.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final
from uuid import UUID

from msgspec import Struct

import sql
from banks.choice import typed_numbers
from domain.documents import well_formed, without_marks
from domain.identifiers import parse_id
from domain.mode import Owner
from readmodels.charges.charge_list import ChargeFilters, charge_page
from sql import Connection

_END_TO_END: Final = re.compile(r"[ED][0-9A-Za-z]{31}")
_TXID: Final = re.compile(r"[0-9a-f]{32}")
REFUNDS_LOOKED_MAX: Final = 2_000
_LINK: Final = re.compile(r"/pagar/([A-Za-z0-9_-]{1,64})")

_find_by_id = sql.maybe("found_charge.by_id", UUID)
_find_by_payment = sql.maybe("found_charge.by_payment", UUID)
_find_by_refund = sql.maybe("found_charge.by_refund", UUID)
_find_by_link = sql.maybe("found_charge.by_link", UUID)


class SearchText(Struct, frozen=True):
    """The readings of a text besides a reference. At most one of the first three is set: each names a single charge.
    `id_` is the id of the charge, or of one of its payments or refunds.

    `numbers`: possible nosso numeros, as the bank writes them; `document`: a CPF or CNPJ, judged by its shape.
    """

    id_: UUID | None = None
    end_to_end_id: str | None = None
    public_id: str | None = None
    numbers: tuple[str, ...] = ()
    document: str | None = None


def read_search_text(text: str) -> SearchText:
    """Read a typed text. A txid is read as the charge's id without its dashes. An endToEndId of hex
    digits only looks like one; no id of ours begins with E or D, because each begins with its time."""
    bare = without_marks(text).upper()
    numbers, document = tuple(typed_numbers(bare)), bare if well_formed(bare, letters=True) else None
    if _END_TO_END.fullmatch(text):
        return SearchText(end_to_end_id=text, numbers=numbers, document=document)
    lower = text.lower()
    if (id_ := parse_id(lower)) or (_TXID.fullmatch(lower) and (id_ := UUID(hex=lower))):
        return SearchText(id_, numbers=numbers, document=document)
    link = _LINK.search(text)
    return SearchText(public_id=link[1] if link else None, numbers=numbers, document=document)


class Found(Struct, frozen=True):
    """The result of a search: one charge, or a parameter of the list with a value that at least one charge has."""

    charge_id: UUID | None = None
    parameter: str = ""
    value: str = ""


async def search_charge(conn: Connection, owner: Owner, text: str, *, blind: Callable[[str], str]) -> Found | None:
    """The result of the first look-up that finds anything; look-ups of a single charge come before those of a list.
    `blind` makes the fingerprint by which a payer's document is found."""
    typed = read_search_text(text)
    if charge_id := await _find_single(conn, owner, typed):
        return Found(charge_id)
    for parameter, value, filters in _list_filters(text, typed, blind):
        charges, _ = await charge_page(conn, owner, filters, None, 1)
        if charges:
            return Found(None, parameter, value)
    return None


async def _find_single(conn: Connection, owner: Owner, typed: SearchText) -> UUID | None:
    owner_parameters = {"account_id": owner.account_id, "test": owner.test}
    if typed.id_:
        return await _find_by_id(conn, id=typed.id_, **owner_parameters)
    if typed.end_to_end_id:
        parameters = {"end_to_end_id": typed.end_to_end_id, **owner_parameters}
        return await _find_by_payment(conn, **parameters) or await _find_by_refund(
            conn, looked=REFUNDS_LOOKED_MAX, **parameters
        )
    if typed.public_id:
        return await _find_by_link(conn, public_id=typed.public_id, **owner_parameters)
    return None


def _list_filters(
    text: str, typed: SearchText, blind: Callable[[str], str]
) -> Iterator[tuple[str, str, ChargeFilters]]:
    yield "external_id", text, ChargeFilters(external_id=text)
    for number in typed.numbers:
        yield "nosso_numero", number, ChargeFilters(nosso_numero=number)
    if typed.document:
        yield "payer_document", typed.document, ChargeFilters(payer_document_hash=blind(typed.document))
    yield "txid", text, ChargeFilters(txid=text)
