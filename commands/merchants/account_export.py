"""Export an account into a file, as a snapshot of one instant (account_file.py). The database is not changed.

The account must be blocked and have nothing under way: otherwise the exporting and the importing installation would
both carry it out.
"""

import os
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Raw, Struct

import sql
from commands.merchants.account_file import (
    FORMAT,
    JOURNAL,
    VERSION,
    FileEnd,
    FileHead,
    FileLine,
    FoundAccount,
    find_schema,
    find_sums,
    read_digests,
)
from runtime.cells.number import cell_of
from runtime.seal import Seal
from sql import Connection

_ROWS_OF_ACCOUNT: Final = sql.for_each("account_file.rows", lambda name: sql.stream(name, str))
_ROWS_OF_JOURNAL: Final = sql.stream("account_file.rows_of_journal", str)
# The order in which the import adds them: a table comes before the tables that refer to it.
TABLES: Final = (
    "account", "account_clock", "account_note", "merchant_logo", "credential", "access_token", "dashboard_user",
    "recovery_code", "invitation", "audit", "registration_check",
    "payout_change", "program_payout", "auto_withdrawal", "sandbox_clock",
    "mail_stop", "integrator", "integrator_share", "schedule", "schedule_charge", "charge", "boleto", "payer_kept",
    "second_copy_request",
    "payment", "payment_reversal", "partner_share", "refund", "held_refund", "withdrawal", "idempotency",
    "anomaly_resolved", "bank_order_done", "webhook_endpoint", "webhook_old_secret", "webhook_lane",
    "webhook_delivery", "webhook_attempt", "notice", JOURNAL,
)  # fmt: skip
_ROWS_BY_JOIN: Final = {
    "access_token": sql.stream("account_file.rows_of_credentials", str),
    "recovery_code": sql.stream("account_file.rows_of_people", str),
    "integrator_share": sql.stream("account_file.rows_of_integrators", str),
    "webhook_lane": sql.stream("account_file.rows_of_lanes", str),
    "webhook_attempt": sql.stream("account_file.rows_of_attempts", str),
    JOURNAL: _ROWS_OF_JOURNAL,
}
_SOURCES: Final = {**_ROWS_OF_ACCOUNT, **_ROWS_BY_JOIN}
assert set(TABLES) == set(_SOURCES)

_encode = msgspec.json.Encoder().encode


class AccountNotReady(Exception):
    """The account cannot be exported now; `args[0]` says why."""


class UnderWay(Struct, frozen=True):
    bank_orders: int
    withdrawals: int
    refunds: int
    partner_shares: int


_find_account = sql.maybe("account_file.found", FoundAccount)
_find_under_way = sql.one("account_file.under_way", UnderWay)


async def export_account(
    conn: Connection, account_id: UUID, file: Path, *, seal: Seal, now: datetime, progress: Callable[[str], None]
) -> FileEnd:
    """Export the account. `conn` is connected as the owner of the tables, in no transaction. The file is new, readable
    by its owner only, and gets its name only when it is complete. Raises AccountNotReady, or FileExistsError."""
    part = file.with_name(f"{file.name}.part")
    async with conn.transaction(isolation="repeatable_read", readonly=True):
        account = await _check_exportable(conn, account_id)
        head = FileHead(
            format=FORMAT,
            version=VERSION,
            account_id=account_id,
            name=account.name,
            exported_at=now,
            schema=await find_schema(conn),
            keys={str(id): each for id, each in seal.fingerprints().items()},
        )
        if os.path.lexists(file):  # noqa: ASYNC240
            raise FileExistsError(str(file))
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            end = await _write_lines(conn, account_id, head, out.write, progress)
            out.flush()
            os.fsync(out.fileno())
    part.rename(file)
    return end


async def _check_exportable(conn: Connection, account_id: UUID) -> FoundAccount:
    account = await _find_account(conn, account_id=account_id)
    if account is None:
        raise AccountNotReady("there is no such account")
    if cell := cell_of(account_id):  # no database but its cell's may have its ids, so no import accepts them
        raise AccountNotReady(f"its ids are of cell {cell}, which moves whole (`quita cell move`): no import takes it")
    if account.kyc != "blocked":
        raise AccountNotReady(
            f"it is {account.kyc}: block it first (`quita merchant block`), and wait until nothing of it is under way"
        )
    under_way = await _find_under_way(conn, account_id=account_id)
    unfinished = {name: count for name, count in msgspec.structs.asdict(under_way).items() if count}
    if unfinished:
        raise AccountNotReady(f"still under way: {', '.join(f'{count} {name}' for name, count in unfinished.items())}")
    return account


async def _write_lines(
    conn: Connection, account_id: UUID, head: FileHead, write: Callable[[bytes], int], progress: Callable[[str], None]
) -> FileEnd:
    file_digest, journal_digest = sha256(), sha256()

    def write_line(line: FileLine) -> None:
        encoded = _encode(line) + b"\n"
        file_digest.update(encoded)
        write(encoded)

    write_line(FileLine(head=head))
    rows: dict[str, int] = {}
    for table in TABLES:
        progress(table)
        source: AsyncIterator[str] = _SOURCES[table](conn, account_id=account_id)
        async for row in source:
            write_line(FileLine(table=table, row=Raw(row.encode())))
            rows[table] = rows.get(table, 0) + 1
            if table == JOURNAL:
                journal_digest.update(row.encode())
                journal_digest.update(b"\n")
    end = FileEnd(
        rows=rows,
        sums=await find_sums(conn, account_id=account_id),
        digests={JOURNAL: journal_digest.hexdigest(), **await read_digests(conn, account_id, progress)},
        sha256=file_digest.hexdigest(),
    )
    write(_encode(FileLine(end=end)) + b"\n")
    return end
