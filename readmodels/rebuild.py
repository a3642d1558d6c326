"""Fill the read tables anew from the journal, with the statements that fill them live."""

from collections.abc import AsyncIterator, Callable

from msgspec import Struct

import sql
from readmodels.projector import Projection, project
from readmodels.reports.fold import advance, find_horizon, fold, hold
from runtime.postgres import connect
from sql import Connection

_PAGE = 2_000


class _Journaled(Struct, frozen=True):
    journal_id: int


_page = sql.many("rebuild.page", _Journaled)
_fill_order = sql.run("rebuild.fill_order")
hold_journal = sql.run("rebuild.hold_journal")
_real_first = sql.run("rebuild.real_first")
_shadow_order = sql.run("rebuild.shadow_order")
_SHADOW = sql.for_each("rebuild.shadow", sql.run)
_EMPTY = sql.for_each("rebuild.empty", sql.run)
_FILL = sql.for_each("rebuild.fill", sql.count)


async def rebuild(database_url: str, *, progress: Callable[[int], None] = lambda done: None) -> dict[str, int]:
    """Replace the read tables by what the journal says; rows per table. Writers wait, readers until the swap."""
    conn = await connect(database_url)
    try:
        async with conn.transaction():
            await hold_journal(conn)
            await hold(conn)
            horizon = await find_horizon(conn)  # nobody appends: all that is below it is there
            await project_journal(conn, totals_up_to=horizon.journal_id, progress=progress)
            for empty in _EMPTY.values():
                await empty(conn)
            rows = {table: await fill(conn) for table, fill in _FILL.items()}
            await advance(conn, journal_id=horizon.journal_id, as_of=horizon.as_of)
            return rows
    finally:
        await conn.close()


async def project_journal(conn: Connection, *, totals_up_to: int, progress: Callable[[int], None]) -> None:
    """Fill temporary read tables, dropped with the transaction, from the whole journal as this transaction sees it.

    Afterwards a name means the real table again, and `pg_temp.` before it the temporary one.

    The daily totals of reports are filled from the rows up to `totals_up_to`, as they lag. `progress` is told how many
    journal rows are done.
    """
    for shadow in (_shadow_order, *_SHADOW.values()):
        await shadow(conn)
    await _fill_order(conn)
    done = 0
    async for page in _pages(conn):
        await project(conn, page, tuple(Projection))
        done += len(page)
        progress(done)
    # Totals look payments and refunds up, also those of other charges: all are there now.
    async for page in _pages(conn):
        await fold(conn, [journal_id for journal_id in page if journal_id <= totals_up_to])
    await _real_first(conn)


async def _pages(conn: Connection) -> AsyncIterator[list[int]]:
    after = 0
    while rows := await _page(conn, after=after, limit=_PAGE):
        yield [row.journal_id for row in rows]
        after += len(rows)
