"""Schemas that requests and answers share in the OpenAPI document."""

from collections.abc import Iterable
from typing import Any, Final

from api.query import UUID_PATTERN

REFERENCE: Final = "#/components/schemas/{name}"

ID = {"type": "string", "format": "uuid", "pattern": UUID_PATTERN}
WHOLE = {"type": "integer", "minimum": 0}


def or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def answer(description: str, schema: Any, headers: Iterable[str]) -> dict[str, Any]:
    """A JSON response with these headers, and X-Request-Id, which every response has."""
    return {
        "description": description,
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in ("X-Request-Id", *headers)},
        "content": {"application/json": {"schema": schema}},
    }
