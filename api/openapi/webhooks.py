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


def _text_schema(description: str, **schema: Any) -> dict[str, Any]:
    return {"type": "string", **schema, "description": description}


_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "event_id": {**ID, "description": "Id of the event. Store it, and ignore an event whose id you already have."},
    "charge_id": {**ID, "description": "The charge that the event is about."},
    "withdrawal_id": {**ID, "description": "The withdrawal that the event is about."},
    "account_id": {**ID, "description": "The account that the event belongs to."},
    "external_id": _text_schema("Your own reference for the charge or withdrawal; absent when it has none."),
    "test": {"type": "boolean", "description": "Whether the event comes from the sandbox, where no money moves."},
    "version": {
        "type": "integer",
        "minimum": 1,
        "description": "Version of the charge or withdrawal after this event; it grows by one with each change.",
    },
    "paid_at": {**INSTANT, "description": "When the payer paid."},
    "payment_id": {**ID, "description": "Id of the payment."},
    "method": _text_schema("How the payment was made: pix or boleto.", enum=list(METHODS)),
    "cancelled_at": {**INSTANT, "description": "When the charge was cancelled."},
    "expires_at": {**INSTANT, "description": "When the charge expired."},
    "due_date": {**DAY, "description": "The new due date."},
    "previous_due_date": {**DAY, "description": "The due date before the change."},
    "failure": {
        "type": "object",
        "required": ["code", "message"],
        "properties": {
            "code": _text_schema("Code of the failure, for programs."),
            "message": _text_schema("Explanation for people, in English."),
        },
        "description": "Why the charge failed.",
    },
    "refunded_amount": {**REAIS, "description": "Amount refunded so far, in decimal reais."},
    "refunded_at": {**INSTANT, "description": "When the last part was refunded."},
    "refund_id": {**ID, "description": "Id of the refund."},
    "refund_status": _text_schema("How the refund ended.", enum=["succeeded", "failed"]),
    "refund_external_id": _text_schema("Your own reference for the refund; absent when it has none."),
    "end_to_end_id": {
        **or_null({"type": "string"}),
        "description": "EndToEndId of the PIX at the central bank; null when there is none.",
    },
    "return_id": {
        **or_null({"type": "string"}),
        "description": "Id of the devolução at the central bank; null when there is none.",
    },
    "refunded_total": {
        **REAIS,
        "description": "Part of the payment that was refunded or is being refunded, in decimal reais.",
    },
    "refundable_remaining": {
        **REAIS,
        "description": "Part of the payment that can still be refunded, in decimal reais.",
    },
    "completed_at": {**INSTANT, "description": "When the refund or withdrawal ended."},
}
_CHARGE_FIELDS: Final = ("charge_id", "external_id")
_REFUND_FIELDS: Final = (
    *_CHARGE_FIELDS, "refund_id", "payment_id", "refund_status", "reason", "refund_external_id", "end_to_end_id",
    "return_id", "failure_code", "refunded_total", "refundable_remaining", "completed_at",
)  # fmt: skip
_WITHDRAWAL_FIELDS: Final = ("withdrawal_id", "external_id", "end_to_end_id", "failure_code", "completed_at")
_REASON: Final = _text_schema("Why the charge was cancelled.", enum=[each.value for each in CancelReason])
_REFUND_REASON: Final = {
    **or_null({"type": "string"}),
    "description": "The reason given in the refund's request; null when none was.",
}
_OVERPAID: Final = {
    **or_null({"type": "string", "enum": [Anomaly.AMOUNT_MISMATCH.value]}),
    "description": "`amount_mismatch` when more was paid than was due; a payment.anomaly event is sent as well."
    " Otherwise null.",
}
_ANOMALY: Final = _text_schema("Why the payment does not fit its charge.", enum=list(ANOMALIES))
_REFUND_FAILURE: Final = {
    **or_null({"type": "string", "enum": [each.value for each in FailureCode]}),
    "description": "Code of the failure, for programs; null when it succeeded.",
}
_WITHDRAWAL_FAILURE: Final = {
    **or_null({"type": "string", "enum": [each.value for each in WithdrawalFailure]}),
    "description": "Code of the failure, for programs; null when it succeeded.",
}

# For each kind: when it is sent, its fields beside the common ones, and the schemas that replace those of _FIELDS.
_KINDS: Final[dict[EventKind, tuple[str, tuple[str, ...], dict[str, Any]]]] = {
    EventKind.PAYMENT_RECEIVED: (
        "A charge was paid.", (*_CHARGE_FIELDS, "paid_at", "payment_id", "method", "anomaly"), {"anomaly": _OVERPAID},
    ),
    EventKind.CHARGE_CANCELLED: (
        "A charge was cancelled: it can no longer be paid.", (*_CHARGE_FIELDS, "reason", "cancelled_at"),
        {"reason": _REASON},
    ),
    EventKind.CHARGE_EXPIRED: ("A charge expired before it was paid.", (*_CHARGE_FIELDS, "expires_at"), {}),
    EventKind.CHARGE_DUE_DATE_CHANGED: (
        "The due date of a boleto was changed.", (*_CHARGE_FIELDS, "due_date", "previous_due_date"), {},
    ),
    EventKind.CHARGE_FAILED: (
        "A charge could not be issued and will not be tried again.", (*_CHARGE_FIELDS, "failure"), {},
    ),
    EventKind.CHARGE_REFUNDED: (
        "The payment of a charge has been refunded in full.", (*_CHARGE_FIELDS, "refunded_amount", "refunded_at"), {},
    ),
    EventKind.REFUND_SUCCEEDED: (
        "A refund, of the whole payment or a part, has reached the payer.", _REFUND_FIELDS,
        {"reason": _REFUND_REASON, "failure_code": _REFUND_FAILURE},
    ),
    EventKind.REFUND_FAILED: (
        "A refund failed: its amount was credited back to the balance.", _REFUND_FIELDS,
        {"reason": _REFUND_REASON, "failure_code": _REFUND_FAILURE},
    ),
    EventKind.PAYMENT_ANOMALY: (
        "A payment does not fit its charge: a duplicate, a payment of a charge that was cancelled or failed, or "
        "another amount than was due.",
        (*_CHARGE_FIELDS, "paid_at", "payment_id", "method", "anomaly"), {"anomaly": _ANOMALY},
    ),
    EventKind.WITHDRAWAL_SUCCEEDED: (
        "A withdrawal has reached the account's PIX key.", _WITHDRAWAL_FIELDS, {"failure_code": _WITHDRAWAL_FAILURE},
    ),
    EventKind.WITHDRAWAL_FAILED: (
        "A withdrawal failed: its amount and fee were credited back to the balance.", _WITHDRAWAL_FIELDS,
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
    when, own_fields, own_schemas = _KINDS[kind]
    about_withdrawal = "withdrawal_id" in own_fields
    status = [WithdrawalStatus.SUCCEEDED.value, WithdrawalStatus.FAILED.value] if about_withdrawal else list(STATUSES)
    properties = {
        "event": {"const": kind.value, "description": "The kind of event, such as payment.received."},
        "status": _text_schema(
            f"Status of the {'withdrawal' if about_withdrawal else 'charge'} after this event.",
            enum=[_FINAL_STATUSES[kind]] if kind in _FINAL_STATUSES else status,
        ),
        "amount": {**REAIS, "description": _AMOUNT_DESCRIPTIONS.get(kind, "The charge's amount, in decimal reais.")},
        **{name: _FIELDS[name] for name in ("event_id", "account_id", "test", "version")},
        **{name: own_schemas.get(name) or _FIELDS[name] for name in own_fields},
    }
    return {
        "title": _schema_name(kind),
        "type": "object",
        "description": f"{when} Fields may be added.",
        "required": [name for name in properties if name not in _OMITTED],
        "properties": properties,
    }


_FINAL_STATUSES: Final = {
    EventKind.CHARGE_CANCELLED: Status.CANCELLED.value,
    EventKind.CHARGE_EXPIRED: Status.EXPIRED.value,
    EventKind.CHARGE_FAILED: Status.FAILED.value,
    EventKind.CHARGE_REFUNDED: Status.REFUNDED.value,
    EventKind.WITHDRAWAL_SUCCEEDED: WithdrawalStatus.SUCCEEDED.value,
    EventKind.WITHDRAWAL_FAILED: WithdrawalStatus.FAILED.value,
}
_ARRIVED: Final = "The amount that was paid, in decimal reais."
_AMOUNT_DESCRIPTIONS: Final = {
    EventKind.PAYMENT_RECEIVED: _ARRIVED,
    EventKind.PAYMENT_ANOMALY: _ARRIVED,
    EventKind.REFUND_SUCCEEDED: "The refund's amount, in decimal reais.",
    EventKind.REFUND_FAILED: "The refund's amount, in decimal reais.",
    EventKind.WITHDRAWAL_SUCCEEDED: "The withdrawal's amount, in decimal reais.",
    EventKind.WITHDRAWAL_FAILED: "The withdrawal's amount, in decimal reais.",
}


def _operation(kind: EventKind) -> dict[str, Any]:
    when = _KINDS[kind][0]
    opt_in_note = "" if kind in DEFAULT_KINDS else " Sent only to endpoints that ask for this kind."
    reference = {"$ref": REFERENCE.format(name=_schema_name(kind))}
    return {
        "operationId": "on" + _schema_name(kind).removesuffix("Event"),
        "summary": when,
        "description": f"{when}{opt_in_note} Signed, and sent again until your endpoint answers 2xx: see the "
        "guide on webhooks.",
        "tags": ["Events"],
        # No bearer token: we send these requests to the merchant's receiver, with a signature in the headers.
        "security": [],
        "parameters": [
            {"name": name, "in": "header", "required": True, "description": description, "schema": {"type": "string"}}
            for name, description in _HEADERS.items()
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": reference, "example": event(kind)}},
        },
        "responses": {
            "2XX": {
                "description": "The event was received. After any other status, or no answer within "
                "ten seconds, it is sent again."
            }
        },
    }


_HEADERS: Final = {
    "X-Service-Event": "The kind of event, such as payment.received.",
    "X-Service-Timestamp": "When this attempt was signed, in Unix seconds.",
    "X-Service-Signature": "The text sha256= followed by the HMAC-SHA256 of <timestamp>.<raw body>, in lower-case hex.",
    "X-Service-Delivery-Id": "Id of this delivery: the same on every attempt to send the event to this endpoint.",
    "X-Service-Attempt": "Number of the attempt: 1 for the first, and one more each time.",
}


def _schema_name(kind: EventKind) -> str:
    return "".join(part.title() for part in kind.value.replace("_", ".").split(".")) + "Event"


assert set(_KINDS) == set(EventKind)
