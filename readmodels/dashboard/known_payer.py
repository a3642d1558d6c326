"""A merchant's data about a payer from earlier charges, used to prefill the form of the next charge."""

import asyncio
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from domain.mode import Owner
from domain.payer import folded
from runtime.seal import CHARGE_PAYER, OPENED_AT_ONCE, Seal
from sql import Connection

CHARGES_MAX = 10
"""The newest charges of a payer that are searched for an address: a later charge by PIX alone may have none."""
LOOKED_MAX = 2_000
"""The newest charges whose payers are searched for a name: names are sealed, and each must be opened."""
CHOICES_MAX = 20


class KnownPayer(Struct, frozen=True, kw_only=True):
    """A payer as the merchant gave them with a charge; the document is unmasked. PIX charges have no address."""

    name: str | None = None
    document: str | None = None
    email: str | None = None
    phone: str | None = None
    zip_code: str | None = None
    street: str | None = None
    number: str | None = None
    city: str | None = None
    state: str | None = None


class PayerChoice(Struct, frozen=True, kw_only=True):
    """A payer to choose, as in their newest charge; the document is unmasked."""

    charge_id: UUID
    name: str
    document: str
    city: str = ""


class _ChargePayerRow(Struct, frozen=True):
    charge_id: UUID
    payer_sealed: bytes | None


_find_payer = sql.maybe("dashboard.payer", bytes)
_find_charges_of_payer = sql.many("dashboard.charges_of_payer", _ChargePayerRow)
_find_newest = sql.many("found_charge.newest_with_payer", _ChargePayerRow)
read_payer = msgspec.json.Decoder(KnownPayer).decode


async def payer_of_charge(conn: Connection, charge_id: UUID, owner: Owner, *, seal: Seal) -> KnownPayer | None:
    """The payer of a charge; None when this account and mode has no such charge, when the charge has no payer, and
    after the payer was erased."""
    payer_sealed = await _find_payer(conn, charge_id=charge_id, account_id=owner.account_id, test=owner.test)
    return _open_payer(payer_sealed, charge_id, seal)


async def payer_with_document(conn: Connection, document: str, owner: Owner, *, seal: Seal) -> KnownPayer | None:
    """The payer with this document, as in their newest charge of this account and mode, with the address of their
    newest charge that has one, among the last CHARGES_MAX."""
    rows = await _find_charges_of_payer(
        conn,
        account_id=owner.account_id,
        test=owner.test,
        document_hash=seal.blind(document),
        limit=CHARGES_MAX,
    )
    payers = [payer for row in rows if (payer := _open_payer(row.payer_sealed, row.charge_id, seal)) is not None]
    if not payers:
        return None
    with_address = next((each for each in payers if each.street), payers[0])
    return msgspec.structs.replace(
        payers[0],
        zip_code=with_address.zip_code,
        street=with_address.street,
        number=with_address.number,
        city=with_address.city,
        state=with_address.state,
    )


async def search_payers_by_name(conn: Connection, owner: Owner, text: str, *, seal: Seal) -> list[PayerChoice]:
    """The payers whose name in one of the newest LOOKED_MAX charges contains each word of `text`, whatever the accents,
    newest first; at most CHOICES_MAX. Without a word, every payer matches."""
    words = folded(text).split()
    rows = await _find_newest(conn, account_id=owner.account_id, test=owner.test, looked=LOOKED_MAX)
    newest: dict[str, PayerChoice] = {}  # by document
    found: dict[str, PayerChoice] = {}
    for start in range(0, len(rows), OPENED_AT_ONCE):
        for row in rows[start : start + OPENED_AT_ONCE]:
            if (payer := _payer_choice(row, seal)) is not None:
                choice = newest.setdefault(payer.document, payer)
                if all(word in folded(payer.name) for word in words):
                    found[payer.document] = choice
        if len(found) >= CHOICES_MAX:
            break
        await asyncio.sleep(0)
    return list(found.values())[:CHOICES_MAX]


async def search_payers_by_document(conn: Connection, owner: Owner, document: str, *, seal: Seal) -> list[PayerChoice]:
    """The payer with this document, as in the newest of their charges that names them; empty if there is none."""
    rows = await _find_charges_of_payer(
        conn, account_id=owner.account_id, test=owner.test, document_hash=seal.blind(document), limit=CHARGES_MAX
    )
    return [choice for row in rows if (choice := _payer_choice(row, seal)) is not None][:1]


def _open_payer(payer_sealed: bytes | None, charge_id: UUID, seal: Seal) -> KnownPayer | None:
    """None if the payer was erased, or if the sealing key was lost."""
    payer_json = None if payer_sealed is None else seal.opened(payer_sealed, CHARGE_PAYER, charge_id)
    return None if payer_json is None else read_payer(payer_json)


def _payer_choice(row: _ChargePayerRow, seal: Seal) -> PayerChoice | None:
    """None if the payer was erased, or if name or document is not known."""
    payer = _open_payer(row.payer_sealed, row.charge_id, seal)
    if payer is None or not payer.name or not payer.document:
        return None
    return PayerChoice(charge_id=row.charge_id, name=payer.name, document=payer.document, city=payer.city or "")
