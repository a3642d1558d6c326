"""Adds to the answer schemas what the types cannot say: formats by field name, and the values of enumerations."""

from typing import Any

from api.body.fields import DAY, INSTANT
from api.openapi.parts import ID, REFERENCE, WHOLE, or_null
from api.routes.boletos import KINDS as KINDS_OF_BOLETO
from api.routes.schedules import FREQUENCIES
from api.routes.token import LIFETIME_S
from commands.schedules import METHODS as METHODS_OF_SCHEDULE
from domain.refund import FailureCode
from domain.withdrawal import WithdrawalFailure, WithdrawalStatus
from readmodels.charges.charge_list import METHODS, STATUSES
from readmodels.charges.schedule import STATES as SCHEDULED_STATES
from readmodels.charges.schedule import STATUSES as SCHEDULE_STATUSES
from readmodels.money.ledger import ENTRY_TYPES
from readmodels.money.payment_list import ANOMALIES
from readmodels.money.payment_list import METHODS as PAYMENT_METHODS
from readmodels.money.refund_list import STATUSES as REFUND_STATUSES
from readmodels.money.withdrawal import STATUSES as WITHDRAWAL_STATUSES
from readmodels.webhooks.event_list import KINDS

# A withdrawal has events only for its final states.
_WITHDRAWAL_FINAL_STATUSES = (WithdrawalStatus.SUCCEEDED.value, WithdrawalStatus.FAILED.value)

_CENTS = r"\.[0-9]{2}$"
REAIS = {"type": "string", "pattern": f"^[0-9]+{_CENTS}", "examples": ["10.50"]}
_BALANCE = {"type": "string", "pattern": f"^-?[0-9]+{_CENTS}", "examples": ["1234.56"]}
_METHOD = {"type": "string", "enum": list(PAYMENT_METHODS)}
_SEQUENCE = {
    "type": "integer",
    "minimum": 1,
    "description": "Number of the event in the feed, or of the entry in the ledger; numbers follow each other without "
    "gaps.",
}

# The schema of a field name in every answer; the types say only "string".
_FIELD_SCHEMAS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(
        (
            "charge_id", "account_id", "schedule_id", "payment_id", "entry_id", "event_id", "refund_id",
            "withdrawal_id", "resource_id",
        ),
        ID,
    ),
    **dict.fromkeys(
        (
            "created_at", "expires_at", "paid_at", "cancelled_at", "credited_at", "completed_at", "first_used_at",
        ),
        INSTANT,
    ),
    **dict.fromkeys(("due_date", "effective_due_date", "payable_until"), DAY),
    **dict.fromkeys(
        ("amount", "fee", "net_amount", "interest", "fine", "discount", "refunded_amount", "refunded_total",
         "refundable_remaining"), REAIS
    ),
    "balance": _BALANCE,
    "balance_after": _BALANCE,
    "status": {"type": "string", "enum": list(STATUSES)},
    "payment_method": {"type": "string", "enum": list(METHODS)},
    "method": _METHOD,
    "anomaly": {"type": "string", "enum": list(ANOMALIES)},
    "sequence": _SEQUENCE,
    "version": {"type": "integer", "minimum": 1, "description": "Starts at 1 and grows by one with each change."},
    "txid": {"type": "string", "pattern": "^[0-9a-zA-Z]{26,35}$"},
    "qr_code_image": {"type": "string", "pattern": "^data:image/png;base64,[A-Za-z0-9+/]+=*$"},
    "end_to_end_id": {"type": "string", "pattern": "^E[0-9]{8}[0-9]{12}[0-9A-Za-z]{11}$"},
    "return_id": {"type": "string", "pattern": "^D[0-9]{8}[0-9]{12}[0-9A-Za-z]{11}$"},
    "next_cursor": {"type": "string", "pattern": "^[A-Za-z0-9_-]+$",
                    "description": "Cursor of the next page, to be sent as `cursor`; null on the last page."},
    "replay_count": WHOLE,
    "count": WHOLE,
}  # fmt: skip


def sharpen_answers(components: dict[str, Any]) -> None:
    """Give the fields of answers their formats, and mark as required the fields that are always present."""
    for component in components.values():
        properties = component.get("properties", {})
        for name, schema in properties.items():
            # fine, interest and discounts of a boleto are objects; elsewhere the same names are amounts.
            if name in _FIELD_SCHEMAS and "$ref" not in str(schema):
                nullable = {"type": "null"} in schema.get("anyOf", [])
                properties[name] = (
                    {"anyOf": [_FIELD_SCHEMAS[name], {"type": "null"}]} if nullable else _FIELD_SCHEMAS[name]
                )
    for name in ("ChargeProjection", "Balance", "KeyState"):
        # Optional but never null: only dual charges have legs, and only charges created with metadata have metadata.
        optional = (
            "legs", "metadata", "warnings", "fine", "interest", "discounts", "payable_until", "amount_due",
        )  # fmt: skip
        components[name]["required"] = [each for each in components[name]["properties"] if each not in optional]
        for schema in components[name]["properties"].values():
            schema.pop("default", None)
    _sharpen_charges(components)
    _sharpen_boletos(components)
    _sharpen_money(components)
    _sharpen_events(components)
    _sharpen_schedules(components)
    _sharpen_rest(components)


def _sharpen_charges(components: dict[str, Any]) -> None:
    components["ChargeProjection"]["properties"]["legs"] |= {"minItems": 2, "maxItems": 2}
    components["Leg"]["properties"] = {
        "leg": {"type": "string", "enum": ["pix", "boleto"]},
        "status": {
            "type": "string",
            "enum": ["pending", "paid", "cancelled", "expired"],
            "description": "Status of the leg. It is cancelled also when the other leg was paid.",
        },
    }


def _sharpen_boletos(components: dict[str, Any]) -> None:
    boleto = components["Boleto"]
    boleto["required"] = list(boleto["properties"])
    boleto["properties"] |= {
        "nosso_numero": {"type": "string", "pattern": "^[0-9]{20}$"},
        "seu_numero": {"type": "string", "pattern": "^[A-Z0-9 '-]{1,15}$"},
        "linha_digitavel": {"type": "string", "pattern": "^[0-9]{47}$"},
        "codigo_barras": {"type": "string", "pattern": "^[0-9]{44}$"},
        "tipo_cobranca": {"type": "string", "enum": list(KINDS_OF_BOLETO)},
        "data_vencimento": DAY,
    }
    for name in ("FineAgreed", "InterestAgreed", "DiscountAgreed"):
        properties = components[name]["properties"]
        properties |= dict.fromkeys((each for each in properties if each != "until"), REAIS)
        for each in properties.values():
            each.pop("default", None)
    components["DiscountAgreed"]["properties"]["until"] = DAY
    components["AmountDueToday"]["properties"]["date"] = DAY


def _sharpen_money(components: dict[str, Any]) -> None:
    components["Balance"]["properties"]["currency"] = {"const": "BRL"}
    entry = components["LedgerItem"]["properties"]
    entry["type"] = {"type": "string", "enum": list(ENTRY_TYPES)}
    entry["direction"] = {"type": "string", "enum": ["credit", "debit"]}
    refund = components["RefundProjection"]["properties"]
    refund["status"] = {"type": "string", "enum": list(REFUND_STATUSES)}
    refund["failure_code"] = or_null({"type": "string", "enum": [each.value for each in FailureCode]})
    withdrawal = components["WithdrawalProjection"]["properties"]
    withdrawal["status"] = {"type": "string", "enum": list(WITHDRAWAL_STATUSES)}
    withdrawal["failure_code"] = or_null({"type": "string", "enum": [each.value for each in WithdrawalFailure]})
    withdrawal["test"] = {"const": False}


def _sharpen_events(components: dict[str, Any]) -> None:
    event = components["EventItem"]["properties"]
    event["type"] = event["event"] = {"type": "string", "enum": list(KINDS)}
    event["status"] = {"type": "string", "enum": [*dict.fromkeys([*STATUSES, *_WITHDRAWAL_FINAL_STATUSES])]}
    # Never null: an event leaves out the fields it does not have.
    for name in ("charge_id", "withdrawal_id", "external_id", "paid_at"):
        event[name] = _FIELD_SCHEMAS.get(name, {"type": "string"})
    components["EventItem"]["additionalProperties"] = True
    # An HTTP status, not the status of a charge.
    components["DeliveryAttempt"]["properties"]["status"] = {"type": ["integer", "null"]}
    for each in ("RequestItem", "RequestWithBodies"):
        request = components[each]["properties"]
        request["status"] = {"type": "integer", "minimum": 200, "maximum": 599}
        request["method"] = {"type": "string"}
        request["at"] = INSTANT


def _sharpen_schedules(components: dict[str, Any]) -> None:
    schedule = components["ScheduleProjection"]["properties"]
    schedule["status"] = {"type": "string", "enum": list(SCHEDULE_STATUSES)}
    schedule["payment_method"] = {"type": "string", "enum": list(METHODS_OF_SCHEDULE)}
    schedule["frequency"] = {"type": "string", "enum": list(FREQUENCIES)}
    schedule["first_due_date"] = DAY
    for name in ("end_date", "next_due_date"):
        schedule[name] = or_null(DAY)
    schedule["next_issue_at"] = or_null(INSTANT)
    components["ScheduleFailure"]["properties"]["failed_at"] = INSTANT
    components["ScheduledCharge"]["properties"]["state"] = {"type": "string", "enum": list(SCHEDULED_STATES)}
    components["ScheduledCharge"]["properties"]["charge_id"] = or_null(ID)


def _sharpen_rest(components: dict[str, Any]) -> None:
    components["KeyState"]["properties"]["state"] = {"enum": ["in_progress", "completed", "unknown"]}
    clock = components["SandboxClock"]["properties"]
    clock["now"] = clock["real_time"] = INSTANT
    clock["advanced_seconds"] = WHOLE
    email = components["EmailAsked"]["properties"]
    email["email_id"] = ID
    email["status"] = {"type": "string", "enum": ["queued", "stopped"]}
    components["ErrorBody"]["properties"]["documentation_url"] = {"type": "string", "format": "uri"}
    components["ErrorBody"]["properties"]["fields"] = {
        "type": "array",
        "minItems": 1,
        "items": {"$ref": REFERENCE.format(name="Field")},
    }
    token = components["Token"]["properties"]
    token["token_type"] = {"const": "Bearer"}
    token["expires_in"] = {"const": LIFETIME_S}
