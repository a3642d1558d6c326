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
KEPT: Final = 20
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


class _Begun(Struct, frozen=True):
    begun_at: datetime
    ended_at: datetime | None


class _PartAt(Struct, frozen=True):
    part: str
    next: str | None


_begin = sql.one("verify.begin", _Verification)
_unfinished = sql.maybe("verify.unfinished", _Verification)
_nightly_begun = sql.maybe("verify.nightly_begun", _Begun)
_forget = sql.run("verify.forget")
_parts = sql.many("verify.parts", _PartAt)
plan_for_this = sql.run("verify.plan_for_this")
_store_slice = sql.maybe("verify.store_slice", int)
_store_differences = sql.run("verify.store_differences")
_end = sql.run("verify.end")
_left_feed = sql.maybe("verify.left_feed", int)
_found = sql.many("verify.found", Difference)


async def verify(
    database_url: str,
    *,
    scope: VerifyScope | None = None,
    progress: Callable[[VerifyProgress], None] = lambda done: None,
) -> list[Difference]:
    """The differences found in the whole database, or in the scope; empty when all is well."""
    conn = await connect(database_url)
    try:
        begun = await _begin(conn, scope=msgspec.json.encode(scope or VerifyScope()), nightly=False)
        await _forget(conn, kept=KEPT)
        return await _go_on(conn, begun, progress)
    finally:
        await conn.close()


async def resume(
    database_url: str, *, progress: Callable[[VerifyProgress], None] = lambda done: None
) -> list[Difference]:
    """Resume the newest unfinished verification. Returns all its differences, those of earlier runs included."""
    conn = await connect(database_url)
    try:
        left = await _unfinished(conn, nightly=False)
        if left is None:
            raise NothingToResume("every verification was finished")
        return await _go_on(conn, left, progress)
    finally:
        await conn.close()


async def nightly_begun_at(conn: Connection) -> tuple[datetime | None, bool]:
    """When the last nightly verification began (None if there was none), and whether it is unfinished."""
    begun = await _nightly_begun(conn)
    return (None, False) if begun is None else (begun.begun_at, begun.ended_at is None)


async def begin_nightly(conn: Connection) -> None:
    await _begin(conn, scope=msgspec.json.encode(VerifyScope(rows_max=NIGHTLY_ROWS_MAX)), nightly=True)
    await _forget(conn, kept=KEPT)


async def nightly_slice(conn: Connection) -> int | None:
    """Do one slice of the nightly verification. Returns the number of rows that differ once the verification is
    complete, None before.

    `conn` comes from `runtime.postgres.connect`: a slice may take longer than a pool's statement timeout.
    """
    left = await _unfinished(conn, nightly=True)
    if left is None:
        return 0
    if await _next_slice(conn, left, _scope_of(left)) is not None:
        return None
    return sum(each.rows for each in await _end_of(conn, left, _scope_of(left)))


async def missing_events(conn: Connection, *, verification_id: int) -> int:
    """The number of events missing in months that left the feed, found by a complete verification of everything."""
    return await _left_feed(conn, verification_id=verification_id) or 0


async def _go_on(
    conn: Connection, verification: _Verification, progress: Callable[[VerifyProgress], None]
) -> list[Difference]:
    scope = _scope_of(verification)
    rows = differences = 0
    while (stored := await _next_slice(conn, verification, scope)) is not None:
        part, slices, done = stored
        rows, differences = rows + done.rows, differences + len(done.found)
        progress(VerifyProgress(part, slices, rows, differences))
    return await _end_of(conn, verification, scope)


def _scope_of(verification: _Verification) -> VerifyScope:
    scope = msgspec.json.decode(verification.scope, type=VerifyScope)
    return msgspec.structs.replace(scope, begun=verification.begun_at)


async def _next_slice(
    conn: Connection, verification: _Verification, scope: VerifyScope
) -> tuple[str, int, Slice] | None:
    """Check the next slice and store its result. Returns the part, the slice's number within it and the slice; None
    when all parts are done."""
    stands = {at.part: at.next for at in await _parts(conn, verification_id=verification.verification_id)}
    for part in PARTS:
        began = stands.get(part.name, part.first(scope))
        if began is None:
            continue
        async with conn.transaction(isolation="repeatable_read"):
            await plan_for_this(conn)
            done = await part.look(conn, scope, began)
        return part.name, await _store(conn, verification.verification_id, part, began, done), done
    return None


async def _end_of(conn: Connection, verification: _Verification, scope: VerifyScope) -> list[Difference]:
    verification_id = verification.verification_id
    await _end(conn, verification_id=verification_id)
    found = await _found(conn, verification_id=verification_id)
    if scope.everything and (left := await missing_events(conn, verification_id=verification_id)):
        found.append(Difference("books", "numbers missing in months that left the feed", left))
    return found


async def _store(
    conn: Connection,
    verification_id: int,
    part: VerifyPart,
    began: str,
    done: Slice,
) -> int:
    async with conn.transaction():
        slices = await _store_slice(
            conn,
            verification_id=verification_id,
            part=part.name,
            next=done.next,
            rows=done.rows,
            left_feed=done.left_feed,
            began=began,
        )
        if slices is None:
            raise asyncpg.SerializationError(f"verification {verification_id} is gone on with by another process")
        if done.found:
            # Two statements of a slice may find the same difference.
            sums = {(each.table, each.what): 0 for each in done.found}
            for each in done.found:
                sums[each.table, each.what] += each.rows
            await _store_differences(
                conn,
                verification_id=verification_id,
                part=part.name,
                slice=slices,
                began=began,
                next=done.next,
                found=[Difference(table, what, sum_) for (table, what), sum_ in sums.items()],
            )
    return slices
