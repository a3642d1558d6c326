"""Query parameters of lists, read strictly: a filter that is ignored returns the wrong rows (contract section 2)."""

import re
from collections.abc import Sequence
from datetime import date, datetime
from urllib.parse import parse_qsl
from uuid import UUID

from api.body.reading import TEXT_PATTERN
from api.route import Parameter
from domain.errors import Code, Refused
from domain.instants import day_begins, day_ends, parse_day
from readmodels.page import LIMIT_DEFAULT, LIMIT_MAX, SortOrder

_DIGITS = re.compile(r"[0-9]+")
UUID_REGEX = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_UUID = re.compile(UUID_REGEX)
_TEXT = re.compile(TEXT_PATTERN)
_SEQUENCE_MAX = 2**62
_TEXT_MAX = 255
REPEATED_MAX = 20


class Query:
    """The parameters of one request; each getter refuses what it cannot read."""

    def __init__(self, query_string: bytes, known: Sequence[Parameter]) -> None:
        try:
            pairs = parse_qsl(query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
        except ValueError:
            raise Refused(Code.VALIDATION_ERROR, fields={"query": "is not a valid query string"}) from None
        parameters = {parameter.name: parameter for parameter in known}
        self._given: dict[str, list[str]] = {}
        for name, value in pairs:
            if name not in parameters:
                shown = name.encode("utf-8", "replace").decode()[:60]
                raise Refused(Code.VALIDATION_ERROR, fields={shown: "is not a parameter of this list"})
            self._given.setdefault(name, []).append(value)
        for name, values in self._given.items():
            if len(values) > (REPEATED_MAX if parameters[name].repeatable else 1):
                code = {"limit": Code.LIMIT_INVALID, "cursor": Code.CURSOR_INVALID}.get(name, Code.VALIDATION_ERROR)
                raise Refused(code, fields={name: "is given too many times"})

    def text(self, name: str) -> str | None:
        value = self._one(name)
        if value == "":
            raise Refused(Code.VALIDATION_ERROR, fields={name: "must not be empty"})
        if value is not None and len(value) > _TEXT_MAX:
            raise Refused(Code.VALIDATION_ERROR, fields={name: f"must have at most {_TEXT_MAX} characters"})
        if value is not None and not _TEXT.fullmatch(value):
            raise Refused(Code.VALIDATION_ERROR, fields={name: "must not contain control characters"})
        return value

    def choice(self, name: str, allowed: Sequence[str]) -> str | None:
        value = self._one(name)
        if value is not None and value not in allowed:
            raise Refused(Code.VALIDATION_ERROR, fields={name: f"must be one of {', '.join(allowed)}"})
        return value

    def choices(self, name: str, allowed: Sequence[str]) -> tuple[str, ...]:
        values = self._given.get(name, [])
        for value in values:
            if value not in allowed:
                raise Refused(Code.VALIDATION_ERROR, fields={name: f"must be one of {', '.join(allowed)}"})
        return tuple(sorted(set(values)))

    def uuid(self, name: str) -> UUID | None:
        value = self._one(name)
        if value is None:
            return None
        if not _UUID.fullmatch(value):
            raise Refused(Code.VALIDATION_ERROR, fields={name: "must be a UUID"})
        return UUID(value)

    def sequence(self, name: str) -> int | None:
        value = self._one(name)
        if value is None:
            return None
        if not _DIGITS.fullmatch(value) or not value.isascii() or len(value) > 19 or int(value) > _SEQUENCE_MAX:
            raise Refused(Code.VALIDATION_ERROR, fields={name: "must be a whole number, 0 or more"})
        return int(value)

    def days(self, first: str, last: str) -> tuple[datetime | None, datetime | None]:
        """A range of São Paulo days, both inclusive, as instants: from the first's beginning to the last's end."""
        begin, end = self.dates(first, last)
        return (None if begin is None else day_begins(begin)), (None if end is None else day_ends(end))

    def dates(self, first: str, last: str) -> tuple[date | None, date | None]:
        """A range of days; Refused(DATE_RANGE_INVALID) for what is no date or ends before it begins."""
        found: list[date | None] = []
        for name in (first, last):
            value = self._one(name)
            try:
                found.append(None if value is None else parse_day(value))
            except ValueError:
                raise Refused(Code.DATE_RANGE_INVALID, fields={name: "must be an existing date, YYYY-MM-DD"}) from None
        begin, end = found
        if begin is not None and end is not None and begin > end:
            raise Refused(Code.DATE_RANGE_INVALID, fields={last: f"must not be before {first}"})
        return begin, end

    def order(self) -> SortOrder:
        return SortOrder(self.choice("order", ("asc", "desc")) or "desc")

    def limit(self) -> int:
        """1..100; above 100 means 100; ASCII digits only."""
        value = self._one("limit")
        if value is None:
            return LIMIT_DEFAULT
        if not value.isascii() or not _DIGITS.fullmatch(value):
            raise Refused(Code.LIMIT_INVALID)
        # Thousands of digits are a number all the same; only whether it is 0 matters.
        number = LIMIT_MAX if len(value.lstrip("0")) > 3 else int(value[-4:])
        if number <= 0:
            raise Refused(Code.LIMIT_INVALID)
        return min(number, LIMIT_MAX)

    def cursor(self) -> str | None:
        return self._one("cursor")

    def _one(self, name: str) -> str | None:
        values = self._given.get(name)
        return values[0] if values else None


def path_id(value: str) -> UUID | None:
    """A UUID in its one canonical spelling, or None: another spelling names nothing."""
    return UUID(value) if _UUID.fullmatch(value) else None


LIMIT = Parameter(
    name="limit",
    schema={"type": "integer", "minimum": 1, "default": LIMIT_DEFAULT},
    description="Default 25; above 100 means 100.",
)
CURSOR = Parameter(
    name="cursor",
    schema={"type": "string", "minLength": 1, "maxLength": 512, "pattern": "^[A-Za-z0-9_-]+$"},
    description="next_cursor of the page before, with the same filters; anything else is CURSOR_INVALID.",
)
ORDER = Parameter(name="order", schema={"type": "string", "enum": ["asc", "desc"], "default": "desc"})
UUID_PATTERN = f"^{UUID_REGEX}$"
# Parameters of routes as documented: exactly what Query lets in.
SEQUENCE = {"type": "integer", "minimum": 0, "maximum": _SEQUENCE_MAX}
_DAY = {"type": "string", "format": "date", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}
_ID = {"type": "string", "format": "uuid", "pattern": UUID_PATTERN}
_WORD = {"type": "string", "minLength": 1, "maxLength": _TEXT_MAX, "pattern": TEXT_PATTERN}


def day(name: str, description: str) -> Parameter:
    return Parameter(name=name, schema=_DAY, description=f"{description} (America/Sao_Paulo, inclusive).")


def identifier(name: str) -> Parameter:
    return Parameter(name=name, schema=_ID)


def word(name: str, description: str = "") -> Parameter:
    return Parameter(name=name, schema=_WORD, description=description)


def one_of(name: str, allowed: Sequence[str], *, repeatable: bool) -> Parameter:
    return Parameter(name=name, schema={"type": "string", "enum": list(allowed)}, repeatable=repeatable)
