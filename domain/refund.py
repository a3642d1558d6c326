"""The life of a refund: how much of a payment may be refunded, by which method and until when (contract section 11).

A refund reserves its amount from the request until the bank has carried it out or refused it: the reserved amount
cannot be refunded again. Functions in this module take values and return the values to store: no clock, no I/O.
"""

import re
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from domain.charge import NEXT, Charge, ChargeTransition, Status, after
from domain.documents import check_digits_hold
from domain.errors import Code, Refused
from domain.instants import SAO_PAULO, day_of

RETURN_WITHIN: Final = timedelta(days=90)
"""A PIX goes back the way it came up to 90 days after its settlement (API Pix, devolucao)."""
TRANSFER_WITHIN: Final = timedelta(days=180)
"""The bound for a boleto's payment is our own (contract section 11), because no bank sets one."""

DESTINATION_DOCUMENT: Final = "destination.document"
"""The field named by a refusal of the destination."""

REASON_MAX: Final = 140
PIX_KEY_CHARACTERS_MAX: Final = 77
# The five kinds of key of the DICT: CPF, CNPJ, telephone, e-mail, random.
PIX_KEY: Final = (
    r"[0-9]{11}"
    r"|[0-9]{14}"
    r"|\+[1-9][0-9]{10,14}"
    r"|[a-z0-9.!#$&'*+/=?^_`{|}~-]+@[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+"
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
)
_PIX_KEY = re.compile(PIX_KEY)


class RefundStatus(StrEnum):
    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class RefundMethod(StrEnum):
    """The way in which the money goes back."""

    RETURN = "return"
    """A devolucao of the PIX received, to the account it came from."""
    TRANSFER = "transfer"
    """A new PIX to the key that the merchant names: a boleto paid by its line brought no PIX that could be returned."""


class FailureCode(StrEnum):
    """The reason why a refund failed, for programs. The money is back in the wallet in each case."""

    BANK_REFUSED = "BANK_REFUSED"
    """The bank did not accept the refund."""
    NOT_CARRIED_OUT = "NOT_CARRIED_OUT"
    """The bank accepted the refund and could not carry it out (NAO_REALIZADO): for example, the account is closed."""
    NOT_RELEASED = "NOT_RELEASED"
    """The refund was held, and the platform's staff refused it; the bank was not asked."""
    TRANSFER_UNAVAILABLE = "TRANSFER_UNAVAILABLE"
    """The account's bank sends no PIX for us, so a boleto paid by its line cannot be refunded through it."""


def refundable_cents(paid_cents: int, refunds_cents: int, *, reversed_cents: int) -> int:
    """The part of a payment that can still be refunded. `refunds_cents`: those that succeeded and those pending.

    Money that the bank reversed during a pending refund counts twice until that refund has failed.
    """
    return max(paid_cents - refunds_cents - reversed_cents, 0)


class RefundablePayment(Struct, frozen=True, gc=False):
    """The columns of a payment that refunds need, read while its charge is locked. Cents.

    `refunded_cents` is back with the payer; `refunding_cents` is in pending refunds, which may fail.
    """

    account_id: UUID
    payment_id: UUID
    charge_id: UUID
    amount_cents: int
    refunded_cents: int
    refunding_cents: int
    settles: bool
    paid_at: datetime
    end_to_end_id: str | None
    reversed_cents: int = 0
    """Cents that the bank has reversed."""

    @property
    def remaining_cents(self) -> int:
        return refundable_cents(
            self.amount_cents, self.refunded_cents + self.refunding_cents, reversed_cents=self.reversed_cents
        )


class RefundRequest(Struct, frozen=True, gc=False, kw_only=True):
    """A merchant's request for a refund. Without an amount it is for all that remains, without a payment for the one
    that settled the charge."""

    amount_cents: int | None
    payment_id: UUID | None
    destination_hash: str | None
    """The keyed fingerprint of the destination's document; None when the merchant names no destination."""


class Hold(StrEnum):
    """The reason why a transfer waits for staff before it is sent."""

    NOT_APPROVED = "not_approved"
    """The account's registration is not approved (any more)."""
    OVER_BOUND = "over_bound"
    """The transfer exceeds the sum that an account may transfer in a day without a release by staff."""


class TransferTerms(Struct, frozen=True, gc=False, kw_only=True):
    """The facts that decide where a transfer may go, and whether it is held for staff. Cents."""

    payer_document_hash: str | None
    """The keyed fingerprint of the document of the charge's payer; None when the charge has none (any more)."""
    freed: bool
    """Whether staff have freed the account from the rule that a transfer goes to the payer."""
    approved: bool
    """Whether the account's registration is approved."""
    sent_cents: int
    """The sum of the account's transfers of this day that were not held and have not failed."""
    sent_cents_max: int
    """The most that this sum may reach."""


class Refund(Struct, frozen=True, gc=False, kw_only=True):
    """The columns of a refund that decisions need. Cents; instants in UTC."""

    account_id: UUID
    refund_id: UUID
    test: bool
    charge_id: UUID
    payment_id: UUID
    amount_cents: int
    status: str
    created_at: datetime
    transfer_day: date | None = None
    """The day in Sao Paulo on which the refund counts towards the account's bound on transfers; None when it does not
    count: a devolucao, a held refund, or one in the sandbox."""


class BegunRefund(Struct, frozen=True, gc=False, kw_only=True):
    refund: Refund
    fund: RefundablePayment
    """The payment after the refund has begun."""
    way: RefundMethod
    hold: Hold | None
    """The reason why the refund waits for a release by staff; None when it is sent at once."""


def begin(
    charge: Charge,
    fund: RefundablePayment | None,
    request: RefundRequest,
    terms: TransferTerms,
    *,
    refund_id: UUID,
    now: datetime,
) -> BegunRefund:
    """Begin a requested refund; `fund` is None when the payment does not exist.

    Refused: CHARGE_NOT_REFUNDABLE (no payment, or too long ago), VALIDATION_ERROR (a destination for a PIX, or a
    destination that is not the payer's), REFUND_DESTINATION_REQUIRED, REFUND_EXCEEDS.
    """
    if fund is None:
        if request.payment_id is None:
            raise Refused(Code.CHARGE_NOT_REFUNDABLE, status=charge.status)
        raise Refused(Code.CHARGE_NOT_REFUNDABLE, fields={"payment_id": "is no payment of this charge"})
    if request.destination_hash is not None and not _may_be_boleto_money(charge, fund):
        raise Refused(Code.VALIDATION_ERROR, fields={"destination": "a PIX goes back to where it came from"})
    way = refund_method(charge, fund, now=now)
    if way is RefundMethod.TRANSFER:
        _check_destination(request, terms)
    amount_cents = fund.remaining_cents if request.amount_cents is None else request.amount_cents
    if not 0 < amount_cents <= fund.remaining_cents:
        raise Refused(Code.REFUND_EXCEEDS, remaining_cents=fund.remaining_cents)
    transferred = way is RefundMethod.TRANSFER and not charge.test
    hold = _hold_reason(terms, amount_cents) if transferred else None
    refund = Refund(
        account_id=charge.account_id,
        refund_id=refund_id,
        test=charge.test,
        charge_id=charge.charge_id,
        payment_id=fund.payment_id,
        amount_cents=amount_cents,
        status=RefundStatus.PENDING,
        created_at=now,
        transfer_day=day_of(now) if transferred and hold is None else None,
    )
    fund = replace(fund, refunding_cents=fund.refunding_cents + amount_cents)
    return BegunRefund(refund=refund, fund=fund, way=way, hold=hold)


def _check_destination(request: RefundRequest, terms: TransferTerms) -> None:
    """Refuse a transfer to another person than the payer (contract section 16); otherwise anybody who can refund could
    pay out to anybody."""
    if request.destination_hash is None:
        raise Refused(Code.REFUND_DESTINATION_REQUIRED)
    if terms.freed:
        return
    if terms.payer_document_hash is None:
        fault = "cannot be compared: the charge has no payer's document"
        raise Refused(Code.VALIDATION_ERROR, fields={DESTINATION_DOCUMENT: fault})
    if request.destination_hash != terms.payer_document_hash:
        raise Refused(
            Code.VALIDATION_ERROR, fields={DESTINATION_DOCUMENT: "must be the document of the charge's payer"}
        )


def _hold_reason(terms: TransferTerms, amount_cents: int) -> Hold | None:
    """Returns why staff must release the transfer, or None. Without a release money leaves only an approved account,
    and only up to the bound (contract section 16)."""
    if not terms.approved:
        return Hold.NOT_APPROVED
    return Hold.OVER_BOUND if terms.sent_cents + amount_cents > terms.sent_cents_max else None


def refund_method(charge: Charge, fund: RefundablePayment, *, now: datetime) -> RefundMethod:
    """Returns the method of the refund: a devolucao of a PIX while the bank allows one; for a boleto's money otherwise
    a transfer to a key that the merchant names. Refused(CHARGE_NOT_REFUNDABLE) when it is too late for both."""
    age = now - fund.paid_at
    if fund.end_to_end_id is not None and age <= RETURN_WITHIN:
        return RefundMethod.RETURN
    if _may_be_boleto_money(charge, fund) and age <= TRANSFER_WITHIN:
        return RefundMethod.TRANSFER
    raise Refused(Code.CHARGE_NOT_REFUNDABLE, paid_on=fund.paid_at.astimezone(SAO_PAULO))


def _may_be_boleto_money(charge: Charge, fund: RefundablePayment) -> bool:
    """Whether the payment may be a boleto's. A PIX charge has a payment without an endToEndId when staff assigned a
    boleto's money to it."""
    return charge.boleto or fund.end_to_end_id is None


def succeed(
    charge: Charge, refund: Refund, fund: RefundablePayment, *, outstanding_cents: int
) -> tuple[Charge, Charge | None, Refund, RefundablePayment]:
    """End a refund whose money is back with the payer; returns the charge, the charge as `refunded` if it becomes so,
    the refund and the payment.

    `outstanding_cents` is the part of all payments of the charge that was not refunded before: the charge becomes
    refunded only when every cent of every payment is back. A charge that is not paid (as with a payment after its
    cancellation) keeps its status.
    """
    assert refund.status == RefundStatus.PENDING, "a refund ends once"
    assert refund.amount_cents <= outstanding_cents
    charge = replace(charge, refunded_cents=charge.refunded_cents + refund.amount_cents, version=charge.version + 1)
    wholly = (
        outstanding_cents == refund.amount_cents and ChargeTransition.REFUNDED_WHOLLY in NEXT[Status(charge.status)]
    )
    return (
        charge,
        after(charge, ChargeTransition.REFUNDED_WHOLLY) if wholly else None,
        replace(refund, status=RefundStatus.SUCCEEDED),
        replace(
            fund,
            refunded_cents=fund.refunded_cents + refund.amount_cents,
            refunding_cents=fund.refunding_cents - refund.amount_cents,
        ),
    )


def fail(refund: Refund, fund: RefundablePayment) -> tuple[Refund, RefundablePayment]:
    """End a refund that failed; its amount can be refunded again."""
    assert refund.status == RefundStatus.PENDING, "a refund ends once"
    return (
        replace(refund, status=RefundStatus.FAILED),
        replace(fund, refunding_cents=fund.refunding_cents - refund.amount_cents),
    )


def is_pix_key(text: str) -> bool:
    """Whether the text is a PIX key in the form of the DICT: bare digits, +55 before a telephone, else lower case."""
    return len(text) <= PIX_KEY_CHARACTERS_MAX and _PIX_KEY.fullmatch(text) is not None


def pix_key_fault(text: str) -> str | None:
    """Returns why the text cannot be a PIX key to send money to or receive money under; None when it can."""
    if not is_pix_key(text):
        return "must be a PIX key: CPF, CNPJ, +55 and telephone, e-mail in lower case or random key"
    return "has wrong check digits" if text.isdigit() and not check_digits_hold(text) else None
