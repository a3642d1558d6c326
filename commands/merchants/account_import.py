"""Import an account from a file into this database, in one transaction (account_file.py).

The account's journal rows keep their order and get journal ids of this database. The ordinary projections build the
read tables from the journal, and everything is compared with the file's end before the commit.
"""

from collections.abc import Callable
from contextlib import suppress
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Final

import asyncpg

import sql
from commands.merchants.account_file import (
    JOURNAL,
    FileEnd,
    FileHead,
    FoundAccount,
    UnfitFile,
    checked,
    digest,
    find_schema,
    find_sums,
    read_digests,
    rows_of,
)
from commands.payers.retention import look_at_passed
from readmodels.projector import Projection
from runtime.cells.number import HOME, cell_of, current_cell
from runtime.seal import Seal
from sql import Connection

_ROWS_MAX: Final = 500
_ADD_ROWS: Final = sql.for_each("account_file.add", sql.count)
_FEED_TABLES: Final = ("read_event_production", "read_event_sandbox")
_PROJECTIONS: Final = [each.value for each in Projection]


_find_account = sql.maybe("account_file.found", FoundAccount)
_add_journal = sql.one("account_file.add_journal", int)
_make_months = sql.one("account_file.make_months", int)
_begin_feed = sql.run("account_file.begin_feed")
_find_last_journal_id = sql.one("account_file.last_of_journal", int)
_journal_since = sql.stream("account_file.journal_since", str)
_raise_numbers = sql.maybe("account_file.raise_numbers", int)


async def import_account(
    conn: Connection, file: Path, *, seal: Seal, progress: Callable[[str], None]
) -> tuple[FileHead, FileEnd]:
    """Import the account. `conn` is connected as the owner of the tables, in no transaction. Raises UnfitFile, and
    changes nothing, when the file is incomplete or does not fit this database or SECRET_KEY, or when the account, or
    one of its unique values, exists already."""
    head, end = checked(file)
    _check_keys(head, seal)
    if (cell := cell_of(head.account_id)) != HOME or current_cell() != HOME:
        raise UnfitFile(f"its ids are of cell {cell}: only accounts of home go as files, others move with their cell")
    await _make_feed_months(conn)
    async with conn.transaction():
        schema = await find_schema(conn)
        if head.schema != schema:
            raise UnfitFile(
                f"it comes from a database at {head.schema}, and this one is at {schema}: migrate both alike"
            )
        if await _find_account(conn, account_id=head.account_id) is not None:
            raise UnfitFile("the account is there already")
        last_journal_id = await _find_last_journal_id(conn)
        await _begin_feed(conn)
        try:
            rows = await _add_rows(conn, file, progress)
        except asyncpg.UniqueViolationError as violation:
            raise UnfitFile(
                f"something of it is there already: {violation.table_name}, {violation.constraint_name}"
            ) from None
        if rows != end.rows:
            raise UnfitFile("other numbers of rows arrived than it says")
        journal = await digest(_journal_since(conn, account_id=head.account_id, after=last_journal_id))
        digests = {JOURNAL: journal, **await read_digests(conn, head.account_id, progress)}
        if differing := sorted(name for name in end.digests if digests.get(name) != end.digests[name]):
            raise UnfitFile(f"what was made of it differs from what it says: {', '.join(differing)}")
        if await find_sums(conn, account_id=head.account_id) != end.sums:
            raise UnfitFile("its sums do not hold")
        await _raise_numbers(conn, account_id=head.account_id)
        await look_at_passed(conn, account_id=head.account_id)
    return head, end


async def _make_feed_months(conn: Connection) -> None:
    """Make the months in which the account's events lie. Events without a month go to the default partition, and the
    next `quita migrate` moves them out of it, while all payments wait."""
    for feed in _FEED_TABLES:
        # Writers may hold the lock for longer than the function waits; the import does not fail for that.
        with suppress(asyncpg.LockNotAvailableError):
            await _make_months(conn, parent=feed)


def _check_keys(head: FileHead, seal: Seal) -> None:
    ours = {str(id): each for id, each in seal.fingerprints().items()}
    if any(ours.get(id) != each for id, each in head.keys.items()):
        raise UnfitFile("it is sealed with keys that this SECRET_KEY does not have under the same ids")
    if list(ours)[-1] != list(head.keys)[-1]:
        raise UnfitFile(
            "the oldest key of this SECRET_KEY is another one: payers would not be found by their documents"
        )


async def _add_rows(conn: Connection, file: Path, progress: Callable[[str], None]) -> dict[str, int]:
    added: dict[str, int] = {}
    for table, rows in groupby(rows_of(file), key=itemgetter(0)):
        if table != JOURNAL and table not in _ADD_ROWS:
            raise UnfitFile(f"it names a table that is none of an account: {table}")
        progress(table)
        while batch := [row for _, row in islice(rows, _ROWS_MAX)]:
            encoded = b"[%b]" % b",".join(bytes(row) for row in batch)
            if table == JOURNAL:
                count = await _add_journal(conn, rows=encoded, which=_PROJECTIONS)
            else:
                count = await _ADD_ROWS[table](conn, rows=encoded)
            added[table] = added.get(table, 0) + count
    return added
