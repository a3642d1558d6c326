"""A separate database for a test, on the server of all tests."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from sql.migrate import migrate

# Each process has its own template: on a server that outlives the run, that of an earlier run may have an older schema.
_TEMPLATE = f"migrated_{secrets.token_hex(6)}"


@asynccontextmanager
async def own_database(servers: Any, prefix: str, *, migrated: bool = True) -> AsyncIterator[str]:
    """The application's URL of a new database on this server, with the schema unless `migrated` is false. It is dropped
    afterwards."""
    name = f"{prefix}_{secrets.token_hex(6)}"
    admin = await asyncpg.connect(servers.owner_url)
    try:
        await admin.execute(
            f'CREATE DATABASE "{name}" STRATEGY file_copy{await _template_clause(servers, admin, migrated)}'
        )
        url = _at(servers.database_url, name)
        if migrated:  # a copy has the schema, but not the roles' grants and settings in this database
            await _migrate(servers, url)
        yield url
    finally:
        await admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        await admin.close()


async def _template_clause(servers: Any, admin: Any, migrated: bool) -> str:
    """Copying a template that was migrated once takes a fifth of the time of a migration."""
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
    """The URL of the same database for the owner of its tables."""
    return _at(servers.owner_url, urlsplit(url).path)


def report_of(servers: Any, url: str) -> str:
    """The URL of the same database for the role that only reads."""
    return _at(servers.report_url, urlsplit(url).path)


def _at(url: str, database: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{database.lstrip('/')}"))
