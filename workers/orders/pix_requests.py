"""The requests that orders of the PIX lane make to the bank, built from the order and its charge."""

from datetime import date, datetime
from uuid import UUID

import msgspec
from msgspec import Struct

from banks.protocol import Cob, Cobv
from banks.simulated.bank import PayerPix
from commands.bank_orders.kinds import CobRequest, PixSimulation
from domain.boleto.terms import PaymentTerms
from runtime.seal import CHARGE_PAYER
from workers.context import Context
from workers.orders.lease import ClaimedOrder


class PixOrder(ClaimedOrder, frozen=True, gc=False):
    """A claimed order, with its charge as it was when the order was claimed."""

    charge_id: UUID | None
    status: str | None
    expires_at: datetime | None
    payer_sealed: bytes | None
    due_on: date | None
    terms: bytes | None
    """Set for a dual charge whose PIX leg is a cobv."""
    registering: bool
    callback_url: str | None
    ahead_s: int
    """How far its account's clock is ahead of real time; 0 in production."""


class _Payer(Struct, frozen=True):
    name: str | None = None
    document: str | None = None


read_cob = msgspec.json.Decoder(CobRequest).decode
read_terms = msgspec.json.Decoder(PaymentTerms).decode
_read_simulation = msgspec.json.Decoder(PixSimulation).decode
_read_payer = msgspec.json.Decoder(_Payer).decode


def cob_to_register(context: Context, order: PixOrder) -> Cob:
    assert order.charge_id is not None
    request = read_cob(order.request)
    payer = _Payer()
    # The sandbox's books name no payer.
    if order.payer_sealed is not None and not order.test:
        payer = _read_payer(context.seal.open(order.payer_sealed, CHARGE_PAYER, order.charge_id))
    return Cob(
        txid=order.charge_id.hex,
        amount_cents=request.amount_cents,
        created_at=request.created_at,
        expires_in_s=request.expires_in_s,
        location_id=request.location_id,
        pix_key=request.pix_key,
        description=request.description,
        payer_name=payer.name,
        payer_document=payer.document,
    )


def cobv_to_register(context: Context, order: PixOrder, terms: bytes) -> Cobv | None:
    """The cobv with these terms; None for a test charge paid, and its payer erased, before it was registered."""
    if order.payer_sealed is None:
        return None
    assert order.charge_id is not None
    assert order.due_on is not None
    request = read_cob(order.request)
    payer = _read_payer(context.seal.open(order.payer_sealed, CHARGE_PAYER, order.charge_id))
    assert payer.name is not None
    assert payer.document is not None
    return Cobv(
        txid=order.charge_id.hex,
        amount_cents=request.amount_cents,
        due_on=order.due_on,
        terms=read_terms(terms),
        location_id=request.location_id,
        pix_key=request.pix_key,
        payer_name=payer.name,
        payer_document=payer.document,
        description=request.description,
    )


def simulated_pix(order: PixOrder) -> PayerPix:
    assert order.charge_id is not None
    request = _read_simulation(order.request)
    return PayerPix(
        end_to_end_id=request.end_to_end_id,
        txid=order.charge_id.hex,
        amount_cents=request.amount_cents,
        paid_at=request.paid_at,
    )
