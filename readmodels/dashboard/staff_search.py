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
from readmodels.charges.search import read_search_text
from readmodels.dashboard.charge import PAYMENTS_MAX, read_payment_doc
from readmodels.dashboard.platform import MerchantRow, search_merchants
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


class _ChargeHit(Struct, frozen=True):
    charge_id: UUID
    account_id: UUID
    test: bool
    merchant: str


class _PaymentRow(Struct, frozen=True):
    charge_id: UUID
    doc: bytes


_find_by_id = sql.many("staff_search.by_id", _ChargeHit)
_find_by_number = sql.many("staff_search.by_number", _ChargeHit)
_find_by_link = sql.many("staff_search.by_link", _ChargeHit)
_find_by_payment = sql.many("staff_search.by_payment", _ChargeHit)
_find_by_reference = sql.many("staff_search.by_reference", _ChargeHit)
_find_by_payer = sql.many("staff_search.by_payer", _ChargeHit)
_find_request = sql.maybe("staff_search.request", FoundRequest)
_find_payments = sql.many("staff_search.payments", _PaymentRow)


async def search_everywhere(conn: Connection, text: str, *, blind: Callable[[str], str]) -> Results:
    """The results of the first look-up that finds anything, of those that suit the text; at most FOUND_MAX charges,
    newest first. `blind` makes the fingerprint by which payers' documents are found."""
    by, hits = await _find_hits(conn, text, blind)
    merchants = tuple(await search_merchants(conn, text))[:FOUND_MAX]
    if hits:
        return Results(by, await _found_charges(conn, hits[:FOUND_MAX]), None, merchants)
    if _REQUEST.fullmatch(text) and (request := await _find_request(conn, request_id=text)):
        return Results("request", (), request, merchants)
    return Results("merchant" if merchants else "", merchants=merchants)


async def _find_hits(conn: Connection, text: str, blind: Callable[[str], str]) -> tuple[str, list[_ChargeHit]]:
    typed = read_search_text(text)
    if typed.id_:
        if hits := await _find_by_id(conn, id=typed.id_):
            return "charge", hits
    elif typed.end_to_end_id:
        if hits := await _find_by_payment(conn, end_to_end_id=typed.end_to_end_id, limit=FOUND_MAX):
            return "payment", hits
    elif typed.public_id:
        return "link", await _find_by_link(conn, public_id=typed.public_id)
    for number in typed.numbers:
        if hits := await _find_by_number(conn, number=number):
            return "number", hits
    if typed.document and (hits := await _find_by_payer(conn, document_hash=blind(typed.document), limit=FOUND_MAX)):
        return "payer", hits
    return "reference", await _find_by_reference(conn, reference=text, limit=FOUND_MAX)


async def _found_charges(conn: Connection, hits: list[_ChargeHit]) -> tuple[FoundCharge, ...]:
    ids_and_owners = [(hit.charge_id, Owner.of(hit.account_id, hit.test)) for hit in hits]
    docs = await charges_by_id(conn, ids_and_owners)
    payments: dict[UUID, list[PaymentDoc]] = {hit.charge_id: [] for hit in hits}
    for row in await _find_payments(conn, charge_ids=list(payments), limit=PAYMENTS_MAX):
        payments[row.charge_id].append(read_payment_doc(row.doc))
    return tuple(
        FoundCharge(hit.merchant, doc, payments[hit.charge_id])
        for hit, doc in zip(hits, docs, strict=True)
        if doc is not None
    )
