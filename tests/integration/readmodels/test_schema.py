"""The migrations make the committed schema; a database that other migrations made is refused."""

from pathlib import Path
from typing import Any

import asyncpg
import pytest

import sql
from sql.migrate import OutdatedDatabase, migrate
from sql.snapshot import snapshot
from tests.support.database import own_database, owner_of

SCHEMA = Path(sql.__file__).parent.parent / "docs" / "schema.sql"


async def test_the_migrations_make_the_committed_schema(conn: Any) -> None:
    """If it fails: DATABASE_URL=... python -m sql.snapshot > docs/schema.sql, and read the difference."""
    assert await snapshot(conn) == SCHEMA.read_text(encoding="utf-8")


async def test_a_database_of_an_older_state_is_refused_with_instructions(servers: Any) -> None:
    async with own_database(servers, "outdated") as url:
        conn = await asyncpg.connect(owner_of(servers, url))
        await conn.execute("INSERT INTO migration (name) VALUES ('0004_bank')")
        await conn.close()
        with pytest.raises(OutdatedDatabase, match=r"0004_bank.*remove \$QUITA_HOME"):
            await migrate(owner_of(servers, url))


async def test_a_database_made_by_a_changed_file_is_refused(servers: Any) -> None:
    async with own_database(servers, "edited") as url:
        conn = await asyncpg.connect(owner_of(servers, url))
        await conn.execute("UPDATE migration SET sha256 = sha256('another file') WHERE name = '0003_journal'")
        await conn.close()
        with pytest.raises(OutdatedDatabase, match="0003_journal"):
            await migrate(owner_of(servers, url))
