"""Adds to the request schemas what the types cannot say: rules between two fields, and patterns in JSON Schema's
dialect."""

from typing import Any

from api.body.payers import PERSON_TYPES


def sharpen_requests(components: dict[str, Any]) -> None:
    """Add the rules between fields. Also drops `default: null`, which says no more than that the field is optional."""
    for name, first, second in (
        ("CancelByReference", "charge_id", "external_id"),
        ("ChangeDueDate", "charge_id", "external_id"),
        ("AdvanceClock", "advance", "to"),
    ):
        # Exactly one of the two fields; null counts as absent. Not written as oneOf: client generators turn its parts
        # into types that have these fields and no others.
        components[name] |= {
            "if": {"required": [first], "properties": {first: {"type": "string"}}},
            "then": {"properties": {second: {"type": "null"}}},
            "else": {"required": [second], "properties": {second: {"type": "string"}}},
        }
    for name, person_type, document in (
        ("Pagador", "tipoPessoa", "documento"),
        ("DualPayer", "person_type", "document"),
    ):
        (person, digits), (company, more_digits) = PERSON_TYPES.items()
        components[name] |= {
            "if": {"properties": {person_type: {"const": person}}},
            "then": {"properties": {document: {"pattern": f"^[0-9]{{{digits}}}$"}}},
            "else": {"properties": {document: {"pattern": f"^[0-9]{{{more_digits}}}$"}}},
        }
        assert set(components[name]["properties"][person_type]["enum"]) == {person, company}
    for component in components.values():
        _clean(component)


def _clean(schema: Any) -> None:
    if isinstance(schema, list):
        for each in schema:
            _clean(each)
    if not isinstance(schema, dict):
        return
    if "default" in schema and schema["default"] is None:
        del schema["default"]
    if isinstance(schema.get("pattern"), str):
        # `\Z` is Python's end of the text; JSON Schema has `$`.
        schema["pattern"] = schema["pattern"].replace(r"\Z", "$")
    for each in schema.values():
        _clean(each)
