"""Migrates the databases of all cells other than home."""

from collections.abc import Callable

import asyncpg
from msgspec import Struct

from cli.answer import other_cells
from runtime.cells.addresses import as_role_of
from runtime.postgres import connect
from sql.migrate import migrate


class CellsMigrated(Struct, frozen=True):
    """The files applied, by cell; `away`: cells that could not be reached, and why."""

    applied: dict[str, list[str]]
    away: dict[str, str]


async def migrate_cells(owner_url: str, tell: Callable[[str], None]) -> CellsMigrated:
    """Migrates each cell as the role of `owner_url`, home's owner, which shall own the tables of every cell. Cells that
    are unavailable are skipped and reported in `away`. Other errors of a cell's migration are raised. CannotRun without
    SECRET_KEY, which opens the cells' addresses, when there are any."""
    conn = await connect(owner_url)
    try:
        cells = await other_cells(conn)
    finally:
        await conn.close()
    applied: dict[str, list[str]] = {}
    away: dict[str, str] = {}
    for cell in cells:
        app_url, report_url = cell.addresses.database_url, cell.addresses.report_url
        try:
            applied[cell.name] = await migrate(
                as_role_of(app_url, owner_url), app_url=app_url, report_url=report_url, tell=tell
            )
        except (
            OSError,
            TimeoutError,
            asyncpg.PostgresConnectionError,
            asyncpg.InvalidAuthorizationSpecificationError,
        ) as error:
            away[cell.name] = type(error).__name__
            tell(f"cell {cell.name} cannot be migrated: {type(error).__name__}")
    return CellsMigrated(applied, away)
