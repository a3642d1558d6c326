"""Search for charges by amount, or by words of the payer's name or e-mail. No index serves either, so the newest
charges are scanned.

Each payer's name and e-mail are sealed with a nonce of their own and must be opened one by one: hence a bound.
"""

import asyncio
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from domain.brazilian import parse_brl
from domain.mode import Owner
from domain.money import PIX_CENTS_MAX
from domain.payer import folded
from readmodels.charges.charge import ChargeDoc, charges_by_id
from runtime.seal import CHARGE_PAYER, OPENED_AT_ONCE, Seal
from sql import Connection

LOOKED_MAX: Final = 2_000
FOUND_MAX: Final = 25


class _SealedPayer(Struct, frozen=True):
    charge_id: UUID
    payer_sealed: bytes


class _PayerContact(Struct, frozen=True):
    name: str | None = None
    email: str | None = None


_find_of_amount = sql.many("found_charge.newest_of_amount", UUID)
_find_with_payer = sql.many("found_charge.newest_with_payer", _SealedPayer)
_read_contact = msgspec.json.Decoder(_PayerContact).decode


def typed_amount(text: str) -> int | None:
    """The cents of an amount in reais as people type it; None for any other text."""
    try:
        return parse_brl(text.upper(), cents_max=PIX_CENTS_MAX)
    except ValueError:
        return None


async def newest_of_amount(conn: Connection, owner: Owner, amount_cents: int) -> list[ChargeDoc]:
    """Charges of this amount, or with a payment of this amount, the newest first; at most FOUND_MAX."""
    owner_parameters = {"account_id": owner.account_id, "test": owner.test}
    charge_ids = await _find_of_amount(
        conn, **owner_parameters, amount_cents=amount_cents, looked=LOOKED_MAX, limit=FOUND_MAX
    )
    return await _read_charges(conn, owner, charge_ids)


async def newest_of_payer(conn: Connection, owner: Owner, text: str, *, seal: Seal) -> list[ChargeDoc]:
    """Charges whose payer's name or e-mail contains each word of `text`, whatever the accents, the newest first; at
    most FOUND_MAX."""
    words = folded(text).split()
    rows = await _find_with_payer(conn, account_id=owner.account_id, test=owner.test, looked=LOOKED_MAX)
    charge_ids: list[UUID] = []
    for start in range(0, len(rows), OPENED_AT_ONCE):
        charge_ids += [
            row.charge_id
            for row in rows[start : start + OPENED_AT_ONCE]
            if _has_words(_searchable_text(row, seal), words)
        ]
        if len(charge_ids) >= FOUND_MAX:
            break
        await asyncio.sleep(0)
    return await _read_charges(conn, owner, charge_ids[:FOUND_MAX])


def _searchable_text(row: _SealedPayer, seal: Seal) -> str:
    payer_json = seal.opened(row.payer_sealed, CHARGE_PAYER, row.charge_id)
    if payer_json is None:
        return ""
    payer = _read_contact(payer_json)
    return folded(f"{payer.name or ''} {payer.email or ''}")


def _has_words(text: str, words: Sequence[str]) -> bool:
    return all(word in text for word in words)


async def _read_charges(conn: Connection, owner: Owner, charge_ids: Sequence[UUID]) -> list[ChargeDoc]:
    docs = await charges_by_id(conn, [(charge_id, owner) for charge_id in charge_ids])
    return [doc for doc in docs if doc is not None]
