"""The life of a charge: its states, what moves it between them, and what a payment means in each of them.

Everything that can change a status is in NEXT; docs and tests read the same table. Functions here
decide on values and return what is to be stored: no clock, no I/O.
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
"""Of a PIX charge (contract section 5): less cannot be paid."""
EXTERNAL_ID_MAX: Final = 255
"""Characters of the merchant's own reference, here and of schedules, refunds and withdrawals."""
DESCRIPTION_MAX: Final = 500


class Status(StrEnum):
    PENDING = "pending"
    PAID = "paid"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    REFUNDED = "refunded"
    FAILED = "failed"


class ChargeTransition(StrEnum):
    """What can happen to a charge."""

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
    Status.EXPIRED:   {ChargeTransition.PAID: Status.PAID},  # the bank reports it later: money that arrived wins
    Status.PAID:      {ChargeTransition.REFUNDED_WHOLLY: Status.REFUNDED},
    Status.CANCELLED: {},
    Status.REFUNDED:  {},
    Status.FAILED:    {},
}
# fmt: on


DUAL: Final = "boleto_pix"
"""The payment method of a charge with two legs, a plain boleto and a cob of its own: what is paid first settles it."""


class Anomaly(StrEnum):
    """Money that arrived otherwise than asked for. It is credited all the same (contract section 7)."""

    DUPLICATE = "duplicate"
    PAID_AFTER_CANCEL = "paid_after_cancel"
    AMOUNT_MISMATCH = "amount_mismatch"


class CancelReason(StrEnum):
    CANCELLED = "cancelled"
    PAID_EXTERNALLY = "paid_externally"


class Charge(Struct, frozen=True, gc=False):
    """The deciding columns of a charge, as locked for a change. Amounts in cents, instants in UTC."""

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
    """By how much its account's sandbox is ahead of real time, when it was locked; 0 in production."""
    fees: bytes | None = None
    """What its account was charged for payments then (domain/merchants/fees.py); None: the platform's default."""
    payer_erased: bool = False
    """Who pays it is not kept: its payer was erased."""

    @property
    def owner(self) -> Owner:
        return Owner.of(self.account_id, self.test)

    @property
    def boleto(self) -> bool:
        """Whether a bank holds a boleto for it: such a charge is cancelled and re-dated at the bank first."""
        return self.payment_method != "pix"

    @property
    def dual(self) -> bool:
        """Whether its bank holds a cob beside the boleto: what ends one of the two ends the other."""
        return self.payment_method == DUAL

    def clock(self, now: datetime) -> datetime:
        """The instant it is for this charge when it is really `now`."""
        return on_clock(now, self.ahead_s)

    def overdue(self, now: datetime) -> bool:
        """`now` is on its own clock."""
        return self.status == Status.PENDING and self.expires_at <= now


class Receipt(Struct, frozen=True, gc=False):
    """Money the bank confirmed. `source` makes it happen once: the endToEndId, or a boleto's receipt."""

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
    """What was to be paid on the day of the payment, when that may differ from the charge's amount."""
    late_from: datetime | None = None
    """From when a payment is late, when the charge can be paid for longer than that."""


class Payment(Struct, frozen=True, gc=False):
    """A receipt, judged: whether it settles its charge, and its anomaly."""

    payment_id: UUID
    receipt: Receipt
    settles: bool
    anomaly: Anomaly | None
    late: bool
    fee_cents: int
    """What the platform keeps of it."""


def after(charge: Charge, happened: ChargeTransition) -> Charge:
    """The charge once this has happened to it, one version on; Refused(CHARGE_NOT_PENDING) if its state forbids it."""
    following = NEXT[Status(charge.status)].get(happened)
    if following is None:
        raise Refused(Code.CHARGE_NOT_PENDING, status=charge.status)
    return replace(charge, status=str(following), version=charge.version + 1)


def judge(charge: Charge, receipt: Receipt, *, payment_id: UUID, fee_cents: int) -> Payment:
    """What a receipt means for a charge in its present state (contract section 7); its fee is the same in each.

    Less than what was to be paid that day never settles; more does, and is an anomaly as well. What arrives on a
    charge that cannot become paid any more is an anomaly and settles nothing. A boleto's money that the bank tells of
    once the charge has expired is late, on whatever day it was paid (section 6); a PIX that was paid in time is not
    (section 5).
    """
    told_late = charge.status == Status.EXPIRED and receipt.method != "pix"
    late = told_late or receipt.paid_at >= (receipt.late_from or charge.expires_at)
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
