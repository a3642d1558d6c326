"""Post what follows the journal with an intended delay: daily totals of reports, chains of hashes, partners' shares."""

from datetime import timedelta

from prometheus_client import Gauge

from commands.money.partner_shares import post_shares
from domain.mode import Mode
from readmodels.reports.fold import ROWS_MAX as FOLDED_MAX
from readmodels.reports.fold import fold_up_to, wait_for_horizon
from readmodels.reports.report import freshness
from readmodels.seals import ROWS_MAX as SEALED_MAX
from readmodels.seals import extend_seals
from runtime.coordination.leases import take_lease
from runtime.metrics import forget
from runtime.postgres import session, transaction
from workers.context import Context

LEASE = "reports"
LEASE_S = 5.0
"""Keeps other workers from looking up, up to 25 times a round, who is writing the journal. A round that outlasts the
lease is safe: the row lock of the position lets one worker fold."""

_lag = Gauge(
    "report_lag_seconds", "How far reports are behind, as last seen.", ["cell"], multiprocess_mode="livemostrecent"
)


async def follow_journal(context: Context) -> int:
    """One round; returns its rows when more are waiting, else 0. Rows written meanwhile are left to the next second:
    a round takes twenty statements, however few rows it has."""
    rows = await fold_reports(context)
    return rows if rows >= min(FOLDED_MAX, SEALED_MAX) else 0


async def fold_reports(context: Context) -> int:
    """One round; returns how many journal rows were added to the totals, or sealed. 0 while another worker does it."""
    async with session(context.pool) as conn:
        if not await take_lease(conn, name=LEASE, holder=context.worker, lease_s=LEASE_S):
            forget(_lag)
            return 0
        horizon = await wait_for_horizon(conn)
    folded: int | None = None
    sealed = 0
    if horizon is not None:
        async with transaction(context.pool) as conn:
            folded = await fold_up_to(conn, horizon)
            if folded is not None:  # this worker holds the position: one seals at a time
                sealed = await extend_seals(conn, horizon)
    async with session(context.pool) as conn:
        fresh = await freshness(conn)
    if fresh is not None:
        _lag.labels(str(context.settings.cell)).set(fresh.lag_seconds)
    return max(folded or 0, sealed)


async def post_partner_shares(context: Context) -> int:
    """One round; returns how many shares were posted."""
    held = timedelta(days=context.settings.partner_share_held_days)
    posted = 0
    for mode in Mode:
        async with transaction(context.pool) as conn:
            posted += await post_shares(conn, mode, held=held, now=context.now())
    return posted
