"""The kinds of events, and the body of each. The bytes of the webhook's body are also those of the feed item.

Fields are in the order of the spec's table, with our own fields after them. `external_id` is omitted when the charge
has none (contract section 8).
"""

from datetime import datetime
from enum import StrEnum
from uuid import UUID

import msgspec

from domain.charge import Charge, Payment
from domain.instants import iso
from domain.money import reais
from domain.refund import Refund, RefundablePayment
from domain.withdrawal import Withdrawal


class EventKind(StrEnum):
    PAYMENT_RECEIVED = "payment.received"
    CHARGE_CANCELLED = "charge.cancelled"
    CHARGE_EXPIRED = "charge.expired"
    CHARGE_DUE_DATE_CHANGED = "charge.due_date_changed"
    CHARGE_FAILED = "charge.failed"
    CHARGE_REFUNDED = "charge.refunded"
    REFUND_SUCCEEDED = "refund.succeeded"
    REFUND_FAILED = "refund.failed"
    PAYMENT_ANOMALY = "payment.anomaly"
    WITHDRAWAL_SUCCEEDED = "withdrawal.succeeded"
    WITHDRAWAL_FAILED = "withdrawal.failed"


# An endpoint receives these two unless it asks for more (contract section 8).
DEFAULT_KINDS = (EventKind.PAYMENT_RECEIVED, EventKind.CHARGE_CANCELLED)
SANDBOX_MARK = "[TESTE/SANDBOX]"
"""In front of the kind of a test event in every notice about one (spec, delivery rules)."""

_encode = msgspec.json.Encoder().encode


def payment_body(kind: EventKind, charge: Charge, payment: Payment, *, event_id: UUID) -> bytes:
    """Returns the body of payment.received or payment.anomaly; `amount` is the amount that was paid."""
    body = _charge_body(kind, charge, event_id, payment.receipt.amount_cents)
    body["paid_at"] = iso(payment.receipt.paid_at)
    body["payment_id"] = str(payment.payment_id)
    body["method"] = payment.receipt.method
    body["anomaly"] = payment.anomaly
    body["version"] = charge.version
    return _encode(body)


def cancelled_body(charge: Charge, *, event_id: UUID, reason: str, cancelled_at: datetime) -> bytes:
    body = _charge_body(EventKind.CHARGE_CANCELLED, charge, event_id, charge.amount_cents)
    body["reason"] = reason
    body["cancelled_at"] = iso(cancelled_at)
    body["version"] = charge.version
    return _encode(body)


def expired_body(charge: Charge, *, event_id: UUID) -> bytes:
    body = _charge_body(EventKind.CHARGE_EXPIRED, charge, event_id, charge.amount_cents)
    body["expires_at"] = iso(charge.expires_at)
    body["version"] = charge.version
    return _encode(body)


def due_date_changed_body(charge: Charge, *, event_id: UUID, due_date: str, previous_due_date: str) -> bytes:
    body = _charge_body(EventKind.CHARGE_DUE_DATE_CHANGED, charge, event_id, charge.amount_cents)
    body["due_date"] = due_date
    body["previous_due_date"] = previous_due_date
    body["version"] = charge.version
    return _encode(body)


def failed_body(charge: Charge, *, event_id: UUID, code: str, message: str) -> bytes:
    body = _charge_body(EventKind.CHARGE_FAILED, charge, event_id, charge.amount_cents)
    body["failure"] = {"code": code, "message": message}
    body["version"] = charge.version
    return _encode(body)


def refund_body(
    kind: EventKind,
    charge: Charge,
    refund: Refund,
    fund: RefundablePayment,
    *,
    event_id: UUID,
    completed_at: datetime,
    reason: str | None,
    external_id: str | None,
    end_to_end_id: str | None,
    return_id: str | None,
    failure_code: str | None,
) -> bytes:
    """Returns the body of refund.succeeded or refund.failed: `status` is the charge's, `amount` the refund's.

    `external_id` is the charge's too; `refund_external_id` is the refund's own, if it has one.
    """
    body = _charge_body(kind, charge, event_id, refund.amount_cents)
    body["refund_id"] = str(refund.refund_id)
    body["payment_id"] = str(refund.payment_id)
    body["refund_status"] = refund.status
    body["reason"] = reason
    if external_id is not None:
        body["refund_external_id"] = external_id
    body["end_to_end_id"] = end_to_end_id
    body["return_id"] = return_id
    body["failure_code"] = failure_code
    body["refunded_total"] = reais(fund.refunded_cents + fund.refunding_cents)
    body["refundable_remaining"] = reais(fund.remaining_cents)
    body["completed_at"] = iso(completed_at)
    body["version"] = charge.version
    return _encode(body)


def charge_refunded_body(charge: Charge, *, event_id: UUID, refunded_at: datetime) -> bytes:
    body = _charge_body(EventKind.CHARGE_REFUNDED, charge, event_id, charge.amount_cents)
    body["refunded_amount"] = reais(charge.refunded_cents)
    body["refunded_at"] = iso(refunded_at)
    body["version"] = charge.version
    return _encode(body)


def withdrawal_body(
    kind: EventKind,
    withdrawal: Withdrawal,
    *,
    event_id: UUID,
    completed_at: datetime,
    external_id: str | None,
    end_to_end_id: str | None,
    failure_code: str | None,
) -> bytes:
    """Returns the body of withdrawal.succeeded or withdrawal.failed, without a `charge_id`; `status` is the
    withdrawal's."""
    body: dict[str, object] = {
        "event": kind,
        "event_id": str(event_id),
        "withdrawal_id": str(withdrawal.withdrawal_id),
        "account_id": str(withdrawal.account_id),
        "status": withdrawal.status,
        "amount": reais(withdrawal.amount_cents),
    }
    if external_id is not None:
        body["external_id"] = external_id
    body["test"] = False
    body["end_to_end_id"] = end_to_end_id
    body["failure_code"] = failure_code
    body["completed_at"] = iso(completed_at)
    body["version"] = withdrawal.version
    return _encode(body)


def feed_item(body: bytes, *, kind: str, sequence: int, created_at: datetime) -> bytes:
    """Returns the feed item: the webhook's bytes, plus type, sequence and created_at."""
    return b'%b,"type":"%b","sequence":%d,"created_at":"%b"}' % (
        body[:-1],
        kind.encode(),
        sequence,
        iso(created_at).encode(),
    )


def _charge_body(kind: EventKind, charge: Charge, event_id: UUID, amount_cents: int) -> dict[str, object]:
    body: dict[str, object] = {
        "event": kind,
        "event_id": str(event_id),
        "charge_id": str(charge.charge_id),
        "account_id": str(charge.account_id),
        "status": charge.status,
        "amount": reais(amount_cents),
    }
    if charge.external_id is not None:
        body["external_id"] = charge.external_id
    body["test"] = charge.test
    return body
