"""The schema that the migrations make, as text: `DATABASE_URL=... python -m sql.snapshot > docs/schema.sql`.

Lists tables, columns, indexes, functions and views from PostgreSQL's catalogue, ordered by name. A test compares the
committed docs/schema.sql with it, so the commit that changes a migration also shows its effect.
"""

import asyncio
import os

import asyncpg

import sql

_fetch_objects = sql.many("schema.objects", str)


async def snapshot(conn: sql.Connection) -> str:
    return "\n".join(["-- Written by sql/snapshot.py.", *await _fetch_objects(conn)]) + "\n"


async def _print() -> None:
    conn = await asyncpg.connect(os.environ["DATABASE_URL"])
    try:
        print(await snapshot(conn), end="")
    finally:
        await conn.close()


if __name__ == "__main__":
    asyncio.run(_print())
