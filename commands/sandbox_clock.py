"""Advance and read the clock of an account's sandbox (docs/decisions/0013).

Every decision about a test charge uses this clock: the statements that look up charges, lock them, or find overdue ones
join the clock of their account. A cached clock is at most SPREAD_S old.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final
from uuid import UUID

import sql
from commands.charges.expire import expire_account
from domain.errors import Code, Refused
from domain.mode import Mode, Owner
from domain.sandbox_clock import ADVANCE_S_MAX, AHEAD_S_MAX, ahead_to_reach, on_clock
from runtime.postgres import Pool
from sql import Connection

SPREAD_S: Final = 0.5
"""How long the API caches how far a clock is ahead (api/callers.py); nothing else caches it."""
_MARGIN_S: Final = 0.05
_ROUNDS_MAX: Final = 20
"""Calls of expire_account in one settle, of ten thousand charges each."""


_advance_clock = sql.maybe("sandbox_clock.advance", int)
_reach = sql.maybe("sandbox_clock.reach", int)
_find_ahead_s = sql.maybe("sandbox_clock.find", int)
_find_ahead_s_of_charge = sql.maybe("sandbox_clock.of_charge", int)
_find_ahead_s_of_boleto = sql.maybe("sandbox_clock.of_boleto", int)


async def find_ahead_s(conn: Connection, account_id: UUID) -> int:
    """Returns by how many seconds the account's sandbox is ahead of real time."""
    return await _find_ahead_s(conn, account_id=account_id) or 0


async def clock_of_charge(conn: Connection, charge_id: UUID, *, now: datetime) -> datetime:
    """Returns the time on a charge's clock at the real instant `now`, for callers that do not know the account."""
    return on_clock(now, await _find_ahead_s_of_charge(conn, charge_id=charge_id) or 0)


async def clock_of_boleto(conn: Connection, number: str, *, now: datetime) -> datetime:
    """Like clock_of_charge, for the boleto with this number."""
    return on_clock(now, await _find_ahead_s_of_boleto(conn, number=number) or 0)


async def advance_clock(conn: Connection, account_id: UUID, by_s: int, *, now: datetime) -> int:
    """Move the clock forward by `by_s`; returns the seconds it is then ahead. Refused(VALIDATION_ERROR) when that would
    exceed AHEAD_S_MAX."""
    assert 0 < by_s <= ADVANCE_S_MAX
    ahead_s = await _advance_clock(conn, account_id=account_id, by_s=by_s, ahead_s_max=AHEAD_S_MAX, now=now)
    if ahead_s is None:
        days = AHEAD_S_MAX // 86_400
        raise Refused(Code.VALIDATION_ERROR, fields={"advance": f"the clock goes {days} days ahead at most"})
    return ahead_s


async def reach_instant(conn: Connection, account_id: UUID, to: datetime, *, now: datetime) -> int:
    """Move the clock forward to `to`, unless it has already passed that instant; returns the seconds it is then ahead.
    Refused(VALIDATION_ERROR) when `to` is more than ADVANCE_S_MAX after the clock, or AHEAD_S_MAX after real time."""
    ahead_s = ahead_to_reach(to, now=now)
    reached_s = None
    if ahead_s <= AHEAD_S_MAX:
        reached_s = await _reach(conn, account_id=account_id, ahead_s=ahead_s, step_s_max=ADVANCE_S_MAX, now=now)
    if reached_s is None:
        days = (ADVANCE_S_MAX // 86_400, AHEAD_S_MAX // 86_400)
        fault = f"must be at most {days[0]} days later than the clock, and {days[1]} days later than real time"
        raise Refused(Code.VALIDATION_ERROR, fields={"to": fault})
    return reached_s


async def settle(pool: Pool, account_id: UUID, *, now: Callable[[], datetime]) -> None:
    """Expire every charge that is overdue by the moved clock; called after the move was committed.

    Requests admitted before the move use the old clock for up to SPREAD_S and may create charges that are overdue on
    the new one, so the account is expired again after that time. Refused(SERVICE_UNAVAILABLE) when more charges are
    overdue than one call covers: the clock stays moved, and the sweeper expires the rest, as does a repeated request.
    """
    spread = asyncio.create_task(asyncio.sleep(SPREAD_S + _MARGIN_S))
    try:
        await _expire_overdue(pool, account_id, now=now)
        await spread
    finally:
        spread.cancel()
    await _expire_overdue(pool, account_id, now=now)


async def _expire_overdue(pool: Pool, account_id: UUID, *, now: Callable[[], datetime]) -> None:
    for _ in range(_ROUNDS_MAX):
        if not await expire_account(pool, Owner(account_id, Mode.SANDBOX), now=now()):
            return
    raise Refused(Code.SERVICE_UNAVAILABLE, retry_after_s=1)
