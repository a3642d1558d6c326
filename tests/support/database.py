"""A database of a test's own, in the cluster of all tests."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from sql.migrate import migrate

# Of this process alone: on a server that others use too, one of an earlier run would have an earlier schema.
_TEMPLATE = f"migrated_{secrets.token_hex(6)}"


@asynccontextmanager
async def own_database(servers: Any, prefix: str, *, migrated: bool = True) -> AsyncIterator[str]:
    """The application's URL of a database on this server, with the schema unless said otherwise; it is dropped
    afterwards."""
    name = f"{prefix}_{secrets.token_hex(6)}"
    admin = await asyncpg.connect(servers.owner_url)
    try:
        await admin.execute(
            f'CREATE DATABASE "{name}" STRATEGY file_copy{await _of_template(servers, admin, migrated)}'
        )
        url = _at(servers.database_url, name)
        if migrated:  # a copy has the schema, and not what a role may and has set in this one database
            await _migrate(servers, url)
        yield url
    finally:
        await admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        await admin.close()


async def _of_template(servers: Any, admin: Any, migrated: bool) -> str:
    """A database that is migrated once a run is copied in a fifth of the time."""
    if not migrated:
        return ""
    if not await admin.fetchval("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", _TEMPLATE):
        await admin.execute(f"CREATE DATABASE {_TEMPLATE}")
        await _migrate(servers, _at(servers.database_url, _TEMPLATE))
    return f" TEMPLATE {_TEMPLATE}"


async def drop_template(owner_url: str) -> None:
    admin = await asyncpg.connect(owner_url)
    await admin.execute(f"DROP DATABASE IF EXISTS {_TEMPLATE}")
    await admin.close()


async def _migrate(servers: Any, url: str) -> None:
    await migrate(owner_of(servers, url), app_url=url, report_url=report_of(servers, url))


def owner_of(servers: Any, url: str) -> str:
    """The same database's URL for the owner of its tables."""
    return _at(servers.owner_url, urlsplit(url).path)


def report_of(servers: Any, url: str) -> str:
    """The same database's URL for the role that only reads."""
    return _at(servers.report_url, urlsplit(url).path)


def _at(url: str, database: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{database.lstrip('/')}"))
