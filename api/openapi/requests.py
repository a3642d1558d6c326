"""What the types of request bodies do not say: rules between two fields, and patterns in JSON Schema's dialect."""

from typing import Any

from api.body.payers import PERSON_TYPES


def sharpen_requests(components: dict[str, Any]) -> None:
    """Also drops defaults of null, which say no more than that a field may be left out."""
    for name, first, second in (
        ("CancelByReference", "charge_id", "external_id"),
        ("ChangeDueDate", "charge_id", "external_id"),
        ("AdvanceClock", "advance", "to"),
    ):
        # Of two fields exactly one; null is as good as not there.
        components[name]["oneOf"] = [
            {"required": [one], "properties": {one: {"type": "string"}, other: {"type": "null"}}}
            for one, other in ((first, second), (second, first))
        ]
    for name, person_type, document in (
        ("Pagador", "tipoPessoa", "documento"),
        ("DualPayer", "person_type", "document"),
    ):
        components[name]["oneOf"] = [
            {"properties": {person_type: {"const": kind}, document: {"pattern": f"^[0-9]{{{signs}}}$"}}}
            for kind, signs in PERSON_TYPES.items()
        ]
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
        # Python's end of the text; JSON Schema has `$`.
        schema["pattern"] = schema["pattern"].replace(r"\Z", "$")
    for each in schema.values():
        _clean(each)
