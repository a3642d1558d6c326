"""The description of each field and parameter in the OpenAPI document whose type carries none."""

import re
from typing import Any, Final

# The source of a rule in a docstring, "(spec, Errors)": for readers of the code, so it is cut from the document.
_SOURCES: Final = re.compile(r"\s*\((?:spec|contract|docs)\b(?:[^()]|\([^()]*\))*\)")

# fmt: off
_FIELDS: Final[dict[str, str]] = {
    "access_token": "Send it as Authorization: Bearer <access_token>.",
    "account_id": "Id of the account.",
    "address": "Address of the payer.",
    "advanced_seconds": "Seconds by which the clock is ahead of the real time.",
    "amount": "Amount in reais, as a decimal string such as 10.50.",
    "amount_due": "What the boleto costs if it is paid today; present only with payment terms, while the charge is "
    "pending.",
    "amount_per_day": "Amount in reais for each calendar day late.",
    "anomaly": "Why the payment does not fit its charge; null when it fits.",
    "answer": "First KiB of the endpoint's answer; null when there was none.",
    "at": "When it was answered.",
    "attach_pdf": "Whether the boleto is attached as a PDF; true by default.",
    "attempts": "The latest finished attempts, oldest first.",
    "automatic": "true for the account's automatic daily withdrawal, false for one that was requested.",
    "balance": "The balance in decimal reais; negative when more was taken back than there was.",
    "balance_after": "Balance after this entry, in decimal reais.",
    "boleto": "The boleto; null for charges without one.",
    "burst": "Requests that may be sent at once.",
    "cancelled_at": "When the charge was cancelled; null if it was not.",
    "cep": "Postal code, eight digits.",
    "charge": "The charge as it is now; null unless one was issued.",
    "charge_id": "Id of the charge.",
    "cidade": "City.",
    "city": "City.",
    "client_id": "Id of the credential.",
    "client_secret": "Secret of the credential, shown once when the credential was created or rotated.",
    "code": "Code for programs; its meaning never changes.",
    "codigo_barras": "The barcode's 44 digits.",
    "completed_at": "When it ended, successfully or not; null until then.",
    "count": "Number of charges with this status.",
    "created_at": "When it was created.",
    "credited_at": "When the payment was credited to the balance.",
    "currency": "Always BRL.",
    "date": "Today's date in São Paulo, for which the amount is computed.",
    "days_before_due": "Days before each charge's due date on which the discount applies for the last time.",
    "discounts": "Discounts for paying early; absent when none were agreed.",
    "data": "Items of this page, in the requested order.",
    "data_vencimento": "The due date.",
    "delivered_at": "When the endpoint answered 2xx; null until then.",
    "deliveries": "Number of deliveries that are waiting or being sent now.",
    "delivery_id": "Id of the delivery; the same on every attempt.",
    "description": "Your own description, free text.",
    "destination": "Where the money goes when the boleto was paid by its linha digitável.",
    "direction": "Whether the entry adds to the balance (credit) or takes from it (debit).",
    "discount": "Discount taken off the payment, in decimal reais.",
    "document": "CPF or CNPJ, masked; null when the bank did not report it or the payer's data was erased.",
    "documentation_url": "Address of the page that explains this code and what to do.",
    "due_date": "The due date, as you gave it; null for PIX charges.",
    "duration_ms": "How long the attempt took, in milliseconds.",
    "effective_due_date": "The due date, moved to the next banking day when it falls on a weekend or holiday; null "
    "for PIX charges.",
    "email": "E-mail address of the payer.",
    "email_id": "Id of the e-mail.",
    "end_date": "Latest possible due date; null when there is no end date.",
    "end_to_end_id": "EndToEndId of the PIX at the central bank; null when there is none.",
    "entry_id": "Id of the ledger entry.",
    "error": "Error code of RFC 6749.",
    "error_description": "The error explained in a sentence.",
    "event": "The kind of event, such as payment.received.",
    "event_id": "Id of the event. Store it, and ignore an event whose id you already have.",
    "expires_at": "When the charge expires; in a dual charge, when its PIX leg expires. null for other boletos, "
    "which go by their due date.",
    "external_id": "Your own reference; null when none was given.",
    "failed_at": "When the latest attempt to issue it failed.",
    "failure": "Why it failed; null if it did not fail.",
    "failure_code": "Code of the failure, for programs; null if it did not fail.",
    "fee": "The platform's fee, in decimal reais.",
    "field": "Name of the field; a field inside another is written as payer.name.",
    "fields": "All fields that are wrong; absent when the error does not lie in single fields.",
    "fine": "Late fine included in the payment, in decimal reais.",
    "first_due_date": "Due date of the first charge; later ones fall on the same day of the week or month.",
    "first_used_at": "When the key was first used; null unless it created a resource.",
    "frequency": "Interval between due dates.",
    "from_sequence": "First sequence number of the range.",
    "grant_type": "Always client_credentials.",
    "held": "Whether the platform's staff check the refund, or checked it, before it is sent.",
    "integrador_code": "Code of the partner who brought the charge; null when there is none.",
    "interest": "Late interest included in the payment, in decimal reais.",
    "issue_days_before": "How many days before its due date each charge is issued.",
    "key": "The Idempotency-Key.",
    "late": "Whether the payment came late: a PIX paid after the charge had expired, or a boleto paid after its due "
            "date or reported by the bank after the charge had expired.",
    "leg": "The leg: pix or boleto.",
    "legs": "The two legs of a dual charge, PIX and boleto; absent for other charges.",
    "limit": "Requests per second.",
    "linha_digitavel": "The linha digitável: the 47 digits that a payer types.",
    "logradouro": "Street.",
    "max_charges": "Largest number of charges; null when there is no limit.",
    "message": "Explanation for people, in English.",
    "metadata": "Your own keys and values, as you gave them; absent when you gave none.",
    "method": "How the payment was made: pix or boleto.",
    "mode": "Mode of the credential: test or production.",
    "name": "Name of the payer.",
    "net_amount": "Amount minus the fee, in decimal reais.",
    "next_due_date": "Due date of the next charge; null when there is none.",
    "next_issue_at": "When the next charge is issued; null when there is none, and while paused.",
    "next_number": "Number of the next charge; null when there is none.",
    "nome": "Name of the payer.",
    "nosso_numero": "The nosso número: the boleto's number at the bank, twenty digits. null without a boleto.",
    "now": "The time that the sandbox's clock shows.",
    "number": "Number of the charge in the schedule, from 1.",
    "numero": "House number.",
    "outcome": "Result of the attempt.",
    "pagador": "The payer.",
    "paid_at": "When the payer paid; null until then.",
    "path": "Path of the request without its query string, cut at 200 characters.",
    "payer": "The payer.",
    "payment": "The payment that settled the charge; null until then.",
    "payable_days_after_due": "Number of days after its effective due date on which each charge can still be paid; 0"
                              " means none.",
    "payable_until": "Last day on which the boleto can be paid, late days included; absent without payment terms.",
    "percent": "Percent of the charge's amount.",
    "percent_per_month": "Percent of the charge's amount for each month of 30 days.",
    "payment_id": "Id of the payment.",
    "payment_method": "How the charge can be paid.",
    "payment_url": "Address of the payer's page: send it to the payer, or open it from your checkout.",
    "pdf_url": "Address of the boleto's PDF, available while the boleto can be paid; null for charges without a "
    "boleto.",
    "person_type": "Whether the document is a CPF or a CNPJ.",
    "phone": "Telephone number of the payer.",
    "pix": "QR Code and PIX copy-and-paste text; null for charges without them.",
    "pix_key": "PIX key that the money goes to; masked in answers.",
    "public_id": "Token in the address of the payer's page.",
    "qr_code": "PIX copy-and-paste: the text of the QR Code; null without one.",
    "qr_code_image": "The QR Code as a PNG, as a data URI for an <img>.",
    "rate": "Rate limit of the credential.",
    "real_time": "The real time.",
    "reason": "Your reason, free text.",
    "refund_id": "Id of the refund.",
    "refundable_remaining": "Part of the payment that can still be refunded, in decimal reais.",
    "refunded_amount": "Amount refunded so far, in decimal reais; pending refunds do not count.",
    "refunded_total": "Part of the payment that was refunded or is being refunded, in decimal reais.",
    "replay_count": "How often the key was sent again after it created the resource.",
    "request_id": "Id of the request, also in the header X-Request-Id. Give it when you contact support.",
    "resource_id": "Id of the resource that the key created; null when it created none.",
    "resource_type": "Kind of the resource that the key created; null when it created none.",
    "return_id": "Id of the devolução at the central bank; null when there is none.",
    "schedule_id": "Id of the schedule.",
    "scope": "Scopes of the token, separated by spaces.",
    "scopes": "Scopes of the token.",
    "send_email": "Whether the payer gets e-mails about the charge (production only); false by default.",
    "seu_numero": "The merchant's number for the boleto, printed on it: `external_id` where it fits the bank's "
    "field, otherwise a number of ours.",
    "started_at": "When the attempt began.",
    "state": "Current status.",
    "status": "Current status.",
    "street": "Street.",
    "test": "true in the sandbox, where no money moves; false in production.",
    "times": "How many times the charge is paid, 1 to 10; by default once.",
    "tipo": "What to issue: a plain boleto, one with a PIX QR Code, or a dual charge.",
    "tipoPessoa": "Whether the document is a CPF or a CNPJ.",
    "tipo_cobranca": "What was issued: a plain boleto, one with a PIX QR Code, or a dual charge.",
    "to": "E-mail address that the e-mail goes to.",
    "token_type": "Always Bearer.",
    "txid": "The txid: the PIX charge's id at the bank. null when there is none.",
    "type": "The kind of event, such as payment.received.",
    "until": "Last day on which the discount applies.",
    "uf": "State (UF), two capital letters.",
    "warnings": "Only in the sandbox, in the answer to a creation: what is allowed in the request but looks like a "
    "mistake, such as a misspelt field.",
    "withdrawal_id": "Id of the withdrawal.",
    "zip_code": "Postal code, eight digits.",
}
_SCHEMA_FIELDS: Final[dict[tuple[str, str], str]] = {
    ("ChargeProjection", "fine"): "Fine (multa) added once when the boleto is paid late; absent when none was agreed.",
    ("ChargeProjection", "interest"): "Interest (juros de mora) added for each day late; absent when none was agreed.",
    ("ScheduleProjection", "fine"): "Fine (multa) added once to a charge that is paid late; absent when none was "
                                    "agreed.",
    ("ScheduleProjection", "interest"): "Interest (juros de mora) added to a charge for each day late; absent when "
                                        "none was agreed.",
    ("AmountDueToday", "amount"): "Amount due in reais: the charge's amount, with fine and interest, less the "
                                  "discount.",
    ("AmountDueToday", "fine"): "Fine included in the amount, in decimal reais.",
    ("AmountDueToday", "interest"): "Interest included in the amount, in decimal reais.",
    ("AmountDueToday", "discount"): "Discount taken off the amount, in decimal reais.",
    ("Token", "expires_in"): "Seconds for which the token is valid.",
    ("CreatePix", "payer"): "The payer; no field is required.",
    ("DeliveryAttempt", "status"): "HTTP status of the endpoint's answer; null when there was none.",
    ("RequestItem", "request_id"): "Id of the request: the X-Request-Id of its answer.",
    ("RequestItem", "client_id"): "Id of the credential that sent the request.",
    ("RequestItem", "method"): "The method, such as POST.",
    ("RequestItem", "status"): "The HTTP status of the answer.",
    ("RequestItem", "code"): "Error code of a refused request; null when it was not refused.",
    ("RequestItem", "message"): "Error message of a refused request; null when it was not refused.",
    ("RequestItem", "fields"): "The fields that were wrong, with a message each; null when there were none. A name "
                               "that no field has is shown as \"?\".",
    ("RequestItem", "user_agent"): "User-Agent of a refused request; null for others.",
    ("RequestItem", "resource"): "Path of the resource that the request created; null when it created none.",
    ("RequestItem", "duration_ms"): "How long the answer took, in milliseconds.",
    ("WithdrawalProjection", "fee"): "Fee of the withdrawal, debited in addition to its amount, in decimal reais.",
    ("RequestWithBodies", "request_body"): "JSON body of a write in the sandbox, cut at 4096 bytes; values that may "
                                           "identify a payer show only the kind of each character (9, A, a). Only "
                                           "its size is shown when it is long or no JSON; null in production, for "
                                           "reads, and beyond a daily allowance.",
    ("RequestWithBodies", "response_body"): "Body of the answer, masked and cut in the same way.",
    ("LedgerItem", "type"): "Kind of movement that changed the balance.",
    ("LedgerItem", "amount"): "Amount in reais, without a sign: `direction` tells whether it was added or taken.",
    ("StatusSummary", "status"): "Status of these charges.",
    ("SendEmail", "message"): "A message of your own, without links or web addresses.",
    ("SandboxPayment", "amount"): "Amount in reais, as a decimal string; by default what the charge costs on the day"
                                  " of payment.",
    ("EventItem", "status"): "Status of the charge or withdrawal after this event.",
    ("LedgerItem", "charge_id"): "Id of the charge; null when there is none.",
    ("ScheduledCharge", "charge_id"): "Id of the charge; null when there is none.",
    ("Delivery", "charge_id"): "Id of the event's charge; null when it is about a withdrawal.",
    ("LedgerItem", "payment_id"): "Id of the payment; null when there is none.",
    ("EventItem", "charge_id"): "Id of the charge; absent in events about withdrawals.",
    ("EventItem", "external_id"): "Your own reference; absent when none was given.",
    ("EventItem", "paid_at"): "When the payer paid; absent unless the event is about a payment.",
    ("Me", "name"): "Name of the account.",
    ("Delivery", "state"): "pending: waits for its next attempt. sending: an attempt is under way. delivered: "
        "the endpoint answered 2xx. held: the endpoint is paused. exhausted: no attempts are left. stuck: sending "
        "failed on our side.",
    ("CancelByReference", "reason"): "cancelled (the default), or paid_externally when the payer paid by other means.",
    ("RefundProjection", "reason"): "The reason given in the refund's request; null when none was.",
    ("LedgerItem", "refund_id"): "Id of the refund; null when there is none.",
    ("LedgerItem", "withdrawal_id"): "Id of the withdrawal; null when there is none.",
    ("EventItem", "withdrawal_id"): "Id of the withdrawal; absent in events about charges.",
    ("ScheduledCharge", "due_date"): "Due date of the charge.",
    ("Payer", "name"): "Name of the payer; null when the bank did not report it or the payer's data was erased.",
}
_EXTENDED: Final = {"RequestWithBodies": "RequestItem"}
"""Schemas that extend another, whose field descriptions they share."""
_PARAMETERS: Final[dict[str, str]] = {
    "account_id": "Id of the account; it must be the token's own.",
    "anomaly": "Only payments with this anomaly.",
    "charge_id": "Id of the charge.",
    "delivery_id": "Id of the delivery.",
    "event_id": "Only deliveries of this event.",
    "external_id": "Only items with exactly this `external_id`.",
    "integrador_code": "Only charges created with this partner's code.",
    "key": "The Idempotency-Key, percent-encoded.",
    "method": "Only payments received by this method.",
    "nosso_numero": "Only the charge whose boleto has this number at the bank, twenty digits.",
    "order": "desc (the default) is newest first, asc is oldest first.",
    "payment_id": "Only refunds of this payment.",
    "payment_method": "Only charges with this payment method; repeat the parameter for several.",
    "refund_id": "Id of the refund.",
    "request_id": "Id of the request: the X-Request-Id of its answer.",
    "schedule_id": "Id of the schedule.",
    "state": "Only deliveries in this state; repeat the parameter for several.",
    "status": "Only items with this status; repeat the parameter for several.",
    "txid": "Only the charge whose PIX charge has this txid at the bank.",
    "type": "Only events of this kind; repeat the parameter for several.",
    "withdrawal_id": "Id of the withdrawal.",
}
# fmt: on


def describe_fields(components: dict[str, Any]) -> None:
    """Give every field of every schema a description, and cut the sources of rules from the schemas' descriptions."""
    for name, component in components.items():
        if "description" in component:
            component["description"] = _without_sources(component["description"])
        for field, schema in component.get("properties", {}).items():
            _describe(name, field, schema, component["properties"])


def _describe(component: str, field: str, schema: dict[str, Any], properties: dict[str, Any]) -> None:
    own_description = _SCHEMA_FIELDS.get((component, field)) or _SCHEMA_FIELDS.get(
        (_EXTENDED.get(component, ""), field)
    )
    if own_description is None and "description" in schema:
        return
    inner = schema.get("anyOf", [{}])[0]
    description = own_description or inner.get("description") or _FIELDS[field]
    # A copy: fields of other names may share this schema object.
    properties[field] = {**schema, "description": description}


def parameter_description(name: str) -> str:
    """The description of a path or query parameter that has none of its own."""
    return _PARAMETERS[name]


def _without_sources(text: str) -> str:
    return re.sub(r"\s+", " ", _SOURCES.sub("", text)).strip()
