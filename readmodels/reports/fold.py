"""Keep the daily totals that reports are read from: fold each new row of the journal into them once.

Journal rows get their numbers before their commit, so a row with a smaller number may become visible after one with a
larger. `wait_for_horizon` returns a number below which no further row can appear (docs/decisions/0012).
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
ATTEMPT_ROWS_MAX: Final = 10_000
"""Counts of webhook attempts added up in one round."""
_POLL_S = 0.02
_POLLS_MAX = 25  # half a second; the next round waits again


class Fold(Enum):
    """The statements of sql/queries/reports/report_fold.sql that add journal rows to totals."""

    CHARGES = "report_fold.charges"
    ENTRIES = "report_fold.entries"
    REFUNDS = "report_fold.refunds"
    INTEGRATORS = "report_fold.integrators"


class Position(Struct, frozen=True):
    """The last journal row in the totals, and an instant before which everything committed is in them."""

    journal_id: int
    as_of: datetime


class Horizon(Struct, frozen=True):
    """The last numbers handed out before an instant: of the journal, and of the audit log, which is sealed along with
    the journal (readmodels/seals.py)."""

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
_ADD_TO_TOTALS: dict[Fold, Callable[..., Awaitable[str]]] = {each: sql.run(each.value) for each in Fold}


async def fold(conn: Connection, journal_ids: Sequence[int], folds: Sequence[Fold] = tuple(Fold)) -> None:
    """Add these journal rows to the totals. The rows must be in order, and none may have been added before."""
    if journal_ids:
        for each in folds:
            await _ADD_TO_TOTALS[each](conn, journal_ids=journal_ids)


async def wait_for_horizon(conn: Connection) -> Horizon | None:
    """Waits until no further row can appear below the horizon of now, and returns that horizon. Call outside a
    transaction.

    None when a transaction that was open at the start has not ended after half a second.
    """
    horizon = await find_horizon(conn)
    open_writers = set(await find_writers(conn))
    for _ in range(_POLLS_MAX):
        if not open_writers:
            return horizon
        await asyncio.sleep(_POLL_S)
        open_writers &= set(await find_writers(conn))
    return None


async def fold_up_to(conn: Connection, horizon: Horizon) -> int | None:
    """Fold the next rows, at most ROWS_MAX, in this transaction. Returns their number, or None while another worker is
    folding."""
    claimed = await claim(conn)
    if claimed is None:
        return None
    await add_attempts(conn, limit=ATTEMPT_ROWS_MAX)
    journal_ids = await page(conn, above=claimed.journal_id, up_to=horizon.journal_id, limit=ROWS_MAX)
    await fold(conn, journal_ids)
    if len(journal_ids) == ROWS_MAX:
        await advance(conn, journal_id=journal_ids[-1], as_of=claimed.as_of)
    else:
        await advance(conn, journal_id=max(claimed.journal_id, horizon.journal_id), as_of=horizon.as_of)
    return len(journal_ids)
