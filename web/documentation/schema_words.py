"""The rules of a JSON schema in words for readers: type, bounds and pattern of a value."""

import re
from collections.abc import Iterator
from typing import Any, Final

from web.documentation.guides import Language
from web.documentation.words import words_of

# fmt: off
_BOUNDS: Final[tuple[tuple[str, str, str], ...]] = (
    ("minLength", "at least {} characters", "no mínimo {} caracteres"),
    ("maxLength", "at most {} characters",  "no máximo {} caracteres"),
    ("minimum",   "{} or more",             "{} ou mais"),
    ("maximum",   "at most {}",             "no máximo {}"),
    ("minItems",  "at least {} items",      "no mínimo {} itens"),
    ("maxItems",  "at most {} items",       "no máximo {} itens"),
    ("default",   "{} unless given",        "{} se não informado"),
)
# Patterns that are described in words.
_PATTERNS: Final = (
    (re.compile(r"\^\[\^\\x00-\\x08.*"), "no control characters", "sem caracteres de controle"),
    (re.compile(r"\^\[\\x21-\\x7e\].*"), "printable ASCII, no blank at either end",
     "ASCII imprimível, sem espaço nas pontas"),
    (re.compile(r"\^\[0-9a-f(?:A-F)?\]\{8\}-.*"), "", ""),  # the format says uuid
    (re.compile(r"\^\[0-9\]\{4\}-\[0-9\]\{2\}-.*"), "", ""),  # and date, date-time
    (re.compile(r"\^\(\?!0.*"), "decimal, at most two places, greater than 0",
     "decimal, no máximo duas casas, maior que 0"),
    (re.compile(r"\^-?\??\[0-9\]\+\\\.\[0-9\]\{2\}\$"), "decimal, two places", "decimal, duas casas"),
)
# fmt: on


class SchemaWords:
    """Describes schemas in one language. Types keep their names in JSON Schema, as programs use them."""

    def __init__(self, language: Language) -> None:
        self._portuguese = language == "pt"
        self._words = words_of(language)

    def kind(self, schema: dict[str, Any], *, nullable: bool) -> str:
        """The type in a word or two, without the name of a schema that it refers to."""
        kind = self._type_words(schema)
        return f"{kind} {self._words['or_null']}".lstrip() if nullable else kind

    def _type_words(self, schema: dict[str, Any]) -> str:
        if name_of(schema):
            return ""
        if schema.get("type") == "array":
            return self._words["array_of"].format(self._type_words(schema.get("items", {}))).rstrip()
        kind = str(schema.get("type", "string" if "enum" in schema or "const" in schema else "any"))
        form = schema.get("format")
        return kind if form in (None, "binary") else f"{kind} ({form})"

    def rules(self, schema: dict[str, Any]) -> Iterator[str]:
        """The bounds and the pattern of a schema, each in words."""
        for key, *words in _BOUNDS:
            if schema.get(key) is not None and not (key == "minLength" and schema[key] == 1):
                yield words[self._portuguese].format(schema[key])
        pattern = schema.get("pattern")
        if pattern is None:
            return
        for known, *words in _PATTERNS:
            if known.fullmatch(pattern):
                if words[0]:
                    yield words[self._portuguese]
                return
        yield self._words["matches"].format(pattern)


def name_of(schema: dict[str, Any]) -> str:
    """The name of the component that a schema refers to; empty for an inline schema."""
    return str(schema.get("$ref", "")).rpartition("/")[2]


def without_null(schema: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The schema without null, and whether it allows null."""
    ways = schema.get("anyOf")
    if ways is not None:
        others = [each for each in ways if each != {"type": "null"}]
        if len(others) == 1:
            return others[0], len(others) < len(ways)
    if isinstance(schema.get("type"), list):
        return {**schema, "type": schema["type"][0]}, "null" in schema["type"]
    return schema, False
