"""Bodies as the sandbox's request log keeps them: their shape, and the values that cannot identify a person.

The fields kept in clear are an allow list, because a misspelt or unknown field may hold anything. Of every other value
only the kind of each character is kept (9 for a digit, A and a for letters): that shows the dots in a document that
must have none, but not the document.
"""

import re
from typing import Any, Final

import msgspec

from api.answers import encode

REDACTED_BYTES_MAX: Final = 4_096
"""How much of a redacted body is kept, in bytes."""
REDACTABLE_BYTES_MAX: Final = 8 * 1024
"""In bytes; of a longer body only the size is kept."""
_DEPTH_MAX: Final = 8
_ITEMS_MAX: Final = 20
_TEXT_MAX: Final = 200
_SHAPE_MAX: Final = 60
_BITS_MAX: Final = 63

_CLEAR_IN_BODY: Final = frozenset((
    "amount", "valorCents", "due_date", "dataVencimento", "expires_in", "tipo", "tipoPessoa", "person_type",
    "payment_method", "frequency", "first_due_date", "end_date", "max_charges", "issue_days_before", "percent",
    "percent_per_month", "amount_per_day", "until", "payable_days_after_due", "advance", "times", "paid_at",
    "from_sequence", "to_sequence", "account_id", "charge_id", "payment_id", "external_id", "integrador_code",
))  # fmt: skip
_CLEAR_IN_ANSWER: Final = _CLEAR_IN_BODY | {
    "status", "version", "test", "method", "leg", "fee", "net_amount", "interest", "fine", "discount", "date",
    "refunded_amount", "refunded_total", "refundable_remaining", "type", "tipo_cobranca", "data_vencimento",
    "effective_due_date", "payable_until", "expires_at", "created_at", "credited_at", "cancelled_at", "completed_at",
    "failed_at", "started_at", "delivered_at", "next_attempt_at", "next_due_date", "next_issue_at", "next_number",
    "now", "real_time", "advanced_seconds", "sequence", "attempt", "attempt_count", "duration_ms", "outcome",
    "deliveries", "txid", "nosso_numero", "seu_numero", "end_to_end_id", "return_id", "refund_id", "withdrawal_id",
    "schedule_id", "email_id", "event_id", "delivery_id", "request_id", "code", "failure_code", "message",
    "documentation_url",
}  # fmt: skip
"""`message` is kept of answers only: there it is our text, in a request it is the merchant's text to a payer."""

# A field name may hold anything too: a name that does not look like an identifier is not kept.
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.\[\]-]{0,63}")
_SHAPE_TABLE: Final = bytes.maketrans(
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" + bytes(range(0x80, 0x100)),
    b"9" * 10 + b"A" * 26 + b"a" * 26 + b"a" * 0x80,
)
_CONTINUATION_BYTES: Final = bytes(range(0x80, 0xC0))
"""UTF-8 continuation bytes, which are dropped so that each character leaves one sign."""
_decode = msgspec.json.Decoder().decode


def redacted_body(body: dict[str, Any] | int) -> str:
    """The redacted request body; only its size when it was no JSON object or too long."""
    if isinstance(body, int):
        return f"({body} bytes)"
    return _encode_cut(_redact_object(body, _CLEAR_IN_BODY, 0))


def redacted_answer(answer: bytes) -> str:
    """The redacted answer; only its size when it is no JSON object or too long."""
    if len(answer) > REDACTABLE_BYTES_MAX or not answer.startswith(b"{"):
        return f"({len(answer)} bytes)"
    return _encode_cut(_redact_object(_decode(answer), _CLEAR_IN_ANSWER, 0))


def _encode_cut(value: object) -> str:
    return encode(value)[:REDACTED_BYTES_MAX].decode("utf-8", "ignore")


def _redact_object(fields: dict[str, Any], clear_names: frozenset[str], depth: int) -> dict[str, Any]:
    redacted: dict[str, Any] = {}
    unnamed = 0
    for name, value in fields.items():
        is_clear = name in clear_names
        if not is_clear and NAME.fullmatch(name) is None:
            unnamed += 1
            name = "?" * unnamed
        if value.__class__ is str:
            if is_clear:
                redacted[name] = value[:_TEXT_MAX]
            elif name == "field" and NAME.fullmatch(value) is not None:
                redacted[name] = value  # the name of the faulty field, in a refusal's `fields`
            else:
                redacted[name] = _shape(value)
        else:
            redacted[name] = _redact_value(value, clear_names, depth, is_clear=is_clear)
    return redacted


def _redact_value(value: Any, clear_names: frozenset[str], depth: int, *, is_clear: bool) -> Any:
    if value is None or value is True or value is False:
        return value
    if depth >= _DEPTH_MAX:
        return "..."
    if isinstance(value, dict):
        return _redact_object(value, clear_names, depth + 1)
    if isinstance(value, list):
        return [
            (each[:_TEXT_MAX] if is_clear else _shape(each))
            if isinstance(each, str)
            else _redact_value(each, clear_names, depth + 1, is_clear=is_clear)
            for each in value[:_ITEMS_MAX]
        ]
    if isinstance(value, int) and value.bit_length() > _BITS_MAX:
        return "..."
    if not is_clear:
        return _shape(str(value))
    return value if isinstance(value, int) else str(value)[:_TEXT_MAX]


def _shape(text: str) -> str:
    return text[:_SHAPE_MAX].encode("utf-8", "replace").translate(_SHAPE_TABLE, _CONTINUATION_BYTES).decode("ascii")
