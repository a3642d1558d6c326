"""Recover after a restore to an earlier instant: hold outgoing transfers, and raise the control numbers of boletos.

After a restore the bank knows more than the database. A merchant whose withdrawal is missing here has its money in the
wallet again and could be paid twice; a boleto number that was handed out before could be used for a second boleto.
"""

from datetime import datetime
from typing import Final

from msgspec import Struct

import sql
from commands.charges.control_numbers import BLOCK
from sql import Connection

NUMBERS_MAX: Final = 1_000_000_000


class RecoveryState(Struct, frozen=True):
    """The state of the recovery. `restored_to` is None on a server that was not restored. `orders` and `cents` are the
    number and sum of the transfers that wait to be sent, `open` the instants of all recoveries that are not released:
    a server may be restored again before it was released, or the operator may have named a wrong instant first."""

    held: bool
    restored_to: str | None
    began_at: datetime | None
    began_by: str | None
    boletos_from: int | None
    boletos_to: int | None
    compared_at: datetime | None
    compared_by: str | None
    compared_from: datetime | None
    booked: int | None
    """Receipts that were missing here and that the comparison booked."""
    differences: int | None
    """Differences that the latest comparison left."""
    released_at: datetime | None
    released_by: str | None
    orders: int
    cents: int
    open: list[str]


class NotBegun(Exception):
    """No recovery is under way: it was not begun, or it was released before."""


class NotCompared(Exception):
    """The banks' lists have not been compared with our books since the latest restore."""


class DifferencesLeft(Exception):
    """The latest comparison left another number of differences than stated: `args[0]`."""


recovery_state = sql.one("recovery.state", RecoveryState)
_begin = sql.maybe("recovery.begin", int)
_raise_numbers = sql.one("recovery.raise_numbers", int)
_note_comparison = sql.maybe("recovery.compared", str)
_release = sql.maybe("recovery.release", str)


async def begin_recovery(conn: Connection, restored_to: str, *, numbers: int, by: str, now: datetime) -> bool:
    """Hold transfers from now on, and raise the sequence of control numbers by `numbers`, rounded up to whole blocks so
    that blocks keep their boundaries. Runs as the owner of the tables. False when the recovery was begun before: the
    numbers are raised once."""
    skipped = -(-numbers // BLOCK) * BLOCK
    raised_to = await _begin(conn, restored_to=restored_to, now=now, by=by, numbers=skipped)
    if raised_to is not None:
        await _raise_numbers(conn, to=raised_to)
    return raised_to is not None


async def note_comparison(
    conn: Connection, *, since: datetime, booked: int, differences: int, by: str, now: datetime
) -> None:
    """Record, as the owner of the tables, a comparison with the banks' lists since the earliest instant that is not
    released. Raises NotBegun."""
    noted = await _note_comparison(conn, since=since, booked=booked, differences=differences, by=by, now=now)
    if noted is None:
        raise NotBegun


async def release_payouts(conn: Connection, *, differences: int, by: str, now: datetime) -> None:
    """Release the held transfers; `differences` must be the number that the latest comparison left. Raises NotBegun,
    NotCompared, DifferencesLeft."""
    state = await recovery_state(conn)
    if state.began_at is None or not state.open:
        raise NotBegun
    if await _release(conn, differences=differences, by=by, now=now) is not None:
        return
    if state.differences is None:
        raise NotCompared
    raise DifferencesLeft(state.differences)
