"""Show that the read tables are what the journal says, to the byte, while everybody goes on working.

One snapshot sees journal and read tables as of the same instant; the tables are made anew beside
the real ones and compared both ways. The books' own arithmetic is checked as well.
"""

from collections.abc import Awaitable, Callable

from msgspec import Struct

import sql
from readmodels.rebuild import project_journal
from readmodels.reports.fold import position
from runtime.postgres import connect


class Difference(Struct, frozen=True):
    """So many rows of a table, or of the books, are not as they must be."""

    table: str
    what: str
    rows: int


def _many(name: str) -> Callable[[sql.Connection], Awaitable[list[Difference]]]:
    return sql.many(name, Difference)


_DIFFERENCES = [
    *sql.for_each("verify.differences", _many).values(),
    *sql.for_each("verify.differences_in_counts", _many).values(),
]
find_broken = sql.many("verify.broken", Difference)
find_broken_shares = sql.many("verify.shares_broken", Difference)


async def verify(database_url: str, *, progress: Callable[[int], None] = lambda done: None) -> list[Difference]:
    """What differs; empty when all is well."""
    conn = await connect(database_url)
    try:
        async with conn.transaction(isolation="repeatable_read"):
            totals_up_to = (await position(conn)).journal_id
            await project_journal(conn, totals_up_to=totals_up_to, progress=progress)
            looks = (*_DIFFERENCES, find_broken, find_broken_shares)
            return [each for look in looks for each in await look(conn) if each.rows]
    finally:
        await conn.close()
