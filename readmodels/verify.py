"""Verify that the read tables agree with the journal, to the byte, while writers go on.

The work is cut into slices (readmodels/verify_rows.py, verify_totals.py). Each slice is a transaction of seconds that
sees journal, books and read tables as of one instant, makes in shadow tables what the read tables must hold, and
compares both ways. So concurrent writes are no difference, and vacuum waits for one slice at most. The progress of each
part is kept in the database: a verification that was killed resumes with the slice it was in.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final

import asyncpg
import msgspec
from msgspec import Struct

import sql
from readmodels import seals, verify_rows, verify_totals
from readmodels.verify_scope import Difference, Slice, VerifyPart, VerifyScope
from runtime.postgres import connect
from sql import Connection

PARTS: Final[tuple[VerifyPart, ...]] = (*verify_rows.PARTS, *verify_totals.PARTS, *seals.PARTS)
NIGHTLY_ROWS_MAX: Final = 2_000
"""Rows of a nightly slice: fewer than in a verification an operator waits for, so that its snapshots are shorter."""
VERIFICATIONS_KEPT: Final = 20
"""Verifications whose differences are kept for operators to read."""


class VerifyProgress(Struct, frozen=True):
    """The progress of a verification after a slice."""

    part: str
    slices: int
    """Slices of this part done so far."""
    rows: int
    """Rows checked in this run, in all parts."""
    differences: int


class NothingToResume(Exception):
    """No verification was left unfinished."""


class _Verification(Struct, frozen=True):
    verification_id: int
    scope: bytes
    begun_at: datetime


class _NightlyRow(Struct, frozen=True):
    begun_at: datetime
    ended_at: datetime | None


class _PartProgress(Struct, frozen=True):
    part: str
    next: str | None


_begin_verification = sql.one("verify.begin", _Verification)
_find_unfinished = sql.maybe("verify.unfinished", _Verification)
_find_newest_nightly = sql.maybe("verify.nightly_begun", _NightlyRow)
_delete_old_verifications = sql.run("verify.forget")
_find_part_progress = sql.many("verify.parts", _PartProgress)
plan_slice_by_index = sql.run("verify.plan_for_this")
_store_slice = sql.maybe("verify.store_slice", int)
_store_differences = sql.run("verify.store_differences")
_end_verification = sql.run("verify.end")
_count_missing_events = sql.maybe("verify.left_feed", int)
_find_differences = sql.many("verify.found", Difference)


async def verify(
    database_url: str,
    *,
    scope: VerifyScope | None = None,
    progress: Callable[[VerifyProgress], None] = lambda done: None,
) -> list[Difference]:
    """The differences found in the whole database, or in the scope; empty when all is well."""
    conn = await connect(database_url)
    try:
        verification = await _begin_verification(conn, scope=msgspec.json.encode(scope or VerifyScope()), nightly=False)
        await _delete_old_verifications(conn, kept=VERIFICATIONS_KEPT)
        return await _check_remaining(conn, verification, progress)
    finally:
        await conn.close()


async def resume(
    database_url: str, *, progress: Callable[[VerifyProgress], None] = lambda done: None
) -> list[Difference]:
    """Resume the newest unfinished verification. Returns all its differences, those of earlier runs included."""
    conn = await connect(database_url)
    try:
        unfinished = await _find_unfinished(conn, nightly=False)
        if unfinished is None:
            raise NothingToResume("every verification was finished")
        return await _check_remaining(conn, unfinished, progress)
    finally:
        await conn.close()


async def nightly_begun_at(conn: Connection) -> tuple[datetime | None, bool]:
    """When the last nightly verification began (None if there was none), and whether it is unfinished."""
    newest = await _find_newest_nightly(conn)
    return (None, False) if newest is None else (newest.begun_at, newest.ended_at is None)


async def begin_nightly(conn: Connection) -> None:
    await _begin_verification(conn, scope=msgspec.json.encode(VerifyScope(rows_max=NIGHTLY_ROWS_MAX)), nightly=True)
    await _delete_old_verifications(conn, kept=VERIFICATIONS_KEPT)


async def nightly_slice(conn: Connection) -> int | None:
    """Do one slice of the nightly verification. Returns the number of rows that differ once the verification is
    complete, None before.

    `conn` comes from `runtime.postgres.connect`: a slice may take longer than a pool's statement timeout.
    """
    unfinished = await _find_unfinished(conn, nightly=True)
    if unfinished is None:
        return 0
    if await _next_slice(conn, unfinished, _scope_of(unfinished)) is not None:
        return None
    return sum(each.rows for each in await _finish(conn, unfinished, _scope_of(unfinished)))


async def missing_events(conn: Connection, *, verification_id: int) -> int:
    """The number of events missing in months that left the feed, found by a complete verification of everything."""
    return await _count_missing_events(conn, verification_id=verification_id) or 0


async def _check_remaining(
    conn: Connection, verification: _Verification, progress: Callable[[VerifyProgress], None]
) -> list[Difference]:
    scope = _scope_of(verification)
    rows = differences = 0
    while (result := await _next_slice(conn, verification, scope)) is not None:
        part, slices, checked = result
        rows, differences = rows + checked.rows, differences + len(checked.found)
        progress(VerifyProgress(part, slices, rows, differences))
    return await _finish(conn, verification, scope)


def _scope_of(verification: _Verification) -> VerifyScope:
    scope = msgspec.json.decode(verification.scope, type=VerifyScope)
    return msgspec.structs.replace(scope, begun=verification.begun_at)


async def _next_slice(
    conn: Connection, verification: _Verification, scope: VerifyScope
) -> tuple[str, int, Slice] | None:
    """Check the next slice and store its result. Returns the part, the slice's number within it and the slice; None
    when all parts are done."""
    start_by_part = {
        row.part: row.next for row in await _find_part_progress(conn, verification_id=verification.verification_id)
    }
    for part in PARTS:
        start = start_by_part.get(part.name, part.first(scope))
        if start is None:
            continue
        async with conn.transaction(isolation="repeatable_read"):
            await plan_slice_by_index(conn)
            checked = await part.look(conn, scope, start)
        return part.name, await _store_result(conn, verification.verification_id, part, start, checked), checked
    return None


async def _finish(conn: Connection, verification: _Verification, scope: VerifyScope) -> list[Difference]:
    verification_id = verification.verification_id
    await _end_verification(conn, verification_id=verification_id)
    differences = await _find_differences(conn, verification_id=verification_id)
    if scope.everything and (missing := await missing_events(conn, verification_id=verification_id)):
        differences.append(Difference("books", "numbers missing in months that left the feed", missing))
    return differences


async def _store_result(
    conn: Connection,
    verification_id: int,
    part: VerifyPart,
    start: str,
    checked: Slice,
) -> int:
    async with conn.transaction():
        slices = await _store_slice(
            conn,
            verification_id=verification_id,
            part=part.name,
            next=checked.next,
            rows=checked.rows,
            left_feed=checked.left_feed,
            began=start,
        )
        if slices is None:
            raise asyncpg.SerializationError(f"verification {verification_id} is gone on with by another process")
        if checked.found:
            # Two statements of a slice may find the same difference.
            sums = {(each.table, each.what): 0 for each in checked.found}
            for each in checked.found:
                sums[each.table, each.what] += each.rows
            await _store_differences(
                conn,
                verification_id=verification_id,
                part=part.name,
                slice=slices,
                began=start,
                next=checked.next,
                found=[Difference(table, what, sum_) for (table, what), sum_ in sums.items()],
            )
    return slices
