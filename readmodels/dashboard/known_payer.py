"""What a merchant knows of a payer from the charges made to that payer before: it fills the form of the next one."""

from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from domain.mode import Owner
from runtime.seal import CHARGE_PAYER, Seal
from sql import Connection

CHARGES_MAX = 10
"""Of a payer's charges are looked at for an address: one that was asked by PIX alone since may have none."""


class KnownPayer(Struct, frozen=True, kw_only=True):
    """As the merchant told us with a charge; the document is unmasked. PIX charges have no address."""

    name: str | None = None
    document: str | None = None
    email: str | None = None
    phone: str | None = None
    zip_code: str | None = None
    street: str | None = None
    number: str | None = None
    city: str | None = None
    state: str | None = None


class _Sealed(Struct, frozen=True):
    payer_sealed: bytes | None


class _SealedOf(Struct, frozen=True):
    charge_id: UUID
    payer_sealed: bytes | None


_payer = sql.maybe("dashboard.payer", _Sealed)
_charges_of_payer = sql.many("dashboard.charges_of_payer", _SealedOf)
_read = msgspec.json.Decoder(KnownPayer).decode


async def payer_of_charge(conn: Connection, charge_id: UUID, owner: Owner, *, seal: Seal) -> KnownPayer | None:
    """None for no charge of this account and mode, one without a payer, and one whose payer was erased."""
    row = await _payer(conn, charge_id=charge_id, account_id=owner.account_id, test=owner.test)
    if row is None or row.payer_sealed is None:
        return None
    return _read(seal.open(row.payer_sealed, CHARGE_PAYER, charge_id))


async def payer_with_document(conn: Connection, document: str, owner: Owner, *, seal: Seal) -> KnownPayer | None:
    """As the newest charge of this account and mode has the payer with this document; with the address of the newest
    that has one, among the last CHARGES_MAX."""
    rows = await _charges_of_payer(
        conn,
        account_id=owner.account_id,
        test=owner.test,
        document_hash=seal.blind(document),
        limit=CHARGES_MAX,
    )
    found = [
        _read(seal.open(row.payer_sealed, CHARGE_PAYER, row.charge_id)) for row in rows if row.payer_sealed is not None
    ]
    if not found:
        return None
    placed = next((each for each in found if each.street), found[0])
    return msgspec.structs.replace(
        found[0],
        zip_code=placed.zip_code,
        street=placed.street,
        number=placed.number,
        city=placed.city,
        state=placed.state,
    )
