"""The life of a charge: its statuses, the transitions between them, and the meaning of a payment in each status.

Every transition is in the table NEXT, which docs and tests read too. Functions in this module take values and return
the values to store: no clock, no I/O.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from domain.errors import Code, Refused
from domain.mode import Owner
from domain.sandbox_clock import on_clock

LIFETIME_MIN: Final = timedelta(seconds=60)
"""The shortest lifetime of a PIX charge (contract section 5): a payer needs that long to pay."""
EXTERNAL_ID_MAX: Final = 255
"""Characters of the merchant's own reference, of charges as of schedules, refunds and withdrawals."""
DESCRIPTION_MAX: Final = 500


class Status(StrEnum):
    PENDING = "pending"
    PAID = "paid"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    REFUNDED = "refunded"
    FAILED = "failed"


class ChargeTransition(StrEnum):
    """A step in the life of a charge."""

    PAID = "paid"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    FAILED = "failed"
    REDATED = "redated"
    REFUNDED_WHOLLY = "refunded_wholly"


# fmt: off
NEXT: Final[dict[Status, dict[ChargeTransition, Status]]] = {
    Status.PENDING:   {ChargeTransition.PAID: Status.PAID, ChargeTransition.CANCELLED: Status.CANCELLED,
                       ChargeTransition.EXPIRED: Status.EXPIRED, ChargeTransition.FAILED: Status.FAILED,
                       ChargeTransition.REDATED: Status.PENDING},
    Status.EXPIRED:   {ChargeTransition.PAID: Status.PAID},  # the bank may report a payment after the expiry
    Status.PAID:      {ChargeTransition.REFUNDED_WHOLLY: Status.REFUNDED},
    Status.CANCELLED: {},
    Status.REFUNDED:  {},
    Status.FAILED:    {},
}
# fmt: on


DUAL: Final = "boleto_pix"
"""The payment method of a charge with two legs, a plain boleto and a cob: the leg that is paid first settles it."""


class Anomaly(StrEnum):
    """The way in which a payment differs from its charge. The payment is credited all the same (contract section 7)."""

    DUPLICATE = "duplicate"
    PAID_AFTER_CANCEL = "paid_after_cancel"
    AMOUNT_MISMATCH = "amount_mismatch"


class CancelReason(StrEnum):
    CANCELLED = "cancelled"
    PAID_EXTERNALLY = "paid_externally"


class Charge(Struct, frozen=True, gc=False):
    """The columns of a charge that decisions need, read with its lock. Amounts in cents, instants in UTC."""

    account_id: UUID
    charge_id: UUID
    test: bool
    payment_method: str
    status: str
    version: int
    amount_cents: int
    refunded_cents: int
    external_id: str | None
    created_at: datetime
    expires_at: datetime
    ahead_s: int = 0
    """By how much its account's sandbox was ahead of real time when the charge was locked; 0 in production."""
    fees: bytes | None = None
    """The account's own fee terms at the lock (domain/merchants/fees.py); None: the platform's default."""
    payer_erased: bool = False
    """Set when the charge's payer was erased: payers of later payments are not stored."""

    @property
    def owner(self) -> Owner:
        return Owner.of(self.account_id, self.test)

    @property
    def boleto(self) -> bool:
        """Whether a bank holds a boleto for the charge, which is then cancelled and re-dated at the bank first."""
        return self.payment_method != "pix"

    @property
    def dual(self) -> bool:
        """Whether the bank holds a cob beside the boleto: when one of them ends, the other is ended too."""
        return self.payment_method == DUAL

    def clock(self, now: datetime) -> datetime:
        """Returns the time on this charge's clock at the real instant `now`."""
        return on_clock(now, self.ahead_s)

    def overdue(self, now: datetime) -> bool:
        """Whether the charge is pending past its expiry; `now` is on the charge's clock."""
        return self.status == Status.PENDING and self.expires_at <= now


class Receipt(Struct, frozen=True, gc=False):
    """Money that the bank confirmed. `source` identifies it, so that it is booked once: the endToEndId, or the boleto
    and the total it reached."""

    source: str
    method: str
    amount_cents: int
    paid_at: datetime
    end_to_end_id: str | None = None
    payer_name: str | None = None
    payer_document_masked: str | None = None
    interest_cents: int = 0
    fine_cents: int = 0
    discount_cents: int = 0
    asked_cents: int | None = None
    """The amount due on the day of the payment, for a charge with payment terms."""
    late_from: datetime | None = None
    """The instant from which a payment is late, for a charge with payment terms, which may be payable for longer."""


class Payment(Struct, frozen=True, gc=False):
    """A receipt with the decision about it: whether it settles its charge, its anomaly, and its fee."""

    payment_id: UUID
    receipt: Receipt
    settles: bool
    anomaly: Anomaly | None
    late: bool
    fee_cents: int
    """The platform's fee for the payment."""


def after(charge: Charge, transition: ChargeTransition) -> Charge:
    """Returns the charge after a transition, one version on; Refused(CHARGE_NOT_PENDING) if its status forbids it."""
    following = NEXT[Status(charge.status)].get(transition)
    if following is None:
        raise Refused(Code.CHARGE_NOT_PENDING, status=charge.status)
    return replace(charge, status=str(following), version=charge.version + 1)


def judge(charge: Charge, receipt: Receipt, *, payment_id: UUID, fee_cents: int) -> Payment:
    """Decide what a receipt means for a charge in its present status (contract section 7); the fee is the same in each.

    Less than the amount due that day never settles the charge; more settles it and is an anomaly. A payment of a charge
    that can no longer become paid is an anomaly and settles nothing. A boleto's payment that the bank reports after the
    charge has expired is late, whatever day it was paid on (section 6); a PIX that was paid in time is not (section 5).
    """
    reported_late = charge.status == Status.EXPIRED and receipt.method != "pix"
    late = reported_late or receipt.paid_at >= (receipt.late_from or charge.expires_at)
    if ChargeTransition.PAID in NEXT[Status(charge.status)]:
        asked_cents = charge.amount_cents if receipt.asked_cents is None else receipt.asked_cents
        settles = receipt.amount_cents >= asked_cents
        anomaly = None if receipt.amount_cents == asked_cents else Anomaly.AMOUNT_MISMATCH
    else:
        settles = False
        already_paid = charge.status in (Status.PAID, Status.REFUNDED)
        anomaly = Anomaly.DUPLICATE if already_paid else Anomaly.PAID_AFTER_CANCEL
    return Payment(
        payment_id=payment_id, receipt=receipt, settles=settles, anomaly=anomaly, late=late, fee_cents=fee_cents
    )
