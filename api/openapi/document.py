"""GET /v1/openapi.json, made from the table of routes: paths, scopes, bodies, answers, and errors down to the code.

The document is exact in both directions: the API accepts what its schemas accept, and refuses what they refuse.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from api.answers import ErrorEnvelope
from api.idempotency.lock import KEY_PATTERN
from api.openapi.answers import sharpen_answers
from api.openapi.descriptions import describe_fields, parameter_description
from api.openapi.errors import LIMITS, codes_of, error_answer, error_schemas
from api.openapi.examples import examples
from api.openapi.parts import REFERENCE, WHOLE, answer
from api.openapi.requests import sharpen_requests
from api.openapi.tokens import token_operation, token_schemas
from api.openapi.webhooks import event_schemas, webhooks
from api.query import REPEATED_MAX
from api.route import Parameter, Route
from api.routes.boleto_pdf import Pdf
from api.routes.token import Token, TokenError, TokenRequest
from domain.mode import Mode
from runtime import VERSION
from runtime.settings import Settings

SCOPES = {
    "charges:create": "Create, cancel and re-date charges.",
    "charges:read": "Look charges up.",
    "payments:read": "Read payments, balance, ledger and events.",
    "refunds:create": "Create refunds.",
    "withdrawals:create": "Create withdrawals.",
    "schedules:write": "Create and change charge schedules.",
}


TAGS = {
    "Authentication": "Obtain an access token, and read its account, mode and scopes.",
    "Charges": "Issue, look up, list and cancel charges, and change due dates.",
    "Sandbox": "Pay, expire and fail test charges, and advance the sandbox's clock.",
    "Schedules": "Charges that the platform issues by itself at regular intervals.",
    "Refunds": "Give a payment back, whole or in parts.",
    "Withdrawals": "Send the balance to the account's own PIX key.",
    "Money": "Payments, balance and ledger.",
    "Events": "The feed: all events of the account, each once and in order.",
    "Webhooks": "Webhook deliveries: look them up, and send them again.",
    "Requests": "The log of your own programs' requests, with the answers they got.",
}


def _header(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"schema": schema, "description": description, "required": True}


_HEADERS = {
    "Location": _header({"type": "string", "minLength": 1}, "Path of the created resource."),
    "X-Request-Id": _header(
        {"type": "string", "minLength": 1},
        "Id of this request. Give it when you contact support.",
    ),
    "RateLimit-Limit": _header(
        WHOLE, "Most requests that the credential may send at once: the size of its token bucket."
    ),
    "RateLimit-Remaining": _header(WHOLE, "Requests left in the credential's token bucket."),
    "RateLimit-Reset": _header(WHOLE, "Seconds until the token bucket is full again; in a 429, seconds to wait."),
    "Retry-After": _header({"type": "integer", "minimum": 1}, "Seconds to wait before trying again."),
    "WWW-Authenticate": _header(
        {"type": "string", "minLength": 1}, "The authentication scheme that this operation expects."
    ),
    "Cache-Control": _header({"const": "no-store"}, "Always no-store: a cache must not keep a token."),
    "Idempotent-Replayed": _header(
        {"const": "true"}, "Always true: an earlier request with this key created the resource."
    ),
    "Idempotency-Key": _header({"type": "string", "pattern": KEY_PATTERN}, "The Idempotency-Key of the request."),
    "Content-Disposition": _header(
        {"type": "string", "pattern": r'^attachment; filename="boleto-[0-9]{20}\.pdf"$'},
        "Tells browsers to save the PDF as a file named after the boleto's number at the bank.",
    ),
}
# The links from a 201 to the operations on the new resource: a charge, unless _LINKS_BY_OPERATION says otherwise.
_LINKS = dict.fromkeys(("getCharge", "cancelCharge", "simulatePayment"), "charge_id")
_LINKS_BY_OPERATION: dict[str, dict[str, str]] = {
    "createSchedule": dict.fromkeys(
        ("getSchedule", "pauseSchedule", "cancelSchedule", "listChargesOfSchedule"), "schedule_id"
    ),
    "createWithdrawal": dict.fromkeys(("getWithdrawal", "cancelWithdrawal"), "withdrawal_id"),
    "createRefund": {"getRefund": "refund_id", "getCharge": "charge_id", "listRefundsOfCharge": "charge_id"},
}

_STATUS_DESCRIPTIONS = {201: "Created.", 202: "Accepted: the work is done right after the answer."}


def document(routes: Sequence[Route], settings: Settings) -> bytes:
    """The OpenAPI 3.1 document as JSON bytes."""
    answers: list[Any] = [ErrorEnvelope, Token, TokenError]
    answers += [each for route in routes for each in route.answers.values() if not isinstance(each, Pdf)]
    schema_of, components = _components(answers)
    sharpen_answers(components)
    # error_schemas nests ErrorBody's fields in the schema of each status, and describe_fields looks one level deep.
    describe_fields({"ErrorBody": components["ErrorBody"]})
    components |= error_schemas(components, routes) | event_schemas()
    schema_of_body, bodies = _components([TokenRequest, *(route.body for route in routes if route.body)])
    sharpen_requests(bodies)
    schema_of |= schema_of_body
    components |= bodies
    components |= token_schemas(components)
    # Replaced by the schemas per status, which were made from them.
    for name in ("ErrorEnvelope", "ErrorBody", "TokenError"):
        del components[name]
    describe_fields(components)
    examples_by_name = examples(settings.app_url)
    paths: dict[str, Any] = {}
    for route in routes:
        path = route.path.replace(":str", "").replace(":path", "")
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, schema_of, examples_by_name, settings)
    paths["/v1/oauth/token"] = {"post": token_operation(schema_of[id(Token)], examples_by_name["Token"])}
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Quita API",
                "version": VERSION,
                "description": "Issue PIX charges and boletos in Brazil, receive the payments, and be notified of "
                "every event.",
                "contact": _contact(settings),
            },
            "servers": [{"url": settings.base_url}],
            "externalDocs": {"url": settings.docs_url},
            "tags": [{"name": tag, "description": TAGS[tag]} for tag in _tags(routes)],
            "paths": paths,
            "webhooks": webhooks(),
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


def _tags(routes: Iterable[Route]) -> list[str]:
    return list(dict.fromkeys(["Authentication", *(route.tag for route in routes)]))


def _components(types: Iterable[Any]) -> tuple[dict[int, Any], dict[str, Any]]:
    distinct = list({id(each): each for each in types}.values())
    references, components = msgspec.json.schema_components(distinct, ref_template=REFERENCE)
    return {id(each): reference for each, reference in zip(distinct, references, strict=True)}, components


def _operation(
    route: Route, schema_of: dict[int, Any], examples_by_name: dict[str, Any], settings: Settings
) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [_path_parameter(name) for name in _path_parameter_names(route.path)]
    parameters += [_parameter(parameter, "query") for parameter in route.query]
    if route.key:
        parameters.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": True,
                "description": "A key that you choose, unique per operation (a UUID is best). Sending the same key "
                "and body again creates nothing more: the answer shows the resource that exists.",
                "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": KEY_PATTERN},
                "example": "5f0c6c1e-7d0e-4f0b-9d5c-0a3e5b1c2d3e",
            }
        )
    parameters += [_parameter(parameter, "header") for parameter in route.headers]
    answers = {
        str(status): _success_response(route, status, kind, schema_of, examples_by_name)
        for status, kind in route.answers.items()
    }
    for status, codes in codes_of(route).items():
        answers[str(status)] = error_answer(status, codes, settings)
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.tag],
        "description": _access_description(route),
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


def _success_response(
    route: Route, status: int, kind: Any, schema_of: dict[int, Any], examples_by_name: dict[str, Any]
) -> dict[str, Any]:
    """A success response, with the operation's own example where there is one, else the example of its schema."""
    if isinstance(kind, Pdf):
        return _pdf_response(kind)
    replayed = ("Idempotent-Replayed", "Idempotency-Key") if route.key and status == 200 else ()
    response = answer(
        _STATUS_DESCRIPTIONS.get(status)
        or (
            "The key was used before with this same body: the answer shows the resource as it is now."
            if route.key
            else "The request succeeded."
        ),
        schema_of[id(kind)],
        (*LIMITS, *replayed, *(("Location",) if status == 201 else ())),
    )
    name = str(schema_of[id(kind)]["$ref"]).rpartition("/")[2]
    response["content"]["application/json"]["example"] = examples_by_name.get(route.name, examples_by_name[name])
    if status == 201:
        response["links"] = {
            name: {"operationId": name, "parameters": {id: f"$response.body#/{id}"}}
            for name, id in _LINKS_BY_OPERATION.get(route.name, _LINKS).items()
        }
    return response


def _path_parameter(name: str) -> dict[str, Any]:
    # Any string is accepted as an id here: one that is no UUID gets the same 404 as an id that does not exist.
    schema: dict[str, Any] = {"type": "string", "minLength": 1}
    if name == "key":
        schema |= {"maxLength": 255, "pattern": KEY_PATTERN}
    description = parameter_description(name)
    return {"name": name, "in": "path", "required": True, "schema": schema, "description": description}


def _parameter(parameter: Parameter, place: str) -> dict[str, Any]:
    schema = parameter.schema
    if parameter.repeatable:
        schema = {"type": "array", "items": schema, "maxItems": REPEATED_MAX}
    described = {
        "name": parameter.name,
        "in": place,
        "required": False,
        "schema": schema,
        "description": parameter.description or parameter_description(parameter.name),
    }
    if parameter.repeatable:
        described |= {"style": "form", "explode": True}
    return described


def _pdf_response(file: Pdf) -> dict[str, Any]:
    """A binary response. OpenAPI 3.1 marks it with contentMediaType; client generators look for `format` of 3.0."""
    response = answer(file.description, None, (*LIMITS, "Content-Disposition"))
    response["content"] = {
        "application/pdf": {"schema": {"type": "string", "format": "binary", "contentMediaType": "application/pdf"}}
    }
    return response


def _access_description(route: Route) -> str:
    parts = []
    if route.scopes:
        parts.append(f"Scope: {' or '.join(route.scopes)}.")
    if route.mode is Mode.SANDBOX:
        parts.append("Test credentials only.")
    if route.mode is Mode.PRODUCTION:
        parts.append("Production credentials only.")
    return " ".join(parts) or "Needs no scope: any valid token is accepted."


def _contact(settings: Settings) -> dict[str, str]:
    """SUPPORT_CONTACT when it is an e-mail address or an https URL; else the documentation's URL."""
    contact = settings.support_contact
    if "@" in contact:
        return {"name": "Quita", "email": contact}
    return {"name": "Quita", "url": contact if contact.startswith("https://") else settings.docs_url}


def _path_parameter_names(path: str) -> list[str]:
    return [part[1:-1].split(":")[0] for part in path.split("/") if part.startswith("{")]
