"""Query parameters of lists, read strictly: a filter that is ignored returns the wrong rows (contract section 2)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from api.body.reading import TEXT_PATTERN
from api.route import Parameter
from domain.errors import Code, Refused
from domain.identifiers import UUID_REGEX
from readmodels.filters import ORDERS, SEQUENCE_MAX, TEXT_MAX, Fault, Filter, FilterKind, filters_of
from readmodels.page import LIMIT_DEFAULT, LIMIT_MAX, ListFilters

_DIGITS = re.compile(r"[0-9]+")
_TEXT = re.compile(TEXT_PATTERN)
REPEATED_MAX = 20


_FAULT_MESSAGES = {
    Fault.EMPTY: "must not be empty",
    Fault.TOO_LONG: "must have at most {} characters",
    Fault.CHARACTERS: "must not contain control characters",
    Fault.NOT_ONE_OF: "must be one of {}",
    Fault.NO_ID: "must be a UUID",
    Fault.NO_NUMBER: "must be a whole number, 0 or more",
    Fault.NO_DAY: "must be an existing date, YYYY-MM-DD",
    Fault.ENDS_FIRST: "must not be before {}",
}


class Query:
    """The query parameters of one request; a parameter that is unknown or cannot be read is Refused."""

    def __init__(self, query_string: bytes, known: Sequence[Parameter]) -> None:
        try:
            pairs = parse_qsl(query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
        except ValueError:
            raise Refused(Code.VALIDATION_ERROR, fields={"query": "is not a valid query string"}) from None
        parameters = {parameter.name: parameter for parameter in known}
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            if name not in parameters:
                shown = name.encode("utf-8", "replace").decode()[:60]
                raise Refused(Code.VALIDATION_ERROR, fields={shown: "is not a parameter of this list"})
            self._values.setdefault(name, []).append(value)
        for name, values in self._values.items():
            if len(values) > (REPEATED_MAX if parameters[name].repeatable else 1):
                code = {"limit": Code.LIMIT_INVALID, "cursor": Code.CURSOR_INVALID}.get(name, Code.VALIDATION_ERROR)
                raise Refused(code, fields={name: "is given too many times"})

    def values(self, name: str) -> list[str]:
        return self._values.get(name, [])

    def is_plain(self, text: str) -> bool:
        return _TEXT.fullmatch(text) is not None

    def fault(self, name: str, fault: Fault, fact: object = None) -> NoReturn:
        code = Code.DATE_RANGE_INVALID if fault in (Fault.NO_DAY, Fault.ENDS_FIRST) else Code.VALIDATION_ERROR
        detail = ", ".join(fact) if isinstance(fact, Sequence) and not isinstance(fact, str) else fact
        raise Refused(code, fields={name: _FAULT_MESSAGES[fault].format(detail)})

    def limit(self) -> int:
        """The page size, 1 to 100: ASCII digits only; a larger number means 100."""
        value = self._single_value("limit")
        if value is None:
            return LIMIT_DEFAULT
        if not _DIGITS.fullmatch(value):
            raise Refused(Code.LIMIT_INVALID)
        # A number of thousands of digits is valid and means 100, but int() would refuse to read it.
        number = LIMIT_MAX if len(value.lstrip("0")) > 3 else int(value[-4:])
        if number <= 0:
            raise Refused(Code.LIMIT_INVALID)
        return min(number, LIMIT_MAX)

    def cursor(self) -> str | None:
        return self._single_value("cursor")

    def _single_value(self, name: str) -> str | None:
        values = self._values.get(name)
        return values[0] if values else None


LIMIT = Parameter(
    name="limit",
    schema={"type": "integer", "minimum": 1, "default": LIMIT_DEFAULT},
    description="Number of items per page: 25 by default, at most 100. A larger number counts as 100.",
)
CURSOR = Parameter(
    name="cursor",
    schema={"type": "string", "minLength": 1, "maxLength": 512, "pattern": "^[A-Za-z0-9_-]+$"},
    description="The `next_cursor` of the previous page, sent with the same filters. Any other value is refused with"
    " CURSOR_INVALID.",
)
ORDER = Parameter(name="order", schema={"type": "string", "enum": list(ORDERS), "default": "desc"})
UUID_PATTERN = f"^{UUID_REGEX}$"
# The documented schemas of parameters: they accept exactly what Query accepts.
_DAY_SCHEMA = {"type": "string", "format": "date", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}
_TEXT_SCHEMA = {"type": "string", "minLength": 1, "maxLength": TEXT_MAX, "pattern": TEXT_PATTERN}
_SCHEMAS: dict[FilterKind, dict[str, Any]] = {
    FilterKind.ID: {"type": "string", "format": "uuid", "pattern": UUID_PATTERN},
    FilterKind.SEQUENCE: {"type": "integer", "minimum": 0, "maximum": SEQUENCE_MAX},
}


def parameters_of(filters: type[ListFilters], descriptions: Mapping[str, str]) -> Iterator[Parameter]:
    """The query parameters that these filters read. `descriptions` is keyed by parameter name; for a range of days it
    names the event that happened on those days ("Created")."""
    for each in filters_of(filters):
        yield from _filter_parameters(each, descriptions.get(each.parameter, ""))


def _filter_parameters(list_filter: Filter, description: str) -> Iterator[Parameter]:
    if list_filter.kind in (FilterKind.INSTANTS, FilterKind.DAYS):
        for name, side in zip(list_filter.parameters, ("after", "before"), strict=True):
            day_description = f"{description} on or {side} this day (America/Sao_Paulo, inclusive)."
            yield Parameter(name=name, schema=_DAY_SCHEMA, description=day_description)
        return
    schema = (
        {"type": "string", "enum": list(list_filter.allowed)}
        if list_filter.allowed
        else _SCHEMAS.get(list_filter.kind, _TEXT_SCHEMA)
    )
    repeatable = list_filter.kind is FilterKind.CHOICES
    yield Parameter(name=list_filter.parameter, schema=schema, description=description, repeatable=repeatable)
