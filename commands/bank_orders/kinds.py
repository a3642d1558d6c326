"""The kinds of orders to a bank: in whose lane each is done, and what its request (JSON) holds.

An order is placed by naming its request; the kind follows from the request's type. Beside its own fields it holds the
`request_id` of the request that caused it, if one did, for the log of who does it. The schema knows the same kinds and
lanes (bank_order.lane), and refuses any other; tests/integration/workers/test_order_kinds.py compares the two.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final, Literal, Self
from uuid import UUID

import msgspec
from msgspec import Struct

from domain.mode import Mode
from readmodels.charges.charge import ChargeDoc
from runtime.jobs import BOLETO_ORDERS, PIX_ORDERS, REFUND_ORDERS, WITHDRAWAL_ORDERS

# The PIX lane


class CobRequest(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Of a dual charge with terms it is a cobv, whose days and terms are the boleto's when the bank is asked."""

    amount_cents: int
    expires_in_s: int
    created_at: datetime
    location_id: int
    pix_key: str
    description: str | None = None
    scenario: str | None = None
    request_id: str | None = None


class CobRemoval(Struct, frozen=True, gc=False, omit_defaults=True):
    scenario: str | None = None


class CobRevision(Struct, frozen=True, gc=False, omit_defaults=True):
    """The cob is to end with the boleto, as that stands when the bank is asked, or at `until` when that is earlier. A
    cobv is to have the boleto's due date."""

    until: datetime | None = None


class PixSimulation(Struct, frozen=True, gc=False):
    """A payer of the sandbox has paid; the bank's books are to show it."""

    end_to_end_id: str
    amount_cents: int
    paid_at: datetime


# The boleto lane


class Payload(Struct, frozen=True, gc=False):
    """What the journal keeps of a creation."""

    charge: ChargeDoc


class PixLeg(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Where the cob of a dual charge will be, and how long it lives: `lifetime_s` counted from the charge's creation,
    but never longer than the boleto; as long as that when None.

    A charge with terms has a cobv instead. Locations of those are not kept ready: who registers the boleto has one
    made, and until then both fields are None."""

    location_id: int | None = None
    location: str | None = None
    pix_key: str
    name: str
    city: str
    """The merchant's, for the BR Code."""
    lifetime_s: int | None = None


class Registration(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A boleto to register. The charge is as it will be, but for its QR Code and creation."""

    key: str
    fingerprint: str
    """Hex."""
    actor: str
    request_id: str
    payer_sealed: str
    """banks.boletos.BoletoPayer, sealed, in base64."""
    payer_document_hash: str | None = None
    payload: Payload
    scenario: str | None = None
    pix: PixLeg | None = None
    stands: bool = False
    """The bank registered it and it was not handed out: the boleto of this number is ours whatever is on it, and is to
    be written off."""


class WriteOff(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Write a boleto off and cancel its charge, or in the sandbox have it `fail`."""

    reason: str
    fail: bool = False
    actor: str
    request_id: str | None = None
    scenario: str | None = None


class Redate(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Change a boleto's due date (`YYYY-MM-DD`)."""

    due_date: str
    actor: str
    request_id: str | None = None
    scenario: str | None = None


class Pay(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Be the sandbox's payer: the boleto's whole amount, once, now, unless said otherwise.

    `force`: the money was on its way, whatever has become of the boleto.
    """

    actor: str
    request_id: str | None = None
    amount_cents: int | None = None
    paid_at: datetime | None = None
    times: int = 1
    rail: Literal["boleto", "pix"] = "boleto"
    force: bool = False
    scenario: str | None = None


class Reconciliation(Struct, frozen=True):
    """Make the bank's books equal ours: after an order (its kind and request) whose answer was lost, or because the
    charge was settled, or has ended, by its PIX leg."""

    after: str
    request: msgspec.Raw = msgspec.Raw(b"{}")


CLOSE: Final = Reconciliation("pix_paid")
"""Write a boleto off whose charge was settled by its PIX leg. When a change of the boleto is under way, that change's
end sees to it instead."""


# Money that goes out


class RefundReturn(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Send a PIX back (devolucao)."""

    refund_id: UUID
    amount_cents: int
    end_to_end_id: str
    """Of the PIX that came."""
    description: str | None = None
    scenario: str | None = None


class RefundTransfer(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Send a PIX to whom a boleto is refunded."""

    refund_id: UUID
    amount_cents: int
    destination_sealed: str
    """commands.money.refund.TransferDestination, sealed, in base64."""
    description: str | None = None
    scenario: str | None = None


class SendOrder(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Send a withdrawal to the account's PIX key, as that was when it was asked for.

    In the clear, as the account's own row has both: they are the merchant's, who is the only one it is ever sent to.
    """

    amount_cents: int
    pix_key: str
    document: str
    description: str | None = None
    request_id: str | None = None


class OrderLane(StrEnum):
    """Orders of one lane are claimed by one worker for each mode: a bank may answer in one and hang in another."""

    PIX = "pix"
    BOLETO = "boleto"
    REFUND = "refund"
    WITHDRAWAL = "withdrawal"

    @property
    def jobs(self) -> Mapping[Mode, str]:
        """Of the worker to wake, by mode (runtime/jobs.py)."""
        return _JOBS[self]


_JOBS: Final[dict[OrderLane, Mapping[Mode, str]]] = {
    OrderLane.PIX: PIX_ORDERS,
    OrderLane.BOLETO: BOLETO_ORDERS,
    OrderLane.REFUND: REFUND_ORDERS,
    OrderLane.WITHDRAWAL: WITHDRAWAL_ORDERS,
}


class OrderKind(StrEnum):
    lane: OrderLane
    request: type[Struct]

    # fmt: off
    COB_REGISTER     = "cob_register",     OrderLane.PIX,        CobRequest
    COB_REMOVE       = "cob_remove",       OrderLane.PIX,        CobRemoval
    COB_REVISE       = "cob_revise",       OrderLane.PIX,        CobRevision
    PIX_SIMULATE     = "pix_simulate",     OrderLane.PIX,        PixSimulation
    BOLETO_REGISTER  = "boleto_register",  OrderLane.BOLETO,     Registration
    BOLETO_WRITE_OFF = "boleto_write_off", OrderLane.BOLETO,     WriteOff
    BOLETO_REDATE    = "boleto_redate",    OrderLane.BOLETO,     Redate
    BOLETO_PAY       = "boleto_pay",       OrderLane.BOLETO,     Pay
    BOLETO_RECONCILE = "boleto_reconcile",     OrderLane.BOLETO,     Reconciliation
    REFUND_RETURN    = "refund_return",    OrderLane.REFUND,     RefundReturn
    REFUND_TRANSFER  = "refund_transfer",  OrderLane.REFUND,     RefundTransfer
    WITHDRAWAL_SEND  = "withdrawal_send",  OrderLane.WITHDRAWAL, SendOrder
    # fmt: on

    def __new__(cls, value: str, lane: OrderLane, request: type[Struct]) -> Self:
        kind = str.__new__(cls, value)
        kind._value_, kind.lane, kind.request = value, lane, request
        return kind


_KINDS: Final = {kind.request: kind for kind in OrderKind}


def kind_of(request: Struct) -> OrderKind:
    return _KINDS[type(request)]
