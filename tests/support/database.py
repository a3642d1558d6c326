"""A database of a test's own, in the cluster of all tests."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from sql.migrate import migrate


@asynccontextmanager
async def own_database(servers: Any, prefix: str, *, migrated: bool = True) -> AsyncIterator[str]:
    """The application's URL of a database on this server, with the schema unless said otherwise; it is dropped
    afterwards."""
    name = f"{prefix}_{secrets.token_hex(6)}"
    admin = await asyncpg.connect(servers.owner_url)
    try:
        await admin.execute(f'CREATE DATABASE "{name}"')
        url = _at(servers.database_url, name)
        if migrated:
            await migrate(owner_of(servers, url), app_url=url, report_url=report_of(servers, url))
        yield url
    finally:
        await admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        await admin.close()


def owner_of(servers: Any, url: str) -> str:
    """The same database's URL for the owner of its tables."""
    return _at(servers.owner_url, urlsplit(url).path)


def report_of(servers: Any, url: str) -> str:
    """The same database's URL for the role that only reads."""
    return _at(servers.report_url, urlsplit(url).path)


def _at(url: str, database: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{database.lstrip('/')}"))
