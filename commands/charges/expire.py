"""Expire overdue pending charges, before a read of their account and by the sweeper; each charge expires once."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Struct

import sql
from commands.charges.change import COMMANDS_MAX, ChargeCommand, change_charges
from domain.instants import to_millisecond
from domain.mode import Owner
from runtime.postgres import Pool, session, transaction
from sql import Connection

# A read expires at most this many batches of its account's charges before it answers; the sweeper expires the rest.
BATCHES_MAX = 50
CLOCKS_MAX = 2_000
"""Sandboxes ahead of real time that one round of the sweeper looks at; each costs an index probe."""
_FIRST_ACCOUNT_ID = UUID(int=0)


class ClockAhead(Struct, frozen=True):
    account_id: UUID
    ahead_s: int


find_overdue = sql.many("charge.overdue", UUID)
find_clocks_ahead = sql.many("charge.clocks_ahead", ClockAhead)
find_overdue_ahead = sql.many("charge.overdue_ahead", UUID)
find_overdue_of_account = sql.many("charge.overdue_of_account", UUID)


def expiry(charge_id: UUID, owner: Owner | None, *, actor: str) -> ChargeCommand:
    """Returns a command that changes nothing itself: change_charges expires an overdue charge before `decide`."""
    return ChargeCommand(charge_id=charge_id, owner=owner, decide=lambda charge, at: [], actor=actor)


async def expire_charges(conn: Connection, charge_ids: Sequence[UUID], *, now: datetime, actor: str) -> None:
    """Expire the charges that are pending and overdue; the others stay as they are."""
    await change_charges(conn, [expiry(each, None, actor=actor) for each in charge_ids], now=to_millisecond(now))


async def expire_account(pool: Pool, owner: Owner, *, now: datetime) -> int:
    """Expire the overdue charges of one account and mode; returns how many there were."""
    total = 0
    for _ in range(BATCHES_MAX):
        async with session(pool) as conn:
            charge_ids = await find_overdue_of_account(
                conn, account_id=owner.account_id, test=owner.test, now=now, limit=COMMANDS_MAX
            )
        if not charge_ids:
            break
        async with transaction(pool) as conn:
            await expire_charges(conn, charge_ids, now=now, actor="read")
        total += len(charge_ids)
    return total


class Sweeper:
    """Expires the overdue charges of all accounts. Each round looks at the next CLOCKS_MAX sandboxes that are ahead of
    real time."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._last_account_id = _FIRST_ACCOUNT_ID

    async def sweep(self, *, now: datetime) -> int:
        """One round: expire up to COMMANDS_MAX charges that are overdue by real time, and as many by their sandbox's
        clock; returns how many expired. Charges that another process is changing are left to the next round."""
        async with session(self._pool) as conn:
            clocks = await find_clocks_ahead(conn, after=self._last_account_id, limit=CLOCKS_MAX)
        self._last_account_id = clocks[-1].account_id if len(clocks) == CLOCKS_MAX else _FIRST_ACCOUNT_ID
        expired = 0
        async with transaction(self._pool) as conn:
            charge_ids = await find_overdue(conn, now=now, limit=COMMANDS_MAX)
            await _expire_batch(conn, charge_ids, now=now)
            expired += len(charge_ids)
        if clocks:
            async with transaction(self._pool) as conn:
                charge_ids = await find_overdue_ahead(conn, clocks=clocks, now=now, limit=COMMANDS_MAX)
                await _expire_batch(conn, charge_ids, now=now)
                expired += len(charge_ids)
        return expired


async def _expire_batch(conn: Connection, charge_ids: Sequence[UUID], *, now: datetime) -> None:
    if charge_ids:
        await expire_charges(conn, charge_ids, now=now, actor="sweeper")
