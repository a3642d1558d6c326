"""The webhooks of the OpenAPI document: for each kind of event a schema, an example, and when it is sent.

The fields are those that domain/events.py writes; a test validates real deliveries against these schemas.
"""

from typing import Any, Final

from api.body.fields import DAY, INSTANT
from api.openapi.answers import REAIS
from api.openapi.examples import event
from api.openapi.parts import ID, REFERENCE, or_null
from domain.charge import Anomaly, CancelReason, Status
from domain.events import DEFAULT_KINDS, EventKind
from domain.refund import FailureCode
from domain.withdrawal import WithdrawalFailure, WithdrawalStatus
from readmodels.charges.charge_list import STATUSES
from readmodels.money.payment_list import ANOMALIES, METHODS

# Fields that are absent, not null, when the merchant gave no value.
_OMITTED: Final = ("external_id", "refund_external_id")


def _text(description: str, **schema: Any) -> dict[str, Any]:
    return {"type": "string", **schema, "description": description}


_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "event_id": {**ID, "description": "The event: store it, and ignore one that you have."},
    "charge_id": {**ID, "description": "The charge it is about."},
    "withdrawal_id": {**ID, "description": "The withdrawal it is about."},
    "account_id": {**ID, "description": "The account whose event it is."},
    "external_id": _text("The merchant's own reference of the charge or withdrawal; absent when it has none."),
    "test": {"type": "boolean", "description": "Whether it is of the sandbox: no money moved."},
    "version": {"type": "integer", "minimum": 1, "description": "Of the charge or withdrawal, once this happened."},
    "paid_at": {**INSTANT, "description": "When the payer paid."},
    "payment_id": {**ID, "description": "The payment."},
    "method": _text("How the money came.", enum=list(METHODS)),
    "cancelled_at": {**INSTANT, "description": "When it was cancelled."},
    "expires_at": {**INSTANT, "description": "When its time was over."},
    "due_date": {**DAY, "description": "The new due date."},
    "previous_due_date": {**DAY, "description": "The due date before."},
    "failure": {
        "type": "object",
        "required": ["code", "message"],
        "properties": {"code": _text("For programs."), "message": _text("For people.")},
        "description": "Why the charge failed.",
    },
    "refunded_amount": {**REAIS, "description": "What of the charge was given back."},
    "refunded_at": {**INSTANT, "description": "When the last of it was given back."},
    "refund_id": {**ID, "description": "The refund."},
    "refund_status": _text("How the refund ended.", enum=["succeeded", "failed"]),
    "refund_external_id": _text("The refund's own reference; absent when it has none."),
    "end_to_end_id": {
        **or_null({"type": "string"}),
        "description": "The PIX's id at the central bank; null without one.",
    },
    "return_id": {**or_null({"type": "string"}), "description": "The id of the devolucao; null without one."},
    "refunded_total": {**REAIS, "description": "What of the payment was given back or is on its way."},
    "refundable_remaining": {**REAIS, "description": "What of the payment can still be given back."},
    "completed_at": {**INSTANT, "description": "When it ended."},
}
_OF_CHARGE: Final = ("charge_id", "external_id")
_OF_REFUND: Final = (
    *_OF_CHARGE, "refund_id", "payment_id", "refund_status", "reason", "refund_external_id", "end_to_end_id",
    "return_id", "failure_code", "refunded_total", "refundable_remaining", "completed_at",
)  # fmt: skip
_OF_WITHDRAWAL: Final = ("withdrawal_id", "external_id", "end_to_end_id", "failure_code", "completed_at")
_REASON: Final = _text("Why the charge was cancelled.", enum=[each.value for each in CancelReason])
_REFUND_REASON: Final = {**or_null({"type": "string"}), "description": "As it was given with the refund."}
_OVERPAID: Final = {
    **or_null({"type": "string", "enum": [Anomaly.AMOUNT_MISMATCH.value]}),
    "description": "`amount_mismatch` where more came than was asked for: payment.anomaly tells of it too. Else null.",
}
_ANOMALY: Final = _text("What does not fit.", enum=list(ANOMALIES))
_REFUND_FAILURE: Final = {
    **or_null({"type": "string", "enum": [each.value for each in FailureCode]}),
    "description": "Why it failed, for programs; null when it succeeded.",
}
_WITHDRAWAL_FAILURE: Final = {
    **or_null({"type": "string", "enum": [each.value for each in WithdrawalFailure]}),
    "description": "Why it failed, for programs; null when it succeeded.",
}

# For each kind: when it is sent, its fields beside the common ones, and the schemas that replace those of _FIELDS.
_KINDS: Final[dict[EventKind, tuple[str, tuple[str, ...], dict[str, Any]]]] = {
    EventKind.PAYMENT_RECEIVED: (
        "A charge was paid.", (*_OF_CHARGE, "paid_at", "payment_id", "method", "anomaly"), {"anomaly": _OVERPAID},
    ),
    EventKind.CHARGE_CANCELLED: (
        "A charge was cancelled: it can no longer be paid.", (*_OF_CHARGE, "reason", "cancelled_at"),
        {"reason": _REASON},
    ),
    EventKind.CHARGE_EXPIRED: ("The time of a charge was over before it was paid.", (*_OF_CHARGE, "expires_at"), {}),
    EventKind.CHARGE_DUE_DATE_CHANGED: (
        "The due date of a boleto was changed.", (*_OF_CHARGE, "due_date", "previous_due_date"), {},
    ),
    EventKind.CHARGE_FAILED: ("A charge could not be issued, for good.", (*_OF_CHARGE, "failure"), {}),
    EventKind.CHARGE_REFUNDED: (
        "A charge was given back as a whole.", (*_OF_CHARGE, "refunded_amount", "refunded_at"), {},
    ),
    EventKind.REFUND_SUCCEEDED: (
        "A refund, of the whole payment or a part, has reached the payer.", _OF_REFUND,
        {"reason": _REFUND_REASON, "failure_code": _REFUND_FAILURE},
    ),
    EventKind.REFUND_FAILED: (
        "A refund failed: its money is in the balance again.", _OF_REFUND,
        {"reason": _REFUND_REASON, "failure_code": _REFUND_FAILURE},
    ),
    EventKind.PAYMENT_ANOMALY: (
        "Money came that does not fit the charge: twice, after it had ended, or another amount.",
        (*_OF_CHARGE, "paid_at", "payment_id", "method", "anomaly"), {"anomaly": _ANOMALY},
    ),
    EventKind.WITHDRAWAL_SUCCEEDED: (
        "A withdrawal has reached the account's PIX key.", _OF_WITHDRAWAL, {"failure_code": _WITHDRAWAL_FAILURE},
    ),
    EventKind.WITHDRAWAL_FAILED: (
        "A withdrawal failed: its money is in the balance again.", _OF_WITHDRAWAL,
        {"failure_code": _WITHDRAWAL_FAILURE},
    ),
}  # fmt: skip


def event_schemas() -> dict[str, Any]:
    """The schema of each kind's body, by schema name (PaymentReceivedEvent)."""
    return {_schema_name(kind): _schema(kind) for kind in EventKind}


def webhooks() -> dict[str, Any]:
    """The `webhooks` section of the document, by event kind."""
    return {kind.value: {"post": _operation(kind)} for kind in EventKind}


def _schema(kind: EventKind) -> dict[str, Any]:
    when, own, differing = _KINDS[kind]
    about_withdrawal = "withdrawal_id" in own
    status = [WithdrawalStatus.SUCCEEDED.value, WithdrawalStatus.FAILED.value] if about_withdrawal else list(STATUSES)
    properties = {
        "event": {"const": kind.value, "description": "The kind of event."},
        "status": _text(
            f"Status of the {'withdrawal' if about_withdrawal else 'charge'} after this event.",
            enum=[_ENDS[kind]] if kind in _ENDS else status,
        ),
        "amount": {**REAIS, "description": _AMOUNTS.get(kind, "The charge's amount, in decimal reais.")},
        **{name: _FIELDS[name] for name in ("event_id", "account_id", "test", "version")},
        **{name: differing.get(name) or _FIELDS[name] for name in own},
    }
    return {
        "title": _schema_name(kind),
        "type": "object",
        "description": f"{when} Fields may be added.",
        "required": [name for name in properties if name not in _OMITTED],
        "properties": properties,
    }


_ENDS: Final = {
    EventKind.CHARGE_CANCELLED: Status.CANCELLED.value,
    EventKind.CHARGE_EXPIRED: Status.EXPIRED.value,
    EventKind.CHARGE_FAILED: Status.FAILED.value,
    EventKind.CHARGE_REFUNDED: Status.REFUNDED.value,
    EventKind.WITHDRAWAL_SUCCEEDED: WithdrawalStatus.SUCCEEDED.value,
    EventKind.WITHDRAWAL_FAILED: WithdrawalStatus.FAILED.value,
}
_ARRIVED: Final = "What arrived, in decimal reais."
_AMOUNTS: Final = {
    EventKind.PAYMENT_RECEIVED: _ARRIVED,
    EventKind.PAYMENT_ANOMALY: _ARRIVED,
    EventKind.REFUND_SUCCEEDED: "The refund's amount, in decimal reais.",
    EventKind.REFUND_FAILED: "The refund's amount, in decimal reais.",
    EventKind.WITHDRAWAL_SUCCEEDED: "The withdrawal's amount, in decimal reais.",
    EventKind.WITHDRAWAL_FAILED: "The withdrawal's amount, in decimal reais.",
}


def _operation(kind: EventKind) -> dict[str, Any]:
    when = _KINDS[kind][0]
    asked = "" if kind in DEFAULT_KINDS else " Only endpoints that ask for it receive it."
    reference = {"$ref": REFERENCE.format(name=_schema_name(kind))}
    return {
        "operationId": "on" + _schema_name(kind).removesuffix("Event"),
        "summary": when,
        "description": f"{when}{asked} Signed, and sent again until it is taken: see the guide on webhooks.",
        "tags": ["Events"],
        # No bearer token: we send these requests to the merchant's receiver, with a signature in the headers.
        "security": [],
        "parameters": [
            {"name": name, "in": "header", "required": True, "description": told, "schema": {"type": "string"}}
            for name, told in _HEADERS.items()
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": reference, "example": event(kind)}},
        },
        "responses": {"2XX": {"description": "Taken. Anything else, or nothing within ten seconds, is tried again."}},
    }


_HEADERS: Final = {
    "X-Service-Event": "The kind of event.",
    "X-Service-Timestamp": "When this attempt was signed, in Unix seconds.",
    "X-Service-Signature": "sha256= and the HMAC-SHA256 of <timestamp>.<raw body>, in lower-case hex.",
    "X-Service-Delivery-Id": "The event on its way to this endpoint: the same on every attempt.",
    "X-Service-Attempt": "1 for the first attempt, one more each time.",
}


def _schema_name(kind: EventKind) -> str:
    return "".join(part.title() for part in kind.value.replace("_", ".").split(".")) + "Event"


assert set(_KINDS) == set(EventKind)
