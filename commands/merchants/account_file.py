"""The file of an exported account (docs/operations/accounts.md): JSON Lines, a line for each row, between a head and an
end.

    {"head": {"format": "quita-account", "version": 1, "account_id": "...", "schema": "...", "keys": {...}, ...}}
    {"table": "charge", "row": {...}}
    {"end": {"rows": {"charge": 1, ...}, "sums": [...], "digests": {...}, "sha256": "..."}}

A row is in PostgreSQL's own JSON: bytes as \\x and hex digits, sealed values still sealed. `sha256` covers all lines
before the end.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Raw, Struct

import sql
from sql import Connection

FORMAT: Final = "quita-account"
VERSION: Final = 1
JOURNAL: Final = "journal"
LINE_BYTES_MAX: Final = 16 * 1024 * 1024

READ: Final = sql.for_each("account_file.read", lambda name: sql.stream(name, str))
"""The derived tables that are compared by digest after the import has made them anew."""


class ModeSums(Struct, frozen=True):
    """The totals of one mode, in cents; `events` and `entries` are the last sequence numbers of feed and ledger."""

    test: bool
    charges: int
    charged_cents: int
    paid_cents: int
    refunded_cents: int
    ledger_cents: int
    balance_cents: int
    entries: int
    events: int


class FileHead(Struct, frozen=True, kw_only=True):
    format: str
    version: int
    account_id: UUID
    name: str
    exported_at: datetime
    schema: str
    """The last migration of the exporting database."""
    keys: dict[str, str]
    """Fingerprints of the keys of SECRET_KEY by their ids, oldest last."""


class FileEnd(Struct, frozen=True, kw_only=True):
    rows: dict[str, int]
    sums: list[ModeSums]
    digests: dict[str, str]
    """SHA-256 over the rows of the journal, and over those of each table of READ."""
    sha256: str


class FileLine(Struct, frozen=True, omit_defaults=True):
    head: FileHead | None = None
    table: str | None = None
    row: Raw = Raw()
    end: FileEnd | None = None


class UnfitFile(Exception):
    """The file cannot be used; `args[0]` says why."""


class FoundAccount(Struct, frozen=True):
    name: str
    kyc: str


find_schema = sql.one("account_file.schema", str)
find_sums = sql.many("account_file.sums", ModeSums)
_decode_line = msgspec.json.Decoder(FileLine).decode


async def digest(rows: AsyncIterator[str]) -> str:
    hasher = sha256()
    async for row in rows:
        hasher.update(row.encode())
        hasher.update(b"\n")
    return hasher.hexdigest()


async def read_digests(conn: Connection, account_id: UUID, progress: Callable[[str], None]) -> dict[str, str]:
    """Returns the digests of the derived tables, by table."""
    digests = {}
    for table, rows in READ.items():
        progress(table)
        digests[table] = await digest(rows(conn, account_id=account_id))
    return digests


def checked(file: Path) -> tuple[FileHead, FileEnd]:
    """Returns head and end of a complete, unchanged file; raises UnfitFile otherwise."""
    hasher, head, end, rows = sha256(), None, None, dict[str, int]()
    for line in _read_lines(file):
        if end is not None:
            raise UnfitFile("something stands behind its end")
        content = _parse_line(line)
        if head is None:
            head = content.head
            if head is None or (head.format, head.version) != (FORMAT, VERSION):
                raise UnfitFile(f"it is no account of version {VERSION}")
        elif content.table is not None:
            rows[content.table] = rows.get(content.table, 0) + 1
        elif (end := content.end) is None:
            raise UnfitFile("a line is neither a row nor the end")
        if end is None:
            hasher.update(line)
    if head is None or end is None:
        raise UnfitFile("it has no end: the export was cut off")
    if end.sha256 != hasher.hexdigest():
        raise UnfitFile("it was changed: its digest is another one")
    if end.rows != rows:
        raise UnfitFile("it holds other numbers of rows than its end says")
    return head, end


def rows_of(file: Path) -> Iterator[tuple[str, Raw]]:
    """Yields table and row, in the order of the file."""
    for line in _read_lines(file):
        content = _parse_line(line)
        if content.table is not None:
            yield content.table, content.row


def _read_lines(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while line := opened.readline(LINE_BYTES_MAX):
            if not line.endswith(b"\n"):
                raise UnfitFile("a line does not end")
            yield line


def _parse_line(line: bytes) -> FileLine:
    try:
        return _decode_line(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise UnfitFile("a line cannot be read") from None
