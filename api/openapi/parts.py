"""Schemas that requests and answers share in the OpenAPI document."""

from typing import Any, Final

from api.query import UUID_PATTERN

REFERENCE: Final = "#/components/schemas/{name}"

ID = {"type": "string", "format": "uuid", "pattern": UUID_PATTERN}
WHOLE = {"type": "integer", "minimum": 0}


def or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}
