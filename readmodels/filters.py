"""The filters of a list, declared once: the fields of a ListFilters say which query parameters the list takes and how
the API (api/query.py) and the dashboard (web/painel/lists.py) read each of them. A filter that cannot be read is never
ignored: the list would return the wrong rows."""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from enum import Enum
from functools import cache
from typing import Annotated, Any, Protocol, TypeVar, get_args, get_origin, get_type_hints
from uuid import UUID

from msgspec import Struct

from domain.documents import without_marks
from domain.identifiers import parse_id
from domain.instants import day_begins, day_ends, parse_day
from readmodels.page import ListFilters, SortOrder

TEXT_MAX = 255
SEQUENCE_MAX = 2**62
ORDERS = ("asc", "desc")
Filters = TypeVar("Filters", bound=ListFilters)


class OneOf(Struct, frozen=True):
    """The words a field may hold; a tuple field may hold several. `parameter` is the field's query parameter."""

    allowed: tuple[str, ...]
    parameter: str = ""


class Digits(Struct, frozen=True):
    """A number that people may write with punctuation, as a nosso numero."""


class Fingerprint(Struct, frozen=True):
    """A number of which only the blind fingerprint is stored, so the filter compares fingerprints."""

    parameter: str


class FilterKind(Enum):
    """How a filter is read; decided by the type or the marker of its field."""

    TEXT = str
    ID = UUID
    SEQUENCE = int
    INSTANTS = datetime
    """Both ends of a range of instants, given as São Paulo days; the last day is included."""
    DAYS = date
    CHOICES = tuple
    CHOICE = OneOf
    DIGITS = Digits
    FINGERPRINT = Fingerprint


class Filter(Struct, frozen=True):
    """One filter of a list. `parameter` is its query parameter; a range has two, with `_from` and `_to` appended."""

    field: str
    parameter: str
    kind: FilterKind
    allowed: tuple[str, ...] = ()

    @property
    def parameters(self) -> tuple[str, ...]:
        is_range = self.kind in (FilterKind.INSTANTS, FilterKind.DAYS)
        return (f"{self.parameter}_from", f"{self.parameter}_to") if is_range else (self.parameter,)


class Fault(Enum):
    """Why a parameter cannot be read; API and dashboard have a text for each."""

    EMPTY = "empty"
    TOO_LONG = "too long"
    CHARACTERS = "characters"
    NOT_ONE_OF = "not one of"
    NO_ID = "no id"
    NO_NUMBER = "no number"
    NO_DAY = "no day"
    ENDS_FIRST = "ends before it begins"


class QueryValues(Protocol):
    """The query parameters of one request."""

    def values(self, name: str) -> Sequence[str]: ...
    def is_plain(self, text: str) -> bool:
        """Whether the text has only characters that can be searched for."""

    def fault(self, name: str, fault: Fault, fact: object = None) -> None:
        """Refuse the request or record the fault; the parameter counts as not given. `fact`: the allowed words, the
        greatest length, or the name of the parameter that begins the range."""


def read_text(query: QueryValues, name: str) -> str | None:
    value = next(iter(query.values(name)), None)
    if value is None:
        return None
    if not value:
        query.fault(name, Fault.EMPTY)
    elif len(value) > TEXT_MAX:
        query.fault(name, Fault.TOO_LONG, TEXT_MAX)
    elif not query.is_plain(value):
        query.fault(name, Fault.CHARACTERS)
    else:
        return value
    return None


def read_digits(query: QueryValues, name: str) -> str | None:
    """The digits without punctuation. A text of punctuation alone is kept as it is, so that it matches no row."""
    value = read_text(query, name)
    return None if value is None else without_marks(value) or value


def read_id(query: QueryValues, name: str) -> UUID | None:
    value = next(iter(query.values(name)), None)
    parsed = None if value is None else parse_id(value)
    if value is not None and parsed is None:
        query.fault(name, Fault.NO_ID)
    return parsed


def read_sequence(query: QueryValues, name: str) -> int | None:
    value = next(iter(query.values(name)), None)
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and len(value) <= 19 and int(value) <= SEQUENCE_MAX):
        query.fault(name, Fault.NO_NUMBER)
        return None
    return int(value)


def read_choices(query: QueryValues, name: str, allowed: Sequence[str]) -> tuple[str, ...]:
    values = set(query.values(name))
    if not values <= set(allowed):
        query.fault(name, Fault.NOT_ONE_OF, allowed)
        return ()
    return tuple(sorted(values))


def read_choice(query: QueryValues, name: str, allowed: Sequence[str]) -> str | None:
    return next(iter(read_choices(query, name, allowed)), None)


def read_days(query: QueryValues, first: str, last: str) -> tuple[date | None, date | None]:
    """Both ends of a range of days, the last day included."""
    begin, end = _read_day(query, first), _read_day(query, last)
    if begin is not None and end is not None and begin > end:
        query.fault(last, Fault.ENDS_FIRST, first)
    return begin, end


def _read_day(query: QueryValues, name: str) -> date | None:
    value = next(iter(query.values(name)), None)
    try:
        return None if value is None else parse_day(value)
    except ValueError:
        query.fault(name, Fault.NO_DAY)
        return None


def read_instants(query: QueryValues, first: str, last: str) -> tuple[datetime | None, datetime | None]:
    """A range of São Paulo days as instants: the beginning of the first day, the end of the last."""
    begin, end = read_days(query, first, last)
    return (None if begin is None else day_begins(begin)), (None if end is None else day_ends(end))


def read_order(query: QueryValues) -> SortOrder:
    return SortOrder(read_choice(query, "order", ORDERS) or SortOrder.DESC)


@cache
def filters_of(filters_type: type[ListFilters]) -> tuple[Filter, ...]:
    """The filters of a list, in the order of the fields; the two fields of a range, `x_from` and `x_to`, make one."""
    hints = get_type_hints(filters_type, include_extras=True)
    return tuple(_filter_from_hint(name, hints[name]) for name in hints if name != "order" and not name.endswith("_to"))


def _filter_from_hint(name: str, hint: Any) -> Filter:
    marker = None
    if get_origin(hint) is Annotated:
        hint, marker = get_args(hint)
    base_type = get_origin(hint) if get_origin(hint) is tuple else get_args(hint)[0]
    kind = FilterKind(base_type if marker is None or base_type is tuple else type(marker))
    return Filter(
        name, getattr(marker, "parameter", "") or name.removesuffix("_from"), kind, getattr(marker, "allowed", ())
    )


def read_filters(filters_type: type[Filters], query: QueryValues, blind: Callable[[str], str]) -> Filters:
    """Read all filters of a request, ranges first. `blind` makes fingerprints."""
    fields: dict[str, Any] = {}
    for each in sorted(filters_of(filters_type), key=lambda each: len(each.parameters), reverse=True):
        name = each.parameter
        match each.kind:
            case FilterKind.INSTANTS:
                fields |= zip(each.parameters, read_instants(query, *each.parameters), strict=True)
            case FilterKind.DAYS:
                fields |= zip(each.parameters, read_days(query, *each.parameters), strict=True)
            case FilterKind.CHOICES:
                fields[each.field] = read_choices(query, name, each.allowed)
            case FilterKind.CHOICE:
                fields[each.field] = read_choice(query, name, each.allowed)
            case FilterKind.FINGERPRINT:
                number = read_digits(query, name)
                fields[each.field] = None if number is None else blind(number)
            case kind:
                fields[each.field] = _READERS[kind](query, name)
    return filters_type(**fields, order=read_order(query))


_READERS: dict[FilterKind, Callable[[QueryValues, str], object]] = {
    FilterKind.TEXT: read_text,
    FilterKind.DIGITS: read_digits,
    FilterKind.ID: read_id,
    FilterKind.SEQUENCE: read_sequence,
}
