"""Statements live in sql/queries/<subject>/<noun>.sql, each under a `-- name:` line, and are bound where they are used:

    find_charges = sql.many("charge.find", FoundCharge)
    ...
    found = await find_charges(conn, charge_ids=[...])

`:name` parameters become asyncpg's `$n`. For statements that write many rows, `:charges.charge_id::uuid[]` is the array
of the attribute `charge_id` of all elements of the argument `charges`. A row type is a msgspec Struct whose fields are
the statement's columns, in order, or the type of its only column, which must never be NULL. test_sql.py in
tests/integration/readmodels prepares every statement against a migrated database and compares parameters and rows.

The statement of a list is written once and becomes one statement for each order and each set of filters, so that each
combination has its own plan. `sql.list_of` binds all of them; a call picks one by its order and filters:

    -- name: page
    -- both ways                            page_desc, and page_asc with {<}, {>=} and {DESC} reversed
    ...
      AND status = :status -- when status   this line is kept only in the statements with the filter `status`

A statement for several tables is written once and becomes one statement for each table, which `sql.for_each` binds:

    -- name: empty
    -- for each of read_charge, read_payment    a continuation line of this list begins with two blanks
    DELETE FROM {each};
"""

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import chain, combinations
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import asyncpg
from msgspec import Struct

Row = TypeVar("Row")
Bound = TypeVar("Bound")
if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
else:
    Connection = asyncpg.Connection

_STREAMED = 500
_HEADER = re.compile(r"^-- name: (\w+)\n(-- both ways\n)?(?:-- for each of ([\w, ]+(?:\n--  [\w, ]+)*)\n)?", re.M)
_WHEN = re.compile(r" -- when (\w+)$", re.M)
# Matches quotes, comments and casts first, so that a `:name` inside them is not taken for a parameter.
_PARAMETER = re.compile(r"'[^']*'|--[^\n]*|::\w+|:([a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*)")


class Statement(NamedTuple):
    text: str
    parameters: tuple[str, ...]


def parse(source: str) -> dict[str, Statement]:
    """Split a .sql file into its named statements: each variant of a list (`page_desc+status+method`), and each table's
    statement of a `for each of` (`empty+read_charge`)."""
    _, *blocks = _HEADER.split(source)
    found: dict[str, str] = {}
    for name, both_ways, each_of, body in zip(*(blocks[n::4] for n in range(4)), strict=True):
        if each_of is None:
            found |= _variants(name, body, both_ways=both_ways is not None)
        else:
            found |= {f"{name}+{each}": body.replace("{each}", each) for each in re.findall(r"\w+", each_of)}
    return {name: _numbered(text) for name, text in found.items()}


def _variants(name: str, body: str, *, both_ways: bool) -> Iterator[tuple[str, str]]:
    directions = {name: body}
    if both_ways:
        directions = {
            f"{name}_desc": body.replace("{<}", "<").replace("{>=}", ">=").replace("{DESC}", "DESC"),
            f"{name}_asc": body.replace("{<}", ">").replace("{>=}", "<").replace("{DESC}", "ASC"),
        }
    filters = list(dict.fromkeys(_WHEN.findall(body)))
    for given in chain.from_iterable(combinations(filters, count) for count in range(len(filters) + 1)):
        for directed, text in directions.items():
            lines = [line for line in text.split("\n") if not (when := _WHEN.search(line)) or when[1] in given]
            yield "+".join((directed, *given)), "\n".join(lines)


def _numbered(body: str) -> Statement:
    parameters: list[str] = []

    def number(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return found[0]
        if name not in parameters:
            parameters.append(name)
        return f"${parameters.index(name) + 1}"

    return Statement(_PARAMETER.sub(number, body).strip().removesuffix(";"), tuple(parameters))


STATEMENTS: dict[str, Statement] = {
    f"{path.stem}.{name}": statement
    for path in sorted(Path(__file__).parent.glob("queries/**/*.sql"))
    for name, statement in parse(path.read_text(encoding="utf-8")).items()
}


class Spent:
    """How many statements of one .sql file this process ran, and the seconds they took, reading the rows included."""

    __slots__ = ("seconds", "statements")

    def __init__(self) -> None:
        self.statements = 0
        self.seconds = 0.0

    def since(self, began: float) -> None:
        self.statements += 1
        self.seconds += time.perf_counter() - began

    def take_counts(self) -> tuple[int, float]:
        """Return the statements and seconds counted since the last call."""
        found = self.statements, self.seconds
        self.statements, self.seconds = 0, 0.0
        return found


SPENT: dict[str, Spent] = {}
"""Counters by the .sql file of the statement; runtime/metrics.py collects them once a second."""
BOUND: dict[str, type[Any] | None] = {}
"""The row type of each bound statement; test_sql.py checks them all."""


def run(name: str) -> Callable[..., Awaitable[str]]:
    """Bind a statement whose rows, if any, are discarded; the call returns PostgreSQL's command tag."""
    text, arguments, spent = _bind(name, None)

    async def call(conn: Connection, **given: Any) -> str:
        began = time.perf_counter()
        try:
            return await conn.execute(text, *arguments(given))
        finally:
            spent.since(began)

    return call


def count(name: str) -> Callable[..., Awaitable[int]]:
    """Bind a statement that writes; the call returns how many rows it wrote."""
    execute = run(name)

    async def call(conn: Connection, **given: Any) -> int:
        tag = await execute(conn, **given)
        return int(tag.rpartition(" ")[2])

    return call


def many(name: str, row: type[Row]) -> Callable[..., Awaitable[list[Row]]]:
    """Bind a statement to the rows it returns."""
    text, arguments, spent = _bind(name, row)
    read = _row_reader(row)

    async def call(conn: Connection, **given: Any) -> list[Row]:
        began = time.perf_counter()
        try:
            return [read(record) for record in await conn.fetch(text, *arguments(given))]
        finally:
            spent.since(began)

    return call


def stream(name: str, row: type[Row]) -> Callable[..., AsyncIterator[Row]]:
    """Bind a statement to its rows, read one by one from a cursor: for results too large for memory. Needs an open
    transaction."""
    text, arguments, _ = _bind(name, row)
    read = _row_reader(row)

    async def call(conn: Connection, **given: Any) -> AsyncIterator[Row]:
        async for record in conn.cursor(text, *arguments(given), prefetch=_STREAMED):
            yield read(record)

    return call


def list_of(name: str, row: type[Row]) -> Callable[..., Awaitable[list[Row]]]:
    """Bind every variant of a list's statement to the rows it returns. A call of a `both ways` statement names the
    `order`; a filter that is None counts as not given."""
    ours = re.compile(rf"{re.escape(name)}(_desc|_asc)?(\+.*)?")
    variants = {each: _bind(each, row) for each in STATEMENTS if ours.fullmatch(each)}
    _, *filters = max(variants, key=len).split("+")
    read = _row_reader(row)

    async def call(conn: Connection, *, order: str = "", **given: Any) -> list[Row]:
        directed = f"{name}_{order}" if order else name
        text, arguments, spent = variants[
            "+".join([directed, *(each for each in filters if given.get(each) is not None)])
        ]
        began = time.perf_counter()
        try:
            return [read(record) for record in await conn.fetch(text, *arguments(given))]
        finally:
            spent.since(began)

    return call


def for_each(name: str, bind: Callable[[str], Bound]) -> dict[str, Bound]:
    """Bind the statement of each table of a `for each of`; the result is keyed by table."""
    return {each.partition("+")[2]: bind(each) for each in STATEMENTS if each.startswith(f"{name}+")}


def maybe(name: str, row: type[Row]) -> Callable[..., Awaitable[Row | None]]:
    """Bind a statement to the one row it returns, or None."""
    text, arguments, spent = _bind(name, row)
    read = _row_reader(row)

    async def call(conn: Connection, **given: Any) -> Row | None:
        began = time.perf_counter()
        try:
            record = await conn.fetchrow(text, *arguments(given))
            return None if record is None else read(record)
        finally:
            spent.since(began)

    return call


def one(name: str, row: type[Row]) -> Callable[..., Awaitable[Row]]:
    """Bind a statement to the one row it always returns."""
    fetch = maybe(name, row)

    async def call(conn: Connection, **given: Any) -> Row:
        found = await fetch(conn, **given)
        assert found is not None, f"{name} returned no row"
        return found

    return call


def _row_reader(row: type[Row]) -> Callable[[Any], Row]:
    return (lambda record: row(*record)) if issubclass(row, Struct) else itemgetter(0)


def _bind(name: str, row: type[Any] | None) -> tuple[str, Callable[[dict[str, Any]], list[Any]], Spent]:
    """Return the statement's text, the function that orders a call's arguments for it, and its file's counter."""
    BOUND[name] = row
    text, parameters = STATEMENTS[name]
    readers = [_reader(parameter) for parameter in parameters]

    def arguments(given: dict[str, Any]) -> list[Any]:
        return [read(given) for read in readers]

    return text, arguments, SPENT.setdefault(name.partition(".")[0], Spent())


def _reader(parameter: str) -> Callable[[dict[str, Any]], Any]:
    name, _, path = parameter.partition(".")
    if not path:
        return itemgetter(name)
    attribute = attrgetter(path)
    return lambda given: [attribute(each) for each in given[name]]
