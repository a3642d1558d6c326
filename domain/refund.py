"""The life of a refund: what of a payment may be refunded, how, until when; what remains (contract section 11).

A refund holds its amount from the moment it is asked for until the bank has carried it out or refused: what is held
cannot be asked for again. Functions here decide on values and return what is to be stored: no clock, no I/O.
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
from domain.instants import SAO_PAULO

RETURN_WITHIN: Final = timedelta(days=90)
"""A PIX goes back the way it came up to 90 days after its settlement (API Pix, devolucao)."""
TRANSFER_WITHIN: Final = timedelta(days=180)
"""Of a boleto's payment: our own bound (contract section 11), for no bank sets one."""

DESTINATION_DOCUMENT: Final = "destination.document"
"""The field that a refusal of the destination names."""

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
    """How the money goes back."""

    RETURN = "return"
    """The devolucao of the PIX received, to the account it came from."""
    TRANSFER = "transfer"
    """A PIX of our own to the key the merchant names: a boleto paid on its line came from no PIX."""


class FailureCode(StrEnum):
    """Why a refund failed, for programs. The money is back in the wallet in each case."""

    BANK_REFUSED = "BANK_REFUSED"
    """The bank did not take it."""
    NOT_CARRIED_OUT = "NOT_CARRIED_OUT"
    """The bank took it and could not carry it out (NAO_REALIZADO): for example, the account is closed."""
    NOT_RELEASED = "NOT_RELEASED"
    """It was held, and the platform's staff refused it; the bank was not asked."""
    TRANSFER_UNAVAILABLE = "TRANSFER_UNAVAILABLE"
    """The account's bank sends no PIX for us, so that a boleto paid on its line cannot go back through it."""


class RefundablePayment(Struct, frozen=True, gc=False):
    """A payment as far as refunds go, read while its charge is locked. Cents.

    `refunded_cents` is back with the payer; `refunding_cents` is on its way, and may come back to us.
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
    """Taken back by the bank."""

    @property
    def remaining_cents(self) -> int:
        """What can still be asked for. What the bank took back while a refund was on its way counts twice until that
        has failed."""
        return max(self.amount_cents - self.refunded_cents - self.refunding_cents - self.reversed_cents, 0)


class RefundRequest(Struct, frozen=True, gc=False, kw_only=True):
    """What a merchant asks of a refund. No amount: all that remains. No payment: the one that settled the charge."""

    amount_cents: int | None
    payment_id: UUID | None
    destination_hash: str | None
    """A keyed fingerprint of the document of the key's owner; None when the merchant names no destination."""


class Hold(StrEnum):
    """Why a transfer waits for staff before it is sent."""

    NOT_APPROVED = "not_approved"
    """The account's registration is not approved (any more)."""
    OVER_BOUND = "over_bound"
    """More than the account's transfers of a day may come to without anybody looking at them."""


class TransferTerms(Struct, frozen=True, gc=False, kw_only=True):
    """What decides where a transfer may go, and whether staff look at it first. Cents."""

    payer_document_hash: str | None
    """Of the charge's payer, the same fingerprint; None when the charge has no payer's document (any more)."""
    freed: bool
    """Staff freed the account of the rule that a transfer goes to the payer."""
    approved: bool
    """The account's registration."""
    sent_cents: int
    """Of the account and day, by transfers that were not held and have not failed."""
    sent_cents_max: int
    """What these may come to."""


class Refund(Struct, frozen=True, gc=False, kw_only=True):
    """The deciding columns of a refund. Cents; instants in UTC."""

    account_id: UUID
    refund_id: UUID
    test: bool
    charge_id: UUID
    payment_id: UUID
    amount_cents: int
    status: str
    created_at: datetime
    transfer_day: date | None = None
    """The day in Sao Paulo on which it counts towards the account's bound on transfers; None for what counts towards
    none: devolucoes, what is held, and the sandbox's."""


class BegunRefund(Struct, frozen=True, gc=False, kw_only=True):
    refund: Refund
    fund: RefundablePayment
    """What the refund leaves of its payment."""
    way: RefundMethod
    hold: Hold | None
    """Why the bank is not asked until staff say so."""


def begin(
    charge: Charge,
    fund: RefundablePayment | None,
    asked: RefundRequest,
    terms: TransferTerms,
    *,
    refund_id: UUID,
    now: datetime,
) -> BegunRefund:
    """The refund asked for and what it means; `fund` is None when there is no such payment.

    Refused: CHARGE_NOT_REFUNDABLE (no payment, or too long ago), VALIDATION_ERROR (a destination for a PIX, or one that
    is not the payer's), REFUND_DESTINATION_REQUIRED, REFUND_EXCEEDS.
    """
    if fund is None:
        if asked.payment_id is None:
            raise Refused(Code.CHARGE_NOT_REFUNDABLE, status=charge.status)
        raise Refused(Code.CHARGE_NOT_REFUNDABLE, fields={"payment_id": "is no payment of this charge"})
    if asked.destination_hash is not None and not _of_boleto(charge, fund):
        raise Refused(Code.VALIDATION_ERROR, fields={"destination": "a PIX goes back to where it came from"})
    way = way_back(charge, fund, now=now)
    if way is RefundMethod.TRANSFER:
        _check_destination(asked, terms)
    amount_cents = fund.remaining_cents if asked.amount_cents is None else asked.amount_cents
    if not 0 < amount_cents <= fund.remaining_cents:
        raise Refused(Code.REFUND_EXCEEDS, remaining_cents=fund.remaining_cents)
    transferred = way is RefundMethod.TRANSFER and not charge.test
    hold = _hold(terms, amount_cents) if transferred else None
    refund = Refund(
        account_id=charge.account_id,
        refund_id=refund_id,
        test=charge.test,
        charge_id=charge.charge_id,
        payment_id=fund.payment_id,
        amount_cents=amount_cents,
        status=RefundStatus.PENDING,
        created_at=now,
        transfer_day=now.astimezone(SAO_PAULO).date() if transferred and hold is None else None,
    )
    fund = replace(fund, refunding_cents=fund.refunding_cents + amount_cents)
    return BegunRefund(refund=refund, fund=fund, way=way, hold=hold)


def _check_destination(asked: RefundRequest, terms: TransferTerms) -> None:
    """A transfer goes to the payer (contract section 16): else whoever can refund can pay out to anybody."""
    if asked.destination_hash is None:
        raise Refused(Code.REFUND_DESTINATION_REQUIRED)
    if terms.freed:
        return
    if terms.payer_document_hash is None:
        fault = "cannot be compared: the charge has no payer's document"
        raise Refused(Code.VALIDATION_ERROR, fields={DESTINATION_DOCUMENT: fault})
    if asked.destination_hash != terms.payer_document_hash:
        raise Refused(
            Code.VALIDATION_ERROR, fields={DESTINATION_DOCUMENT: "must be the document of the charge's payer"}
        )


def _hold(terms: TransferTerms, amount_cents: int) -> Hold | None:
    """Money that nobody looked at leaves only an approved account, and up to the bound (contract section 16)."""
    if not terms.approved:
        return Hold.NOT_APPROVED
    return Hold.OVER_BOUND if terms.sent_cents + amount_cents > terms.sent_cents_max else None


def way_back(charge: Charge, fund: RefundablePayment, *, now: datetime) -> RefundMethod:
    """A PIX goes back the way it came while the bank allows it; other money, of a boleto, to a key the merchant
    names."""
    age = now - fund.paid_at
    if fund.end_to_end_id is not None and age <= RETURN_WITHIN:
        return RefundMethod.RETURN
    if _of_boleto(charge, fund) and age <= TRANSFER_WITHIN:
        return RefundMethod.TRANSFER
    raise Refused(Code.CHARGE_NOT_REFUNDABLE, paid_on=fund.paid_at.astimezone(SAO_PAULO))


def _of_boleto(charge: Charge, fund: RefundablePayment) -> bool:
    """A PIX charge has a payment without an endToEndId when staff assigned money of a boleto to it."""
    return charge.boleto or fund.end_to_end_id is None


def succeed(
    charge: Charge, refund: Refund, fund: RefundablePayment, *, outstanding_cents: int
) -> tuple[Charge, Charge | None, Refund, RefundablePayment]:
    """The money is back with the payer: the charge, the charge when that makes it `refunded`, refund and fund.

    `outstanding_cents` is what was not back before this, of all payments of the charge: only when every cent of each
    is back is the charge refunded. One that is not paid (a duplicate after a cancellation) stays what it is.
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
    """The money stayed with us: the refund failed, and its amount can be asked for again."""
    assert refund.status == RefundStatus.PENDING, "a refund ends once"
    return (
        replace(refund, status=RefundStatus.FAILED),
        replace(fund, refunding_cents=fund.refunding_cents - refund.amount_cents),
    )


def is_pix_key(text: str) -> bool:
    """Whether this is a PIX key as the DICT writes it: bare digits, +55 before a telephone, lower case elsewhere."""
    return len(text) <= PIX_KEY_CHARACTERS_MAX and _PIX_KEY.fullmatch(text) is not None


def pix_key_fault(text: str) -> str | None:
    """Why this cannot be a key that money is sent to or received under; None when it may be one."""
    if not is_pix_key(text):
        return "must be a PIX key: CPF, CNPJ, +55 and telephone, e-mail in lower case or random key"
    return "has wrong check digits" if text.isdigit() and not check_digits_hold(text) else None
