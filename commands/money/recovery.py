"""After a restore to an earlier instant: hold what is sent by transfer, and raise the numbers of boletos.

The bank knows more than the database then. A merchant whose withdrawal is gone here has the money in his wallet again,
and would be paid a second time; a boleto's number that was handed out would stand on two slips.
"""

from datetime import datetime
from typing import Final

from msgspec import Struct

import sql
from commands.charges.control_numbers import BLOCK
from sql import Connection

NUMBERS_MAX: Final = 1_000_000_000


class RecoveryState(Struct, frozen=True):
    """`restored_to` is None on a server that was not restored. `orders` and `cents`: what waits to be sent."""

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
    """Receipts that were missing here and were booked by comparing."""
    differences: int | None
    """That the latest comparison left."""
    released_at: datetime | None
    released_by: str | None
    orders: int
    cents: int


class NotBegun(Exception):
    """Nothing can be compared or released that was not begun, or was released before."""


class NotCompared(Exception):
    """What banks list was not compared with what stands here since this restore."""


class DifferencesLeft(Exception):
    """Another number than was said: `args[0]`, that the latest comparison left."""


recovery_state = sql.one("recovery.state", RecoveryState)
_begin = sql.maybe("recovery.begin", int)
_raise_numbers = sql.one("recovery.raise_numbers", int)
_compared = sql.maybe("recovery.compared", str)
_release = sql.maybe("recovery.release", str)


async def begin_recovery(conn: Connection, restored_to: str, *, numbers: int, by: str, now: datetime) -> bool:
    """Hold from now on, as the owner of the tables, and have numbers of boletos go on `numbers` further, rounded up to
    whole blocks, which stay where they would have been. False when it was begun before: numbers are raised once."""
    further = -(-numbers // BLOCK) * BLOCK
    to = await _begin(conn, restored_to=restored_to, now=now, by=by, numbers=further)
    if to is not None:
        await _raise_numbers(conn, to=to)
    return to is not None


async def note_comparison(
    conn: Connection, restored_to: str, *, since: datetime, booked: int, differences: int, by: str, now: datetime
) -> None:
    """Write down, as the owner, that what banks list was compared. Raises NotBegun."""
    noted = await _compared(
        conn, restored_to=restored_to, since=since, booked=booked, differences=differences, by=by, now=now
    )
    if noted is None:
        raise NotBegun(restored_to)


async def release_payouts(conn: Connection, restored_to: str, *, differences: int, by: str, now: datetime) -> None:
    """Let what is held be sent, with as many differences as the latest comparison left. Raises NotBegun, NotCompared,
    DifferencesLeft."""
    if await _release(conn, restored_to=restored_to, differences=differences, by=by, now=now) is not None:
        return
    state = await recovery_state(conn)
    if state.began_at is None or state.released_at is not None:
        raise NotBegun(restored_to)
    if state.differences is None:
        raise NotCompared(restored_to)
    raise DifferencesLeft(state.differences)
