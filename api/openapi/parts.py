"""Schemas that requests and answers share in the OpenAPI document."""

from typing import Any, Final

from api.bodies import TEXT_PATTERN
from api.query import UUID_PATTERN

REFERENCE: Final = "#/components/schemas/{name}"
EXTERNAL_ID_MAX: Final = 255

ID = {"type": "string", "format": "uuid", "pattern": UUID_PATTERN}
INSTANT = {
    "type": "string",
    "format": "date-time",
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$",
    "examples": ["2026-11-21T09:54:00.123Z"],
}
DAY = {"type": "string", "format": "date", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}
WHOLE = {"type": "integer", "minimum": 0}


def text(most: int, description: str = "") -> dict[str, Any]:
    return or_null({"type": "string", "maxLength": most, "pattern": TEXT_PATTERN}, description)


def or_null(schema: dict[str, Any], description: str = "") -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}], **({"description": description} if description else {})}
