"""GET /v1/openapi.json, made from the table of routes: paths, scopes, bodies, answers and each error, to the code.

The document is true both ways: what its schemas let in is let in, what they refuse is refused.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from api.answers import ErrorEnvelope
from api.idempotency.lock import KEY_PATTERN
from api.openapi.answers import sharpen_answers
from api.openapi.parts import REFERENCE, WHOLE
from api.openapi.requests import sharpen_requests
from api.query import REPEATED_MAX
from api.route import Parameter, Route
from api.routes.boleto_pdf import Pdf
from api.routes.token import LIFETIME_S, Token, TokenError, TokenRequest
from domain.errors import Code
from domain.mode import Mode
from runtime.settings import Settings

_ALWAYS = (Code.UNAUTHENTICATED, Code.RATE_LIMITED, Code.INTERNAL_ERROR, Code.SERVICE_UNAVAILABLE)
_WITH_BODY = (Code.MALFORMED_JSON, Code.VALIDATION_ERROR, Code.UNSUPPORTED_MEDIA_TYPE)
_WITH_KEY = (Code.IDEMPOTENCY_KEY_REQUIRED, Code.IDEMPOTENCY_KEY_INVALID)

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


_HEADERS = {
    "X-Request-Id": _header({"type": "string", "minLength": 1}, "Identifies this request in our logs."),
    "RateLimit-Limit": _header(WHOLE, "Size of the credential's bucket."),
    "RateLimit-Remaining": _header(WHOLE, "Requests left in it."),
    "RateLimit-Reset": _header(WHOLE, "Seconds until it is full again."),
    "Retry-After": _header({"type": "integer", "minimum": 1}, "Seconds to wait."),
    "WWW-Authenticate": _header({"type": "string", "minLength": 1}, "The scheme that is wanted."),
    "Cache-Control": _header({"const": "no-store"}, "A token is never to be kept by a cache."),
    "Idempotent-Replayed": _header({"const": "true"}, "The key made this resource before."),
    "Idempotency-Key": _header({"type": "string", "pattern": KEY_PATTERN}, "The key, as it was sent."),
    "Content-Disposition": _header(
        {"type": "string", "pattern": r'^attachment; filename="boleto-[0-9]{20}\.pdf"$'},
        "A file to be saved, named after the boleto's number at the bank.",
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

_WHAT = {201: "Created.", 202: "Taken on: it is done right after."}


def document(routes: Sequence[Route], settings: Settings) -> bytes:
    """The OpenAPI 3.1 document as JSON bytes."""
    answers: list[Any] = [ErrorEnvelope, Token, TokenError]
    answers += [each for route in routes for each in route.answers.values() if not isinstance(each, Pdf)]
    schema_of, components = _components(answers)
    sharpen_answers(components)
    schema_of_body, bodies = _components([TokenRequest, *(route.body for route in routes if route.body)])
    sharpen_requests(bodies)
    schema_of |= schema_of_body
    components |= bodies
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
                            "clientCredentials": {"tokenUrl": f"{settings.base_url}/v1/oauth/token", "scopes": SCOPES}
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


def _components(types: Iterable[Any]) -> tuple[dict[int, Any], dict[str, Any]]:
    distinct = list({id(each): each for each in types}.values())
    references, components = msgspec.json.schema_components(distinct, ref_template=REFERENCE)
    return {id(each): reference for each, reference in zip(distinct, references, strict=True)}, components


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
        schema = {"type": "array", "items": schema, "maxItems": REPEATED_MAX}
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
    if route.mode is not None:
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
    if route.mode is Mode.SANDBOX:
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
            "429": declined(
                "Too many requests of this address or client.", "temporarily_unavailable",
                headers=("Cache-Control", "Retry-After"),
            ),
            "503": declined("Try again.", "temporarily_unavailable", headers=("Cache-Control", "Retry-After")),
        },
    }  # fmt: skip


def _path_names(path: str) -> list[str]:
    return [part[1:-1].split(":")[0] for part in path.split("/") if part.startswith("{")]
