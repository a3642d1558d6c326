"""A database of a test's own, in the cluster of all tests."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg


@asynccontextmanager
async def own_database(servers: Any, prefix: str) -> AsyncIterator[str]:
    """The URL of an empty database, which is dropped afterwards."""
    name = f"{prefix}_{secrets.token_hex(6)}"
    admin = await asyncpg.connect(servers.database_url)
    try:
        await admin.execute(f'CREATE DATABASE "{name}"')
        yield urlunsplit(urlsplit(servers.database_url)._replace(path=f"/{name}"))
    finally:
        await admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        await admin.close()
