"""Accept PIX charges: decide, store, record. The bank hears of them right after, from workers.

Creations travel in batches: one statement writes everything and commits by itself. Every
identifier the bank will see is chosen before (the txid is the charge id in hex).
"""

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
    created = await create(
        conn,
        account_ids=[item.account_id for item in items],
        tests=[item.test for item in items],
        keys=[item.key for item in items],
        fingerprints=[item.fingerprint for item in items],
        charge_ids=[item.charge_id for item in items],
        amounts=[item.doc.amount_cents for item in items],
        external_ids=[item.doc.external_id for item in items],
        created_ats=[item.created_at for item in items],
        expires_ats=[item.expires_at for item in items],
        locations=[item.location for item in items],
        payers=[item.payer_sealed for item in items],
        actors=[item.actor for item in items],
        request_ids=[item.request_id for item in items],
        payloads=[b'{"charge":%b}' % _encode(item.doc) for item in items],
        order_ids=[item.order_id for item in items],
        orders=[item.order for item in items],
    )
    charge_ids = set(created.charge_ids or ())
    assert len(charge_ids) == (created.projected or 0), "each charge has its read row"
    return charge_ids
