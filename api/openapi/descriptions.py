"""What each field and parameter of the OpenAPI document means, in a sentence, where its type has none of its own."""

import re
from typing import Any, Final

# Where a docstring names the source of a rule, for whoever reads the code: no matter of a merchant.
_SOURCES: Final = re.compile(r"\s*\((?:spec|contract|docs)\b(?:[^()]|\([^()]*\))*\)")

# fmt: off
_FIELDS: Final[dict[str, str]] = {
    "access_token": "Send it as Authorization: Bearer <access_token>.",
    "account_id": "The account it belongs to.",
    "address": "Where the payer lives.",
    "advance": "By how much the clock moves.",
    "advanced_seconds": "By how much the clock is ahead of real time.",
    "amount": "Decimal reais.",
    "anomaly": "What is odd about the payment; null for one that settled its charge.",
    "answer": "The beginning of what the endpoint answered; null without an answer.",
    "at": "When it was answered.",
    "attach_pdf": "Whether the boleto goes with it as a PDF; true unless given.",
    "attempts": "The latest attempts, the first one first.",
    "automatic": "Whether it is the daily withdrawal and not one that was asked for.",
    "balance": "Decimal reais; below zero when more was taken back than there was.",
    "balance_after": "The balance once this line is booked, in decimal reais.",
    "boleto": "The slip; null for charges without one.",
    "burst": "Requests that may come at once.",
    "cancelled_at": "When it was cancelled; null unless it was.",
    "cep": "Postal code, eight digits.",
    "charge": "The charge as it is now; null unless one was issued.",
    "charge_id": "The charge; the id is given once and for ever.",
    "cidade": "City.",
    "city": "City.",
    "client_id": "The credential.",
    "client_secret": "The credential's secret, as it was shown once.",
    "code": "For programs: it never changes its meaning.",
    "codigo_barras": "The barcode's 44 digits.",
    "completed_at": "When it ended, either way; null while it is under way.",
    "count": "How many charges.",
    "created_at": "When it was made.",
    "credited_at": "When it was added to the balance.",
    "currency": "Always BRL.",
    "data": "The items of this page, in the order asked for.",
    "data_vencimento": "The due date.",
    "delivered_at": "When the endpoint took it; null until then.",
    "deliveries": "How many are on their way now.",
    "delivery_id": "One event on its way to one endpoint; the same on each attempt.",
    "description": "The merchant's own text about it.",
    "destination": "Where the money goes when the boleto was paid on its line.",
    "direction": "Whether it adds to the balance (credit) or takes from it (debit).",
    "discount": "Taken off by the bank, in decimal reais.",
    "document": "CPF or CNPJ; in answers masked.",
    "documentation_url": "The page of this code: what it means and what to do.",
    "documento": "CPF or CNPJ, digits only.",
    "due_date": "The last day to pay, as given; null for PIX charges.",
    "duration_ms": "How long the attempt took, in milliseconds.",
    "effective_due_date": "The due date, or the next banking day when it is none; null for PIX charges.",
    "email": "E-mail address.",
    "email_id": "The e-mail, once it is asked for.",
    "end_date": "The last due date there may be; null without an end.",
    "end_to_end_id": "The PIX's id at the central bank; null where no PIX was made.",
    "entry_id": "The line of the ledger.",
    "error": "Which of RFC 6749's errors it is.",
    "error_description": "The same in a sentence.",
    "event": "The kind of event.",
    "event_id": "The event; store it, and ignore an event that you have.",
    "expires_at": "When it can no longer be paid; null for boletos, which go by their due date.",
    "expires_in": "Seconds.",
    "external_id": "The merchant's own reference; null without one.",
    "failed_at": "When it last failed.",
    "failure": "Why it failed; null unless it did.",
    "failure_code": "Why it failed, for programs; null unless it did.",
    "fee": "What the platform keeps, in decimal reais.",
    "field": "The field's name; a part's field as payer.name.",
    "fields": "The fields that are wrong, all of them; only where single fields are.",
    "fine": "Added by the bank for paying late, in decimal reais.",
    "first_due_date": "The due date of the first charge; the others keep its day.",
    "first_used_at": "When the key was first used; null for one that never was.",
    "frequency": "How far apart due dates are.",
    "from_sequence": "The first number.",
    "grant_type": "Always client_credentials.",
    "held": "Whether the platform looks, or looked, at it before it is sent.",
    "integrador_code": "The partner who brought the charge; null without one.",
    "interest": "Added by the bank for each day late, in decimal reais.",
    "issue_days_before": "How many days before its due date each charge is issued.",
    "key": "The Idempotency-Key.",
    "late": "Whether the money came after the charge had ended.",
    "leg": "Which of the two ways to pay.",
    "legs": "The two ways to pay a dual charge; absent for all others.",
    "limit": "Requests a second.",
    "linha_digitavel": "The 47 digits a payer types.",
    "logradouro": "Street.",
    "max_charges": "How many charges there may be; null without an end.",
    "message": "For people.",
    "metadata": "The merchant's own keys and values, as given; absent when none were.",
    "method": "How the money came.",
    "mode": "Of the credential: test or production.",
    "name": "Name.",
    "net_amount": "Amount less fee, in decimal reais.",
    "next_attempt_at": "When it is tried next.",
    "next_cursor": "Where the next page begins; null at the end.",
    "next_due_date": "Due date of the next charge; null when there is none.",
    "next_issue_at": "When the next charge is issued; null when there is none, and while paused.",
    "next_number": "Number of the next charge; null when there is none.",
    "nome": "Name.",
    "nosso_numero": "The boleto's number at the bank, twenty digits; null without a boleto.",
    "now": "What the sandbox's clock shows.",
    "number": "Its place in the schedule, from 1.",
    "numero": "Number of the house.",
    "outcome": "What became of the attempt.",
    "pagador": "Who is to pay.",
    "paid_at": "When the payer paid; null until then.",
    "path": "As asked for, without the query; cut at 200 characters.",
    "payer": "Who pays.",
    "payment": "The payment that settled it; null until then.",
    "payment_id": "The payment.",
    "payment_method": "The ways the charge can be paid.",
    "payment_url": "The payer's page: send it, or open it from the checkout.",
    "pdf_url": "The slip as a PDF, there while it can be paid; null for charges without one.",
    "person_type": "Whether the document is a CPF or a CNPJ.",
    "phone": "Telephone number.",
    "pix": "QR Code and copy-and-paste; null for charges without.",
    "pix_key": "A PIX key; in answers masked.",
    "public_id": "The opaque token of the payer's page.",
    "qr_code": "PIX copy-and-paste: the text of the QR Code; null without one.",
    "qr_code_image": "The QR Code as a PNG, as a data URI for an <img>.",
    "rate": "How often this credential may ask.",
    "real_time": "What time it really is.",
    "reason": "Why, in the merchant's words or as asked.",
    "refund_id": "The refund; null where there is none.",
    "refundable_remaining": "What of the payment can still be given back, in decimal reais.",
    "refunded_amount": "What was given back, in decimal reais; pending refunds do not count.",
    "refunded_total": "What of the payment was given back or is on its way, in decimal reais.",
    "replay_count": "How often it was sent again.",
    "request_id": "Also in the header X-Request-Id; tell it when you ask us.",
    "resource_id": "What the key made; null when it made nothing.",
    "resource_type": "The kind of what the key made; null when it made nothing.",
    "return_id": "The id of the devolucao at the central bank; null without one.",
    "schedule_id": "The schedule.",
    "scope": "Scopes, separated by blanks.",
    "scopes": "What the token may do.",
    "send_email": "Whether the payer is told by e-mail (production only); false unless given.",
    "seu_numero": "What the bank prints as the merchant's number.",
    "started_at": "When the attempt began.",
    "state": "Where it stands.",
    "status": "Where it stands.",
    "street": "Street.",
    "test": "Whether it is of the sandbox: no money moves.",
    "times": "How often it is paid; once unless given.",
    "tipo": "What is issued: a plain slip, one with a PIX QR Code, or a dual charge.",
    "tipoPessoa": "Whether the document is a CPF or a CNPJ.",
    "tipo_cobranca": "What was issued: a plain slip, one with a PIX QR Code, or a dual charge.",
    "to": "The address or instant asked for.",
    "token_type": "Always Bearer.",
    "txid": "The PIX charge's id at the bank; null without one.",
    "type": "The kind.",
    "uf": "State, two capital letters.",
    "warnings": "In the sandbox, of a creation: what is allowed and most likely not meant; else absent.",
    "withdrawal_id": "The withdrawal; null where there is none.",
    "zip_code": "Postal code, eight digits.",
}
_OF_SCHEMAS: Final[dict[tuple[str, str], str]] = {
    ("Token", "expires_in"): "Seconds the token lives.",
    ("CreatePix", "payer"): "Who is to pay; nothing of it is required.",
    ("DeliveryAttempt", "status"): "The HTTP status of the answer; null without one.",
    ("RequestItem", "request_id"): "What the answer carried as X-Request-Id.",
    ("RequestItem", "client_id"): "The credential that asked.",
    ("RequestItem", "method"): "The method, such as POST.",
    ("RequestItem", "status"): "The HTTP status of the answer.",
    ("RequestItem", "code"): "Of the refusal; null where it was none.",
    ("RequestItem", "message"): "What the refusal said; null where it was none.",
    ("RequestItem", "fields"): "What was wrong, by field; a name that no field has is \"?\".",
    ("RequestItem", "user_agent"): "Of a request that was refused: the program that sent it.",
    ("RequestItem", "resource"): "The path of what was created; null where nothing was.",
    ("RequestItem", "duration_ms"): "How long the answer took, in milliseconds.",
    ("LedgerItem", "type"): "What moved the balance.",
    ("LedgerItem", "amount"): "Decimal reais, without a sign: see direction.",
    ("StatusSummary", "status"): "Of these charges.",
    ("SendEmail", "message"): "The merchant's own words, without links and web addresses.",
    ("SandboxPayment", "amount"): "Decimal reais; the charge's own unless given.",
    ("EventItem", "status"): "Of the charge, or of the withdrawal, once this happened.",
}
_PARAMETERS: Final[dict[str, str]] = {
    "account_id": "The token's own account.",
    "anomaly": "Only payments with this anomaly; may be repeated.",
    "charge_id": "Of the charge.",
    "delivery_id": "Of the delivery.",
    "event_id": "Only deliveries of this event.",
    "external_id": "Only what has exactly this reference.",
    "integrador_code": "Only charges this partner brought.",
    "key": "The Idempotency-Key, percent-encoded.",
    "method": "Only payments that came this way.",
    "nosso_numero": "Only the boleto with this number, twenty digits.",
    "order": "desc, the newest first, unless given.",
    "payment_id": "Only refunds of this payment.",
    "payment_method": "Only charges of this kind; may be repeated.",
    "refund_id": "Of the refund.",
    "schedule_id": "Of the schedule.",
    "state": "Only deliveries that stand here; may be repeated.",
    "status": "Only what stands here; may be repeated.",
    "txid": "Only the charge with this id at the bank.",
    "type": "Only this kind; may be repeated.",
    "withdrawal_id": "Of the withdrawal.",
}
# fmt: on


def describe_fields(components: dict[str, Any]) -> None:
    """Give every field of every schema a description, and take from descriptions what is for readers of the code."""
    for name, component in components.items():
        if "description" in component:
            component["description"] = _plain(component["description"])
        for field, schema in component.get("properties", {}).items():
            _describe(name, field, schema, component["properties"])


def _describe(component: str, field: str, schema: dict[str, Any], properties: dict[str, Any]) -> None:
    of_schema = _OF_SCHEMAS.get((component, field))
    if of_schema is None and "description" in schema:
        return
    inner = schema.get("anyOf", [{}])[0]
    told = of_schema or inner.get("description") or _FIELDS[field]
    # A field's schema may be shared with fields of other names.
    properties[field] = {**schema, "description": told}
    if component.startswith("Error") and field == "error":
        properties[field]["description"] = "What was refused, and why."


def parameter_description(name: str) -> str:
    """Of a path or query parameter that says nothing of itself."""
    return _PARAMETERS[name]


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", _SOURCES.sub("", text)).strip()
