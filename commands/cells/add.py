"""Add a cell: a schema in its own or a shared database, with a cell number and a range of control numbers for boletos.

The database is made first and the directory entry last, so a run that was interrupted is simply repeated: it finds a
database that has the right cell number and no accounts.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

from msgspec import Struct

import sql
from commands.charges.control_numbers import BLOCK as CONTROL_BLOCK
from domain.errors import Code, Refused
from runtime.cells.addresses import as_role_of, is_schema, same_role, schema_of, shown, with_search_path
from runtime.cells.directory import HOME_NAME, Addresses, count_accounts, own_number, read_cells, seal_addresses
from runtime.cells.number import CELLS_MAX
from runtime.postgres import connect
from runtime.seal import Seal
from sql import Connection
from sql.migrate import migrate

NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
BLOCK: Final = 100_000_000
"""Control numbers of one cell, one for each boleto: at a million a month they last eight years."""
_RESERVED_NAMES: Final = (HOME_NAME, "all", "todas")
"""Names that no cell may have: home's, and the words for all cells on the command line and on pages."""
_CONTROL_NUMBERS: Final = 10_000_000_000


class HomeAddresses(Struct, frozen=True):
    """The addresses of home's database: for its owner, the application, and reports."""

    owner_url: str
    app_url: str
    report_url: str

    def __repr__(self) -> str:
        return "HomeAddresses()"


class CellAdded(Struct, frozen=True):
    name: str
    number: int
    database: str
    boletos_from: int
    boletos_to: int
    migrated: list[str]


class _PlatformKey(Struct, frozen=True):
    receiving_key: str | None
    set_at: datetime | None
    suspended_at: datetime | None


_lock_directory = sql.one("cell_owner.lock", bool)
_unlock_directory = sql.one("cell_owner.unlock", bool)
_next_number = sql.one("cell_owner.next_number", int)
_set_own_number = sql.run("cell_owner.become")
_add_cell = sql.run("cell_owner.add")
_add_block = sql.run("cell_owner.add_block")
_find_platform_key = sql.one("cell_owner.platform", _PlatformKey)
_copy_platform_key = sql.run("cell_owner.take_platform")
_has_schema = sql.one("cell_owner.has_schema", bool)
_has_citus = sql.one("cell_owner.has_citus", bool)
_last_number_taken = sql.one("cell_owner.numbers_taken", int)


async def add_cell(
    home: Connection, at: HomeAddresses, name: str, dsn: str, schema: str, *, seal: Seal, now: datetime
) -> CellAdded:
    """Create schema and tables at `dsn`, owned by its role, and enter the cell into the directory. The application and
    reports use the same roles as at home. Refused(VALIDATION_ERROR) with fields.name, fields.dsn or fields.schema; also
    raises the errors of asyncpg and of migrations."""
    _check_names(name, schema)
    async with alone(home):
        others = await read_cells(home, seal)
        if name in {each.name for each in others}:
            raise wrong("name", f"there is a cell {name} already")
        number = await _next_number(home)
        if number >= CELLS_MAX:
            raise wrong("name", f"an installation has at most {CELLS_MAX} cells")
        url = with_search_path(dsn, schema)
        await _make_schema(dsn, schema, home_schema=schema_of(at.owner_url))
        addresses = addresses_at(at, url)
        migrated = await migrate(url, app_url=addresses.database_url, report_url=addresses.report_url)
        first = _CONTROL_NUMBERS - number * BLOCK
        last = first + BLOCK - 1
        if await _last_number_taken(home) >= first:
            raise wrong("name", "no numbers of boletos are left for another cell")
        platform = await _find_platform_key(home)
        conn = await connect(url)
        try:
            async with conn.transaction():
                await _claim_database(conn, number, url)
                await conn.execute(_sequence_statement(first, last, restart=True))
                await _add_block(conn, first=first, last=last, number=number)
                await _copy_platform_key(
                    conn,
                    receiving_key=platform.receiving_key,
                    set_at=platform.set_at,
                    suspended_at=platform.suspended_at,
                )
        finally:
            await conn.close()
        async with home.transaction():
            await home.execute(_sequence_statement(1, first - 1, restart=False))
            await _add_block(home, first=first, last=last, number=number)
            sealed = seal_addresses(addresses, number, seal)
            await _add_cell(home, number=number, name=name, addresses_sealed=sealed, now=now)
    return CellAdded(name, number, shown(url), first, last, migrated)


def addresses_at(at: HomeAddresses, url: str) -> Addresses:
    """Returns the addresses of a cell's database whose owner connects by `url`, with home's roles and passwords for the
    application and reports. Where home uses its owner's role for one of these, so does the cell."""
    return Addresses(
        *(url if same_role(each, at.owner_url) else as_role_of(url, each) for each in (at.app_url, at.report_url))
    )


@asynccontextmanager
async def alone(home: Connection) -> AsyncIterator[None]:
    """Hold the lock of the cell directory, which every command that changes it takes."""
    if not await _lock_directory(home):
        raise wrong("name", "cells are being changed by another command")
    try:
        yield
    finally:
        if not home.is_closed():
            await _unlock_directory(home)


async def _make_schema(dsn: str, schema: str, *, home_schema: str) -> None:
    conn = await connect(dsn)
    try:
        # `alone` holds the lock in home's database: if this database's lock is taken, this is home's own database.
        if await _lock_directory(conn):
            await _unlock_directory(conn)
        elif schema == home_schema:
            raise wrong("dsn", "this is home's own database: name another schema with --schema")
        await make_schema(conn, schema)
    finally:
        await conn.close()


async def make_schema(conn: Connection, schema: str) -> None:
    """Create the schema unless it exists. On Citus all its tables must be on one node, which has to be declared before
    the first table is created."""
    if await _has_schema(conn, schema=schema):
        return
    async with conn.transaction():
        await conn.execute(f"CREATE SCHEMA {schema}")
        if schema != "public" and await _has_citus(conn):
            await conn.execute(f"SELECT citus_schema_distribute('{schema}')")


async def _claim_database(conn: Connection, number: int, url: str) -> None:
    present = await own_number(conn)
    if present not in (0, number) or await count_accounts(conn):
        raise wrong("dsn", f"{shown(url)} is in use, by cell {present} of this or another installation")
    await _set_own_number(conn, number=number)


def _sequence_statement(first: int, last: int, *, restart: bool) -> str:
    bounds = f"MINVALUE {first} START {first} RESTART {first}" if restart else f"MINVALUE {first}"
    return f"ALTER SEQUENCE boleto_control {bounds} MAXVALUE {last - CONTROL_BLOCK + 1}"


def _check_names(name: str, schema: str) -> None:
    if NAME.fullmatch(name) is None or name in _RESERVED_NAMES:
        raise wrong("name", "1 to 40 lower-case letters, digits, _ and -, beginning with a letter, not home, not all")
    if not is_schema(schema):
        raise wrong("schema", "lower-case letters, digits and _, beginning with a letter")


def wrong(field: str, text: str) -> Refused:
    """Returns the refusal of an argument of the command."""
    return Refused(Code.VALIDATION_ERROR, fields={field: text})
