"""A database of a test's own, in the cluster of all tests."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from sql.migrate import migrate


@asynccontextmanager
async def own_database(server_url: str, prefix: str, *, migrated: bool = True) -> AsyncIterator[str]:
    """The URL of a database on this server, with the schema unless said otherwise; it is dropped afterwards."""
    name = f"{prefix}_{secrets.token_hex(6)}"
    admin = await asyncpg.connect(server_url)
    try:
        await admin.execute(f'CREATE DATABASE "{name}"')
        url = urlunsplit(urlsplit(server_url)._replace(path=f"/{name}"))
        if migrated:
            await migrate(url)
        yield url
    finally:
        await admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        await admin.close()
