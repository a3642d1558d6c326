"""How much waits, and for how long: the queues and the money that operators and alerts watch, measured every 15 s.

One worker of each cell measures, under a lease, and shows these gauges. The other workers show none, or older values:
`quita_measured_timestamp_seconds` tells which are the newest. Each gauge names its cell: where two cells share a folder
of counts, the newer value would otherwise stand for both.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from prometheus_client import Gauge

import sql
from readmodels.reports.backlog import COUNTED_MAX, LANES_MAX, QueueBacklog, find_due_deliveries
from readmodels.verify import missing_events
from runtime.cells.directory import find_numbers
from runtime.cells.number import HOME
from runtime.coordination.leases import take_lease
from runtime.metrics import forget
from runtime.postgres import session
from sql import Connection
from workers.context import Context

LEASE: Final = "measuring"
LEASE_S: Final = 25.0
"""Longer than the interval, so that the lease stays with one worker while that worker lives."""

_MULTIPROCESS_MODE: Final = "livemostrecent"
_waiting = Gauge(
    "quita_queue_waiting",
    f"What is due in a queue; {COUNTED_MAX} are that many or more.",
    ["cell", "queue", "mode"],
    multiprocess_mode=_MULTIPROCESS_MODE,
)
_oldest = Gauge(
    "quita_queue_oldest_seconds",
    "For how long the oldest of a queue is due; 0 when nothing is.",
    ["cell", "queue", "mode"],
    multiprocess_mode=_MULTIPROCESS_MODE,
)
_suspense = Gauge(
    "quita_suspense_open_cents",
    "Money received that fits no charge and that nobody has settled.",
    ["cell"],
    multiprocess_mode=_MULTIPROCESS_MODE,
)
_sealed = Gauge(
    "quita_journal_sealed_timestamp_seconds",
    "When the journal was sealed last.",
    ["cell"],
    multiprocess_mode=_MULTIPROCESS_MODE,
)
_differences = Gauge(
    "quita_verify_differences",
    "Rows that the last completed verification of everything found to be other than they must be.",
    ["cell"],
    multiprocess_mode=_MULTIPROCESS_MODE,
)
_verified = Gauge(
    "quita_verify_completed_timestamp_seconds",
    "When that verification was completed.",
    ["cell"],
    multiprocess_mode=_MULTIPROCESS_MODE,
)
_measured = Gauge(
    "quita_measured_timestamp_seconds",
    "When the queues were measured last.",
    ["cell"],
    multiprocess_mode=_MULTIPROCESS_MODE,
)
_cells = Gauge(
    "quita_cell_info",
    "1 for each cell of the directory, told by home: one that shows nothing else is not measured.",
    ["cell"],
    multiprocess_mode=_MULTIPROCESS_MODE,
)


class _Suspense(Struct, frozen=True):
    waiting: int
    cents: int
    oldest: datetime | None


class _LastVerification(Struct, frozen=True):
    verification_id: int | None
    ended_at: datetime | None
    differences: int
    sealed_at: datetime | None


_QUEUES: Final[Sequence[Callable[..., Awaitable[list[QueueBacklog]]]]] = [
    find_due_deliveries,
    *(
        sql.many(f"backlog.{name}", QueueBacklog)
        for name in ("bank_orders", "bank_hints", "mails", "schedules", "shares", "overdue", "journal")
    ),
]
_find_suspense = sql.one("backlog.suspense", _Suspense)
_find_last_verification = sql.one("backlog.verified", _LastVerification)


async def measure_backlog(context: Context) -> int:
    """One look at every queue; returns 0. Measures nothing while another worker measures."""
    async with session(context.pool) as conn:
        if not await take_lease(conn, name=LEASE, holder=context.worker, lease_s=LEASE_S):
            forget(_waiting, _oldest, _suspense, _sealed, _differences, _verified, _measured, _cells)
            return 0
        cell, now = str(context.settings.cell), context.now()
        for backlog in [
            *await queues(conn, now=now, held=timedelta(days=context.settings.partner_share_held_days)),
            await _measure_suspense(conn, cell),
        ]:
            oldest_s = 0.0 if backlog.oldest is None else max(0.0, (now - backlog.oldest).total_seconds())
            _waiting.labels(cell, backlog.queue, backlog.mode).set(backlog.waiting)
            _oldest.labels(cell, backlog.queue, backlog.mode).set(oldest_s)
        await _measure_books(conn, cell)
        if context.settings.cell == HOME:
            for number in [HOME, *await find_numbers(conn)]:
                _cells.labels(str(number)).set(1)
    _measured.labels(cell).set(now.timestamp())
    return 0


async def queues(conn: Connection, *, now: datetime, held: timedelta) -> list[QueueBacklog]:
    """Every queue, also an empty one. `held`: how long the shares of partners are held in production."""
    parameters = {"now": now, "counted_max": COUNTED_MAX, "lanes_max": LANES_MAX, "earned_until": now - held}
    return [backlog for find in _QUEUES for backlog in await find(conn, **parameters)]


async def _measure_suspense(conn: Connection, cell: str) -> QueueBacklog:
    suspense = await _find_suspense(conn, counted_max=COUNTED_MAX)
    _suspense.labels(cell).set(suspense.cents)
    return QueueBacklog("suspense", "production", suspense.waiting, suspense.oldest)


async def _measure_books(conn: Connection, cell: str) -> None:
    verification = await _find_last_verification(conn)
    if verification.sealed_at is not None:
        _sealed.labels(cell).set(verification.sealed_at.timestamp())
    if verification.verification_id is not None and verification.ended_at is not None:
        missing = await missing_events(conn, verification_id=verification.verification_id)
        _differences.labels(cell).set(verification.differences + missing)
        _verified.labels(cell).set(verification.ended_at.timestamp())
