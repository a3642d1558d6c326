"""Keep the daily totals that reports are read from: fold the journal's new rows into them, each once.

The rows of the journal are numbered before they are committed, so a row with a smaller number may appear after one with
a larger. `settled_up_to` answers a number below which that cannot happen any more (docs/decisions/0012).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from enum import Enum
from typing import Final

from msgspec import Struct

import sql
from sql import Connection

ROWS_MAX: Final = 2_000
TOLD_MAX: Final = 10_000
"""Counts of webhook attempts added up in one round."""
_POLL_S = 0.02
_POLLS_MAX = 25  # half a second; the next round waits again


class Fold(Enum):
    """Each statement of sql/queries/reports/report_fold.sql that adds journal rows to totals."""

    CHARGES = "report_fold.charges"
    ENTRIES = "report_fold.entries"
    REFUNDS = "report_fold.refunds"
    INTEGRATORS = "report_fold.integrators"


class Position(Struct, frozen=True):
    """Up to which journal row the totals go, and an instant before which everything committed is in them."""

    journal_id: int
    as_of: datetime


class Horizon(Struct, frozen=True):
    """Of the journal, and of the audit log, which is sealed with it (readmodels/seals.py)."""

    as_of: datetime
    journal_id: int
    audit_number: int


find_horizon = sql.one("report_fold.horizon", Horizon)
find_writers = sql.many("report_fold.writers", str)
claim = sql.maybe("report_fold.claim", Position)
hold = sql.one("report_fold.hold", Position)
position = sql.one("report_fold.position", Position)
page = sql.many("report_fold.page", int)
advance = sql.run("report_fold.advance")
add_attempts = sql.run("report_fold.attempts")
_RUN: dict[Fold, Callable[..., Awaitable[str]]] = {each: sql.run(each.value) for each in Fold}


async def fold(conn: Connection, journal_ids: Sequence[int], which: Sequence[Fold] = tuple(Fold)) -> None:
    """Add these rows to the totals; they come in order, and none was added before."""
    if journal_ids:
        for each in which:
            await _RUN[each](conn, journal_ids=journal_ids)


async def settled_up_to(conn: Connection) -> Horizon | None:
    """The last numbers and their instant, once no row below them can appear any more; outside a transaction.

    None when a transaction that was open then has not ended after half a second.
    """
    horizon = await find_horizon(conn)
    open_then = set(await find_writers(conn))
    for _ in range(_POLLS_MAX):
        if not open_then:
            return horizon
        await asyncio.sleep(_POLL_S)
        open_then &= set(await find_writers(conn))
    return None


async def fold_up_to(conn: Connection, horizon: Horizon) -> int | None:
    """Fold the next rows, at most ROWS_MAX, in this transaction; how many, or None while another worker is folding."""
    at = await claim(conn)
    if at is None:
        return None
    await add_attempts(conn, limit=TOLD_MAX)
    rows = await page(conn, above=at.journal_id, up_to=horizon.journal_id, limit=ROWS_MAX)
    await fold(conn, rows)
    if len(rows) == ROWS_MAX:
        await advance(conn, journal_id=rows[-1], as_of=at.as_of)
    else:
        await advance(conn, journal_id=max(at.journal_id, horizon.journal_id), as_of=horizon.as_of)
    return len(rows)
