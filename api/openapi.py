"""GET /v1/openapi.json, made from the table of routes: paths, scopes, bodies, answers and each error, to the code."""

from collections.abc import Sequence
from typing import Any

import msgspec

from api.answers import ErrorEnvelope
from api.route import Mode, Route
from api.routes.token import LIFETIME_S, Token, TokenError, TokenRequest
from domain.errors import Code
from runtime.settings import Settings

_ALWAYS = (Code.UNAUTHENTICATED, Code.RATE_LIMITED, Code.INTERNAL_ERROR, Code.SERVICE_UNAVAILABLE)
_WITH_BODY = (Code.MALFORMED_JSON, Code.VALIDATION_ERROR, Code.UNSUPPORTED_MEDIA_TYPE)
_WITH_KEY = (Code.IDEMPOTENCY_KEY_REQUIRED, Code.IDEMPOTENCY_KEY_INVALID)
_REFERENCE = "#/components/schemas/{name}"

SCOPES = {
    "charges:create": "Create, cancel and re-date charges.",
    "charges:read": "Look charges up.",
    "payments:read": "Read payments, balance, ledger and events.",
    "refunds:create": "Create refunds.",
    "withdrawals:create": "Create withdrawals.",
    "schedules:write": "Create and change charge schedules.",
}

_REQUEST_ID = {"schema": {"type": "string"}, "description": "Identifies this request in our logs."}
_LIMITS = {
    "RateLimit-Limit": {"schema": {"type": "integer"}, "description": "Size of the credential's bucket."},
    "RateLimit-Remaining": {"schema": {"type": "integer"}, "description": "Requests left in it."},
    "RateLimit-Reset": {"schema": {"type": "integer"}, "description": "Seconds until it is full again."},
}


def document(routes: Sequence[Route], settings: Settings) -> bytes:
    """The OpenAPI 3.1 document as JSON bytes."""
    types: list[Any] = [ErrorEnvelope, Token, TokenError, TokenRequest]
    for route in routes:
        types += [*route.answers.values(), *([route.body] if route.body else [])]
    distinct = list({id(each): each for each in types}.values())
    references, components = msgspec.json.schema_components(distinct, ref_template=_REFERENCE)
    schema_of = {id(each): reference for each, reference in zip(distinct, references, strict=True)}
    _sharpen(components)
    paths: dict[str, Any] = {}
    for route in routes:
        path = route.path.replace(":str", "")
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, schema_of)
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
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {
                    "oauth2": {
                        "type": "oauth2",
                        "flows": {
                            "clientCredentials": {
                                "tokenUrl": f"{settings.base_url}/v1/oauth/token",
                                "scopes": SCOPES,
                            }
                        },
                    }
                },
            },
        }
    )


def _operation(route: Route, schema_of: dict[int, Any]) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in _path_names(route.path)
    ]
    for parameter in route.query:
        schema = {"type": "array", "items": parameter.schema} if parameter.repeatable else parameter.schema
        parameters.append(
            {
                "name": parameter.name,
                "in": "query",
                "required": False,
                "description": parameter.description,
                "schema": schema,
                **({"style": "form", "explode": True} if parameter.repeatable else {}),
            }
        )
    if route.key:
        parameters.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": True,
                "description": "Unique per operation (a UUID is best); the same key and body make one resource.",
                "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[\\x20-\\x7e]+$"},
            }
        )
    answers: dict[str, Any] = {}
    for status, answer in route.answers.items():
        answers[str(status)] = _answer(
            "Created." if status == 201 else "The resource as it is now." if route.key else "The answer.",
            schema_of[id(answer)],
            limits=True,
        )
    for status, codes in _errors(route).items():
        answers[str(status)] = _answer(
            " | ".join(code.name for code in codes), schema_of[id(ErrorEnvelope)], limits=status != 401
        )
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.tag],
        "description": _description(route),
        "security": [{"oauth2": [scope]} for scope in route.scopes],
        "parameters": parameters,
        "responses": answers,
    }
    if route.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema_of[id(route.body)]}},
        }
    return operation


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


def _answer(description: str, schema: Any, *, limits: bool) -> dict[str, Any]:
    return {
        "description": description,
        "headers": {"X-Request-Id": _REQUEST_ID, **(_LIMITS if limits else {})},
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
    error = schema_of[id(TokenError)]

    def answer(description: str, schema: Any) -> dict[str, Any]:
        return {
            "description": description,
            "headers": {"X-Request-Id": _REQUEST_ID},
            "content": {"application/json": {"schema": schema}},
        }

    request = schema_of[id(TokenRequest)]
    return {
        "operationId": "issueToken",
        "summary": "Obtain an access token",
        "tags": ["Authentication"],
        "description": f"OAuth 2.0 client credentials (RFC 6749 section 4.4). A token lives {LIFETIME_S} seconds.",
        "security": [],
        "requestBody": {
            "required": True,
            "content": {
                "application/x-www-form-urlencoded": {"schema": request},
                "application/json": {"schema": request},
            },
        },
        "responses": {
            "200": answer("A token.", schema_of[id(Token)]),
            "400": answer("invalid_request | unsupported_grant_type | invalid_scope", error),
            "401": answer("invalid_client", error),
            "503": answer("temporarily_unavailable", error),
        },
    }


def _path_names(path: str) -> list[str]:
    return [part[1:-1].split(":")[0] for part in path.split("/") if part.startswith("{")]


def _sharpen(components: dict[str, Any]) -> None:
    """What the types cannot say of the request: bounds and patterns that the handlers enforce."""
    amount = {"type": "string", "pattern": "^[0-9]{1,10}(\\.[0-9]{1,2})?$", "examples": ["10.50"]}
    create = components["CreatePix"]["properties"]
    create["account_id"] = {"type": "string", "format": "uuid"}
    create["amount"] = amount
    create["expires_in"] = {
        "anyOf": [{"type": "integer", "minimum": 60, "maximum": 2_592_000}, {"type": "null"}],
        "default": None,
    }
    create["external_id"] = {
        "anyOf": [{"type": "string", "maxLength": 255}, {"type": "null"}],
        "default": None,
    }
    create["description"] = {
        "anyOf": [{"type": "string", "maxLength": 500}, {"type": "null"}],
        "default": None,
    }
    components["EventItem"]["additionalProperties"] = True
