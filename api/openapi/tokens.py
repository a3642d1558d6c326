"""The token endpoint in the OpenAPI document: RFC 6749's own errors, and its body as a form.

The endpoint also accepts the same fields as JSON. The document shows only the form, because client generators turn a
body with two media types into a type that sends neither.
"""

from collections.abc import Sequence
from typing import Any

from api.openapi.parts import REFERENCE, answer
from api.routes.token import LIFETIME_S

_ERRORS_BY_STATUS = {
    400: ("invalid_request", "unsupported_grant_type", "invalid_scope"),
    401: ("invalid_client",),
    429: ("temporarily_unavailable",),
    503: ("temporarily_unavailable",),
}


def token_schemas(components: dict[str, Any]) -> dict[str, Any]:
    """One error schema for each status, with the `error` values that this status can have."""
    error_schema = components["TokenError"]
    return {
        f"TokenError{status}": {
            **error_schema,
            "title": f"TokenError{status}",
            "properties": {
                **error_schema["properties"],
                "error": {"type": "string", "enum": list(errors)},
            },
        }
        for status, errors in _ERRORS_BY_STATUS.items()
    }


def token_operation(token: Any, example: Any) -> dict[str, Any]:
    def error_response(status: int, description: str, headers: Sequence[str] = ("Cache-Control",)) -> dict[str, Any]:
        return answer(description, {"$ref": REFERENCE.format(name=f"TokenError{status}")}, headers)

    issued = answer("An access token.", token, ("Cache-Control",))
    issued["content"]["application/json"]["example"] = example
    retry_headers = ("Cache-Control", "Retry-After")
    return {
        "operationId": "issueToken",
        "summary": "Obtain an access token",
        "tags": ["Authentication"],
        "description": (
            f"OAuth 2.0 client credentials (RFC 6749 section 4.4). A token is valid for {LIFETIME_S} seconds. "
            "The client's id and secret go in the body or in HTTP Basic. The fields may also be sent as JSON."
        ),
        "security": [],
        "requestBody": {
            "required": True,
            "content": {
                "application/x-www-form-urlencoded": {"schema": {"$ref": REFERENCE.format(name="TokenRequest")}},
            },
        },
        "responses": {
            "200": issued,
            "400": error_response(
                400,
                "The request cannot be read, its grant type is not supported, or the credential "
                "does not have a requested scope.",
            ),
            "401": error_response(
                401, "The client is unknown or revoked, or its secret is wrong.", ("Cache-Control", "WWW-Authenticate")
            ),
            "429": error_response(429, "Too many token requests from this IP address or client.", retry_headers),
            "503": error_response(503, "The service cannot answer right now. Try again.", retry_headers),
        },
    }
