"""Lists: filters read from the address, and pages that can be walked in both directions.

A field left empty in a form is no filter. A filter that cannot be read is reported beside its field and no rows are
shown: ignoring the filter would show the wrong rows.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar
from urllib.parse import parse_qsl, urlencode

from litestar.exceptions import ClientException
from msgspec import Struct

from readmodels.filters import TEXT_MAX, Fault
from readmodels.page import SortOrder
from web.painel.fields import BAD_CHARACTERS, CONTROL_CHARACTERS, NO_OPTION
from web.painel.page_request import AnyRequest, PageRequest

PAGE = 25
_REPEATED_MAX = 20
# Parameters that filter nothing: the cursors of the next and the previous page, and the message of a form just sent.
_NEXT, _PREVIOUS, _DONE = "depois", "antes", "feito"
_FAULTS = {
    Fault.TOO_LONG: f"Use até {TEXT_MAX} caracteres.",
    Fault.CHARACTERS: BAD_CHARACTERS,
    Fault.NOT_ONE_OF: NO_OPTION,
    Fault.NO_ID: "Não é um identificador válido.",
    Fault.NO_NUMBER: "Não é um número inteiro.",
    Fault.NO_DAY: "Não é uma data.",
    Fault.ENDS_FIRST: "Termina antes de começar.",
}

Row = TypeVar("Row")
Position = TypeVar("Position", bound=Struct)


class ListQuery:
    """The filters of one request: `names` are the parameters that the list has."""

    def __init__(self, request: AnyRequest, names: Sequence[str]) -> None:
        try:
            query = request.scope["query_string"].decode("ascii")
            pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=60)
        except ValueError:
            raise ClientException from None
        self.given: dict[str, list[str]] = {}
        self.faults: dict[str, str] = {}
        for name, value in pairs:
            if name not in (*names, _NEXT, _PREVIOUS, _DONE):
                raise ClientException
            if value.strip():
                self.given.setdefault(name, []).append(value.strip())
        if any(len(values) > _REPEATED_MAX for values in self.given.values()):
            raise ClientException

    @property
    def filtered(self) -> bool:
        return bool(self.filters())

    def value(self, name: str) -> str:
        """Returns the first value as it was typed, to fill the field again."""
        return self.given.get(name, [""])[0]

    def values(self, name: str) -> list[str]:
        return self.given.get(name, [])

    def is_plain(self, text: str) -> bool:
        return CONTROL_CHARACTERS.search(text) is None

    def fault(self, name: str, fault: Fault, fact: object = None) -> None:
        """Sets what the page says beside the field."""
        self.faults[name] = _FAULTS[fault]

    def filters(self) -> list[tuple[str, str]]:
        """Returns the parameters that filter, without cursors and the message."""
        return [
            (name, value)
            for name, values in self.given.items()
            if name not in (_NEXT, _PREVIOUS, _DONE)
            for value in values
        ]

    def link(self, **more: str) -> str:
        """Returns the query string of the same filters and `more`."""
        return "?" + urlencode([*self.filters(), *more.items()])

    def link_with(self, name: str, value: str) -> str:
        """Returns the query string with the filter `name` set to `value`, or without that filter for an empty value."""
        others = [(each, given) for each, given in self.filters() if each != name]
        query = urlencode([*others, *([(name, value)] if value else [])])
        return f"?{query}" if query else ""


class WalkedPage(Struct, Generic[Row]):
    """One page of a list; `previous` and `next` are links, empty where no page follows."""

    rows: Sequence[Row]
    previous: str
    next: str


async def walk(
    request: PageRequest,
    query: ListQuery,
    name: str,
    filters: object,
    position: type[Position],
    fetch: Callable[[SortOrder, Position | None], Awaitable[tuple[Sequence[Row], Position | None]]],
    at: Callable[[Row], Position],
    *,
    order: SortOrder = SortOrder.DESC,
) -> WalkedPage[Row]:
    """Returns the page that the address asks for. `fetch` returns the rows of a page in either order, and the position
    where it ended when more may follow (a search may end before it found a row); `at` returns a row's position.

    The previous page is read from the same index in the opposite order. Refused(CURSOR_INVALID) for a cursor of another
    list, account, filter or direction.
    """
    bound, cursors = [name, request.owner, filters], request.context.cursors
    previous_cursor, next_cursor = query.value(_PREVIOUS), query.value(_NEXT)
    if previous_cursor:
        opposite = SortOrder.ASC if order is SortOrder.DESC else SortOrder.DESC
        fetched, ended_at = await fetch(opposite, cursors.read(previous_cursor, position, [*bound, _PREVIOUS]))
        rows = list(fetched)[::-1]
        has_previous, has_next = ended_at is not None, True
    else:
        fetched, ended_at = await fetch(
            order, cursors.read(next_cursor, position, [*bound, _NEXT]) if next_cursor else None
        )
        rows = list(fetched)
        has_previous, has_next = bool(next_cursor), ended_at is not None

    def link(direction: str, row_position: Position) -> str:
        return query.link(**{direction: cursors.write(row_position, [*bound, direction])})

    first, last = (at(rows[0]), at(rows[-1])) if rows else (None, None)
    if previous_cursor:
        first = ended_at or first
    else:
        last = ended_at or last
    return WalkedPage(
        rows,
        link(_PREVIOUS, first) if first is not None and has_previous else "",
        link(_NEXT, last) if last is not None and has_next else "",
    )
