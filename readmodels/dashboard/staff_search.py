"""The staff's search over all accounts: for charges and requests by an id or number a caller has, and for merchants."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

import sql
from domain.mode import Owner
from readmodels.charges.charge import ChargeDoc, PaymentDoc, charges_by_id
from readmodels.charges.search import read_typed
from readmodels.dashboard.charge import PAYMENTS_MAX, read_payment_doc
from readmodels.dashboard.platform import MerchantRow, merchants_like
from sql import Connection

FOUND_MAX: Final = 20
_REQUEST: Final = re.compile(r"[A-Za-z0-9_-]{12,64}")


class FoundCharge(Struct, frozen=True):
    """A charge with its payments, newest first, and its merchant's name."""

    merchant: str
    doc: ChargeDoc
    payments: list[PaymentDoc]


class FoundRequest(Struct, frozen=True):
    """A line of an account's request log."""

    account_id: UUID
    merchant: str
    test: bool
    at: datetime
    request_id: str
    method: str
    path: str
    status: int
    code: str | None
    duration_us: int


class Results(Struct, frozen=True):
    """The result of a search. `by` says how the text was read: charge, payment, link, number, payer, reference, request
    or merchant; "" when nothing was found. `merchants` are the merchants that the text names, whatever else it matches;
    when there are FOUND_MAX, more may exist."""

    by: str = ""
    charges: tuple[FoundCharge, ...] = ()
    request: FoundRequest | None = None
    merchants: tuple[MerchantRow, ...] = ()


class _Place(Struct, frozen=True):
    charge_id: UUID
    account_id: UUID
    test: bool
    merchant: str


class _Paid(Struct, frozen=True):
    charge_id: UUID
    doc: bytes


_by_id = sql.many("staff_search.by_id", _Place)
_by_number = sql.many("staff_search.by_number", _Place)
_by_link = sql.many("staff_search.by_link", _Place)
_by_payment = sql.many("staff_search.by_payment", _Place)
_by_reference = sql.many("staff_search.by_reference", _Place)
_by_payer = sql.many("staff_search.by_payer", _Place)
_request = sql.maybe("staff_search.request", FoundRequest)
_payments = sql.many("staff_search.payments", _Paid)


async def search_everywhere(conn: Connection, text: str, *, blind: Callable[[str], str]) -> Results:
    """The results of the first look-up that finds anything, of those that suit the text; at most FOUND_MAX charges,
    newest first. `blind` makes the fingerprint by which payers' documents are found."""
    by, places = await _places(conn, text, blind)
    merchants = tuple(await merchants_like(conn, text))[:FOUND_MAX]
    if places:
        return Results(by, await _charges(conn, places[:FOUND_MAX]), None, merchants)
    if _REQUEST.fullmatch(text) and (request := await _request(conn, request_id=text)):
        return Results("request", (), request, merchants)
    return Results("merchant" if merchants else "", merchants=merchants)


async def _places(conn: Connection, text: str, blind: Callable[[str], str]) -> tuple[str, list[_Place]]:
    typed = read_typed(text)
    if typed.id_:
        if found := await _by_id(conn, id=typed.id_):
            return "charge", found
    elif typed.end_to_end_id:
        if found := await _by_payment(conn, end_to_end_id=typed.end_to_end_id, limit=FOUND_MAX):
            return "payment", found
    elif typed.public_id:
        return "link", await _by_link(conn, public_id=typed.public_id)
    for number in typed.numbers:
        if found := await _by_number(conn, number=number):
            return "number", found
    if typed.document and (found := await _by_payer(conn, document_hash=blind(typed.document), limit=FOUND_MAX)):
        return "payer", found
    return "reference", await _by_reference(conn, reference=text, limit=FOUND_MAX)


async def _charges(conn: Connection, places: list[_Place]) -> tuple[FoundCharge, ...]:
    asked = [(place.charge_id, Owner.of(place.account_id, place.test)) for place in places]
    docs = await charges_by_id(conn, asked)
    payments: dict[UUID, list[PaymentDoc]] = {place.charge_id: [] for place in places}
    for paid in await _payments(conn, charge_ids=list(payments), limit=PAYMENTS_MAX):
        payments[paid.charge_id].append(read_payment_doc(paid.doc))
    return tuple(
        FoundCharge(place.merchant, doc, payments[place.charge_id])
        for place, doc in zip(places, docs, strict=True)
        if doc is not None
    )
