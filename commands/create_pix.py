"""Accept PIX charges: decide, store, record. The bank hears of them right after, from workers.

Creations travel in batches: one statement writes everything and commits by itself. Every
identifier the bank will see is chosen before (the txid is the charge id in hex).
"""

from base64 import b64encode
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from readmodels.charge import ChargeDoc
from sql import Connection

MOST_CREATIONS = 100


class NewPix(Struct, frozen=True, gc=False, kw_only=True):
    """A creation ready to be written: validated, with its location and BR Code, all ids chosen."""

    account_id: UUID
    test: bool
    key: str
    fingerprint: bytes
    charge_id: UUID
    order_id: UUID
    created_at: datetime
    expires_at: datetime
    location: str
    payer_sealed: bytes | None
    actor: str
    request_id: str
    doc: ChargeDoc
    order: bytes
    """The request to the bank (JSON) as the worker will send it."""


class _Created(Struct, frozen=True, gc=False):
    charge_ids: list[UUID] | None
    projected: int | None


create = sql.one("charge.create_pix", _Created)
_encode = msgspec.json.Encoder().encode


async def create_pix(conn: Connection, items: Sequence[NewPix]) -> set[UUID]:
    """Write the charges whose key is new, in one statement; answers their ids.

    The others' keys belong to somebody already, or standalone PIX is suspended: the caller looks the keys up.
    """
    assert len(items) <= MOST_CREATIONS
    items = sorted(items, key=lambda item: (item.account_id, item.test, item.key))
    created = await create(conn, items=[_item(item) for item in items])
    charge_ids = set(created.charge_ids or ())
    assert len(charge_ids) == (created.projected or 0), "each charge has its read row"
    return charge_ids


class _Payload(Struct, frozen=True, gc=False):
    """What the journal keeps of a creation."""

    charge: ChargeDoc


class _Item(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A creation as the statement reads it."""

    key: str
    fingerprint: str
    location: str
    payer_sealed: str | None = None
    actor: str
    request_id: str
    order_id: UUID
    payload: _Payload
    order: msgspec.Raw


def _item(new: NewPix) -> bytes:
    return _encode(
        _Item(
            key=new.key,
            fingerprint=new.fingerprint.hex(),
            location=new.location,
            payer_sealed=None if new.payer_sealed is None else b64encode(new.payer_sealed).decode(),
            actor=new.actor,
            request_id=new.request_id,
            order_id=new.order_id,
            payload=_Payload(new.doc),
            order=msgspec.Raw(new.order),
        )
    )
