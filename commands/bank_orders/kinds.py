"""The kinds of orders to a bank: the lane in which each is carried out, and the content of its request (JSON).

An order is placed by its request, whose type gives the kind. Beside its own fields a request holds the `request_id` of
the API request that caused it, if one did, for the log of the worker that carries it out. The schema knows the same
kinds and lanes (bank_order.lane) and refuses any other; tests/integration/workers/test_order_kinds.py compares the two.
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
from runtime.coordination.lanes import BOLETO_ORDERS, PIX_ORDERS, REFUND_ORDERS, WITHDRAWAL_ORDERS

# The PIX lane


class CobRequest(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Register the cob of a PIX charge or of a dual charge's PIX leg. A dual charge with terms has a cobv, which takes
    its dates and terms from the boleto when the bank is asked."""

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
    """Make the cob end with the boleto, as the boleto stands when the bank is asked, or at `until` if that is earlier.
    A cobv gets the boleto's due date."""

    until: datetime | None = None


class PixSimulation(Struct, frozen=True, gc=False):
    """Enter a sandbox payer's payment in the simulated bank's books."""

    end_to_end_id: str
    amount_cents: int
    paid_at: datetime


# The boleto lane


class Payload(Struct, frozen=True, gc=False):
    """The journal's payload of a creation."""

    charge: ChargeDoc


class PixLeg(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """The location and lifetime of a dual charge's cob. `lifetime_s` counts from the charge's creation, and the cob
    never outlives the boleto; None means as long as the boleto.

    A charge with terms has a cobv instead. The pool holds no locations of cobv: the worker that registers the boleto
    has one made, and until then `location_id` and `location` are None."""

    location_id: int | None = None
    location: str | None = None
    pix_key: str
    name: str
    city: str
    """`name` and `city` are the merchant's, for the BR Code."""
    lifetime_s: int | None = None


class Registration(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Register a boleto. The payload holds the future charge; its QR Code and `created_at` are set when it is made."""

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
    """The bank registered the boleto, but it was never handed out. A boleto of this number at the bank is ours,
    whatever data it carries, and must be written off."""


class WriteOff(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Write a boleto off and cancel its charge or, with `fail` in the sandbox, fail it."""

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
    """Pay a boleto as the sandbox's payer: by default the whole amount, once, now.

    `force` pays the boleto whatever its status, as money does that was already on its way.
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
    """Make the bank's books equal ours, after an order whose answer was lost (`after` is its kind, `request` its
    request), or because the charge was settled or ended by its PIX leg."""

    after: str
    request: msgspec.Raw = msgspec.Raw(b"{}")


CLOSE: Final = Reconciliation("pix_paid")
"""Write off a boleto whose charge was settled by its PIX leg. When a change of the boleto is under way, the end of that
change writes it off instead."""


# Money that goes out


class RefundReturn(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Send a PIX back (devolucao)."""

    refund_id: UUID
    amount_cents: int
    end_to_end_id: str
    """The endToEndId of the PIX that is returned."""
    description: str | None = None
    scenario: str | None = None


class RefundTransfer(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Send a PIX to the destination of a boleto's refund."""

    refund_id: UUID
    amount_cents: int
    destination_sealed: str
    """commands.money.refund.TransferDestination, sealed, in base64."""
    description: str | None = None
    scenario: str | None = None


class SendOrder(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Send a withdrawal to the PIX key that the account had when the withdrawal was requested.

    Key and document are stored in the clear, as in the account's row: they are the merchant's own, and a withdrawal is
    only ever sent to the merchant.
    """

    amount_cents: int
    pix_key: str
    document: str
    description: str | None = None
    request_id: str | None = None


class OrderLane(StrEnum):
    """A queue of orders. Each lane has calls of its own for each mode, because a bank may answer the calls of one
    lane and hang in another."""

    PIX = "pix"
    PIX_CHANGE = "pix_change"
    BOLETO = "boleto"
    BOLETO_CHANGE = "boleto_change"
    RECONCILIATION = "reconciliation"
    REFUND = "refund"
    TRANSFER = "transfer"
    WITHDRAWAL = "withdrawal"

    @property
    def jobs(self) -> Mapping[Mode, str]:
        """The job of the worker to wake, by mode (runtime/jobs.py)."""
        return _JOBS_BY_LANE[self]


_JOBS_BY_LANE: Final[dict[OrderLane, Mapping[Mode, str]]] = {
    OrderLane.PIX: PIX_ORDERS,
    OrderLane.PIX_CHANGE: PIX_ORDERS,
    OrderLane.BOLETO: BOLETO_ORDERS,
    OrderLane.BOLETO_CHANGE: BOLETO_ORDERS,
    OrderLane.RECONCILIATION: BOLETO_ORDERS,
    OrderLane.REFUND: REFUND_ORDERS,
    OrderLane.TRANSFER: REFUND_ORDERS,
    OrderLane.WITHDRAWAL: WITHDRAWAL_ORDERS,
}


class OrderKind(StrEnum):
    lane: OrderLane
    request: type[Struct]

    # fmt: off
    COB_REGISTER     = "cob_register",     OrderLane.PIX,            CobRequest
    COB_REMOVE       = "cob_remove",       OrderLane.PIX_CHANGE,     CobRemoval
    COB_REVISE       = "cob_revise",       OrderLane.PIX_CHANGE,     CobRevision
    PIX_SIMULATE     = "pix_simulate",     OrderLane.PIX,            PixSimulation
    BOLETO_REGISTER  = "boleto_register",  OrderLane.BOLETO,         Registration
    BOLETO_WRITE_OFF = "boleto_write_off", OrderLane.BOLETO_CHANGE,  WriteOff
    BOLETO_REDATE    = "boleto_redate",    OrderLane.BOLETO_CHANGE,  Redate
    BOLETO_PAY       = "boleto_pay",       OrderLane.BOLETO_CHANGE,  Pay
    BOLETO_RECONCILE = "boleto_reconcile", OrderLane.RECONCILIATION, Reconciliation
    REFUND_RETURN    = "refund_return",    OrderLane.REFUND,         RefundReturn
    REFUND_TRANSFER  = "refund_transfer",  OrderLane.TRANSFER,       RefundTransfer
    WITHDRAWAL_SEND  = "withdrawal_send",  OrderLane.WITHDRAWAL,     SendOrder
    # fmt: on

    def __new__(cls, value: str, lane: OrderLane, request: type[Struct]) -> Self:
        kind = str.__new__(cls, value)
        kind._value_, kind.lane, kind.request = value, lane, request
        return kind


_KIND_BY_REQUEST: Final = {kind.request: kind for kind in OrderKind}


def kind_of(request: Struct) -> OrderKind:
    return _KIND_BY_REQUEST[type(request)]
