"""One realistic example of each answer in the OpenAPI document: the same charge of 149.90, issued, paid and refunded.

The examples are exact, down to check digits: BR Code, barcode and line come from the functions that make the real
ones. A test validates every example against its schema.
"""

from datetime import date
from typing import Any, Final

from domain.boleto.codes import barcode, line
from domain.events import EventKind
from domain.pix.br_code import dynamic_br_code
from domain.pix.qr import png_data_uri

ACCOUNT_ID: Final = "01a1fdb0-3c5e-7a41-8c1d-5b0f6a2e9d10"
CHARGE_ID: Final = "01a1fdb9-6fd9-7433-94a2-937b5542916e"
_PAYMENT_ID: Final = "01a1fdbb-02c4-7b1f-a3e5-6d18c07f4b22"
_REFUND_ID: Final = "01a1fdc0-9e13-7f60-b7d2-41a6c95e8833"
_WITHDRAWAL_ID: Final = "01a1fdc4-5a70-7d92-8f3b-2c9e17d06a44"
_SCHEDULE_ID: Final = "01a1fdb2-7b8d-7e05-9a61-80f3d4c2b155"
_EVENT_ID: Final = "01a1fdbb-02c5-70a8-bc4f-9e62d31a7f66"
_DELIVERY_ID: Final = "01a1fdbb-02c6-7c39-8d10-f5b7a48e2c77"
_ENTRY_ID: Final = "01a1fdbb-02c5-7e51-a9c8-03d6f72b1e88"
_END_TO_END_ID: Final = "E00000000202611211049s7K2mQ9xTfA"
_RETURN_ID: Final = "D00000000202611211312Yb4Np8LcRwZ"
_PUBLIC_ID: Final = "m11k7bUFs4RQ-I9oiuV1ew"
_CREATED, _PAID, _LATER = "2026-11-21T10:45:02.201Z", "2026-11-21T10:49:10.893Z", "2026-11-21T13:12:40.017Z"
_NOSSO_NUMERO: Final = "00031285570000000062"
_DUE: Final = date(2026, 12, 10)


_REQUEST: Final = {
    "request_id": "req_2bXkq3cVQyq0eQfZb1m5Zw", "at": _PAID, "client_id": "test_k3v9q2m7x1", "method": "POST",
    "path": f"/v1/charges/{CHARGE_ID}/cancel", "status": 409, "code": "CHARGE_NOT_PENDING",
    "message": "The charge is no longer pending: it is paid.", "fields": None, "user_agent": "shop/2.1",
    "resource": None, "duration_ms": 4.2,
}  # fmt: skip


_BODIES: Final = {
    "path": "/v1/charges/pix", "status": 400, "code": "VALIDATION_ERROR",
    "message": "The request is not valid: see fields.",
    "fields": [{"field": "payer.document", "message": "must be 11 or 14 digits"}],
    "request_body": '{"account_id":"' + ACCOUNT_ID + '","amount":"149.90","external_id":"order-1001",'
    '"payer":{"name":"Aaa Aaaaa","document":"999.999.999-99"}}',
    "response_body": '{"error":{"code":"VALIDATION_ERROR","message":"The request is not valid: see fields.",'
    '"request_id":"req_2bXkq3cVQyq0eQfZb1m5Zw","fields":[{"field":"payer.document",'
    '"message":"must be 11 or 14 digits"}]}}',
}  # fmt: skip


def examples(app_url: str) -> dict[str, Any]:
    """The examples, keyed by schema name; an operation's name is the key where it needs an example of its own."""
    charge, slip = _pix_charge(app_url), _boleto_charge(app_url)
    by_schema = {
        "ChargeProjection": charge,
        "ChargeSummary": {
            "data": [
                {"status": "pending", "count": 12, "amount": "1798.80"},
                {"status": "paid", "count": 88, "amount": "13191.20"},
            ]
        },
        "SandboxClock": {
            "now": "2026-11-24T10:45:02.201Z", "real_time": _CREATED, "advanced_seconds": 259_200,
        },
        "EmailAsked": {
            "email_id": "01a1fdbc-41d7-79e3-90f2-b64c1e85aa99", "charge_id": CHARGE_ID, "to": "ana@example.com",
            "status": "queued",
        },
        "ScheduleProjection": _SCHEDULE,
        "RefundProjection": _REFUND,
        "WithdrawalProjection": _WITHDRAWAL,
        "Me": {
            "account_id": ACCOUNT_ID, "name": "Padaria Aurora", "mode": "test",
            "scopes": ["charges:create", "charges:read", "payments:read"], "client_id": "test_k3v9q2m7x1",
            "rate": {"limit": 1000, "burst": 2000},
        },
        "PaymentItem": _PAYMENT_ITEM,
        "Balance": {"balance": "1349.10", "currency": "BRL"},
        "LedgerItem": _ENTRY,
        "EventItem": event(EventKind.PAYMENT_RECEIVED)
        | {"type": "payment.received", "sequence": 204, "created_at": _PAID},
        "Delivery": _DELIVERY,
        "RangeRedelivered": {"deliveries": 17},
        "RequestItem": _REQUEST,
        "RequestWithBodies": _REQUEST | _BODIES,
        "KeyState": {
            "key": "order-1001-issue", "state": "completed", "resource_type": "charge", "resource_id": CHARGE_ID,
            "first_used_at": _CREATED, "replay_count": 1,
        },
        "ScheduledCharge": {
            "number": 1, "due_date": "2026-12-10", "state": "issued", "charge_id": CHARGE_ID, "charge": slip,
            "failure": None,
        },
        "Token": {
            "access_token": "yJ3f0Qm8T1pV6wZr2cLk9sXe4uHb7nDa", "token_type": "Bearer", "expires_in": 3600,
            "scope": "charges:create charges:read payments:read",
        },
    }  # fmt: skip
    pages = {
        f"{page}Page": {"data": [by_schema[item]], "next_cursor": None}
        for page, item in (
            ("Charge", "ChargeProjection"), ("Schedule", "ScheduleProjection"), ("ScheduledCharge", "ScheduledCharge"),
            ("Refund", "RefundProjection"), ("Withdrawal", "WithdrawalProjection"), ("Payment", "PaymentItem"),
            ("Ledger", "LedgerItem"), ("Event", "EventItem"), ("Delivery", "Delivery"), ("Request", "RequestItem"),
        )
    }  # fmt: skip
    return by_schema | pages | _operation_examples(app_url)


def _operation_examples(app_url: str) -> dict[str, Any]:
    charge, slip = _pix_charge(app_url), _boleto_charge(app_url)
    paid = charge | {"status": "paid", "paid_at": _PAID, "payment": _PAYMENT, "version": 2}
    changed = charge | {"version": 2}
    cancelled = changed | {"status": "cancelled", "cancelled_at": _LATER}
    return {
        "getCharge": paid,
        "simulatePayment": paid,
        "sandboxPay": paid,
        "cancelCharge": cancelled,
        "cancelChargeByReference": cancelled,
        "sandboxExpire": changed | {"status": "expired"},
        "sandboxFail": changed
        | {"status": "failed", "failure": {"code": "BANK_REFUSED", "message": "The bank refused the charge."}},
        "createBoletoCharge": slip | _TERMS,
        "createDualCharge": _dual_charge(app_url)
        | _TERMS
        | {"pix": _pix(CHARGE_ID.replace("-", ""), None), "expires_at": "2027-01-12T03:00:00.000Z"},
        "changeDueDate": slip | {"version": 2},
        "pauseSchedule": _SCHEDULE | {"status": "paused", "next_issue_at": None, "version": 2},
        "cancelSchedule": _SCHEDULE
        | {"status": "cancelled", "next_number": None, "next_due_date": None, "next_issue_at": None, "version": 2},
        "cancelWithdrawal": _WITHDRAWAL
        | {"status": "cancelled", "end_to_end_id": None, "completed_at": _LATER, "version": 2},
    }


def event(kind: EventKind) -> dict[str, Any]:
    """An example body of a webhook of this kind."""
    payload: dict[str, Any] = {
        "event": kind.value, "event_id": _EVENT_ID, "charge_id": CHARGE_ID, "account_id": ACCOUNT_ID,
        "status": _STATUS_AFTER.get(kind, "paid"), "amount": "149.90", "external_id": "order-1001", "test": False,
    }  # fmt: skip
    if kind in (EventKind.WITHDRAWAL_SUCCEEDED, EventKind.WITHDRAWAL_FAILED):
        del payload["charge_id"]
        payload = payload | {"withdrawal_id": _WITHDRAWAL_ID, "amount": "500.00", "external_id": "payout-42"}
    return payload | _KIND_FIELDS[kind] | {"version": 2}


def _pix_charge(app_url: str) -> dict[str, Any]:
    txid = CHARGE_ID.replace("-", "")
    return _charge(app_url) | {"pix": _pix(txid), "expires_at": "2026-11-22T10:45:02.201Z"}


def _pix(txid: str, amount_cents: int | None = 14_990) -> dict[str, Any]:
    code = dynamic_br_code(
        location=f"pix.example.com/qr/v2/{txid}", amount_cents=amount_cents, name="Padaria Aurora", city="Recife"
    )
    return {"txid": txid, "qr_code": code, "qr_code_image": png_data_uri(code)}


def _boleto_charge(app_url: str) -> dict[str, Any]:
    digits = barcode(bank="001", free_field=f"000000{_NOSSO_NUMERO[3:]}17", due=_DUE, amount_cents=14_990)
    charge = _charge(app_url)
    return charge | {
        "payment_method": "boleto",
        "pdf_url": f"{charge['payment_url']}/boleto.pdf",
        "due_date": _DUE.isoformat(),
        "effective_due_date": _DUE.isoformat(),
        "boleto": {
            "nosso_numero": _NOSSO_NUMERO,
            "seu_numero": "ORDER-1001",
            "linha_digitavel": line(digits),
            "codigo_barras": digits,
            "qr_code": None,
            "tipo_cobranca": "boleto",
            "data_vencimento": _DUE.isoformat(),
        },
    }


def _dual_charge(app_url: str) -> dict[str, Any]:
    slip, pix = _boleto_charge(app_url), _pix_charge(app_url)
    return slip | {
        "payment_method": "boleto_pix",
        "pix": pix["pix"],
        "expires_at": "2026-12-11T02:59:59.999Z",
        "legs": [{"leg": "pix", "status": "pending"}, {"leg": "boleto", "status": "pending"}],
        "boleto": slip["boleto"] | {"tipo_cobranca": "boleto_pix"},
    }


def _charge(app_url: str) -> dict[str, Any]:
    return {
        "charge_id": CHARGE_ID, "account_id": ACCOUNT_ID, "external_id": "order-1001", "public_id": _PUBLIC_ID,
        "payment_url": f"{app_url}/pagar/{_PUBLIC_ID}", "pdf_url": None, "payment_method": "pix", "status": "pending",
        "amount": "149.90", "description": "Order 1001", "pix": None, "boleto": None, "payment": None,
        "created_at": _CREATED, "due_date": None, "effective_due_date": None, "expires_at": None, "paid_at": None,
        "cancelled_at": None, "refunded_amount": "0.00", "failure": None, "metadata": {"cart": "c-8812"}, "test": False,
        "version": 1,
    }  # fmt: skip


# fmt: off
_TERMS: Final[dict[str, Any]] = {
    "fine": {"percent": "2.00"}, "interest": {"percent_per_month": "1.00"},
    "discounts": [{"until": "2026-12-01", "amount": "5.00"}], "payable_until": "2027-01-11",
    "amount_due": {"date": "2026-11-21", "amount": "144.90", "fine": "0.00", "interest": "0.00", "discount": "5.00"},
}
_PAYER: Final = {"name": "Ana Lima", "document": "***.982.247-**"}
_AMOUNTS: Final = {
    "amount": "149.90", "fee": "0.00", "net_amount": "149.90", "interest": "0.00", "fine": "0.00", "discount": "0.00",
    "refunded_amount": "0.00",
}
_PAYMENT: Final[dict[str, Any]] = {
    "payment_id": _PAYMENT_ID, "method": "pix", "paid_at": _PAID, "credited_at": _PAID,
    "end_to_end_id": _END_TO_END_ID, "payer": _PAYER, "late": False, **_AMOUNTS,
}
_PAYMENT_ITEM: Final[dict[str, Any]] = _PAYMENT | {
    "charge_id": CHARGE_ID, "external_id": "order-1001", "account_id": ACCOUNT_ID, "payment_method": "pix",
    "txid": CHARGE_ID.replace("-", ""), "nosso_numero": None, "integrador_code": None, "anomaly": None, "test": False,
}
_ENTRY: Final[dict[str, Any]] = {
    "entry_id": _ENTRY_ID, "sequence": 9, "type": "payment", "direction": "credit", "amount": "149.90",
    "balance_after": "1349.10", "charge_id": CHARGE_ID, "payment_id": _PAYMENT_ID, "refund_id": None,
    "withdrawal_id": None, "external_id": "order-1001", "created_at": _PAID, "test": False,
}
_REFUND: Final[dict[str, Any]] = {
    "refund_id": _REFUND_ID, "charge_id": CHARGE_ID, "payment_id": _PAYMENT_ID, "amount": "49.90",
    "status": "succeeded", "reason": "returned goods", "description": None, "external_id": "return-77",
    "end_to_end_id": _END_TO_END_ID, "return_id": _RETURN_ID, "failure_code": None, "refunded_total": "49.90",
    "refundable_remaining": "100.00", "created_at": "2026-11-21T13:12:38.440Z", "completed_at": _LATER, "test": False,
    "held": False,
}
_WITHDRAWAL: Final[dict[str, Any]] = {
    "withdrawal_id": _WITHDRAWAL_ID, "account_id": ACCOUNT_ID, "amount": "500.00", "fee": "0.00", "status": "succeeded",
    "version": 3,
    "description": None, "external_id": "payout-42", "pix_key": "fi***@example.com", "automatic": False,
    "end_to_end_id": "E00000000202611211312h5Vd3JkPz8B", "failure_code": None, "created_at": _PAID,
    "completed_at": _LATER, "test": False,
}
_SCHEDULE: Final[dict[str, Any]] = {
    "schedule_id": _SCHEDULE_ID, "account_id": ACCOUNT_ID, "status": "active", "payment_method": "boleto",
    "amount": "149.90", "frequency": "monthly", "first_due_date": "2026-12-10", "end_date": None, "max_charges": 12,
    "issue_days_before": 10, "fine": {"percent": "2.00"}, "interest": {"percent_per_month": "1.00"},
    "discounts": [{"days_before_due": 5, "percent": "3.00"}], "payable_days_after_due": 30,
    "external_id": "plan-9", "description": "Monthly plan", "send_email": True,
    "next_number": 1, "next_due_date": "2026-12-10", "next_issue_at": "2026-11-30T09:00:00.000Z", "failure": None,
    "created_at": _CREATED, "version": 1,
}
_DELIVERY: Final[dict[str, Any]] = {
    "delivery_id": _DELIVERY_ID, "event_id": _EVENT_ID, "type": "payment.received", "sequence": 204,
    "charge_id": CHARGE_ID, "url": "https://shop.example.com/webhooks", "state": "delivered", "attempt_count": 2,
    "next_attempt_at": None, "created_at": _PAID, "delivered_at": "2026-11-21T10:49:17.104Z", "test": False,
    "attempts": [
        {"attempt": 1, "started_at": "2026-11-21T10:49:10.931Z", "duration_ms": 212, "status": 503,
         "outcome": "rejected", "answer": "try again"},
        {"attempt": 2, "started_at": "2026-11-21T10:49:17.020Z", "duration_ms": 84, "status": 204,
         "outcome": "delivered", "answer": ""},
    ],
}
_STATUS_AFTER: Final = {
    EventKind.CHARGE_CANCELLED: "cancelled", EventKind.CHARGE_EXPIRED: "expired",
    EventKind.CHARGE_DUE_DATE_CHANGED: "pending", EventKind.CHARGE_FAILED: "failed",
    EventKind.CHARGE_REFUNDED: "refunded", EventKind.WITHDRAWAL_SUCCEEDED: "succeeded",
    EventKind.WITHDRAWAL_FAILED: "failed",
}
_REFUNDED: Final[dict[str, Any]] = {
    "amount": "49.90", "refund_id": _REFUND_ID, "payment_id": _PAYMENT_ID, "reason": "returned goods",
    "refund_external_id": "return-77", "end_to_end_id": _END_TO_END_ID, "refundable_remaining": "100.00",
    "refunded_total": "49.90", "completed_at": _LATER,
}
_KIND_FIELDS: Final[dict[EventKind, dict[str, Any]]] = {
    EventKind.PAYMENT_RECEIVED: {"paid_at": _PAID, "payment_id": _PAYMENT_ID, "method": "pix", "anomaly": None},
    EventKind.PAYMENT_ANOMALY: {"paid_at": _PAID, "payment_id": _PAYMENT_ID, "method": "pix", "anomaly": "duplicate"},
    EventKind.CHARGE_CANCELLED: {"reason": "cancelled", "cancelled_at": _LATER},
    EventKind.CHARGE_EXPIRED: {"expires_at": "2026-11-22T10:45:02.201Z"},
    EventKind.CHARGE_DUE_DATE_CHANGED: {"due_date": "2026-12-20", "previous_due_date": "2026-12-10"},
    EventKind.CHARGE_FAILED: {"failure": {"code": "BANK_REFUSED", "message": "The bank refused the charge."}},
    EventKind.CHARGE_REFUNDED: {"refunded_amount": "149.90", "refunded_at": _LATER},
    EventKind.REFUND_SUCCEEDED: {
        **_REFUNDED, "refund_status": "succeeded", "return_id": _RETURN_ID, "failure_code": None,
    },
    EventKind.REFUND_FAILED: {
        **_REFUNDED, "refund_status": "failed", "return_id": None, "failure_code": "BANK_REFUSED",
        "refunded_total": "0.00", "refundable_remaining": "149.90",
    },
    EventKind.WITHDRAWAL_SUCCEEDED: {
        "end_to_end_id": "E00000000202611211312h5Vd3JkPz8B", "failure_code": None, "completed_at": _LATER,
    },
    EventKind.WITHDRAWAL_FAILED: {"end_to_end_id": None, "failure_code": "BANK_REFUSED", "completed_at": _LATER},
}
# fmt: on
