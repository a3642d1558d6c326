"""Make the read tables anew from the journal, with the statements that fill them live."""

from collections.abc import Callable

from msgspec import Struct

import sql
from readmodels.projector import Projection, project
from runtime.postgres import connect
from sql import Connection

_PAGE = 2_000


class _Journaled(Struct, frozen=True):
    journal_id: int


_TABLES = ("charge", "payment", "refund", "event", "ledger")
journal_page = sql.many("journal.page", _Journaled)
hold_journal = sql.run("rebuild.hold_journal")
empty = sql.run("rebuild.empty")
_SHADOW = [sql.run(f"rebuild.shadow_{table}") for table in _TABLES]
_FILL = {f"read_{table}": sql.run(f"rebuild.fill_{table}") for table in _TABLES}


async def rebuild(database_url: str, *, progress: Callable[[int], None] = lambda done: None) -> dict[str, int]:
    """Replace the read tables by what the journal says; rows per table. Writers wait, readers until the swap."""
    conn = await connect(database_url)
    try:
        async with conn.transaction():
            await hold_journal(conn)
            await project_journal(conn, progress=progress)
            await empty(conn)
            return {table: int((await fill(conn)).rsplit(" ", 1)[1]) for table, fill in _FILL.items()}
    finally:
        await conn.close()


async def project_journal(conn: Connection, *, progress: Callable[[int], None]) -> None:
    """Fill temporary read tables, dropped with the transaction, from the whole journal as this transaction sees it.

    `progress` is told how many journal rows are done.
    """
    for shadow in _SHADOW:
        await shadow(conn)
    done = 0
    after = 0
    while rows := await journal_page(conn, after=after, most=_PAGE):
        await project(conn, [row.journal_id for row in rows], tuple(Projection))
        after = rows[-1].journal_id
        done += len(rows)
        progress(done)
