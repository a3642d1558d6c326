"""GET /v1/openapi.json, made from the table of routes: paths, scopes, bodies, answers and each error, to the code.

The document is true both ways: what its schemas let in is let in, what they refuse is refused.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from api.answers import ErrorEnvelope
from api.bodies import TEXT_PATTERN
from api.keys import KEY_PATTERN
from api.query import REPEATED_MOST, UUID_PATTERN
from api.route import Mode, Parameter, Route
from api.routes.dual import PHONE_MOST
from api.routes.events import KINDS
from api.routes.money import ANOMALIES, PAYMENT_METHODS
from api.routes.pix import (
    DESCRIPTION_MOST,
    EMAIL,
    EMAIL_MOST,
    LIFETIME_DEFAULT_S,
    LIFETIME_LEAST_S,
    LIFETIME_MOST_S,
)
from api.routes.portal import MESSAGE_MOST
from api.routes.refunds import REASON_MOST
from api.routes.sandbox import TIMES_MOST
from api.routes.schedules import FREQUENCIES, ISSUE_DAYS_BEFORE_DEFAULT
from api.routes.slip_pdf import Pdf
from api.routes.slips import KINDS as KINDS_OF_SLIP
from api.routes.slips import PEOPLE
from api.routes.token import FIELD_MOST, LIFETIME_S, Token, TokenError, TokenRequest
from commands.schedules import METHODS as METHODS_OF_SCHEDULE
from domain.boleto import LAST_DUE
from domain.charge import CancelReason
from domain.errors import Code
from domain.money import reais
from domain.payer import MAIL_ADDRESS, NAME_MOST, NUMBER_MOST, STATES
from domain.recurrence import MOST_CHARGES, MOST_ISSUE_DAYS_BEFORE
from domain.refund import MOST_PIX_KEY_CHARACTERS, PIX_KEY, FailureCode
from domain.sandbox_clock import CALL_MOST_S
from domain.withdrawal import MINIMUM_CENTS, WithdrawalFailure, WithdrawalStatus
from readmodels.charge_list import METHODS, STATUSES
from readmodels.ledger import ENTRY_TYPES
from readmodels.refund_list import STATUSES as REFUND_STATUSES
from readmodels.schedule import STATES as SCHEDULED_STATES
from readmodels.schedule import STATUSES as SCHEDULE_STATUSES
from readmodels.withdrawal import STATUSES as WITHDRAWAL_STATUSES
from runtime.settings import Settings

_ALWAYS = (Code.UNAUTHENTICATED, Code.RATE_LIMITED, Code.INTERNAL_ERROR, Code.SERVICE_UNAVAILABLE)
_WITH_BODY = (Code.MALFORMED_JSON, Code.VALIDATION_ERROR, Code.UNSUPPORTED_MEDIA_TYPE)
_WITH_KEY = (Code.IDEMPOTENCY_KEY_REQUIRED, Code.IDEMPOTENCY_KEY_INVALID)
_REFERENCE = "#/components/schemas/{name}"
_EXTERNAL_ID_MOST = 255

SCOPES = {
    "charges:create": "Create, cancel and re-date charges.",
    "charges:read": "Look charges up.",
    "payments:read": "Read payments, balance, ledger and events.",
    "refunds:create": "Create refunds.",
    "withdrawals:create": "Create withdrawals.",
    "schedules:write": "Create and change charge schedules.",
}


def _header(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"schema": schema, "description": description, "required": True}


_WHOLE = {"type": "integer", "minimum": 0}
_HEADERS = {
    "X-Request-Id": _header({"type": "string", "minLength": 1}, "Identifies this request in our logs."),
    "RateLimit-Limit": _header(_WHOLE, "Size of the credential's bucket."),
    "RateLimit-Remaining": _header(_WHOLE, "Requests left in it."),
    "RateLimit-Reset": _header(_WHOLE, "Seconds until it is full again."),
    "Retry-After": _header({"type": "integer", "minimum": 1}, "Seconds to wait."),
    "WWW-Authenticate": _header({"type": "string", "minLength": 1}, "The scheme that is wanted."),
    "Cache-Control": _header({"const": "no-store"}, "A token is never to be kept by a cache."),
    "Idempotent-Replayed": _header({"const": "true"}, "The key made this resource before."),
    "Idempotency-Key": _header({"type": "string", "pattern": KEY_PATTERN}, "The key, as it was sent."),
    "Content-Disposition": _header(
        {"type": "string", "pattern": r'^attachment; filename="boleto-[0-9]{20}\.pdf"$'},
        "A file to be saved, named after the slip's number at the bank.",
    ),
}
_LIMITS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")

# What can be done with what was just created: with a charge, unless the operation is named.
_LINKS = dict.fromkeys(("getCharge", "cancelCharge", "simulatePayment"), "charge_id")
_LINKS_OF: dict[str, dict[str, str]] = {
    "createSchedule": dict.fromkeys(
        ("getSchedule", "pauseSchedule", "cancelSchedule", "listChargesOfSchedule"), "schedule_id"
    ),
    "createWithdrawal": dict.fromkeys(("getWithdrawal", "cancelWithdrawal"), "withdrawal_id"),
    "createRefund": {"getRefund": "refund_id", "getCharge": "charge_id", "listRefundsOfCharge": "charge_id"},
}

# An event about a withdrawal tells its end.
WITHDRAWAL_ENDS = (WithdrawalStatus.SUCCEEDED.value, WithdrawalStatus.FAILED.value)

_WHAT = {201: "Created.", 202: "Taken on: it is done right after."}

_CENTS = r"\.[0-9]{2}$"
# Free text with something in it.
_SOMETHING = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$"
_UUID = {"type": "string", "format": "uuid", "pattern": UUID_PATTERN}
_INSTANT = {
    "type": "string",
    "format": "date-time",
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$",
    "examples": ["2026-11-21T09:54:00.123Z"],
}
_DAY = {"type": "string", "format": "date", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}
_REAIS = {"type": "string", "pattern": f"^[0-9]+{_CENTS}", "examples": ["10.50"]}
_BALANCE = {"type": "string", "pattern": f"^-?[0-9]+{_CENTS}", "examples": ["1234.56"]}
_METHOD = {"type": "string", "enum": list(PAYMENT_METHODS)}
_SEQUENCE = {"type": "integer", "minimum": 1, "description": "Dense: no number is missing."}

# What a name means wherever an answer has it; the types say only "string".
_FIELDS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(
        (
            "charge_id", "account_id", "schedule_id", "payment_id", "entry_id", "event_id", "refund_id",
            "withdrawal_id", "resource_id",
        ),
        _UUID,
    ),
    **dict.fromkeys(
        (
            "created_at", "expires_at", "paid_at", "cancelled_at", "credited_at", "completed_at", "first_used_at",
        ),
        _INSTANT,
    ),
    **dict.fromkeys(("due_date", "effective_due_date"), _DAY),
    **dict.fromkeys(
        ("amount", "fee", "net_amount", "interest", "fine", "discount", "refunded_amount", "refunded_total",
         "refundable_remaining"), _REAIS
    ),
    "balance": _BALANCE,
    "balance_after": _BALANCE,
    "status": {"type": "string", "enum": list(STATUSES)},
    "payment_method": {"type": "string", "enum": list(METHODS)},
    "method": _METHOD,
    "anomaly": {"type": "string", "enum": list(ANOMALIES)},
    "sequence": _SEQUENCE,
    "version": {"type": "integer", "minimum": 1, "description": "One more with each change."},
    "txid": {"type": "string", "pattern": "^[0-9a-zA-Z]{26,35}$"},
    "qr_code_image": {"type": "string", "pattern": "^data:image/png;base64,[A-Za-z0-9+/]+=*$"},
    "end_to_end_id": {"type": "string", "pattern": "^E[0-9]{8}[0-9]{12}[0-9A-Za-z]{11}$"},
    "return_id": {"type": "string", "pattern": "^D[0-9]{8}[0-9]{12}[0-9A-Za-z]{11}$"},
    "next_cursor": {"type": "string", "pattern": "^[A-Za-z0-9_-]+$", "description": "null at the end."},
    "replay_count": _WHOLE,
    "count": _WHOLE,
}  # fmt: skip


def document(routes: Sequence[Route], settings: Settings) -> bytes:
    """The OpenAPI 3.1 document as JSON bytes."""
    types: list[Any] = [ErrorEnvelope, Token, TokenError, TokenRequest]
    for route in routes:
        types += [
            *(each for each in route.answers.values() if not isinstance(each, Pdf)),
            *([route.body] if route.body else []),
        ]
    distinct = list({id(each): each for each in types}.values())
    references, components = msgspec.json.schema_components(distinct, ref_template=_REFERENCE)
    schema_of = {id(each): reference for each, reference in zip(distinct, references, strict=True)}
    _sharpen_answers(components)
    _sharpen_requests(components)
    _sharpen_slips(components)
    _sharpen_clock(components)
    _sharpen_mail(components)
    _sharpen_schedules(components)
    _sharpen_withdrawals(components)
    paths: dict[str, Any] = {}
    for route in routes:
        path = route.path.replace(":str", "").replace(":path", "")
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, schema_of, settings)
    paths["/v1/oauth/token"] = {"post": _token_operation(schema_of)}
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Quita API",
                "version": "1.0.0",
                "description": "PIX charges in Brazil: issue, be paid, be told. Money is a decimal string in reais.",
            },
            "servers": [{"url": settings.base_url}],
            "externalDocs": {"url": settings.docs_url},
            "tags": [{"name": tag} for tag in dict.fromkeys(["Authentication", *(route.tag for route in routes)])],
            "paths": paths,
            "components": {
                "schemas": components,
                "headers": _HEADERS,
                "securitySchemes": {
                    "oauth2": {
                        "type": "oauth2",
                        "flows": {
                            "clientCredentials": {
                                "tokenUrl": f"{settings.base_url}/v1/oauth/token",
                                "scopes": SCOPES,
                            }
                        },
                    },
                    "accessToken": {
                        "type": "http",
                        "scheme": "bearer",
                        "description": "The access_token of POST /v1/oauth/token, for tools that do not fetch it.",
                    },
                },
            },
        }
    )


def _operation(route: Route, schema_of: dict[int, Any], settings: Settings) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [_path_parameter(name) for name in _path_names(route.path)]
    parameters += [_parameter(parameter, "query") for parameter in route.query]
    if route.key:
        parameters.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": True,
                "description": "Unique per operation (a UUID is best); the same key and body make one resource.",
                "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": KEY_PATTERN},
                "example": "5f0c6c1e-7d0e-4f0b-9d5c-0a3e5b1c2d3e",
            }
        )
    parameters += [_parameter(parameter, "header") for parameter in route.headers]
    answers: dict[str, Any] = {}
    for status, answer in route.answers.items():
        if isinstance(answer, Pdf):
            answers[str(status)] = _pdf(answer)
            continue
        replayed = ("Idempotent-Replayed", "Idempotency-Key") if route.key and status == 200 else ()
        answers[str(status)] = _answer(
            _WHAT.get(status) or ("The resource as it is now." if route.key else "The answer."),
            schema_of[id(answer)],
            (*_LIMITS, *replayed),
        )
        if status == 201:
            answers["201"]["links"] = {
                name: {"operationId": name, "parameters": {id: f"$response.body#/{id}"}}
                for name, id in _LINKS_OF.get(route.name, _LINKS).items()
            }
    for status, codes in _errors(route).items():
        answers[str(status)] = _error_answer(status, codes, schema_of[id(ErrorEnvelope)], settings)
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.tag],
        "description": _description(route),
        "security": [*({"oauth2": [scope]} for scope in route.scopes), {"accessToken": []}],
        "parameters": parameters,
        "responses": answers,
    }
    if route.body is not None:
        operation["requestBody"] = {
            "required": not route.body_optional,
            "content": {"application/json": {"schema": schema_of[id(route.body)]}},
        }
    return operation


def _path_parameter(name: str) -> dict[str, Any]:
    # Ids are any string here: what is no id names nothing, and is answered like an id nobody has.
    schema: dict[str, Any] = {"type": "string", "minLength": 1}
    if name == "key":
        schema |= {"maxLength": 255, "pattern": KEY_PATTERN}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _parameter(parameter: Parameter, place: str) -> dict[str, Any]:
    schema = parameter.schema
    if parameter.repeatable:
        schema = {"type": "array", "items": schema, "maxItems": REPEATED_MOST}
    described = {"name": parameter.name, "in": place, "required": False, "schema": schema}
    if parameter.description:
        described["description"] = parameter.description
    if parameter.repeatable:
        described |= {"style": "form", "explode": True}
    return described


def _errors(route: Route) -> dict[int, list[Code]]:
    codes = [*_ALWAYS, *route.errors]
    if route.method != "GET":
        codes.append(Code.PAYLOAD_TOO_LARGE)
    if route.scopes:
        codes.append(Code.INSUFFICIENT_SCOPE)
    if route.mode is not Mode.ANY:
        codes.append(Code.SANDBOX_ONLY)
    if route.key:
        codes += _WITH_KEY
    if route.body is not None:
        codes += _WITH_BODY
    if route.headers:
        codes.append(Code.VALIDATION_ERROR)
    by_status: dict[int, list[Code]] = {}
    for code in dict.fromkeys(codes):
        by_status.setdefault(code.status, []).append(code)
    return dict(sorted(by_status.items()))


def _error_answer(status: int, codes: Sequence[Code], envelope: Any, settings: Settings) -> dict[str, Any]:
    """The envelope with exactly these codes. Refused before the token is known, an answer has no limits to tell."""
    headers: tuple[str, ...] = {
        401: ("WWW-Authenticate",), 413: (), 415: (), 429: (*_LIMITS, "Retry-After"), 500: (),
        502: (*_LIMITS, "Retry-After"), 503: ("Retry-After",),
    }.get(status, _LIMITS)  # fmt: skip
    names = [code.name for code in codes]
    schema = {
        "allOf": [envelope, {"properties": {"error": {"properties": {"code": {"type": "string", "enum": names}}}}}]
    }
    answer = _answer(" | ".join(f"{code.name}: {code.message}" for code in codes), schema, headers)
    answer["content"]["application/json"]["examples"] = {
        code.name: {
            "value": {
                "error": {
                    "code": code.name,
                    "message": code.message,
                    "request_id": "req_2bXkq3cVQyq0eQfZb1m5Zw",
                    "documentation_url": f"{settings.docs_url}/errors/{code.name}",
                }
            }
        }
        for code in codes
    }
    return answer


def _answer(description: str, schema: Any, headers: Iterable[str]) -> dict[str, Any]:
    return {
        "description": description,
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in ("X-Request-Id", *headers)},
        "content": {"application/json": {"schema": schema}},
    }


def _pdf(file: Pdf) -> dict[str, Any]:
    """Bytes as they are: OpenAPI 3.1 knows them by contentMediaType, generators of clients by the format of 3.0."""
    answer = _answer(file.description, None, (*_LIMITS, "Content-Disposition"))
    answer["content"] = {
        "application/pdf": {"schema": {"type": "string", "format": "binary", "contentMediaType": "application/pdf"}}
    }
    return answer


def _description(route: Route) -> str:
    parts = []
    if route.scopes:
        parts.append(f"Scope: {' or '.join(route.scopes)}.")
    if route.mode is Mode.TEST:
        parts.append("Test credentials only.")
    if route.mode is Mode.PRODUCTION:
        parts.append("Production credentials only.")
    return " ".join(parts)


def _token_operation(schema_of: dict[int, Any]) -> dict[str, Any]:
    def declined(description: str, *errors: str, headers: Sequence[str] = ("Cache-Control",)) -> dict[str, Any]:
        schema = {"allOf": [schema_of[id(TokenError)], {"properties": {"error": {"enum": list(errors)}}}]}
        return _answer(description, schema, headers)

    request = schema_of[id(TokenRequest)]
    return {
        "operationId": "issueToken",
        "summary": "Obtain an access token",
        "tags": ["Authentication"],
        "description": (
            f"OAuth 2.0 client credentials (RFC 6749 section 4.4). A token lives {LIFETIME_S} seconds. "
            "The client's id and secret stand in the body or in HTTP Basic."
        ),
        "security": [],
        "requestBody": {
            "required": True,
            "content": {
                "application/x-www-form-urlencoded": {"schema": request},
                "application/json": {"schema": request},
            },
        },
        "responses": {
            "200": _answer("A token.", schema_of[id(Token)], ("Cache-Control",)),
            "400": declined(
                "The request cannot be read or asks for what is not given.",
                "invalid_request", "unsupported_grant_type", "invalid_scope",
            ),
            "401": declined(
                "Not who it says.", "invalid_client", headers=("Cache-Control", "WWW-Authenticate")
            ),
            "503": declined("Try again.", "temporarily_unavailable", headers=("Cache-Control", "Retry-After")),
        },
    }  # fmt: skip


def _path_names(path: str) -> list[str]:
    return [part[1:-1].split(":")[0] for part in path.split("/") if part.startswith("{")]


def _sharpen_answers(components: dict[str, Any]) -> None:
    """Formats of answers by field name, and that what is always there is always there."""
    for component in components.values():
        properties = component.get("properties", {})
        for name, schema in properties.items():
            if name in _FIELDS:
                nullable = {"type": "null"} in schema.get("anyOf", [])
                properties[name] = {"anyOf": [_FIELDS[name], {"type": "null"}]} if nullable else _FIELDS[name]
    for name in ("ChargeProjection", "Balance", "KeyState"):
        # Never null: dual charges have legs, and no others.
        components[name]["required"] = [each for each in components[name]["properties"] if each != "legs"]
        for schema in components[name]["properties"].values():
            schema.pop("default", None)
    components["ChargeProjection"]["properties"]["legs"] |= {"minItems": 2, "maxItems": 2}
    components["Leg"]["properties"] = {
        "leg": {"type": "string", "enum": ["pix", "boleto"]},
        "status": {
            "type": "string",
            "enum": ["pending", "paid", "cancelled", "expired"],
            "description": "cancelled also when the other leg was paid.",
        },
    }
    components["Balance"]["properties"]["currency"] = {"const": "BRL"}
    components["KeyState"]["properties"]["state"] = {"enum": ["in_progress", "completed", "unknown"]}
    entry = components["LedgerItem"]["properties"]
    entry["type"] = {"type": "string", "enum": list(ENTRY_TYPES)}
    entry["direction"] = {"type": "string", "enum": ["credit", "debit"]}
    event = components["EventItem"]["properties"]
    event["type"] = event["event"] = {"type": "string", "enum": list(KINDS)}
    event["status"] = {"type": "string", "enum": [*dict.fromkeys([*STATUSES, *WITHDRAWAL_ENDS])]}
    # Never null: what an event does not have is left out.
    for name in ("charge_id", "withdrawal_id", "external_id", "paid_at"):
        event[name] = _FIELDS.get(name, {"type": "string"})
    components["EventItem"]["additionalProperties"] = True
    refund = components["RefundProjection"]["properties"]
    refund["status"] = {"type": "string", "enum": list(REFUND_STATUSES)}
    refund["failure_code"] = _or_null({"type": "string", "enum": [each.value for each in FailureCode]})
    # An HTTP status, not a charge's.
    components["DeliveryAttempt"]["properties"]["status"] = {"type": ["integer", "null"]}
    components["ErrorBody"]["properties"]["documentation_url"] = {"type": "string", "format": "uri"}
    components["ErrorBody"]["properties"]["fields"] = {
        "type": "array",
        "minItems": 1,
        "items": {"$ref": _REFERENCE.format(name="Field")},
    }
    token = components["Token"]["properties"]
    token["token_type"] = {"const": "Bearer"}
    token["expires_in"] = {"const": LIFETIME_S}


def _sharpen_requests(components: dict[str, Any]) -> None:
    """What the types cannot say of a request: bounds and patterns that the handlers enforce."""
    create = components["CreatePix"]["properties"]
    create["account_id"] = _UUID | {"description": "The token's own account."}
    create["amount"] = {
        "type": "string",
        "pattern": r"^(?!0+(\.0{1,2})?$)[0-9]{1,10}(\.[0-9]{1,2})?$",
        "description": "Decimal reais, greater than 0.",
        "examples": ["10.50"],
    }
    create["expires_in"] = _or_null(
        {"type": "integer", "minimum": LIFETIME_LEAST_S, "maximum": LIFETIME_MOST_S, "default": LIFETIME_DEFAULT_S},
        "Seconds.",
    )
    create["external_id"] = _text(_EXTERNAL_ID_MOST, "The merchant's own reference; need not be unique.")
    create["description"] = _text(DESCRIPTION_MOST)
    payer = components["PixPayer"]["properties"]
    payer["name"] = _text(200)
    payer["phone"] = _text(32)
    payer["email"] = _or_null({"type": "string", "maxLength": 254, "pattern": f"^{EMAIL}$"})
    payer["document"] = _or_null(
        {"type": "string", "pattern": "^([0-9]{11}|[0-9]{14})$"},
        "CPF or CNPJ, digits only; in production its check digits must hold.",
    )
    refund = components["CreateRefund"]["properties"]
    refund["amount"] = create["amount"] | {"description": "Decimal reais; all that remains unless given."}
    refund["reason"] = _text(REASON_MOST)
    refund["description"] = _text(DESCRIPTION_MOST, "Told to the bank, folded to its letters and 140 characters.")
    refund["external_id"] = _text(_EXTERNAL_ID_MOST, "The refund's own reference; need not be unique.")
    refund["payment_id"] = _or_null(_UUID, "The payment that settled the charge unless given.")
    destination = components["RefundDestination"]["properties"]
    destination["pix_key"] = {
        "type": "string",
        "maxLength": MOST_PIX_KEY_CHARACTERS,
        "pattern": f"^({PIX_KEY})$",
        "description": "CPF, CNPJ, +55 and telephone, e-mail or random key.",
    }
    destination["document"] = {
        "type": "string",
        "pattern": "^([0-9]{11}|[0-9]{14})$",
        "description": "CPF or CNPJ of the key's owner, digits only; in production its check digits must hold.",
    }
    cancel = components["CancelByReference"]
    cancel["properties"] = {
        "charge_id": _or_null({"type": "string"}),
        "external_id": _text(_EXTERNAL_ID_MOST),
        "reason": _or_null({"type": "string", "enum": [each.value for each in CancelReason], "default": "cancelled"}),
    }
    cancel["oneOf"] = _exactly_one("charge_id", "external_id")
    request = components["TokenRequest"]["properties"]
    request["grant_type"] = {"const": "client_credentials"}
    for name in ("client_id", "client_secret"):
        request[name] = {"type": "string", "minLength": 1, "maxLength": FIELD_MOST, "pattern": r"^[^\x00]*$"}
    scope = "|".join(SCOPES)
    request["scope"] = {
        "type": "string",
        "pattern": f"^({scope})( ({scope}))*$",
        "maxLength": FIELD_MOST,
        "description": "A subset of the credential's scopes; all of them unless given.",
    }


def _exactly_one(first: str, second: str) -> list[dict[str, Any]]:
    """Of two fields; null is as good as not there."""
    return [
        {"required": [one], "properties": {one: {"type": "string"}, other: {"type": "null"}}}
        for one, other in ((first, second), (second, first))
    ]


def _sharpen_slips(components: dict[str, Any]) -> None:
    """The same for boletos. That a due date is still to come is not for a schema to say."""
    create = components["CreateBoleto"]["properties"]
    create["tipo"] = {"type": "string", "enum": list(KINDS_OF_SLIP)}
    create["valorCents"] = {
        "type": "string",
        "pattern": r"^(?!0+(\.0{1,2})?$)0{0,2}[0-9]{1,8}(\.[0-9]{1,2})?$",
        "description": "Decimal reais, despite the name; greater than 0.",
        "examples": ["150.00"],
    }
    create["dataVencimento"] = _DAY | {"description": f"After today in São Paulo, {LAST_DUE} at the latest."}
    create["external_id"] = _text(_EXTERNAL_ID_MOST, "The merchant's own reference; need not be unique.")
    create["descricao"] = _text(DESCRIPTION_MOST, "Printed on the slip.")
    create["integrador_code"] = _or_null(
        {"type": "string", "pattern": "^INTG-[A-Z0-9]{6}$"}, "The partner who brought the charge; stamped for ever."
    )
    create["account_id"] = _or_null(_UUID, "The token's own account.")
    payer = components["Pagador"]["properties"]
    for name in ("nome", "logradouro", "cidade"):
        payer[name] = {"type": "string", "minLength": 1, "maxLength": NAME_MOST, "pattern": _SOMETHING}
    payer["numero"] = _text(NUMBER_MOST)
    payer["email"] = _or_null({"type": "string", "maxLength": EMAIL_MOST, "pattern": f"^{EMAIL}$"}, "For send_email.")
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
    _sharpen_dual(components)
    components["SandboxPayment"]["properties"] = {
        "amount": _or_null(
            {"type": "string", "pattern": r"^(?!0+(\.0{1,2})?$)[0-9]{1,10}(\.[0-9]{1,2})?$"},
            "Decimal reais; the charge's own unless given.",
        ),
        "paid_at": _or_null(_INSTANT, "In the past; now unless given."),
        "times": _or_null({"type": "integer", "minimum": 1, "maximum": TIMES_MOST}),
    }
    change = components["ChangeDueDate"]
    change["properties"] = {
        "due_date": _DAY | {"description": f"Today in São Paulo or later, {LAST_DUE} at the latest."},
        "charge_id": _or_null({"type": "string"}),
        "external_id": _text(_EXTERNAL_ID_MOST),
    }
    change["oneOf"] = _exactly_one("charge_id", "external_id")
    slip = components["Boleto"]
    slip["required"] = list(slip["properties"])
    slip["properties"] |= {
        "nosso_numero": {"type": "string", "pattern": "^[0-9]{20}$"},
        "seu_numero": {"type": "string", "pattern": "^[A-Z0-9 '-]{1,15}$"},
        "linha_digitavel": {"type": "string", "pattern": "^[0-9]{47}$"},
        "codigo_barras": {"type": "string", "pattern": "^[0-9]{44}$"},
        "tipo_cobranca": {"type": "string", "enum": list(KINDS_OF_SLIP)},
        "data_vencimento": _DAY,
    }


def _sharpen_dual(components: dict[str, Any]) -> None:
    """The body of a dual charge: a boleto's fields under the names of a PIX charge."""
    boleto, pagador = components["CreateBoleto"]["properties"], components["Pagador"]["properties"]
    create, payer = components["CreateDual"]["properties"], components["DualPayer"]["properties"]
    create["amount"] = boleto["valorCents"] | {"description": "Decimal reais, greater than 0."}
    create["due_date"] = boleto["dataVencimento"]
    create["description"] = boleto["descricao"]
    for name in ("external_id", "integrador_code", "account_id"):
        create[name] = boleto[name]
    create["expires_in"] = _or_null(
        {"type": "integer", "minimum": LIFETIME_LEAST_S, "maximum": LIFETIME_MOST_S},
        "Seconds the PIX leg lives; as long as the slip unless given, and never longer.",
    )
    payer["name"] = pagador["nome"]
    payer["phone"] = _text(PHONE_MOST)
    payer["email"] = _or_null({"type": "string", "maxLength": EMAIL_MOST, "pattern": f"^{EMAIL}$"})
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


def _sharpen_clock(components: dict[str, Any]) -> None:
    """How far the clock goes at once and in all depends on what it shows: that is for the handler to say."""
    advance = components["AdvanceClock"]
    advance["properties"] = {
        "advance": _or_null(
            {
                "type": "string",
                "pattern": r"^(?=.*[1-9])P([0-9]{1,3}W"
                r"|([0-9]{1,4}D)?(T(?=[0-9])([0-9]{1,5}H)?([0-9]{1,7}M)?([0-9]{1,9}S)?)?)$",
                "examples": ["P3D"],
            },
            f"ISO 8601 duration, more than nothing and at most {CALL_MOST_S // 86_400} days.",
        ),
        "to": _or_null(
            _INSTANT | {"pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$"},
            f"At most {CALL_MOST_S // 86_400} days later than the clock; where it has been already, nothing changes.",
        ),
    }
    advance["oneOf"] = _exactly_one("advance", "to")
    shown = components["SandboxClock"]["properties"]
    shown["now"] = shown["real_time"] = _INSTANT
    shown["advanced_seconds"] = _WHOLE


def _sharpen_mail(components: dict[str, Any]) -> None:
    send = components["SendEmail"]["properties"]
    send["to"] = _or_null(
        {"type": "string", "maxLength": EMAIL_MOST, "pattern": f"^{MAIL_ADDRESS}$"},
        "The payer's own address unless given.",
    )
    send["message"] = _text(MESSAGE_MOST, "The merchant's own words.")
    asked = components["EmailAsked"]["properties"]
    asked["email_id"] = _UUID
    asked["status"] = {"type": "string", "enum": ["queued", "stopped"]}


def _sharpen_schedules(components: dict[str, Any]) -> None:
    """What depends on the payment method (a boleto's payer needs an address) is for the handler to say."""
    create = components["CreateSchedule"]["properties"]
    create["payment_method"] = {"type": "string", "enum": list(METHODS_OF_SCHEDULE)}
    create["amount"] = components["CreatePix"]["properties"]["amount"]
    create["frequency"] = {"type": "string", "enum": list(FREQUENCIES)}
    create["first_due_date"] = _DAY | {"description": f"After today in São Paulo, {LAST_DUE} at the latest."}
    create["end_date"] = _or_null(_DAY, "The last due date there may be; not together with max_charges.")
    create["max_charges"] = _or_null({"type": "integer", "minimum": 1, "maximum": MOST_CHARGES})
    create["issue_days_before"] = _or_null(
        {"type": "integer", "minimum": 0, "maximum": MOST_ISSUE_DAYS_BEFORE, "default": ISSUE_DAYS_BEFORE_DEFAULT}
    )
    create["external_id"] = _text(_EXTERNAL_ID_MOST, "Given to each of its charges.")
    create["description"] = _text(DESCRIPTION_MOST)
    payer, pix = components["SchedulePayer"]["properties"], components["PixPayer"]["properties"]
    for name in ("name", "document", "email", "phone"):
        payer[name] = pix[name]
    payer["person_type"] = _or_null({"type": "string", "enum": list(PEOPLE)})
    schedule = components["ScheduleProjection"]["properties"]
    schedule["status"] = {"type": "string", "enum": list(SCHEDULE_STATUSES)}
    schedule["payment_method"] = create["payment_method"]
    schedule["frequency"] = create["frequency"]
    schedule["first_due_date"] = _DAY
    for name in ("end_date", "next_due_date"):
        schedule[name] = _or_null(_DAY)
    schedule["next_issue_at"] = _or_null(_INSTANT)
    components["ScheduleFailure"]["properties"]["failed_at"] = _INSTANT
    components["ScheduledCharge"]["properties"]["state"] = {"type": "string", "enum": list(SCHEDULED_STATES)}
    components["ScheduledCharge"]["properties"]["charge_id"] = _or_null(_UUID)


def _sharpen_withdrawals(components: dict[str, Any]) -> None:
    create = components["CreateWithdrawal"]["properties"]
    create["amount"] = components["CreatePix"]["properties"]["amount"] | {
        "description": f"Decimal reais; below {reais(MINIMUM_CENTS)} it is refused with 422."
    }
    create["description"] = _text(DESCRIPTION_MOST, "Told to the bank, folded to its letters and 140 characters.")
    create["external_id"] = _text(_EXTERNAL_ID_MOST, "The withdrawal's own reference; need not be unique.")
    withdrawal = components["WithdrawalProjection"]["properties"]
    withdrawal["status"] = {"type": "string", "enum": list(WITHDRAWAL_STATUSES)}
    withdrawal["failure_code"] = _or_null({"type": "string", "enum": [each.value for each in WithdrawalFailure]})
    withdrawal["test"] = {"const": False}


def _text(most: int, description: str = "") -> dict[str, Any]:
    return _or_null({"type": "string", "maxLength": most, "pattern": TEXT_PATTERN}, description)


def _or_null(schema: dict[str, Any], description: str = "") -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}], **({"description": description} if description else {})}
