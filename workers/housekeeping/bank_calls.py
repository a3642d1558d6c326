"""Counts of bank calls, stored once a minute by every worker process: metrics belong to a process and end with it.

A process that is killed loses its last minute. Nothing else relies on these counts.
"""

from datetime import datetime

from msgspec import Struct

import sql
from banks.measured import TALLY
from readmodels.dashboard.bank_calls import BANK_CALLS_KEPT
from runtime.postgres import session
from workers.context import Context


class CountedCalls(Struct, frozen=True):
    hour: datetime
    bank: str
    operation: str
    calls: int
    rejected: int
    unanswered: int
    duration_ms: int
    slowest_ms: int


_add = sql.run("bank_call.add")
_forget = sql.run("bank_call.forget")


async def store_bank_calls(context: Context) -> int:
    """Store, in one statement, all calls that were counted since the round before; returns 0."""
    tally = TALLY.take()
    if not tally:
        return 0
    hour = context.now().replace(minute=0, second=0, microsecond=0)
    counted = [
        CountedCalls(
            hour, bank, operation, each.calls, each.rejected, each.unknown, round(each.seconds * 1_000),
            round(each.slowest_s * 1_000),
        )
        for (bank, operation), each in sorted(tally.items())
    ]  # fmt: skip
    try:
        async with session(context.pool) as conn:
            await _add(conn, counted=counted)
    except BaseException:
        TALLY.give_back(tally)
        raise
    return 0


async def forget_bank_calls(context: Context) -> int:
    """Delete the hours that are no longer shown; returns 0."""
    async with session(context.pool) as conn:
        await _forget(conn, before=context.now() - BANK_CALLS_KEPT)
    return 0
