"""Create PIX charges. Workers register them at the bank right after. The sandbox's simulated bank keeps its books in
the same database, so the statement that creates a test charge also registers it there.

Creations are batched: one statement writes everything and commits by itself. Every identifier that the bank will see is
chosen beforehand (the txid is the charge id in hex).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from banks.protocol import DESCRIPTION_CHARACTERS_MAX
from commands.bank_orders.kinds import CobRequest, Payload
from commands.bank_orders.pix_locations import PixLocation
from commands.charges.issuer import Issuer, br_code_at
from domain.instants import iso, to_millisecond
from domain.mode import Owner
from readmodels.charges.charge import ChargeDoc
from runtime.coordination.due_times import DueTimes, LateDueTimes
from runtime.ids import new_id, page_token
from sql import Connection

CREATIONS_MAX = 100


class Creation(Struct, frozen=True, gc=False, kw_only=True):
    """A valid request to create a PIX charge. `charge_id` is chosen before the write, so that a repeated write is
    recognised."""

    issuer: Issuer
    key: str
    fingerprint: bytes
    charge_id: UUID
    request_id: str
    now: datetime
    """Real time; the instants in the charge are on the issuer's clock."""
    amount_cents: int
    lifetime_s: int
    external_id: str | None
    description: str | None
    payer_sealed: bytes | None
    payer_document_hash: str | None
    scenario: str | None
    send_email: bool = False
    metadata: dict[str, str] | None = None
    schedule_id: str | None = None
    """The schedule that issues the charge, if one does."""

    @property
    def name(self) -> tuple[Owner, str]:
        return (self.issuer.owner, self.key)


class NewPix(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A creation as the statement reads it: validated, with its location and all ids chosen."""

    key: str
    fingerprint: bytes
    bank: str
    location: str
    payer_sealed: bytes | None = None
    payer_document_hash: str | None = None
    actor: str
    request_id: str
    order_id: UUID | None
    """The id of the order to register the cob; None when the statement registers it at the simulated bank itself."""
    payload: Payload
    order: msgspec.Raw
    """The request to the bank (JSON) as the worker will send it."""
    at: datetime | None = None
    """The real instant, when the charge's clock is ahead of real time."""
    due_at: datetime | None = None
    """When the order is due, if not at the real instant of creation."""

    @property
    def doc(self) -> ChargeDoc:
        return self.payload.charge

    @property
    def charge_id(self) -> UUID:
        return UUID(self.doc.charge_id)

    @property
    def owner(self) -> Owner:
        return Owner.of(UUID(self.doc.account_id), self.doc.test)


create = sql.one("charge.create_pix", list)
_encode = msgspec.json.Encoder().encode


async def create_pix(conn: Connection, items: Sequence[NewPix]) -> set[UUID]:
    """Write the charges whose idempotency key is new, in one statement; returns their ids.

    A charge is left out when its key was used before or, in production, when standalone PIX is suspended or the account
    is not approved. The caller looks up which applies.
    """
    assert len(items) <= CREATIONS_MAX
    items = sorted(items, key=lambda item: (item.doc.account_id, item.doc.test, item.key))
    created = await create(conn, items=[_encode(item) for item in items], description_max=DESCRIPTION_CHARACTERS_MAX)
    return set(created)


def compose_pix(
    creation: Creation, location: PixLocation, *, traced: bool = False, due_times: DueTimes | LateDueTimes | None = None
) -> NewPix:
    """Returns the charge to write, with the order to register its cob at the bank, due at once or as `due_times` say. A
    test charge has no order, unless X-Sandbox-Bank sets the bank's answer, or the request is `traced` and the call to
    the bank is to have a span."""
    issuer = creation.issuer
    ordered = not issuer.test or traced or creation.scenario is not None
    due_at = creation.now
    if ordered and due_times is not None:
        # Due within the first half of the charge's lifetime, however many orders the account placed before: a charge
        # that lives for a minute and waited for a minute expired before the bank had heard of it.
        due_at = min(due_times.take(issuer.owner, due_at), due_at + timedelta(seconds=creation.lifetime_s / 2))
    created_at = issuer.clock(creation.now)
    expires_at = created_at + timedelta(seconds=creation.lifetime_s)
    doc = ChargeDoc(
        account_id=str(issuer.account_id),
        charge_id=str(creation.charge_id),
        test=issuer.test,
        public_id=page_token(),
        external_id=creation.external_id,
        payment_method="pix",
        status="pending",
        version=1,
        amount_cents=creation.amount_cents,
        description=creation.description,
        send_email=creation.send_email,
        metadata=creation.metadata,
        schedule_id=creation.schedule_id,
        txid=creation.charge_id.hex,
        qr_code=br_code_at(location, issuer, creation.amount_cents),
        created_at=iso(created_at),
        expires_at=iso(expires_at),
    )
    order = CobRequest(
        amount_cents=creation.amount_cents,
        expires_in_s=creation.lifetime_s,
        created_at=to_millisecond(created_at),
        location_id=location.location_id,
        pix_key=issuer.pix_key,
        description=creation.description,
        scenario=creation.scenario,
        request_id=creation.request_id,
    )
    return NewPix(
        key=creation.key,
        fingerprint=creation.fingerprint,
        bank=location.bank,
        location=location.location,
        payer_sealed=creation.payer_sealed,
        payer_document_hash=creation.payer_document_hash,
        actor=issuer.actor,
        request_id=creation.request_id,
        order_id=new_id() if ordered else None,
        payload=Payload(doc),
        order=msgspec.Raw(_encode(order)),
        at=creation.now if issuer.ahead_s else None,
        due_at=None if due_at is creation.now else due_at,
    )
