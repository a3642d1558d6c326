"""What commands share: a connection to the running system's database, and an answer for people or for
programs.
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from cli import running
from cli.supervise import CannotRun

T = TypeVar("T")


def answer(args: argparse.Namespace, record: Any) -> int:
    """Print a record: one line of JSON, or a line for each field."""
    plain = msgspec.to_builtins(record)
    if args.json:
        print(msgspec.json.encode(plain).decode())
    elif isinstance(plain, dict):
        _show(plain, "")
    else:
        print(plain)
    return 0


def in_transaction(command: Callable[[Any], Awaitable[T]]) -> T:
    """Run a command in a transaction of its own on the running system's database."""
    database_url = running.find().need("database_url")

    async def run() -> T:
        from runtime.postgres import connect

        with reaching_postgres():
            async with asyncio.timeout(10):
                conn = await connect(database_url)
        try:
            async with conn.transaction():
                return await command(conn)
        finally:
            await conn.close()

    return asyncio.run(run())


@contextmanager
def reaching_postgres() -> Iterator[None]:
    """A server that is not there is said to be PostgreSQL."""
    try:
        yield
    except (OSError, TimeoutError) as error:
        raise CannotRun(f"PostgreSQL cannot be reached: {error or 'it does not answer'}") from None


def _show(record: dict[str, Any], before: str) -> None:
    for name, value in record.items():
        if isinstance(value, dict):
            _show(value, f"{before}{name}.")
        else:
            print(f"{before}{name}: {'' if value is None else value}")
