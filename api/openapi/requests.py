"""What the types cannot say of requests: bounds and patterns, exactly as the handlers enforce them."""

from typing import Any

from api.openapi.parts import DAY, EXTERNAL_ID_MAX, ID, INSTANT, or_null, text
from api.routes.boletos import KINDS as KINDS_OF_BOLETO
from api.routes.boletos import PEOPLE
from api.routes.dual import PHONE_MAX
from api.routes.pix import (
    DESCRIPTION_MAX,
    EMAIL,
    EMAIL_MAX,
    LIFETIME_DEFAULT_S,
    LIFETIME_LEAST_S,
    LIFETIME_MOST_S,
)
from api.routes.portal import MESSAGE_MAX
from api.routes.refunds import REASON_MAX
from api.routes.sandbox import TIMES_MAX
from api.routes.schedules import FREQUENCIES, ISSUE_DAYS_BEFORE_DEFAULT
from api.routes.token import FIELD_MAX
from commands.merchants.merchants import ALL_SCOPES
from commands.schedules import METHODS as METHODS_OF_SCHEDULE
from domain.boleto.codes import LAST_DUE
from domain.charge import CancelReason
from domain.money import reais
from domain.payer import MAIL_ADDRESS, NAME_MAX, NUMBER_MAX, STATES
from domain.recurrence import CHARGES_MAX, ISSUE_DAYS_BEFORE_MAX
from domain.refund import PIX_KEY, PIX_KEY_CHARACTERS_MAX
from domain.sandbox_clock import CALL_MOST_S
from domain.withdrawal import MINIMUM_CENTS

# Free text with something in it.
_SOMETHING = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$"


def sharpen_requests(components: dict[str, Any]) -> None:
    """Say it of every body; what a body shares with one before it is taken from there."""
    _pix(components)
    _refunds(components)
    _cancel(components)
    _token(components)
    _boletos(components)
    _dual(components)
    _sandbox(components)
    _mail(components)
    _schedules(components)
    _withdrawals(components)


def _pix(components: dict[str, Any]) -> None:
    create = components["CreatePix"]["properties"]
    create["account_id"] = ID | {"description": "The token's own account."}
    create["amount"] = {
        "type": "string",
        "pattern": r"^(?!0+(\.0{1,2})?$)[0-9]{1,10}(\.[0-9]{1,2})?$",
        "description": "Decimal reais, greater than 0.",
        "examples": ["10.50"],
    }
    create["expires_in"] = or_null(
        {"type": "integer", "minimum": LIFETIME_LEAST_S, "maximum": LIFETIME_MOST_S, "default": LIFETIME_DEFAULT_S},
        "Seconds.",
    )
    create["external_id"] = text(EXTERNAL_ID_MAX, "The merchant's own reference; need not be unique.")
    create["description"] = text(DESCRIPTION_MAX)
    payer = components["PixPayer"]["properties"]
    payer["name"] = text(200)
    payer["phone"] = text(32)
    payer["email"] = or_null({"type": "string", "maxLength": 254, "pattern": f"^{EMAIL}$"})
    payer["document"] = or_null(
        {"type": "string", "pattern": "^([0-9]{11}|[0-9]{14})$"},
        "CPF or CNPJ, digits only; in production its check digits must hold.",
    )


def _refunds(components: dict[str, Any]) -> None:
    refund = components["CreateRefund"]["properties"]
    refund["amount"] = components["CreatePix"]["properties"]["amount"] | {
        "description": "Decimal reais; all that remains unless given."
    }
    refund["reason"] = text(REASON_MAX)
    refund["description"] = text(DESCRIPTION_MAX, "Told to the bank, folded to its letters and 140 characters.")
    refund["external_id"] = text(EXTERNAL_ID_MAX, "The refund's own reference; need not be unique.")
    refund["payment_id"] = or_null(ID, "The payment that settled the charge unless given.")
    destination = components["RefundDestination"]["properties"]
    destination["pix_key"] = {
        "type": "string",
        "maxLength": PIX_KEY_CHARACTERS_MAX,
        "pattern": f"^({PIX_KEY})$",
        "description": "CPF, CNPJ, +55 and telephone, e-mail or random key.",
    }
    destination["document"] = {
        "type": "string",
        "pattern": "^([0-9]{11}|[0-9]{14})$",
        "description": "CPF or CNPJ of the key's owner, digits only; in production its check digits must hold.",
    }


def _cancel(components: dict[str, Any]) -> None:
    cancel = components["CancelByReference"]
    cancel["properties"] = {
        "charge_id": or_null({"type": "string"}),
        "external_id": text(EXTERNAL_ID_MAX),
        "reason": or_null({"type": "string", "enum": [each.value for each in CancelReason], "default": "cancelled"}),
    }
    cancel["oneOf"] = _exactly_one("charge_id", "external_id")


def _token(components: dict[str, Any]) -> None:
    request = components["TokenRequest"]["properties"]
    request["grant_type"] = {"const": "client_credentials"}
    for name in ("client_id", "client_secret"):
        request[name] = {"type": "string", "minLength": 1, "maxLength": FIELD_MAX, "pattern": r"^[^\x00]*$"}
    scope = "|".join(ALL_SCOPES)
    request["scope"] = {
        "type": "string",
        "pattern": f"^({scope})( ({scope}))*$",
        "maxLength": FIELD_MAX,
        "description": "A subset of the credential's scopes; all of them unless given.",
    }


def _boletos(components: dict[str, Any]) -> None:
    """That a due date is still to come is not for a schema to say."""
    create = components["CreateBoleto"]["properties"]
    create["tipo"] = {"type": "string", "enum": list(KINDS_OF_BOLETO)}
    create["valorCents"] = {
        "type": "string",
        "pattern": r"^(?!0+(\.0{1,2})?$)0{0,2}[0-9]{1,8}(\.[0-9]{1,2})?$",
        "description": "Decimal reais, despite the name; greater than 0.",
        "examples": ["150.00"],
    }
    create["dataVencimento"] = DAY | {"description": f"After today in São Paulo, {LAST_DUE} at the latest."}
    create["external_id"] = text(EXTERNAL_ID_MAX, "The merchant's own reference; need not be unique.")
    create["descricao"] = text(DESCRIPTION_MAX, "Printed on the boleto.")
    create["integrador_code"] = or_null(
        {"type": "string", "pattern": "^INTG-[A-Z0-9]{6}$"}, "The partner who brought the charge; stamped for ever."
    )
    create["account_id"] = or_null(ID, "The token's own account.")
    payer = components["Pagador"]["properties"]
    for name in ("nome", "logradouro", "cidade"):
        payer[name] = {"type": "string", "minLength": 1, "maxLength": NAME_MAX, "pattern": _SOMETHING}
    payer["numero"] = text(NUMBER_MAX)
    payer["email"] = or_null({"type": "string", "maxLength": EMAIL_MAX, "pattern": f"^{EMAIL}$"}, "For send_email.")
    payer["cep"] = {"type": "string", "pattern": "^[0-9]{8}$"}
    payer["uf"] = {"type": "string", "enum": sorted(STATES)}
    payer["tipoPessoa"] = {"type": "string", "enum": list(PEOPLE)}
    payer["documento"] = {
        "type": "string",
        "pattern": "^([0-9]{11}|[0-9]{14})$",
        "description": "CPF or CNPJ, as tipoPessoa says, digits only; in production its check digits must hold.",
    }
    components["Pagador"]["oneOf"] = [
        {"properties": {"tipoPessoa": {"const": kind}, "documento": {"pattern": f"^[0-9]{{{signs}}}$"}}}
        for kind, signs in PEOPLE.items()
    ]
    change = components["ChangeDueDate"]
    change["properties"] = {
        "due_date": DAY | {"description": f"Today in São Paulo or later, {LAST_DUE} at the latest."},
        "charge_id": or_null({"type": "string"}),
        "external_id": text(EXTERNAL_ID_MAX),
    }
    change["oneOf"] = _exactly_one("charge_id", "external_id")


def _dual(components: dict[str, Any]) -> None:
    """The body of a dual charge: a boleto's fields under the names of a PIX charge."""
    boleto, pagador = components["CreateBoleto"]["properties"], components["Pagador"]["properties"]
    create, payer = components["CreateDual"]["properties"], components["DualPayer"]["properties"]
    create["amount"] = boleto["valorCents"] | {"description": "Decimal reais, greater than 0."}
    create["due_date"] = boleto["dataVencimento"]
    create["description"] = boleto["descricao"]
    for name in ("external_id", "integrador_code", "account_id"):
        create[name] = boleto[name]
    create["expires_in"] = or_null(
        {"type": "integer", "minimum": LIFETIME_LEAST_S, "maximum": LIFETIME_MOST_S},
        "Seconds the PIX leg lives; as long as the boleto unless given, and never longer.",
    )
    payer["name"] = pagador["nome"]
    payer["phone"] = text(PHONE_MAX)
    payer["email"] = or_null({"type": "string", "maxLength": EMAIL_MAX, "pattern": f"^{EMAIL}$"})
    payer["person_type"] = pagador["tipoPessoa"]
    payer["document"] = pagador["documento"] | {
        "description": "CPF or CNPJ, as person_type says, digits only; in production its check digits must hold.",
    }
    components["DualPayer"]["oneOf"] = [
        {"properties": {"person_type": {"const": kind}, "document": {"pattern": f"^[0-9]{{{signs}}}$"}}}
        for kind, signs in PEOPLE.items()
    ]
    address = {"zip_code": "cep", "street": "logradouro", "number": "numero", "city": "cidade", "state": "uf"}
    components["DualAddress"]["properties"] = {name: pagador[as_] for name, as_ in address.items()}


def _sandbox(components: dict[str, Any]) -> None:
    """How far the clock may go depends on what it shows: that is for the handler to say."""
    components["SandboxPayment"]["properties"] = {
        "amount": or_null(
            {"type": "string", "pattern": r"^(?!0+(\.0{1,2})?$)[0-9]{1,10}(\.[0-9]{1,2})?$"},
            "Decimal reais; the charge's own unless given.",
        ),
        "paid_at": or_null(INSTANT, "In the past; now unless given."),
        "times": or_null({"type": "integer", "minimum": 1, "maximum": TIMES_MAX}),
    }
    advance = components["AdvanceClock"]
    advance["properties"] = {
        "advance": or_null(
            {
                "type": "string",
                "pattern": r"^(?=.*[1-9])P([0-9]{1,3}W"
                r"|([0-9]{1,4}D)?(T(?=[0-9])([0-9]{1,5}H)?([0-9]{1,7}M)?([0-9]{1,9}S)?)?)$",
                "examples": ["P3D"],
            },
            f"ISO 8601 duration, more than nothing and at most {CALL_MOST_S // 86_400} days.",
        ),
        "to": or_null(
            INSTANT | {"pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$"},
            f"At most {CALL_MOST_S // 86_400} days later than the clock; where it has been already, nothing changes.",
        ),
    }
    advance["oneOf"] = _exactly_one("advance", "to")


def _mail(components: dict[str, Any]) -> None:
    send = components["SendEmail"]["properties"]
    send["to"] = or_null(
        {"type": "string", "maxLength": EMAIL_MAX, "pattern": f"^{MAIL_ADDRESS}$"},
        "The payer's own address unless given.",
    )
    send["message"] = text(MESSAGE_MAX, "The merchant's own words.")


def _schedules(components: dict[str, Any]) -> None:
    """What depends on the payment method (a boleto's payer needs an address) is for the handler to say."""
    create = components["CreateSchedule"]["properties"]
    create["payment_method"] = {"type": "string", "enum": list(METHODS_OF_SCHEDULE)}
    create["amount"] = components["CreatePix"]["properties"]["amount"]
    create["frequency"] = {"type": "string", "enum": list(FREQUENCIES)}
    create["first_due_date"] = DAY | {"description": f"After today in São Paulo, {LAST_DUE} at the latest."}
    create["end_date"] = or_null(DAY, "The last due date there may be; not together with max_charges.")
    create["max_charges"] = or_null({"type": "integer", "minimum": 1, "maximum": CHARGES_MAX})
    create["issue_days_before"] = or_null(
        {"type": "integer", "minimum": 0, "maximum": ISSUE_DAYS_BEFORE_MAX, "default": ISSUE_DAYS_BEFORE_DEFAULT}
    )
    create["external_id"] = text(EXTERNAL_ID_MAX, "Given to each of its charges.")
    create["description"] = text(DESCRIPTION_MAX)
    payer, pix = components["SchedulePayer"]["properties"], components["PixPayer"]["properties"]
    for name in ("name", "document", "email", "phone"):
        payer[name] = pix[name]
    payer["person_type"] = or_null({"type": "string", "enum": list(PEOPLE)})


def _withdrawals(components: dict[str, Any]) -> None:
    create = components["CreateWithdrawal"]["properties"]
    create["amount"] = components["CreatePix"]["properties"]["amount"] | {
        "description": f"Decimal reais; below {reais(MINIMUM_CENTS)} it is refused with 422."
    }
    create["description"] = text(DESCRIPTION_MAX, "Told to the bank, folded to its letters and 140 characters.")
    create["external_id"] = text(EXTERNAL_ID_MAX, "The withdrawal's own reference; need not be unique.")


def _exactly_one(first: str, second: str) -> list[dict[str, Any]]:
    """Of two fields; null is as good as not there."""
    return [
        {"required": [one], "properties": {one: {"type": "string"}, other: {"type": "null"}}}
        for one, other in ((first, second), (second, first))
    ]
