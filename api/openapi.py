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
from api.routes.events import KINDS
from api.routes.money import ANOMALIES, PAYMENT_METHODS
from api.routes.pix import DESCRIPTION_MOST, EMAIL, LIFETIME_DEFAULT_S, LIFETIME_LEAST_S, LIFETIME_MOST_S
from api.routes.token import FIELD_MOST, LIFETIME_S, Token, TokenError, TokenRequest
from domain.charge import CancelReason
from domain.errors import Code
from readmodels.charge_list import METHODS, STATUSES
from readmodels.ledger import ENTRY_TYPES
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
}
_LIMITS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")

# What can be done with a charge that was just created.
_LINKS = ("getCharge", "cancelCharge", "simulatePayment")

_CENTS = r"\.[0-9]{2}$"
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
            "charge_id", "account_id", "payment_id", "entry_id", "event_id", "refund_id", "withdrawal_id",
            "resource_id",
        ),
        _UUID,
    ),
    **dict.fromkeys(
        ("created_at", "expires_at", "paid_at", "cancelled_at", "credited_at", "first_used_at"), _INSTANT
    ),
    **dict.fromkeys(("due_date", "effective_due_date"), _DAY),
    **dict.fromkeys(
        ("amount", "fee", "net_amount", "interest", "fine", "discount", "refunded_amount"), _REAIS
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
    "next_cursor": {"type": "string", "pattern": "^[A-Za-z0-9_-]+$", "description": "null at the end."},
    "replay_count": _WHOLE,
    "count": _WHOLE,
}  # fmt: skip


def document(routes: Sequence[Route], settings: Settings) -> bytes:
    """The OpenAPI 3.1 document as JSON bytes."""
    types: list[Any] = [ErrorEnvelope, Token, TokenError, TokenRequest]
    for route in routes:
        types += [*route.answers.values(), *([route.body] if route.body else [])]
    distinct = list({id(each): each for each in types}.values())
    references, components = msgspec.json.schema_components(distinct, ref_template=_REFERENCE)
    schema_of = {id(each): reference for each, reference in zip(distinct, references, strict=True)}
    _sharpen_answers(components)
    _sharpen_requests(components)
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
        replayed = ("Idempotent-Replayed", "Idempotency-Key") if route.key and status == 200 else ()
        answers[str(status)] = _answer(
            "Created." if status == 201 else "The resource as it is now." if route.key else "The answer.",
            schema_of[id(answer)],
            (*_LIMITS, *replayed),
        )
        if status == 201:
            answers["201"]["links"] = {
                name: {"operationId": name, "parameters": {"charge_id": "$response.body#/charge_id"}} for name in _LINKS
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
            "required": True,
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
    by_status: dict[int, list[Code]] = {}
    for code in dict.fromkeys(codes):
        by_status.setdefault(code.status, []).append(code)
    return dict(sorted(by_status.items()))


def _error_answer(status: int, codes: Sequence[Code], envelope: Any, settings: Settings) -> dict[str, Any]:
    """The envelope with exactly these codes. Refused before the token is known, an answer has no limits to tell."""
    headers: tuple[str, ...] = {
        401: ("WWW-Authenticate",), 413: (), 415: (), 429: (*_LIMITS, "Retry-After"), 500: (), 503: ("Retry-After",),
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
        components[name]["required"] = list(components[name]["properties"])
        for schema in components[name]["properties"].values():
            schema.pop("default", None)
    components["Balance"]["properties"]["currency"] = {"const": "BRL"}
    components["KeyState"]["properties"]["state"] = {"enum": ["in_progress", "completed", "unknown"]}
    entry = components["LedgerItem"]["properties"]
    entry["type"] = {"type": "string", "enum": list(ENTRY_TYPES)}
    entry["direction"] = {"type": "string", "enum": ["credit", "debit"]}
    event = components["EventItem"]["properties"]
    event["type"] = event["event"] = {"type": "string", "enum": list(KINDS)}
    # Never null: what an event does not have is left out.
    for name in ("external_id", "paid_at"):
        event[name] = _FIELDS.get(name, {"type": "string"})
    components["EventItem"]["additionalProperties"] = True
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
    cancel = components["CancelByReference"]
    cancel["properties"] = {
        "charge_id": _or_null({"type": "string"}),
        "external_id": _text(_EXTERNAL_ID_MOST),
        "reason": _or_null({"type": "string", "enum": [each.value for each in CancelReason], "default": "cancelled"}),
    }
    cancel["oneOf"] = [
        {"required": [one], "properties": {one: {"type": "string"}, other: {"type": "null"}}}
        for one, other in (("charge_id", "external_id"), ("external_id", "charge_id"))
    ]
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


def _text(most: int, description: str = "") -> dict[str, Any]:
    return _or_null({"type": "string", "maxLength": most, "pattern": TEXT_PATTERN}, description)


def _or_null(schema: dict[str, Any], description: str = "") -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}], **({"description": description} if description else {})}
