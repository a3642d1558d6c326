"""Statements live in sql/queries/<noun>.sql, each under a `-- name:` line, and are bound where they are used:

    find_charges = sql.many("charge.find", FoundCharge)
    ...
    found = await find_charges(conn, charge_ids=[...])

`:name` parameters become asyncpg's `$n`. A row type is a msgspec Struct whose fields are the
statement's columns, in order; tests/integration/readmodels/test_sql.py prepares every statement against a
migrated database and compares, so a typo never outlives the test run.
"""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import asyncpg
from msgspec import Struct

Row = TypeVar("Row", bound=Struct)
if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
else:
    Connection = asyncpg.Connection

_HEADER = re.compile(r"^-- name: (\w+)\n", re.M)
_PARAMETER = re.compile(r"'[^']*'|--[^\n]*|::\w+|:([a-z][a-z0-9_]*)")  # quotes, comments and casts are left alone


class Statement(NamedTuple):
    text: str
    parameters: tuple[str, ...]


def parse(source: str) -> dict[str, Statement]:
    """Split a .sql file into its named statements."""
    _, *blocks = _HEADER.split(source)
    return {name: _numbered(body) for name, body in zip(blocks[::2], blocks[1::2], strict=True)}


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
BOUND: dict[str, type[Struct] | None] = {}
"""What each bound statement is read into; walked by test_sql.py."""


def run(name: str) -> Callable[..., Awaitable[str]]:
    """Bind a statement whose rows, if any, are not wanted; the call answers PostgreSQL's command tag."""
    text, names = _bind(name, None)

    async def call(conn: Connection, **given: Any) -> str:
        return await conn.execute(text, *[given[each] for each in names])

    return call


def many(name: str, row: type[Row]) -> Callable[..., Awaitable[list[Row]]]:
    """Bind a statement to the rows it returns."""
    text, names = _bind(name, row)

    async def call(conn: Connection, **given: Any) -> list[Row]:
        records = await conn.fetch(text, *[given[each] for each in names])
        return [row(*record) for record in records]

    return call


def maybe(name: str, row: type[Row]) -> Callable[..., Awaitable[Row | None]]:
    """Bind a statement to the one row it returns, or None."""
    text, names = _bind(name, row)

    async def call(conn: Connection, **given: Any) -> Row | None:
        record = await conn.fetchrow(text, *[given[each] for each in names])
        return None if record is None else row(*record)

    return call


def one(name: str, row: type[Row]) -> Callable[..., Awaitable[Row]]:
    """Bind a statement to the one row it always returns."""
    fetch = maybe(name, row)

    async def call(conn: Connection, **given: Any) -> Row:
        found = await fetch(conn, **given)
        assert found is not None, f"{name} returned no row"
        return found

    return call


def _bind(name: str, row: type[Struct] | None) -> Statement:
    BOUND[name] = row
    return STATEMENTS[name]
