"""Code that the commands share: parsers, a connection to the database, an answer for people or for programs."""

import argparse
import asyncio
import getpass
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from uuid import UUID

import msgspec

from cli import running
from cli.run.child import CannotRun

if TYPE_CHECKING:
    from commands.people.audit import Origin
    from runtime.cells.directory import Cell
    from runtime.seal import Seal

T = TypeVar("T")
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def family(commands: Commands, name: str, help: str) -> Commands:
    """Adds a command that consists of subcommands."""
    return commands.add_parser(name, help=help).add_subparsers(title="commands", metavar="COMMAND", required=True)


def answer(args: argparse.Namespace, record: Any) -> int:
    """Prints a record: one line of JSON, or a line for each field that has a value."""
    plain = msgspec.to_builtins(record)
    if args.json:
        print(msgspec.json.encode(plain).decode())
    elif isinstance(plain, dict):
        _print_fields(plain, "")
    else:
        print(plain)
    return 0


def in_transaction(command: Callable[[Any], Awaitable[T]], *, url: str = "database_url") -> T:
    """Runs a command in a transaction of its own on the running system's database."""

    async def run() -> T:
        async with connected(url) as conn, conn.transaction():
            return await command(conn)

    return asyncio.run(run())


@asynccontextmanager
async def connected(url: str = "database_url") -> AsyncIterator[Any]:
    """A connection to the running system's database. `url` names the address in cli/running.py, and so the role."""
    from runtime.postgres import connect

    database_url = running.find().need(url)
    with reaching_postgres():
        async with asyncio.timeout(10):
            # Reports may be read from a standby.
            conn = await connect(database_url, target="any" if url == "database_report_url" else "primary")
    try:
        yield conn
    finally:
        await conn.close()


async def checked_seal(conn: Any) -> "Seal":
    """The Seal for this connection's database; CannotRun if SECRET_KEY is not the key the database was written with."""
    from runtime.seal import Seal
    from runtime.servers.sealing_keys import WrongKey, compare_keys

    seal = Seal(running.secret_key())
    try:
        await compare_keys(conn, seal)
    except WrongKey as error:
        raise CannotRun(str(error)) from None
    return seal


async def other_cells(conn: Any) -> "list[Cell]":
    """All cells but home. SECRET_KEY, which opens their addresses, is needed only where there are any."""
    from runtime.cells.directory import find_numbers, read_cells

    return await read_cells(conn, await checked_seal(conn)) if await find_numbers(conn) else []


async def existing_account(conn: Any, account_id: UUID) -> UUID:
    """Returns the id; Refused(WALLET_ACCOUNT_NOT_FOUND) when no account has it. Without this check a mistyped id would
    be answered like an account that has nothing."""
    from domain.errors import Code, required
    from readmodels.dashboard.platform import find_merchant

    return required(await find_merchant(conn, account_id=account_id), Code.WALLET_ACCOUNT_NOT_FOUND).account_id


@contextmanager
def reaching_postgres() -> Iterator[None]:
    """Turns connection errors into a CannotRun that names PostgreSQL."""
    try:
        yield
    except (OSError, TimeoutError) as error:
        raise CannotRun(f"PostgreSQL cannot be reached: {str(error) or 'it does not answer'}") from None


def origin() -> "Origin":
    """The origin of changes made on the command line, as the audit logs keep it."""
    from commands.people.audit import Origin

    return Origin(operator(), "terminal", "cli")


def operator() -> str:
    """The operating system's user who runs the command, for the audit log; by uid where the user has no name, as in a
    container."""
    try:
        return f"quita ({getpass.getuser()})"
    except (KeyError, OSError):
        return f"quita (uid {os.getuid()})"


def tell(line: str) -> None:
    """Reports progress on stderr; it is not part of the answer. A terminal or pipe that has closed ends nothing: a move
    of a cell, say, has to be undone first."""
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def _print_fields(record: dict[str, Any], prefix: str) -> None:
    for name, value in record.items():
        if isinstance(value, dict):
            _print_fields(value, f"{prefix}{name}.")
        elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
            _print_fields({str(number): each for number, each in enumerate(value, 1)}, f"{prefix}{name}.")
        elif isinstance(value, list):
            print(f"{prefix}{name}: {', '.join(map(str, value))}")
        elif value is not None:
            print(f"{prefix}{name}: {value}")
