"""What somebody has in hand of a charge - a reference, a number from a boleto, a receipt's id, a link - made into the
look-ups that may find it, each by one index.

A payer's name and e-mail are sealed, each with its own nonce: nothing can be searched for in them.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final
from uuid import UUID

from msgspec import Struct

import sql
from banks.choice import typed_numbers
from domain.documents import well_formed
from domain.identifiers import parse_id
from domain.mode import Owner
from readmodels.charges.charge_list import ChargeFilters, charge_page
from sql import Connection

END_TO_END: Final = re.compile(r"[ED][0-9A-Za-z]{31}")
TXID: Final = re.compile(r"[0-9a-f]{32}")
LINK: Final = re.compile(r"/pagar/([A-Za-z0-9_-]{1,64})")
MARKS: Final = re.compile(r"[.\-/ ]")

_by_id = sql.maybe("found_charge.by_id", UUID)
_by_payment = sql.maybe("found_charge.by_payment", UUID)
_by_link = sql.maybe("found_charge.by_link", UUID)


class Found(Struct, frozen=True):
    """One charge, or the parameter of the list (and its value) that at least one charge has."""

    charge_id: UUID | None = None
    parameter: str = ""
    value: str = ""


async def search_charge(conn: Connection, owner: Owner, text: str, *, blind: Callable[[str], str]) -> Found | None:
    """The first look-up that finds anything: a single charge before a list of them. `blind` makes the fingerprint by
    which a payer's document is stored."""
    if charge_id := await _one(conn, owner, text):
        return Found(charge_id)
    for parameter, value, filters in _filters(text, blind):
        charges, _ = await charge_page(conn, owner, filters, None, 1)
        if charges:
            return Found(None, parameter, value)
    return None


async def _one(conn: Connection, owner: Owner, text: str) -> UUID | None:
    whose = {"account_id": owner.account_id, "test": owner.test}
    if (charge_id := parse_id(text.lower())) or (TXID.fullmatch(text.lower()) and (charge_id := UUID(hex=text))):
        return await _by_id(conn, charge_id=charge_id, **whose)
    if END_TO_END.fullmatch(text):
        return await _by_payment(conn, end_to_end_id=text, **whose)
    if link := LINK.search(text):
        return await _by_link(conn, public_id=link[1], **whose)
    return None


def _filters(text: str, blind: Callable[[str], str]) -> Iterator[tuple[str, str, ChargeFilters]]:
    yield "external_id", text, ChargeFilters(external_id=text)
    bare = MARKS.sub("", text)
    for number in typed_numbers(bare):
        yield "nosso_numero", number, ChargeFilters(nosso_numero=number)
    if well_formed(bare.upper(), letters=True):
        yield "payer_document", bare.upper(), ChargeFilters(payer_document_hash=blind(bare.upper()))
    yield "txid", text, ChargeFilters(txid=text)
