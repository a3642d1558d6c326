"""Refusals in the OpenAPI document: one schema for each status, shared by all operations, and for each operation the
codes it may answer with, as named examples.

Client generators make a type of each schema: a schema per operation and status would be a thousand equal types.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from api.openapi.parts import REFERENCE, WHOLE, answer
from api.route import Route
from domain.errors import Code
from runtime.settings import Settings

_COMMON_CODES: Final = (Code.UNAUTHENTICATED, Code.RATE_LIMITED, Code.INTERNAL_ERROR, Code.SERVICE_UNAVAILABLE)
_BODY_CODES: Final = (Code.MALFORMED_JSON, Code.VALIDATION_ERROR, Code.UNSUPPORTED_MEDIA_TYPE)
_KEY_CODES: Final = (Code.IDEMPOTENCY_KEY_REQUIRED, Code.IDEMPOTENCY_KEY_INVALID)
LIMITS: Final = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
_HEADERS: Final[dict[int, tuple[str, ...]]] = {
    401: ("WWW-Authenticate",), 413: (), 415: (), 429: (*LIMITS, "Retry-After"), 500: (),
    502: (*LIMITS, "Retry-After"), 503: ("Retry-After",),
}  # fmt: skip
_BEFORE_TOKEN_STATUSES: Final = (413, 415, 500, 503)
"""Statuses that can be answered before the token is known: such an answer has no rate limit headers."""
_OPTIONAL_LIMIT: Final = {
    "schema": WHOLE, "required": False,
    "description": "As in other answers; absent when the request was refused before its credential was known.",
}  # fmt: skip


def error_schemas(components: dict[str, Any], routes: Iterable[Route]) -> dict[str, Any]:
    """A schema for each error status that any route can answer: the envelope, with the codes of that status."""
    envelope, body = components["ErrorEnvelope"], components["ErrorBody"]
    codes: dict[int, list[str]] = {}
    for route in routes:
        for status, route_codes in codes_of(route).items():
            codes[status] = list(dict.fromkeys([*codes.get(status, ()), *(code.name for code in route_codes)]))
    return {
        f"Error{status}": {
            **envelope,
            "title": f"Error{status}",
            "description": f"Body of every refusal with status {status}.",
            "properties": {
                "error": {
                    **{key: each for key, each in body.items() if key != "title"},
                    "properties": body["properties"] | {"code": body["properties"]["code"] | {"enum": sorted(names)}},
                }
            },
        }
        for status, names in sorted(codes.items())
    }


def codes_of(route: Route) -> dict[int, list[Code]]:
    """The codes an operation may answer with, by status."""
    codes = [*_COMMON_CODES, *route.errors]
    if route.method != "GET":
        codes.append(Code.PAYLOAD_TOO_LARGE)
    if route.scopes:
        codes.append(Code.INSUFFICIENT_SCOPE)
    if route.mode is not None:
        codes.append(Code.SANDBOX_ONLY)
    if route.key:
        codes += _KEY_CODES
    if route.body is not None:
        codes += _BODY_CODES
    if route.headers:
        codes.append(Code.VALIDATION_ERROR)
    by_status: dict[int, list[Code]] = {}
    for code in dict.fromkeys(codes):
        by_status.setdefault(code.status, []).append(code)
    return dict(sorted(by_status.items()))


def error_answer(status: int, codes: Sequence[Code], settings: Settings) -> dict[str, Any]:
    """The response of an operation for an error status: the shared schema, and an example for each of its codes."""
    response = answer(
        " | ".join(f"{code.name}: {code.message}" for code in codes),
        {"$ref": REFERENCE.format(name=f"Error{status}")},
        _HEADERS.get(status, LIMITS),
    )
    if status in _BEFORE_TOKEN_STATUSES:
        response["headers"] |= dict.fromkeys(LIMITS, _OPTIONAL_LIMIT)
    response["content"]["application/json"]["examples"] = {
        code.name: {"value": _example(code, settings)} for code in codes
    }
    return response


def _example(code: Code, settings: Settings) -> dict[str, Any]:
    return {
        "error": {
            "code": code.name,
            "message": code.message,
            "request_id": "req_2bXkq3cVQyq0eQfZb1m5Zw",
            "documentation_url": f"{settings.docs_url}/errors/{code.name}",
        }
    }
